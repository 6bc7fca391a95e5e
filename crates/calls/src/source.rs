//! The interface of sources of calls: open guests and started programs (`live::family`), or a file (`replay`). Used by
//! `live::family`, `replay` and others here, and by the crates `lancet` and `report`.

use crate::Error;
use crate::consumer::Consumer;
use crate::descriptors::Held;
use hooks::rings::{Counted, Line, Losses};
use process::functions::Function;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Time between two looks at empty rings.
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

/// The counts of a function, called from one script line.
#[derive(Clone, Debug)]
pub struct Count {
    /// The function that was called.
    pub function: Arc<Function>,
    /// For a system call, the function whose code makes it, if one place makes all of them.
    pub inside: Option<Arc<str>>,
    /// The script line; `None` = no script was running, or lines are not counted apart.
    pub line: Option<Arc<Line>>,
    /// The number of calls, and their cycles.
    pub counted: Counted,
    /// The length of a cycle in nanoseconds.
    pub period: f64,
}

/// A source of calls and returns, in the order of time.
pub trait Source {
    /// Passes the available events to `sink`.
    fn read(&mut self, sink: &mut dyn Consumer) -> Result<Flow, Error>;

    /// Waits for a moment, because there were no events.
    fn rest(&mut self) {
        sleep(LOOK);
    }

    /// Ends the source; what was reported before can still be read. Processes that could not be left, like all losses and
    /// refusals, are reported by messages ([`Message::lost`](crate::message::Message::lost)).
    fn leave(&mut self);

    /// Returns what guests counted instead of reporting each call.
    fn counted(&mut self) -> Vec<Count>;

    /// Returns what was lost in each process.
    fn losses(&mut self) -> Vec<(i32, Losses)>;

    /// Returns how many calls were lost until now in processes that are still watched.
    fn lost_until_now(&mut self) -> u64 {
        0
    }

    /// Returns how many open calls it has forgotten if it counts itself, because too many were open at the same time.
    fn forgotten(&self) -> u64 {
        0
    }

    /// Returns how much of it has been read, from 0 to 1; `None` = its end is unknown.
    fn progress(&self) -> Option<f64> {
        None
    }

    /// Whether it is a recording. That does not say which functions were hooked, and whether to the end.
    fn is_recording(&self) -> bool {
        false
    }

    /// Returns the descriptors that each process had and has, if requested; a recording has none.
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
