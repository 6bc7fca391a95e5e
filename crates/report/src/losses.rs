//! What was lost or refused in a run, in the same words for every command: the last record of each `--json` output
//! ([`answer::losses`]).

use std::io::{self, Write};

pub use answer::losses::{Loss, Losses, Origin, What};
use births::analysis::Lost;
use serde::Serialize;

use crate::json::line;

/// The word for what a census lacks.
pub fn what(lost: Lost) -> What {
    match lost {
        Lost::Births | Lost::BirthsAndDeaths | Lost::BirthsInCount => What::Births,
        Lost::Rows => What::Rows,
        Lost::Sizes => What::Sizes,
        Lost::Lines => What::Lines,
        Lost::Heap => What::Heap,
    }
}

/// The record, whose kind every command has.
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record<'a> {
    Losses(Losses<'a>),
}

/// Writes the losses of a run; `more` were not kept one by one. `run` is where and when lancet has looked, if it has.
///
/// # Errors
///
/// Those of the output.
pub fn write(
    out: &mut dyn Write,
    losses: &[Loss],
    more: u64,
    run: Option<&Origin>,
) -> io::Result<()> {
    line(out, &Record::Losses(Losses { losses, more, run }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_on_the_page() {
        let page = include_str!("../../../docs/losses.md");
        for what in What::ALL {
            let word = serde_json::to_string(&what).unwrap();
            let row = format!("| `{}` |", word.trim_matches('"'));
            assert!(page.contains(&row), "{row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        // Four are fields.
        assert_eq!(rows.count(), What::ALL.len() + 4);
    }

    #[test]
    fn a_record() {
        let loss = Loss::new(Some(7), What::Gap, None, "a\u{202e}b");
        let mut out = Vec::new();
        write(&mut out, &[loss], 2, None).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"record\":\"losses\",\"losses\":[{\"pid\":7,\"what\":\"gap\",\"count\":null,\"text\":\"a\\u202eb\"}],\"more\":2}\n"
        );
    }
}
