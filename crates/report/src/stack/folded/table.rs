//! The lines at which threads ran, and those at which they waited, for people. Used by `folded` and `json`.
//!
//! ```text
//! 1,000 looks in 10.0 s: 1.0 threads ran and 4.0 waited, on average
//!
//! running
//!   98.2%  /srv/app.rb:6 in Object#known?
//!    1.8%  /srv/app.rb:10 in block in Object#spelling
//!
//! waiting
//!  300.0%  /srv/app.rb:13 in block in <main>: asleep in Thread::Queue#pop
//!  150.0%  /srv/app.rb:20 in Object#pay: waits for a mutex that thread 4243 worker (app.rb:31) holds and 2 others
//!
//! waiting for one lock, all lines together
//!  250.0%  mutex 0x7f5c5c012a40: at 2 lines, most at /srv/app.rb:20 in Object#pay
//! ```
//!
//! The last part has the locks for which threads wait at more than one line: what one of them costs is the sum of those rows.

use std::io::{self, Write};

use super::format::Format;
use frames::live::activity::Lock;

use super::places::{RowKey, Seen, Waited};
use super::stacks::Stacks;
use crate::Writes;
use crate::figures::{grouped, plural};
use crate::stack::waits;

/// Two lists of lines for people, and the default.
pub static FORMAT: Format = Format {
    writes: Writes::text(
        "table",
        "The lines at which threads run, and those at which they wait",
    ),
    write: |stacks, out, head| write(stacks, out, head.title),
};

/// Rows of each part; what is left is added up in one more.
const ROWS: usize = 12;

/// Writes the table. 100 % is one thread for all the time.
pub fn write(stacks: &Stacks, out: &mut dyn Write, title: &str) -> io::Result<()> {
    let all = || stacks.rows.iter();
    let looks = stacks.looks.max(1) as f64;
    let threads = |running: bool| {
        let these = all().filter(|(row, _)| row.running == running);
        these.map(|(_, seen)| seen.count).sum::<u64>() as f64 / looks
    };
    let (ran, waited) = (threads(true), threads(false));
    writeln!(
        out,
        "{title}: {ran:.1} threads ran and {waited:.1} waited, on average (100 % is one thread all the time)"
    )?;
    for (name, running) in [("running", true), ("waiting", false)] {
        let mut rows: Vec<(&RowKey, &Seen)> =
            all().filter(|(row, _)| row.running == running).collect();
        if rows.is_empty() {
            continue;
        }
        // What waits without a line of the application is a pool or a timer as a rule, and would hide the rest.
        rows.sort_by_key(|(row, seen)| (!row.of_application, std::cmp::Reverse(seen.count)));
        if running {
            rows.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.count));
        }
        writeln!(out, "\n{name}")?;
        for (key, seen) in rows.iter().take(ROWS) {
            let share = 100.0 * seen.count as f64 / looks;
            writeln!(out, "{share:>7.1}%  {}", row(key, seen))?;
        }
        let rest = rows.get(ROWS..).unwrap_or_default();
        if !rest.is_empty() {
            let count: u64 = rest.iter().map(|(_, seen)| seen.count).sum();
            let share = 100.0 * count as f64 / looks;
            let more = grouped(rest.len() as u64);
            writeln!(out, "{share:>7.1}%  at {more} more places")?;
        }
    }
    locks(stacks, out)
}

/// Writes the locks for which threads waited at more than one line.
fn locks(stacks: &Stacks, out: &mut dyn Write) -> io::Result<()> {
    let all = stacks.held_locks();
    let several = all
        .first()
        .is_some_and(|(pid, ..)| all.iter().any(|lock| lock.0 != *pid));
    let all = all.into_iter().filter(|(.., waited)| waited.at.len() > 1);
    for (number, (pid, lock, waited)) in all.take(ROWS).enumerate() {
        if number == 0 {
            writeln!(out, "\nwaiting for one lock, all lines together")?;
        }
        let share = 100.0 * waited.count as f64 / stacks.looks.max(1) as f64;
        let of = if several {
            format!(" of process {pid}")
        } else {
            String::new()
        };
        writeln!(out, "{share:>7.1}%  {}{of}: {}", name(lock), lines(waited))?;
    }
    Ok(())
}

