//! A line that is being parsed, and the position in it. Used by `types` and `parse`.

use crate::error::Problem;

/// The error is a problem and the byte at which it begins.
pub(super) type Result<T, E = (usize, Problem)> = std::result::Result<T, E>;

/// A line and how much of it has been read.
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> u8 {
        self.rest().bytes().next().unwrap_or(0)
    }

    pub(super) fn fail<T>(&self, problem: Problem) -> Result<T> {
        Err((self.at, problem))
    }

    pub(super) fn space(&mut self) {
        let rest = self
            .rest()
            .trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        self.at = self.text.len() - rest.len();
    }

    /// Reads this character if it is next, after white space.
    pub(super) fn take(&mut self, character: char) -> bool {
        self.space();
        let found = self.rest().starts_with(character);
        if found {
            self.at += character.len_utf8();
        }
        found
    }

    pub(super) fn expect(&mut self, character: char, name: &'static str) -> Result<()> {
        if self.take(character) {
            Ok(())
        } else {
            self.fail(Problem::Expected(name))
        }
    }

    /// Reads this word if it is next and ends there.
    pub(super) fn keyword(&mut self, word: &str) -> bool {
        let rest = self.rest();
        // Nearly all words that are tried differ in their first byte.
        let begins = rest.as_bytes().first() == word.as_bytes().first();
        let found = begins
            && rest
                .strip_prefix(word)
                .is_some_and(|rest| !rest.bytes().next().is_some_and(in_name));
        if found {
            self.at += word.len();
        }
        found
    }

    /// Reads this text if it is next and a digit follows.
    pub(super) fn numbered(&mut self, word: &str) -> bool {
        let found = self.rest().strip_prefix(word).is_some_and(|rest| {
            rest.bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_digit())
        });
        if found {
            self.at += word.len();
        }
        found
    }

    pub(super) fn name(&mut self) -> Result<&'t str> {
        let rest = self.rest();
        let len = rest.bytes().take_while(|&byte| in_name(byte)).count();
        if len == 0 || rest.as_bytes()[0].is_ascii_digit() {
            return self.fail(Problem::Expected("a name"));
        }
        self.at += len;
        Ok(&rest[..len])
    }

    /// Reads a number as `strtol` with base 0 does: `-12`, `0x1f`, `017`.
    pub(super) fn number(&mut self) -> Result<i64> {
        let rest = self.rest();
        let (negative, digits) = match rest.strip_prefix(['-', '+']) {
            Some(digits) => (rest.starts_with('-'), digits),
            None => (false, rest),
        };
        let lower = digits.get(..2).map(str::to_ascii_lowercase);
        let (radix, digits) = match lower.as_deref() {
            Some("0x") => (16, &digits[2..]),
            _ if digits.starts_with('0') => (8, digits),
            _ => (10, digits),
        };
        let len = digits
            .bytes()
            .take_while(|byte| char::from(*byte).is_digit(radix))
            .count();
        if len == 0 {
            return self.fail(Problem::Expected("a number"));
        }
        let number =
            i128::from_str_radix(&digits[..len], radix).or_else(|_| self.fail(Problem::Range))?;
        let number = if negative { -number } else { number };
        // The values of an enum, written as unsigned, reach up to 2^64.
        let fits = i64::try_from(number).or_else(|_| u64::try_from(number).map(|n| n as i64));
        let number = fits.or_else(|_| self.fail(Problem::Range))?;
        self.at += rest.len() - digits.len() + len;
        Ok(number)
    }

    /// Reads a text in quotes.
    pub(super) fn literal(&mut self) -> Result<&'t str> {
        self.expect('"', "a file name in quotes")?;
        let rest = self.rest();
        match rest.find(['"', '\\']) {
            Some(end) if rest[end..].starts_with('"') => {
                self.at += end + 1;
                Ok(&rest[..end])
            }
            _ => self.fail(Problem::Expected(
                "a closing quote, and no backslash before it",
            )),
        }
    }
}
