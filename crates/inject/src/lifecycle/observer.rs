//! The events of processes that a command receives. Used by `processes` and `watched`, and by the crates `births` and
//! `calls`.

use super::Watched;
use process::error::Error;

/// Receives the events of a command's processes. All methods are called from `poll`, `start` and
/// `leave` of [`Processes`](super::Processes).
pub trait Observer<G: Watched> {
    /// A watched process reports an event.
    fn event(&mut self, event: G::Event);

    /// A process stands at the first instruction of another program, which will be watched next.
    fn begins(&mut self, pid: i32);

    /// A process could not be watched, or can no longer be watched.
    fn unwatched(&mut self, pid: i32, error: Error);

    /// A watched process is finished: it has ended, runs another program, or was left.
    fn over(&mut self, watched: G, why: Over);

    /// A process has ended, watched or not; `code` is its exit code as a shell reports it, if it was
    /// seen.
    fn ended(&mut self, pid: i32, code: Option<i32>);
}

/// Why a process is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It has ended, or cannot be read any more.
    Ended,
    /// It runs another program.
    Replaced,
    /// The command has left it, and it goes on.
    Left,
}
