//! The interface of sources of calls: open guests and started programs (`live::family`), or a file (`replay`).

use crate::Error;
use crate::consumer::Consumer;
use hooks::rings::{Counted, Line, Losses};
use process::functions::Function;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// The time between two looks at rings that were empty.
const LOOK: Duration = Duration::from_millis(1);

/// The result of a look at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There were events, and there may be more at once.
    More,
    /// There were no events; there may be some later.
    Idle,
    /// There will be no more events.
    Over,
}

/// What was counted of a function, called from one script line.
#[derive(Clone, Debug)]
pub struct Count {
    /// The function that was called.
    pub function: Arc<Function>,
    /// The script line; `None` = no script was running, or lines are not counted apart.
    pub line: Option<Arc<Line>>,
    /// How often it was called, and for how many cycles.
    pub counted: Counted,
    /// The length of a cycle in nanoseconds.
    pub period: f64,
}

/// A source of calls and returns, in the order of time.
pub trait Source {
    /// Hands the events there are to `sink`.
    fn read(&mut self, sink: &mut dyn Consumer) -> Result<Flow, Error>;

    /// Waits for a moment, because there were no events.
    fn rest(&mut self) {
        sleep(LOOK);
    }

    /// Ends it; what was reported before can still be read. What could not be left is said by messages, as everything that
    /// is lost or refused ([`Message::lost`](crate::Message::lost)).
    fn leave(&mut self);

    /// Returns what guests counted instead of reporting each call.
    fn counted(&mut self) -> Vec<Count>;

    /// Returns what was lost in each process.
    fn losses(&mut self) -> Vec<(i32, Losses)>;

    /// Returns the exit code of the started program, if there is one and it has ended.
    fn code(&mut self) -> Option<i32> {
        None
    }
}
