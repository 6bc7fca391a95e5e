//! Output compared as a whole with a block that a person can read in the test.

/// Fails unless a program wrote `expected`, line by line.
///
/// In `expected` the first line break and the indentation that all lines share are not meant, so that a raw string may stand
/// indented in the test. What differs between runs has a name: `0xHEX`, `<TIME>` for `<0.000123>`, and the names that `named` gives to
/// strings, such as the number of a process or a temporary folder.
#[track_caller]
pub fn assert_shown(actual: &str, named: &[(&str, &str)], expected: &str) {
    let (actual, expected) = (masked(actual, named), without_indentation(expected));
    assert!(
        actual == expected,
        "this was written:\n{actual}\nand this is expected:\n{expected}"
    );
}

fn masked(text: &str, named: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (value, name) in named {
        text = text.replace(value, name);
    }
    let mut masked = String::new();
    let mut rest = &*text;
    while let Some(next) = rest.chars().next() {
        let name = if next == '0' {
            prefix(rest, "0x", |letter| letter.is_ascii_hexdigit()).map(|length| (length, "0xHEX"))
        } else if next == '<' {
            let end = prefix(rest, "<", |letter| letter.is_ascii_digit() || letter == '.');
            end.filter(|end| rest[*end..].starts_with('>'))
                .map(|end| (end + 1, "<TIME>"))
        } else {
            None
        };
        let (length, shown) = name.unwrap_or((next.len_utf8(), &rest[..next.len_utf8()]));
        masked.push_str(shown);
        rest = &rest[length..];
    }
    masked
}

/// The bytes of `start` and at least one letter that fits after it, at the beginning of a text.
fn prefix(text: &str, start: &str, fits: impl Fn(char) -> bool) -> Option<usize> {
    let rest = text.strip_prefix(start)?;
    let length = rest.find(|letter| !fits(letter)).unwrap_or(rest.len());
    (length > 0).then_some(start.len() + length)
}

fn without_indentation(block: &str) -> String {
    let Some(block) = block.strip_prefix('\n') else {
        return block.to_owned();
    };
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let lines = block.lines().filter(|line| !line.trim().is_empty());
    let shared = lines.map(|line| indentation(&line)).min().unwrap_or(0);
    let lines = block.lines().map(|line| line.get(shared..).unwrap_or(""));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
