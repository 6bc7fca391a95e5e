//! The table of `-c` as stacks: who calls a function, as far as that is known, then the function. Used by
//! `syscalls::summary` and `formats`.

use std::io;

use answer::place::Place;
use calls::Line;
use calls::summary::{Order, Row};

use super::Processes;
use super::format::Counted;
use crate::forms::stacks::{self, Frame, Kind, Stack, Stacks, Times, Unit};

/// What is counted of calls.
const KINDS: &[Kind] = &[
    Kind {
        name: "calls",
        unit: Unit::Count,
    },
    Kind {
        name: "time",
        unit: Unit::Nanoseconds,
    },
];
/// Their numbers.
pub(crate) const CALLS: usize = 0;
pub(crate) const TIME: usize = 1;

/// Which weight a form has that has one, of rows with these numbers and times: the one by which they were asked to be sorted, else the time.
/// Where times hold what it costs to note a call, or a call has none and would be in no stack, it is the number.
pub(crate) fn weight(asked: Option<usize>, are_noted: bool, rows: &[[u64; 2]]) -> usize {
    let is_untimed = |row: &[u64; 2]| row[TIME] == 0 && row[CALLS] != 0;
    match asked {
        // Where no call has a time, there are no stacks of time.
        Some(TIME) if !rows.iter().all(is_untimed) => TIME,
        None if !are_noted && !rows.iter().any(is_untimed) => TIME,
        _ => CALLS,
    }
}

/// What stacks of calls are of that were counted then, where a form has one weight this one.
pub(crate) fn about(processes: &Processes, times: Times, one: usize) -> stacks::About<'_> {
    let what = ["calls", "time of calls"][one];
    let known = processes.text();
    let title = match &known {
        Some(processes) => format!("{processes}: {what}"),
        None => what.to_owned(),
    };
    stacks::About {
        process: processes.only(),
        times,
        comment: known,
        ..stacks::About::titled(title, KINDS, one)
    }
}

/// Writes the rows in a form of stacks.
pub(super) fn print(out: &mut dyn io::Write, counted: &Counted<'_>) -> io::Result<()> {
    counted.stacks.write(&Called(counted), out)
}

/// The number of calls and their time, of which a tick has so many nanoseconds.
fn weights(row: &Row, unit: f64) -> [u64; 2] {
    [row.calls, (row.total as f64 * unit).round() as u64]
}

struct Called<'a>(&'a Counted<'a>);

impl Stacks for Called<'_> {
    fn about(&self) -> stacks::About<'_> {
        let Called(counted) = self;
        let asked = match counted.order {
            Some(Order::Calls) => Some(CALLS),
            Some(Order::Time | Order::Wall) => Some(TIME),
            _ => None,
        };
        let rows = counted.rows.iter();
        let rows: Vec<_> = rows.map(|(_, row)| weights(row, counted.unit)).collect();
        let times = Times::counted(counted.began, Some(counted.lasted));
        let one = weight(asked, counted.are_noted, &rows);
        about(counted.processes, times, one)
    }

    fn each(&self, take: &mut dyn FnMut(&Stack<'_>) -> io::Result<()>) -> io::Result<()> {
        let Called(counted) = self;
        counted.rows.iter().try_for_each(|((function, site), row)| {
            let mut frames: Vec<Frame<'_>> = site.line().map(at_line).into_iter().collect();
            let callers = site.callers().iter().rev();
            frames.extend(callers.map(|caller| Frame::named(&**caller)));
            frames.push(Frame::named(&**function));
            take(&Stack {
                frames,
                weights: weights(row, counted.unit).to_vec(),
                ..Stack::default()
            })
        })
    }
}

/// A line of a script as a frame; where no line of the application is known, what stands for it.
pub(crate) fn at_line(line: &Line) -> Frame<'_> {
    let place = match line.is_of_no_application() {
        true => Place::new("", 0, &*line.path),
        false => super::json::place(line),
    };
    Frame {
        text: line.to_string().into(),
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_missing_and_no_time_is_that_of_noting() {
        let timed = [[3, 700], [1, 20]];
        assert_eq!(weight(None, false, &timed), TIME);
        assert_eq!(weight(Some(CALLS), false, &timed), CALLS);
        assert_eq!(weight(None, true, &timed), CALLS, "they were noted");
        let one_untimed = [[3, 700], [440, 0]];
        assert_eq!(weight(None, false, &one_untimed), CALLS);
        // Who asks for times gets them, as long as there are any.
        assert_eq!(weight(Some(TIME), true, &one_untimed), TIME);
        assert_eq!(weight(Some(TIME), false, &[[440, 0]]), CALLS);
    }
}
