//! Writing into the pipe of the child, for as long as somebody reads. Used by `child`,
//! `languages::ruby::snapshot::compact`, `allocator` and others.

use crate::memory::sys::{self, alarm, child};
use core::sync::atomic::{AtomicU64, Ordering};

/// Seconds without a sign of life of the child's own, after which it looks whether somebody still reads, and ends if not. That may be
/// because it gets no processor; whether it hangs, the command decides.
const ALARM: u64 = 4;

/// Nanoseconds after which the child ends in any case: a command that is stopped (a terminal's stop, a frozen control group) still holds the
/// pipe, and each page that the program writes meanwhile takes memory twice. The command itself waits for two minutes at most.
const LIFE: u64 = 300_000_000_000;

/// When the child ends in any case.
static END: AtomicU64 = AtomicU64::new(0);

/// The writing end.
static WRITE: AtomicU64 = AtomicU64::new(0);

/// The child's life begins. Until the command has opened the pipe, the alarm ends it.
pub fn begin() {
    END.store(sys::now() + LIFE, Ordering::Relaxed);
    child::alarm(ALARM);
}

/// The command has opened the pipe, and the child holds only its writing end: from now on the alarm looks for a reader.
pub fn is_open(write: u64) {
    WRITE.store(write, Ordering::Relaxed);
    alarm::calls(look);
    go_on();
}

extern "C" fn look(_: i32) {
    if !child::has_reader(WRITE.load(Ordering::Relaxed), false, 0) {
        child::end(0);
    }
    go_on();
}

/// A sign of life: the child goes on, unless its time is up.
pub fn go_on() {
    if sys::now() > END.load(Ordering::Relaxed) {
        child::end(0);
    }
    child::alarm(ALARM);
}

/// Writes all of it into the pipe; ends the child if nobody reads.
pub fn send(write: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        go_on();
        match child::write(write, bytes) {
            Some(0) if child::has_reader(write, true, 1000) => {}
            Some(written @ 1..) => bytes = &bytes[written.min(bytes.len())..],
            _ => child::end(0),
        }
    }
}
