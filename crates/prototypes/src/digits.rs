//! Whole numbers as digits, appended to a line without allocation.

/// Appends a number in decimal.
pub fn decimal(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number in decimal with zeros before it, so that it has at least `width` digits, of at most 20.
pub fn padded(number: u64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    let zeros = width.min(20).saturating_sub(digits.len());
    out.extend_from_slice(&[b'0'; 20][..zeros]);
    out.extend_from_slice(digits);
}

/// The two digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Appends a number in hexadecimal as `{:#x}` writes it: `0x0`, `0x7f01c2`.
pub fn hex(word: u64, out: &mut Vec<u8>) {
    const MOST: usize = 18;
    let mut text = [0; 2 * MOST];
    let pairs = text[2..MOST].as_chunks_mut::<2>().0;
    for (pair, byte) in pairs.iter_mut().zip(word.to_be_bytes()) {
        *pair = PAIRS[usize::from(byte)];
    }
    let zeros = (word | 1).leading_zeros() as usize / 4;
    text[zeros..zeros + 2].copy_from_slice(b"0x");
    // To copy a number of bytes that is known and to cut what is too much takes fewer instructions than to copy as many as
    // there are.
    let end = out.len() + MOST - zeros;
    out.extend_from_slice(&text[zeros..zeros + MOST]);
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let mut words = vec![0, 1, 9, 10, 15, 16, u64::MAX];
        words.extend((1..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for word in words {
            let mut out = Vec::new();
            hex(word, &mut out);
            out.push(b' ');
            decimal(word, &mut out);
            out.push(b' ');
            decimal(word as i64, &mut out);
            out.push(b' ');
            padded(word, 9, &mut out);
            let expected = format!("{word:#x} {word} {} {word:09}", word as i64);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
