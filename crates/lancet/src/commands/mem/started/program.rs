//! What is the same of all programs that `mem` starts. Used by `blocks`, `objects` and `started`.

use std::time::Duration;

use births::analysis::Census;
use process::Error;

use crate::losses::Losses;

/// A program that was started, whatever is counted in it.
pub trait Started {
    /// Waits at most `most` for something to happen.
    fn wait(&self, most: Duration);

    /// Does what is due, without waiting. Processes that have ended go into `heard`. Returns whether there was anything, and the exit code of
    /// the program if it has ended.
    fn poll(&mut self, heard: &mut Heard) -> (bool, Option<i32>);

    /// Looks at the processes that are watched now.
    fn census(&mut self, losses: &mut Losses) -> Vec<Census>;

    /// Leaves all; the program goes on alone. Returns what went wrong.
    fn leave(&mut self) -> Vec<Error>;

    /// The program's exit code, once it has ended after it was left.
    fn code(&mut self) -> Option<i32>;

    /// Why nothing was counted, where nothing was, or not at the program's end.
    fn why_nothing(&self) -> Option<String>;
}

/// What was heard of the processes.
#[derive(Default)]
pub struct Heard {
    /// What those that have ended held.
    pub last: Vec<Census>,
    pub losses: Losses,
}
