//! The table of `-c` as stacks: who calls a function, as far as that is known, then the function.

use std::io;

use answer::place::Place;
use calls::Line;
use calls::summary::Order;

use super::format::{Counted, sum};
use crate::forms::stacks::{self, Frame, Kind, Stack, Stacks, Unit};

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

/// What stacks of calls are of, where a form has one weight this one.
pub(crate) fn about(one: usize) -> stacks::About<'static> {
    stacks::About {
        title: KINDS[one].name.into(),
        comment: None,
        time: None,
        kinds: KINDS,
        one,
        first: one,
        is_ordered: true,
    }
}

/// Writes the rows in a form of stacks.
pub(super) fn print(out: &mut dyn io::Write, counted: &Counted<'_>) -> io::Result<()> {
    counted.stacks.write(&Called(counted), out)
}

struct Called<'a>(&'a Counted<'a>);

impl Stacks for Called<'_> {
    fn about(&self) -> stacks::About<'_> {
        let Called(counted) = self;
        // Of functions whose returns are not hooked no time is known.
        let time = sum(counted.rows.iter().map(|(_, row)| row.total));
        let one = match counted.order {
            Order::Calls => CALLS,
            _ if time == 0 => CALLS,
            _ => TIME,
        };
        about(one)
    }

    fn each(&self, take: &mut dyn FnMut(&Stack<'_>) -> io::Result<()>) -> io::Result<()> {
        let Called(counted) = self;
        counted.rows.iter().try_for_each(|((function, site), row)| {
            let time = (row.total as f64 * counted.unit).round() as u64;
            let mut frames: Vec<Frame<'_>> = site.line().map(at_line).into_iter().collect();
            let callers = site.callers().iter().rev();
            frames.extend(callers.map(|caller| Frame::named(&**caller)));
            frames.push(Frame::named(&**function));
            take(&Stack {
                frames,
                weights: vec![row.calls, time],
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
