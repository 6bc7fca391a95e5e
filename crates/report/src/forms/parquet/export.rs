//! Saved answers become files of all their tables. Used by crate `lancet`.

use std::io::{self, BufRead, Read};

use super::cells::Cell;
use super::file;
use super::rows::{Answer, Given, Rows};
use crate::forms::record::{Record, Role};

/// No record is longer.
const LONGEST: u64 = 64 << 20;

/// A file to be written.
#[derive(Debug)]
pub struct File {
    /// Where, below the folder of all tables: `alloc_agg/dt=2026-11-30/web-3-0f….parquet`.
    pub path: String,
    /// How many rows it has.
    pub rows: usize,
    /// What stands in it.
    pub bytes: Vec<u8>,
}

/// What is wrong with the answers in a file, as the end of a sentence that begins with its name. The others were handed on.
pub type Flaw = String;

/// Takes answers from lines of JSON, one after the other, and hands on their files. The same answer has the same files.
///
/// # Errors
/// Those of reading and of `take`.
pub fn answers(
    from: &mut dyn BufRead,
    given: &Given,
    take: &mut dyn FnMut(File) -> io::Result<()>,
) -> io::Result<Option<Flaw>> {
    each(from, given, &mut |path, rows| {
        take(File {
            path,
            rows: rows.rows.len(),
            bytes: file::bytes(rows),
        })
    })
}

/// What takes the rows of a file, with its path.
type Take<'a> = &'a mut dyn FnMut(String, Rows) -> io::Result<()>;

/// The same, with rows in the place of files.
pub(super) fn each(
    from: &mut dyn BufRead,
    given: &Given,
    take: Take<'_>,
) -> io::Result<Option<Flaw>> {
    let (mut answer, mut flaws) = (Answer::default(), Flaws::default());
    let (mut number, mut is_answer) = (0_u64, false);
    loop {
        let mut line = Vec::new();
        let length = (&mut *from).take(LONGEST).read_until(b'\n', &mut line)?;
        if length == 0 {
            break;
        }
        number += 1;
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole && length as u64 == LONGEST {
            from.skip_until(b'\n')?;
            answer.message_within();
            flaws.add(format!(
                "line {number} is longer than 64 MiB: it is left out"
            ));
            continue;
        }
        let Some(record) = Record::of(&line) else {
            if !is_whole && !answer.is_empty() {
                break;
            }
            answer.message_within();
            flaws.add(format!(
                "line {number} is no record of lancet: save answers with --json"
            ));
            if is_answer {
                continue;
            }
            // Whatever it is, it is not read to its end.
            return Ok(flaws.told());
        };
        is_answer = true;
        let is_last = record.role() == Role::Losses;
        answer.add(record);
        if is_last {
            end(std::mem::take(&mut answer), given, take, &mut flaws)?;
        }
    }
    if !answer.is_empty() {
        flaws.add("it was cut off: what is there is exported, and column `lost` is null".into());
        if answer.without_table().is_none() {
            hand_on(answer, given, take)?;
        }
    } else if !is_answer {
        flaws.add("it is empty".into());
    }
    Ok(flaws.told())
}

/// Hands on an answer that is whole, or says why not: others may stand behind it.
fn end(answer: Answer, given: &Given, take: Take<'_>, flaws: &mut Flaws) -> io::Result<()> {
    match answer.without_table() {
        Some(kind) => {
            flaws.add(format!(
                "there is no table for records `{kind}` (docs/schema.md)"
            ));
            Ok(())
        }
        None if answer.says_nothing() => {
            flaws.add("an answer has no rows".to_owned());
            Ok(())
        }
        None => hand_on(answer, given, take),
    }
}

/// What is wrong in one file: the first of it, and how much more there is.
#[derive(Default)]
struct Flaws {
    first: Vec<String>,
    more: u64,
}

impl Flaws {
    fn add(&mut self, flaw: String) {
        const MOST: usize = 3;
        match self.first.len() < MOST {
            true => self.first.push(flaw),
            false => self.more += 1,
        }
    }

    fn told(mut self) -> Option<Flaw> {
        if self.more > 0 {
            self.first
                .push(format!("and {} more such lines", self.more));
        }
        (!self.first.is_empty()).then(|| self.first.join("; "))
    }
}

fn hand_on(answer: Answer, given: &Given, take: Take<'_>) -> io::Result<()> {
    let all = answer.end(given);
    let name = all.get(1).map(name).unwrap_or_default();
    for rows in all {
        take(format!("{}/{name}", rows.table.name), rows)?;
    }
    Ok(())
}

/// The folder and name of the files of an answer, by its captures: the day on which it ended, in UTC, the machine, and the first capture's number.
fn name(captures: &Rows) -> String {
    let cell = |name: &str| {
        let at = captures.table.position(name)?;
        captures.rows.first()?.get(at)
    };
    let ended = match (cell("end_ns"), cell("start_ns")) {
        (Some(Cell::Integer(ns)), _) | (_, Some(Cell::Integer(ns))) => Some(*ns),
        _ => None,
    };
    let text = |name: &str| match cell(name) {
        Some(Cell::Text(text)) => text.as_str(),
        _ => "unknown",
    };
    // How Hive and all that read its folders write null.
    let day = ended.map_or_else(|| "__HIVE_DEFAULT_PARTITION__".to_owned(), day);
    format!(
        "dt={day}/{}-{}.parquet",
        plain(text("host")),
        text("capture_id")
    )
}

/// A name of a machine as part of a file's name.
pub fn plain(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let text = host.chars().take(64);
    let text: String = text.map(|c| if is_plain(c) { c } else { '_' }).collect();
    match text.starts_with('.') {
        true => format!("_{text}"),
        false => text,
    }
}

/// The day in UTC of nanoseconds since 1970: days are counted from 1 March, so that the leap day is a year's last.
fn day(ns: i64) -> String {
    let days = ns.div_euclid(86_400_000_000_000) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let at = |seconds: i64| day(seconds * 1_000_000_000);
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_796_083_199, "2026-11-30"),
            (1_796_083_200, "2026-12-01"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(at(seconds), text);
        }
    }

    #[test]
    fn a_host_leads_to_no_other_folder() {
        assert_eq!(plain("web-3.example"), "web-3.example");
        assert_eq!(plain("../../etc"), "_.._.._etc");
        assert_eq!(plain("a b\n/"), "a_b__");
    }
}
