//! Sizes of memory as people write them: `2G`, `1.5G`, `512M`. Used by `commands::heap::args` and
//! `commands::heap::when`.

/// Reads `2G`, `1.5G`, `512M`: units of 1024. A number without a unit is refused.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is no size: write 512M or 2G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..]
        .to_ascii_lowercase()
        .trim_end_matches("ib")
        .trim_end_matches('b')
    {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let bytes = number * f64::from(1u32 << 10).powi(shift / 10);
    if !(1.0..=(1u64 << 56) as f64).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [
            ("512M", 512 << 20),
            ("1.5G", 3 << 29),
            (" 2 GiB ", 2 << 30),
            ("64kb", 64 << 10),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["512", "", "G", "-1G", "1P", "0M", "99999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
