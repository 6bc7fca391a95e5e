//! Writes numbers, addresses and dates. Used by `layout::custom::calls`, `forms::descriptors`, `forms::files` and
//! others.

use super::Writer;
use crate::words;
use prototypes::digits::hex;

impl Writer<'_> {
    /// Appends the date of a time, if it has one: ` /* 2026-11-22T23:49:46+0000 */`.
    pub fn date(&mut self, seconds: i64, nanos: u64) {
        if let Some(date) = self.style.date.and_then(|date| date(seconds, nanos)) {
            self.push(&format!(" /* {date} */"));
        }
    }

    /// The same of a time in microseconds.
    pub fn date_of_micros(&mut self, seconds: i64, micros: u64) {
        let date = self
            .style
            .date
            .and_then(|date| date(seconds, micros * 1000));
        if let Some(mut date) = date {
            // Of nine digits behind the point, six.
            if let Some(point) = date.find('.') {
                date.replace_range(point + 7..point + 10, "");
            }
            self.push(&format!(" /* {date} */"));
        }
    }

    /// Appends a number in hexadecimal by its name, as the style has it.
    pub fn known(&mut self, word: u64, name: &str) {
        words::known(words::plain(word), name, self.style.constants, self.out);
    }

    /// Appends a number whose name stands for it, as `%d` has it where it is shown as a number.
    pub fn known_decimal(&mut self, number: i64, name: &str) {
        words::known(number, name, self.style.constants, self.out);
    }

    /// Appends a limit that is none.
    pub fn known_infinity(&mut self) {
        let number = u64::MAX.to_string();
        words::known(&number, "RLIM64_INFINITY", self.style.constants, self.out);
    }

    /// Appends an address: `NULL` or `0x7f…`.
    pub fn address(&mut self, word: u64) {
        match word {
            0 => self.push("NULL"),
            word => hex(word, self.out),
        }
    }

    /// Appends a number in hexadecimal as C's `%#x` has it: `0` or `0x1f`.
    pub fn hexadecimal(&mut self, word: u64) {
        match word {
            0 => self.push("0"),
            word => hex(word, self.out),
        }
    }

    /// Appends the number of a mode as strace has it: at least three digits, the first a 0.
    pub fn octal(&mut self, word: u64) {
        let text = match word {
            0 => "000".into(),
            1..8 => format!("00{word:o}"),
            _ => format!("0{word:o}"),
        };
        self.push(&text);
    }
}
