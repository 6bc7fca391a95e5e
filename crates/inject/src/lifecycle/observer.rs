//! What a command hears of its processes.

use super::Watched;
use process::error::Error;

/// What a command wants to hear of its processes. All methods are called from `poll`, `start`
/// and `leave` of [`Processes`](super::Processes).
pub trait Observer<G: Watched> {
    /// Something that a watched process tells.
    fn event(&mut self, event: G::Event);

    /// A process stands at the first instruction of another program, which is begun with next.
    fn begins(&mut self, pid: i32);

    /// A process could not be watched, or not any more.
    fn unwatched(&mut self, pid: i32, error: Error);

    /// Nothing comes of a watched process any more: it has ended, runs another program, or was left.
    fn over(&mut self, watched: G, why: Over);

    /// A process has ended, watched or not; its exit code as shells say it, if anybody saw it.
    fn ended(&mut self, pid: i32, code: Option<i32>);
}

/// Why nothing comes of a process any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It has ended, or cannot be read any more.
    Ended,
    /// It runs another program.
    Replaced,
    /// The command has left it, and it goes on.
    Left,
}
