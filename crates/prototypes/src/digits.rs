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

/// Appends a number in hexadecimal as `{:#x}` writes it: `0x0`, `0x7f01c2`.
pub fn hex(word: u64, out: &mut Vec<u8>) {
    let count = (67 - (word | 1).leading_zeros() as usize) / 4;
    let mut text = *b"0x0000000000000000";
    for (index, digit) in text[2..2 + count].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(word >> (4 * index) & 15) as usize];
    }
    out.extend_from_slice(&text[..2 + count]);
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
