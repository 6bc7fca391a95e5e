//! One stop for one piece of work, with the main thread borrowed; and writing much in few calls.

use super::Timing;
use crate::borrow::{Borrowed, Gadgets};
use crate::error::{Error, Result};
use crate::guest::{self, Status};
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::seccomp;
use crate::stop::{Stop, Ties};
use std::time::Instant;

/// Does `work` while all threads stand still, with the main thread borrowed; again, if it stood badly.
pub fn stopped<T>(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    ties: Ties,
    timing: &mut Timing,
    mut work: impl FnMut(&mut Stop, &mut Borrowed) -> Result<T>,
) -> Result<T> {
    let pid = status.pid;
    let mut tries = 0;
    loop {
        let done = once(status, memory, gadgets, ties, timing, &mut work);
        match done {
            Err(error) if tries < guest::TRIES && error.may_pass() => {
                tries += 1;
                std::thread::sleep(guest::PAUSE);
            }
            Err(_) if !status.is_current() => return Err(Error::Gone(pid)),
            done => return done,
        }
    }
}

fn once<T>(
    status: &Status,
    memory: &GuestMemory,
    gadgets: Gadgets,
    ties: Ties,
    timing: &mut Timing,
    work: &mut impl FnMut(&mut Stop, &mut Borrowed) -> Result<T>,
) -> Result<T> {
    let pid = status.pid;
    let maps = Maps::of(pid)?;
    let began = Instant::now();
    let mut stop = Stop::main(pid, ties)?;
    stop.rest()?;
    if !status.is_current() {
        return Err(Error::Gone(pid));
    }
    if status.seccomp != 0 {
        seccomp::check(pid, pid, &seccomp::OF_HOOKS)?;
    }
    let low = |sp| maps.find(sp).map(|mapping| mapping.start);
    let mut borrowed = Borrowed::new(pid, memory, gadgets, low)?;
    let done = work(&mut stop, &mut borrowed);
    let back = borrowed.give_back();
    drop(stop);
    let stood = began.elapsed();
    timing.stops += 1;
    timing.stopped += stood;
    timing.longest_stop = timing.longest_stop.max(stood);
    let done = done?;
    back.map(|()| done)
}

/// Bytes to be written, joined where they touch: a stop is as long as its system calls are many.
#[derive(Default)]
pub struct Writes(Vec<(u64, Vec<u8>)>);

impl Writes {
    /// Adds some.
    pub fn add(&mut self, at: u64, bytes: Vec<u8>) {
        match self.0.last_mut() {
            Some((start, before)) if *start + before.len() as u64 == at => before.extend(bytes),
            _ => self.0.push((at, bytes)),
        }
    }

    /// Writes all of them.
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
