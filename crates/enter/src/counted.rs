//! A process whose births are counted: what every language's VM is asked then, as an interface. Used by `counted_vm`,
//! `languages::python::counted` and others here, and by crate `births`.

use inject::Timing;
use inject::resident::Resident;
use inject::tracee::Tracee;
use languages::objects::Objects;
use process::error::Result;
use process::memory::GuestMemory;
use std::fmt::Debug;
use vm::Language;

/// What is awaited of a collection that a VM is to run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing: it has ended, or none will come.
    Nothing,
    /// That it begins.
    Beginning,
    /// That the one which runs ends.
    End,
}

/// A process whose births are counted by its agent. Requests to it are possible until it is left; dropping this value leaves it.
pub trait Counted: Debug {
    /// The language whose VM counts: a process may have VMs of several.
    fn language(&self) -> Language;

    /// The version of its VM.
    fn version(&self) -> String;

    /// Its process id, in the PID namespace of lancet.
    fn pid(&self) -> i32;

    /// Its command line, as it was when it was opened.
    fn command(&self) -> &[String];

    /// Its memory, read and written through `/proc/PID/mem`.
    fn memory(&self) -> &GuestMemory;

    /// Where its agent is.
    fn resident(&self) -> &Resident;

    /// Its main thread, if we trace it between stops too.
    fn tracee(&mut self) -> &mut Option<Tracee>;

    /// Returns the times of the last request and of all stops so far.
    fn timing(&self) -> Timing;

    /// Whether it still runs; true also where that cannot be found out.
    fn is_alive(&self) -> bool;

    /// Whether it can be asked.
    fn is_open(&self) -> bool;

    /// Returns why the agent has left by itself, if it has.
    ///
    /// # Errors
    /// The control page cannot be read.
    fn farewell(&self) -> Result<Option<&'static str>>;

    /// Has a VM that cannot be made to collect garbage do so by itself soon; returns whether that is to be waited for.
    fn prompt(&mut self) -> bool {
        false
    }

    /// What of that is still awaited.
    fn awaits_collection(&mut self) -> Awaited {
        Awaited::Nothing
    }

    /// Has the agent count what lives, after a garbage collection if `collect` is set.
    ///
    /// # Errors
    /// It did not come to a safe point in time, or its agent has left.
    fn census(&mut self, collect: bool) -> Result<()>;

    /// Takes out what counts births and unmaps the agent's books; the value stays. Returns for how long the process was stopped in all.
    ///
    /// # Errors
    /// It was not entered in time; its agent is quiet all the same.
    fn leave(&mut self) -> Result<Timing>;

    /// Notes that it can no longer be asked: it has ended, or runs another program, or its agent has left.
    fn give_up(&mut self);

    /// Opens a child that was forked since: it has a copy of the agent and its books.
    ///
    /// # Errors
    /// It is no such child, it still uses its parent's memory, its agent has left, or children do not count on.
    fn adopt(&self, pid: i32) -> Result<Box<dyn Counted>>;

    /// Returns its objects, to be read one by one from outside.
    ///
    /// # Errors
    /// They cannot be read so.
    fn objects(&self) -> Result<Box<dyn Objects + '_>>;

    /// The same when it ends and its agent has not counted.
    ///
    /// # Errors
    /// They cannot be read so.
    fn objects_at_end(&self) -> Result<Box<dyn Objects + '_>> {
        self.objects()
    }

    /// Whether the program is about to do something beside which births cannot be counted, and waits for us: until it has been counted, or
    /// let go.
    ///
    /// # Errors
    /// The control page cannot be read.
    fn awaits_last_count(&self) -> Result<bool> {
        Ok(false)
    }

    /// Lets a program that waits so go on without a count.
    ///
    /// # Errors
    /// The control page cannot be read.
    fn let_go(&mut self) -> Result<()> {
        Ok(())
    }

    /// Has the agent count births again, where it had stopped while no thread wanted its account.
    ///
    /// # Errors
    /// It did not come to a safe point in time.
    fn rise(&mut self) -> Result<()> {
        Ok(())
    }
}