fn lines(waited: &Waited) -> String {
    let most = waited.at.iter().max_by_key(|(_, count)| **count);
    let most = most.map_or("", |(line, _)| line.text());
    format!(
        "at {} lines, most at {most}",
        grouped(waited.at.len() as u64)
    )
}

/// What a lock is called, by which it is told apart from the others.
pub(crate) fn name(lock: Lock) -> String {
    match lock {
        Lock::Vm => "the VM lock".to_owned(),
        Lock::Script(at) => format!("mutex {at:#x}"),
        Lock::Library(what, at) => format!("{} at {at:#x}", waits::lock(what)),
    }
}

fn row(row: &RowKey, seen: &Seen) -> String {
    let mut text = row.line.text().to_owned();
    if !row.state.is_empty() {
        text += &format!(": {}", row.state);
    }
    let on = seen.on.iter().filter(|(on, _)| !on.is_empty());
    text + &most(on.map(|(on, count)| (on.as_str(), *count)))
}

/// Says which of these was seen most often, and how many others there are.
pub(crate) fn most<'a>(all: impl Iterator<Item = (&'a str, u64)> + Clone) -> String {
    let Some((most, _)) = all.clone().max_by_key(|(_, count)| *count) else {
        return String::new();
    };
    match all.count() as u64 - 1 {
        0 => most.to_owned(),
        more => format!(
            "{most} and {} {}",
            grouped(more),
            plural(more, "other", "others")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::named;
    use super::super::stacks::tests::written;
    use super::*;

    /// One that is waited for at one line says no more than that line's row, and what nobody was seen to have may be no lock.
    #[test]
    fn a_lock_is_a_row_with_the_sum_of_its_lines() {
        let mut stacks = Stacks::default();
        for (lock, held, line, count) in [
            (Lock::Script(0x70), false, "a.py:5 in hold", 3),
            (Lock::Script(0x70), true, "a.py:8 in two", 2),
            (Lock::Vm, true, "a.py:8 in two", 9),
            (Lock::Script(0x90), false, "a.py:5 in hold", 4),
            (Lock::Script(0x90), false, "a.py:8 in two", 4),
        ] {
            (0..count).for_each(|_| stacks.add_wait((7, lock), held, &named(line)));
        }
        stacks.looks = 2;
        assert_eq!(
            written(|out| locks(&stacks, out)),
            "\nwaiting for one lock, all lines together\n  250.0%  mutex 0x70: at 2 lines, most at a.py:5 in hold\n"
        );
    }

    #[test]
    fn what_runs_comes_first_and_a_pool_last() {
        let mut stacks = Stacks::default();
        let place = |line: &str, running, of_application, state: &str| RowKey {
            running,
            of_application,
            line: named(line),
            state: state.to_owned(),
        };
        for (count, place, on) in [
            (3, place("app.rb:6 in known?", true, true, ""), ""),
            (1, place("app.rb:9 in text", true, true, ""), ""),
            (
                8,
                place("pool.rb:1 in wait", false, false, "asleep in Queue#pop"),
                "",
            ),
            (
                4,
                place("app.rb:2 in ask", false, true, "asleep in IO#gets"),
                ": tcp to 10.0.0.7:80",
            ),
            (
                1,
                place("app.rb:2 in ask", false, true, "asleep in IO#gets"),
                ": tcp to 10.0.0.8:80",
            ),
        ] {
            for _ in 0..count {
                stacks.add_row(place.clone(), on.to_owned());
            }
        }
        stacks.looks = 4;
        assert_eq!(
            written(|out| write(&stacks, out, "4 looks in 40 ms")),
            "4 looks in 40 ms: 1.0 threads ran and 3.2 waited, on average (100 % is one thread all the time)\n\n\
             running\n   75.0%  app.rb:6 in known?\n   25.0%  app.rb:9 in text\n\n\
             waiting\n  125.0%  app.rb:2 in ask: asleep in IO#gets: tcp to 10.0.0.7:80 and 1 other\n  \
             200.0%  pool.rb:1 in wait: asleep in Queue#pop\n"
        );
    }
}
