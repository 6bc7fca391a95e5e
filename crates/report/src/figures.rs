//! Numbers for people: grouped digits, sizes in binary units, times in the unit that fits. Used by `mem::table`,
//! `calls::not_freed` and others here, and by crate `lancet`.

use std::time::Duration;

/// Writes a number with its digits in groups of three: `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A change: `+1,234`, `-5`, `0`.
pub fn change(number: i64) -> String {
    format!("{}{}", sign(number), grouped(number.unsigned_abs()))
}

/// `4096` as `4.0 KiB`; below a KiB the exact bytes.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be printed as 1024.0 belongs to the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A change of a size: `+4.0 KiB`.
pub fn size_change(bytes: i64) -> String {
    format!("{}{}", sign(bytes), size(bytes.unsigned_abs()))
}

/// A pause: `850 µs`, `11.2 ms`, `1.50 s`.
pub fn pause(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// How long something was watched: `0.3 s`, `2 min 05 s`, `3 h 20 min`.
pub fn span(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds as u64;
    match whole {
        0..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// Returns the word for one thing or the word for several: `object` or `objects`.
pub fn plural(count: u64, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn sign(number: i64) -> &'static str {
    match number {
        1.. => "+",
        0 => "",
        _ => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let all = [0, 12, 123, 1234, 123_456, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
        assert_eq!([5, 0, -1234].map(change), ["+5", "0", "-1,234"]);
    }

    #[test]
    fn sizes() {
        let all = [0, 1023, 1024, 1536, 1_048_575, 1 << 20, 5 << 30, u64::MAX].map(size);
        let expected = [
            "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 GiB", "16.0 EiB",
        ];
        assert_eq!(all, expected);
        assert_eq!([2048, -1, 0].map(size_change), ["+2.0 KiB", "-1 B", "0 B"]);
    }

    #[test]
    fn times() {
        let all = [850, 11_200, 1_500_000].map(|us| pause(Duration::from_micros(us)));
        assert_eq!(all, ["850 µs", "11.2 ms", "1.50 s"]);
        let all = [0.25, 59.9, 125.0, 12_000.0].map(span);
        assert_eq!(all, ["0.2 s", "59.9 s", "2 min 05 s", "3 h 20 min"]);
    }
}
