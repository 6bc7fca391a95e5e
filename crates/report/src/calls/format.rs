//! What a format of `lancet calls` is: how events are written as they come, and how `-c` writes its table. Used by
//! `summary`, `summary_json` and others here, and by crate `lancet`.

use super::{Layout, Processes};
use crate::Writes;
use crate::forms::stacks::StackForm;
use calls::allocations::NotFreed;
use calls::consumer::{Consumer, SourceEnd};
use calls::descriptors::StillOpen;
use calls::signatures::Signatures;
use calls::summary::{Key, Order, Row};
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// The rows of `-c` in their order, and what their figures mean.
pub struct Counted<'a> {
    /// Which processes they are of.
    pub processes: &'a Processes,
    /// By function and script line.
    pub rows: &'a [(&'a Key, &'a Row)],
    /// What that order is, if one was asked for.
    pub order: Option<Order>,
    /// Times hold what it costs to note a call.
    pub are_noted: bool,
    /// When it began, if that is known.
    pub began: Option<SystemTime>,
    /// How long what was counted lasted.
    pub lasted: Duration,
    /// Nanoseconds in one tick of the clock that times were taken with.
    pub unit: f64,
    /// The descriptors that are still open, if they were asked for.
    pub still_open: Option<&'a StillOpen>,
    /// What is allocated and not freed, if it was asked for.
    pub not_freed: Option<&'a NotFreed>,
    /// What was counted and lost by the end.
    pub end: &'a SourceEnd,
    /// What shows stacks, where the format gives them.
    pub stacks: &'static StackForm,
}

/// The sum of one figure of all rows. A process may have written any number.
pub(super) fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

/// Makes the consumer that writes each event; it may borrow the signatures.
type Events = for<'a> fn(Layout, &'a Signatures, Box<dyn Write>) -> Box<dyn Consumer + 'a>;

/// One way to write calls.
#[derive(Debug)]
pub struct Format {
    /// What the answer writes in it.
    pub writes: Writes,
    /// Everything else is as with ltrace too: messages, exit code, where lines go.
    pub like_ltrace: bool,
    /// Makes the writer of events; `None`: it has nothing but what is counted.
    pub events: Option<Events>,
    /// Writes what `-c` counted, once, at the end.
    pub counts: fn(&mut dyn Write, &Counted<'_>) -> io::Result<()>,
}

impl crate::FormatEntry for Format {
    fn writes(&self) -> Writes {
        self.writes
    }
}
