//! A process whose garbage collections are timed, as an interface. Used by `languages`, `languages::entry` and others
//! here, and by crate `lancet`.

use process::error::Result;
use std::fmt::Debug;
use wire::Collection;

/// A process whose agent times each collection. Dropping this value leaves it.
pub trait CollectionTimer: Debug {
    /// Its process id, in the PID namespace of lancet.
    fn pid(&self) -> i32;

    /// Whether it still runs; true also where that cannot be found out.
    fn is_alive(&self) -> bool;

    /// Returns why the agent has left by itself, if it has.
    ///
    /// # Errors
    /// The control page cannot be read.
    fn farewell(&self) -> Result<Option<&'static str>>;

    /// Returns the collections since the last call; only the last ones if there are very many.
    ///
    /// # Errors
    /// The agent's records cannot be read.
    fn collections(&mut self) -> Result<Vec<Collection>>;

    /// Makes the VM collect now: all objects, or only the young ones.
    ///
    /// # Errors
    /// It did not come to a safe point in time.
    fn collect(&mut self, full: bool) -> Result<()>;

    /// Leaves the process.
    ///
    /// # Errors
    /// It was not entered in time; its agent is quiet all the same.
    fn leave(&mut self) -> Result<()>;
}
