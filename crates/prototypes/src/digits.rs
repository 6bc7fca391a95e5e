//! Whole numbers as digits, appended to a line without allocation. Used by `show::number`, `show::prepared` and others
//! here, and by the crates `syscalls` and `report`.

/// Appends a number in decimal.
pub fn decimal(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a number in decimal with zeros before it, so that it has at least `width` digits, of at most 20.
pub fn padded(number: u64, width: usize, out: &mut Vec<u8>) {
    if width == 9 && number < 1_000_000_000 {
        return nine(number as u32, out);
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    let zeros = width.min(20).saturating_sub(digits.len());
    out.extend_from_slice(&[b'0'; 20][..zeros]);
    out.extend_from_slice(digits);
}

/// Appends nine digits of a number that has no more: one, and then eight, which are worked out side by side in one word,
/// the first in its lowest byte. Divisions are multiplications by 10486 / 2^20 and 103 / 2^10, which are exact for numbers
/// below 10,000 and below 100.
fn nine(number: u32, out: &mut Vec<u8>) {
    let (first, rest) = (number / 100_000_000, number % 100_000_000);
    let fours = u64::from(rest / 10_000) | u64::from(rest % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - tens * 10) << 8;
    out.push(b'0' + first as u8);
    out.extend_from_slice(&(ones + ZEROS).to_le_bytes());
}

/// Eight times the digit 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight digits of half a word in hexadecimal, the first in the lowest byte. They are worked out side by side, because
/// digits that are stored one by one and read together make the processor wait until they have arrived in its cache.
const fn eight(half: u32) -> u64 {
    let mut digits = half.swap_bytes() as u64;
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits >> 4 | digits << 8) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in the byte of each digit from ten on: those are letters.
    let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    digits + ZEROS + letters * (b'a' - b'9' - 1) as u64
}

/// Appends a number in hexadecimal as `{:#x}` writes it: `0x0`, `0x7f01c2`.
pub fn hex(word: u64, out: &mut Vec<u8>) {
    out.reserve(18);
    out.extend_from_slice(b"0x");
    // To copy a number of bytes that is known and to cut what is too much takes fewer instructions than to copy as many as
    // there are.
    let zeros = (word | 1).leading_zeros() / 4;
    let end = out.len() + 16 - zeros as usize;
    if zeros >= 8 {
        let digits = eight(word as u32) >> (zeros * 8 - 64);
        out.extend_from_slice(&digits.to_le_bytes());
    } else {
        let digits = u128::from(eight((word >> 32) as u32)) | u128::from(eight(word as u32)) << 64;
        out.extend_from_slice(&(digits >> (zeros * 8)).to_le_bytes());
    }
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
