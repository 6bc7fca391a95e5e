//! Where calls come from: guests that are open, a program that was started (`family`), a file (`replay`).

use crate::Error;
use crate::consumer::Consumer;
use hooks::rings::{Counted, Line, Losses};
use process::functions::Function;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Between two looks at rings that were empty.
const LOOK: Duration = Duration::from_millis(1);

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
#[derive(Clone, Debug)]
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
    fn read(&mut self, sink: &mut dyn Consumer) -> Result<Flow, Error>;

    /// Waits for a moment, because nothing came.
    fn rest(&mut self) {
        sleep(LOOK);
    }

    /// Ends it; what was reported before can still be read. What could not be left is said by messages, as everything that
    /// is lost or refused ([`Message::lost`](crate::Message::lost)).
    fn leave(&mut self);

    /// What guests counted instead of reporting it.
    fn counted(&mut self) -> Vec<Count>;

    /// What got lost in each process.
    fn losses(&mut self) -> Vec<(i32, Losses)>;

    /// The exit code of the program that was started, if one was and it has ended.
    fn code(&mut self) -> Option<i32> {
        None
    }
}
