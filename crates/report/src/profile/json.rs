//! A profile for programs: one JSON object a line (docs/json.md). Used by `profile`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use answer::place::Place;
use answer::profile::{Caller, OfLine, On, Record};
use answer::time::nanos;
use frames::profile::{By, Frame, Function, Kind, Profile, Row};

use super::format::{Format, Head};
use super::function::with_callees;
use super::table::verdict;
use crate::Writes;
use crate::json::line;
use crate::stack::record_of;

/// JSON for programs, one object a line.
pub(super) static FORMAT: Format = Format {
    writes: Writes::Tables,
    write,
};

/// Where a function is; of a file that stands for its functions ([`By::File`]) its path.
pub(super) fn place(by: By, function: &Function, line: u32) -> Place<'_> {
    match by {
        By::File => Place::new(&function.name, line, ""),
        By::Function | By::Thread | By::Class | By::Package => {
            Place::new(&function.file, line, &function.name)
        }
    }
}

fn caller<'a>(by: By, (frame, samples): (&&'a Frame, &u64)) -> Caller<'a> {
    Caller {
        place: place(by, &frame.function, frame.line),
        samples: *samples,
    }
}

fn write(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    for process in &head.about.processes {
        line(out, &Record::Process(record_of(process)))?;
    }
    let text = verdict(profile);
    let (waited, idle) = profile.waits.counts();
    line(out, &Record::Verdict { text })?;
    line(
        out,
        &Record::Profile {
            who: &head.about.who,
            began_at_ns: head.about.began,
            took_ns: nanos(head.about.took),
            by: profile.by().words()[0],
            mode: profile.mode().word(),
            looks: profile.rounds,
            samples: profile.samples,
            ran: profile.ran,
            unsure: profile.unsure,
            queued: profile.queued,
            slept: profile.slept,
            waited,
            idle,
            cut: profile.cut,
        },
    )?;
    functions(profile, out, head)?;
    match head.function {
        Some(_) => Ok(()),
        None => waits(profile, out),
    }
}

fn functions(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    let told = head.function.map(|name| with_callees(profile, name));
    let is_told = |row: &Row| told.as_ref().is_none_or(|told| told.contains(row.function));
    for row in profile.functions().iter().filter(|row| is_told(row)) {
        let (lines, callers) = (row.lines.iter(), row.callers.iter());
        line(
            out,
            &Record::Function {
                place: place(profile.by(), row.function, 0),
                native: row.function.kind == Kind::Native,
                waits: row.function.kind == Kind::Wait,
                library: row.library,
                own: row.own,
                total: row.total,
                lines: lines
                    .map(|(line, own)| OfLine {
                        line: *line,
                        own: *own,
                    })
                    .collect(),
                callers: callers.map(|one| caller(profile.by(), one)).collect(),
            },
        )?;
    }
    Ok(())
}

fn callers<'a>(frames: &BTreeMap<&'a Frame, u64>) -> Vec<Caller<'a>> {
    let frames = frames.iter();
    frames.map(|one| caller(By::Function, one)).collect()
}

fn waits(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    for row in profile.waits.rows() {
        let on = row.on.iter();
        let wait = Record::Wait {
            place: place(By::Function, &row.place.function, row.place.line),
            doing: row.doing,
            idle: row.is_idle,
            samples: row.count,
            on: on
                .map(|(text, samples)| On {
                    text,
                    samples: *samples,
                })
                .collect(),
        };
        line(out, &wait)?;
    }
    for cause in profile.waits.causes() {
        if let Some(lock) = cause.lock {
            let lock = Record::Lock {
                pid: lock.pid,
                name: &lock.name,
                doing: cause.doing,
                samples: cause.count,
                at: callers(&cause.at),
                holders: callers(&cause.holders),
            };
            line(out, &lock)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::{about, head, profile, waiting, written};
    use super::*;
    use serde_json::Value;

    #[test]
    fn own_samples_are_all_samples() {
        let text = written(&FORMAT, &profile());
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records[1]["samples"], 10);
        let own: u64 = records[2..]
            .iter()
            .map(|row| row["own"].as_u64().unwrap())
            .sum();
        assert_eq!(own, 10);
        assert_eq!(records[2]["place"]["function"], "total");
        assert_eq!(records[2]["lines"][0]["line"], 31);
    }

    #[test]
    fn one_function_is_told_with_what_it_calls() {
        let (profile, about) = (waiting(), about());
        let told = |name| -> Vec<String> {
            let head = Head {
                function: Some(name),
                ..head(&about)
            };
            let mut out = Vec::new();
            FORMAT.write(&profile, &mut out, &head).unwrap();
            let text = String::from_utf8(out).unwrap();
            let records = text
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let rows = records.skip(2);
            rows.map(|row| row["place"]["function"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(told("total"), ["total", "rb_pack"]);
        assert!(told("nobody").is_empty());
    }
}
