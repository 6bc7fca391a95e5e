//! One stop for one piece of work, of all threads or of the main one, which is ready for remote calls; and writing much in few
//! system calls.

use crate::wanted::Timing;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::seccomp;
use process::error::{Error, Result};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties};
use process::tries::Tries;

/// The process that is to stand still, and how its main thread is tied to us.
#[derive(Clone, Copy, Debug)]
pub struct Standstill<'a> {
    /// The process; another one that has its id by now is not stopped.
    pub status: &'a Status,
    /// The memory of the process.
    pub memory: &'a GuestMemory,
    /// Instructions in it that remote calls use.
    pub gadgets: Gadgets,
    /// How its main thread is tied to us.
    pub ties: Ties,
    /// Which of its threads stand still.
    pub threads: Threads,
}

/// Which threads of a process stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// All, for work on code that any of them may run.
    All,
    /// The main one, which makes remote calls for us, and runs nothing of ours afterwards but what they ask for.
    Main,
}

impl Standstill<'_> {
    /// Does `work` while those threads stand still, and adds to `timing` how long that was. `work` is begun again where a
    /// thread stood badly, and the stop where another lancet has the process stopped ([`Tries`]).
    pub fn run<T>(
        self,
        timing: &mut Timing,
        mut work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let pid = self.status.pid;
        let mut tries = Tries::begin();
        loop {
            match self.once(timing, &mut work) {
                Err(error) if tries.again(&error) => {}
                Err(_) if !self.status.is_current() => return Err(Error::Gone(pid)),
                done => return done,
            }
        }
    }

    fn once<T>(
        self,
        timing: &mut Timing,
        work: &mut impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let pid = self.status.pid;
        let maps = Maps::of(pid)?;
        let (mut stop, calls) = match self.threads {
            Threads::All => (Stop::all(pid, self.ties)?, &seccomp::OF_HOOKS[..]),
            Threads::Main => (Stop::main(pid, self.ties)?, &[][..]),
        };
        if !self.status.is_current() {
            return Err(Error::Gone(pid));
        }
        if self.status.seccomp != 0 {
            seccomp::check(pid, pid, calls)?;
        }
        let mut remote = RemoteThread::new(pid, self.memory, self.gadgets, &maps)?;
        let done = work(&mut stop, &mut remote);
        let back = remote.give_back();
        let stood = stop.release();
        timing.stops += 1;
        timing.stopped += stood;
        timing.longest_stop = timing.longest_stop.max(stood);
        let done = done?;
        back.map(|()| done)
    }
}

/// Bytes to be written. Those that touch are joined, because each write is a system call, and all threads wait for it.
#[derive(Default)]
pub(crate) struct Writes(Vec<(u64, Vec<u8>)>);

impl Writes {
    /// Adds bytes for address `at`.
    pub fn add(&mut self, at: u64, bytes: Vec<u8>) {
        match self.0.last_mut() {
            Some((start, before)) if *start + before.len() as u64 == at => before.extend(bytes),
            _ => self.0.push((at, bytes)),
        }
    }

    /// Writes all of them, by rising address.
    pub fn write(mut self, memory: &GuestMemory) -> Result<()> {
        self.0.sort_by_key(|(at, _)| *at);
        let mut joined = Writes::default();
        for (at, bytes) in self.0 {
            joined.add(at, bytes);
        }
        joined
            .0
            .iter()
            .try_for_each(|(at, bytes)| memory.write(*at, bytes))
    }
}
