//! Numbers as text, in the form in which C prints them. Used by `value`, `prepared` and `string`.

use std::io::Write;

use crate::digits::{decimal, hex};

/// The base in which whole numbers are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Base {
    /// The base of the type.
    Default,
    Octal,
    Hex,
    /// Decimal up to 10,000, hexadecimal beyond.
    Guess,
}

/// Writes a whole number of `size` bytes; `word` has zeros above them.
pub(super) fn integer(word: u64, size: u32, signed: bool, base: Base, out: &mut Vec<u8>) {
    // Most numbers have one digit.
    if word < 10 && matches!(base, Base::Default | Base::Guess) {
        return out.push(b'0' + word as u8);
    }
    // ltrace compares the word, so a negative int is a big number and a negative long a small one.
    let small = (-10_000..=10_000).contains(&(word as i64));
    let extended = match size {
        1 => i64::from(word as i8),
        2 => i64::from(word as i16),
        4 => i64::from(word as i32),
        _ => word as i64,
    };
    match base {
        Base::Octal => {
            // Writing to a Vec does not fail.
            let _ = write!(out, "0{word:o}");
        }
        // As `%#x` does: without prefix for 0.
        Base::Hex if word == 0 => out.push(b'0'),
        Base::Hex => hex(word, out),
        Base::Guess if !small => hex(word, out),
        _ if signed => decimal(extended, out),
        _ => decimal(word, out),
    }
}

/// Writes a number as `%f` does, or as `%a`.
pub(super) fn floating(value: f64, base: Base, out: &mut Vec<u8>) {
    let _ = match (base, value.is_nan(), value.is_infinite()) {
        (_, true, _) if value.is_sign_negative() => write!(out, "-nan"),
        (_, true, _) => write!(out, "nan"),
        (_, _, true) => write!(out, "{value}"),
        (Base::Hex, ..) => hexadecimal(value, out),
        _ => write!(out, "{value:.6}"),
    };
}

fn hexadecimal(value: f64, out: &mut Vec<u8>) -> std::io::Result<()> {
    let bits = value.to_bits();
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let (lead, power) = match (exponent, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, exponent - 1023),
    };
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let dot = if digits.is_empty() { "" } else { "." };
    write!(out, "{sign}0x{lead}{dot}{digits}p{power:+}")
}

/// Returns an x87 number, rounded to 64 bits.
pub(super) fn extended(bytes: [u8; 10]) -> f64 {
    let [m0, m1, m2, m3, m4, m5, m6, m7, e0, e1] = bytes;
    let mantissa = u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
    let head = u16::from_le_bytes([e0, e1]);
    let sign = if head & 0x8000 != 0 { -1.0 } else { 1.0 };
    match head & 0x7fff {
        0x7fff if mantissa << 1 == 0 => sign * f64::INFINITY,
        0x7fff => f64::NAN.copysign(sign),
        exponent => {
            let power = i32::from(exponent) - 16383 - 63;
            // In two steps: 2^power alone may be out of range where the product is not.
            let half = power / 2;
            sign * mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(power - half)
        }
    }
}

/// Writes the numbers of the set bits, lowest first: `<0-1,5,8>`; the clear ones if they are fewer: `~<0>`.
pub(super) fn bits(bytes: &[u8], out: &mut Vec<u8>) {
    let set: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    let invert = set as usize > bytes.len() * 4;
    out.extend_from_slice(if invert { b"~<" } else { b"<" });
    let all = bytes.len() * 8;
    let is_shown = |bit: usize| bit < all && (bytes[bit / 8] >> (bit % 8) & 1 == 1) != invert;
    let mut bit = 0;
    let mut comma = "";
    while bit < all {
        if !is_shown(bit) {
            bit += 1;
            continue;
        }
        let first = bit;
        while is_shown(bit + 1) {
            bit += 1;
        }
        let _ = match bit - first {
            0 => write!(out, "{comma}{first}"),
            _ => write!(out, "{comma}{first}-{bit}"),
        };
        comma = ",";
        bit += 1;
    }
    out.push(b'>');
}
