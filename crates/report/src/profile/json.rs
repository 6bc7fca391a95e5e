//! A profile for programs: one JSON object a line (docs/profile.md).

use std::io::{self, Write};

use frames::profile::{Frame, Profile};
use serde::Serialize;

use super::format::Format;
use crate::json::line;

/// JSON for programs, one object a line.
pub(super) static FORMAT: Format = Format {
    name: "json",
    about: "One JSON object a line: the functions in which threads run, and who calls them",
    is_json: true,
    is_text: true,
    write: |profile, out, _| write(profile, out),
};

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record<'a> {
    Profile {
        looks: u64,
        /// How often a thread was seen on a processor, one that waited for a processor, and one that slept.
        samples: u64,
        /// Samples of which it is not known whether the thread was on a processor.
        unsure: u64,
        queued: u64,
        slept: u64,
        cut: u64,
    },
    Function {
        name: &'a str,
        file: &'a str,
        native: bool,
        library: bool,
        own: u64,
        total: u64,
        lines: Vec<OfLine>,
        callers: Vec<OfCaller<'a>>,
    },
}

#[derive(Serialize)]
struct OfLine {
    line: u32,
    own: u64,
}

#[derive(Serialize)]
struct OfCaller<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
    samples: u64,
}

impl<'a> OfCaller<'a> {
    fn of((frame, samples): (&&'a Frame, &u64)) -> Self {
        OfCaller {
            name: &frame.function.name,
            file: &frame.function.file,
            line: frame.line,
            samples: *samples,
        }
    }
}

fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    line(
        out,
        &Record::Profile {
            looks: profile.rounds,
            samples: profile.samples,
            unsure: profile.unsure,
            queued: profile.queued,
            slept: profile.slept,
            cut: profile.cut,
        },
    )?;
    for row in &profile.functions() {
        let lines = row.lines.iter();
        line(
            out,
            &Record::Function {
                name: &row.function.name,
                file: &row.function.file,
                native: row.function.native,
                library: row.library,
                own: row.own,
                total: row.total,
                lines: lines
                    .map(|(line, own)| OfLine {
                        line: *line,
                        own: *own,
                    })
                    .collect(),
                callers: row.callers.iter().map(OfCaller::of).collect(),
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::{profile, written};
    use super::*;
    use serde_json::Value;

    #[test]
    fn own_samples_are_all_samples() {
        let text = written(&FORMAT, &profile());
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records[0]["samples"], 10);
        let own: u64 = records[1..]
            .iter()
            .map(|row| row["own"].as_u64().unwrap())
            .sum();
        assert_eq!(own, 10);
        assert_eq!(records[1]["name"], "total");
        assert_eq!(records[1]["lines"][0]["line"], 31);
    }
}
