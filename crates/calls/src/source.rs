//! The interface of sources of calls: open guests and started programs (`live::family`), or a file (`replay`).

use crate::Error;
use crate::consumer::Consumer;
use crate::descriptors::Held;
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
    /// Of a system call, the function whose code makes it, if one place makes all of them.
    pub inside: Option<Arc<str>>,
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

    /// Returns how many calls were lost until now in processes that are still watched.
    fn lost_until_now(&mut self) -> u64 {
        0
    }

    /// Returns how many open calls it has forgotten where it counts itself, because too many were open at the same time.
    fn forgotten(&self) -> u64 {
        0
    }

    /// Returns how much of it has been read, from 0 to 1; `None` = nobody knows where it ends.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Returns the descriptors that each process had and has, if they were asked for; a recording knows none.
    fn descriptors(&mut self) -> Vec<(i32, Held)> {
        Vec::new()
    }

    /// Returns the signal that has killed the started program, if one has.
    fn killed_by(&self) -> Option<i32> {
        None
    }

    /// Returns the exit code of the started program, if there is one and it has ended.
    fn code(&mut self) -> Option<i32> {
        None
    }
}
