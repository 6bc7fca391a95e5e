//! The lines at which threads ran and waited, for programs: one JSON object a line (docs/json.md). Used by `folded`.

use std::io::{self, Write};

use answer::stack::{Record, SeenAt};

use super::format::Format;
use super::stacks::Stacks;
use super::table::name;
use crate::Writes;
use crate::json::line;
use crate::stack::record_of;

/// JSON for programs, one object a line.
pub static FORMAT: Format = Format {
    writes: Writes::Records,
    write: |stacks, out, _| write(stacks, out),
};

/// Writes a record of each process, one of the looks, then one of each place, those that were seen most first, then one of each lock that was waited for.
pub fn write(stacks: &Stacks, out: &mut dyn Write) -> io::Result<()> {
    for process in &stacks.processes {
        line(out, &Record::Process(record_of(process)))?;
    }
    line(
        out,
        &Record::Looks {
            looks: stacks.looks,
        },
    )?;
    let mut rows: Vec<_> = stacks.rows.iter().collect();
    rows.sort_by_key(|(row, seen)| (!row.running, std::cmp::Reverse(seen.count)));
    for (row, seen) in rows {
        let on = seen.on.iter().filter(|(on, _)| !on.is_empty());
        line(
            out,
            &Record::Place {
                running: row.running,
                of_application: row.of_application,
                place: row.line.what.place.clone(),
                native: row.line.what.native,
                state: &row.state,
                seen: seen.count,
                on: on.map(|(on, count)| (on.trim(), *count)).collect(),
            },
        )?;
    }
    for (pid, lock, waited) in stacks.held_locks() {
        line(
            out,
            &Record::Lock {
                pid,
                lock: name(lock),
                seen: waited.count,
                at: waited
                    .at
                    .iter()
                    .map(|(line, seen)| SeenAt {
                        place: line.what.place.clone(),
                        native: line.what.native,
                        seen: *seen,
                    })
                    .collect(),
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::places::{RowKey, named};
    use super::super::stacks::tests::written;
    use super::*;

    #[test]
    fn each_place_is_a_line() {
        let mut stacks = Stacks::default();
        for (line, running, on) in [
            ("app.rb:6 in known?", true, ""),
            ("a.rb:2 in ask", false, " (poll): tcp to 10.0.0.7:80"),
        ] {
            let place = RowKey {
                running,
                of_application: true,
                line: named(line),
                state: String::new(),
            };
            stacks.add_row(place, on.into());
        }
        stacks.looks = 1;
        assert_eq!(
            written(|out| write(&stacks, out)),
            "{\"record\":\"looks\",\"looks\":1}\n\
             {\"record\":\"place\",\"running\":true,\"of_application\":true,\"place\":{\"path\":\"app.rb\",\"line\":6,\"function\":\"known?\"},\"native\":false,\"state\":\"\",\"seen\":1,\"on\":{}}\n\
             {\"record\":\"place\",\"running\":false,\"of_application\":true,\"place\":{\"path\":\"a.rb\",\"line\":2,\"function\":\"ask\"},\"native\":false,\"state\":\"\",\"seen\":1,\"on\":{\"(poll): tcp to 10.0.0.7:80\":1}}\n"
        );
    }
}
