//! Where calls come from: `family`, guests that are open; `replay`, a file.

use super::sink::Sink;
use process::functions::Function;
use process::lanes::{Counted, Line, Losses};
use std::sync::Arc;

/// What a source has after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It had something; there may be more at once.
    More,
    /// Nothing now.
    Idle,
    /// Nothing any more.
    Over,
}

/// What was counted of a function and a line, where nanoseconds for a cycle are `period`.
#[derive(Debug)]
pub struct Count {
    /// The function.
    pub function: Arc<Function>,
    /// The line.
    pub line: Option<Arc<Line>>,
    /// How often, how long.
    pub counted: Counted,
    /// Nanoseconds of a cycle.
    pub period: f64,
}

/// Tells calls and returns in the order of time.
pub trait Source {
    /// Hands on what there is.
    fn read(&mut self, sink: &mut dyn Sink) -> anyhow::Result<Flow>;

    /// Ends it; what was told before can still be read. Whether all of it could be opened, and ended as it should.
    fn leave(&mut self) -> bool;

    /// What was counted instead of told.
    fn counted(&mut self) -> Vec<Count>;

    /// The exit code of a program that was started for it, which it waits for unless that takes too long.
    fn code(&mut self) -> Option<u8> {
        None
    }

    /// What got lost in each process.
    fn losses(&mut self) -> Vec<(i32, Losses)>;
}
