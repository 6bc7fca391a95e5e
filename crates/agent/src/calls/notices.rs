//! What is said at once, and mostly waited for (`wire::notices`): before the process ends or runs another program, so
//! that nothing it told is lost with its memory; in a child of fork, so that it is followed from its first call; when an
//! IFUNC has picked a function, so that it is hooked before it is called.
//!
//! Every wait ends: when it was heard, when it has lasted for too long, when the command is gone or leaves.

use super::lane::{self, Record};
use super::pulse;
use crate::sys;
use core::sync::atomic::Ordering;
use routine::frame::Frame;
use wire::Board;
use wire::calls::{Calls, kind, want};
use wire::notices::{FREE, Notice, TAKEN, notice};

/// Between two looks, in nanoseconds.
const PAUSE: u64 = 50_000;
/// Looks between two at the command's process: a child, whose board was wiped, cannot hear its beat.
const LOOKS: u32 = 16;

/// A wait, which ends.
struct Wait<'a> {
    calls: &'a Calls,
    began: u64,
    most: u64,
    looks: u32,
}

impl<'a> Wait<'a> {
    /// Of at most so many cycles.
    fn new(calls: &'a Calls, most: u64) -> Self {
        Wait {
            calls,
            began: sys::ticks(),
            most,
            looks: 0,
        }
    }

    /// Waits for a moment; whether it is worth waiting on.
    fn goes_on(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let owner = self.calls.owner;
        if sys::ticks().wrapping_sub(self.began) > self.most
            || owner != 0 && self.looks.is_multiple_of(LOOKS) && !sys::is_process(owner)
        {
            return false;
        }
        // What is not soon may take long.
        sys::pause(PAUSE << (self.looks / LOOKS).min(5));
        true
    }
}

/// A function that is hooked for one of the reasons above is called; whether its return is wanted.
pub fn at_call(calls: &Calls, board: &Board, frame: &Frame, wanted: u64) -> u64 {
    let pid = sys::process_id();
    let ours = u64::from(pid) == calls.pid;
    // What a child of vfork does, it does in its parent's memory.
    if wanted & want::ENDS != 0 && ours && calls.most_wait != 0 {
        post(calls, board, (notice::ENDS, frame.rdi, 0), pid, true);
    }
    if wanted & want::SCRIPT != 0 && ours {
        post(calls, board, (notice::SCRIPT, 0, 0), pid, true);
    }
    if wanted & want::EXECS != 0 && (ours || calls.follow != 0) {
        post(calls, board, (notice::EXEC, 0, 0), pid, true);
    }
    // The routine looks at the lower half.
    u64::from(wanted & (want::EXECS | want::FORKS | want::PICKS) != 0)
}

/// What is hooked at `place` has returned `result`, to where the gate was open for `session`.
pub fn at_return(
    calls: &Calls,
    board: &Board,
    (wanted, place): (u64, u64),
    session: u32,
    result: u64,
) {
    let heard = board.calls.load(Ordering::Relaxed) == session;
    if wanted & want::EXECS != 0 && heard {
        let said = (notice::EXEC_FAILED, 0, 0);
        post(calls, board, said, sys::process_id(), false);
    }
    if wanted & want::PICKS != 0 && heard {
        let pid = sys::process_id();
        // While a child of vfork runs, its parent cannot be stopped.
        if u64::from(pid) == calls.pid {
            post(calls, board, (notice::PICKED, result, place), pid, true);
        }
    }
    if wanted & want::FORKS == 0 || calls.follow == 0 || result as i64 == -1 {
        return;
    }
    if result != 0 {
        if heard {
            tell_fork(calls, board, result);
            let said = (notice::FORK, result, 0);
            post(calls, board, said, sys::process_id(), false);
        }
    } else if session != 0 {
        until_followed(calls, board);
    }
}

/// The child has a copy of the calls that are open here: where, is told in the lane.
fn tell_fork(calls: &Calls, board: &Board, child: u64) {
    let Some(lane) = lane::mine(calls, board) else {
        return;
    };
    if let Some(record) = Record::begin(lane, calls, board, kind::FORK, 2) {
        record.word(0, child);
        record.word(1, sys::ticks());
        record.end();
    }
}

/// In a child: until the command has opened it.
fn until_followed(calls: &Calls, board: &Board) {
    let mut wait = Wait::new(calls, calls.child_patience);
    while board.calls.load(Ordering::Acquire) == 0 {
        // The command cannot follow it, and says so.
        let refused = calls.refused.load(Ordering::Relaxed) != 0;
        if refused || !wait.goes_on() {
            calls.late.store(1, Ordering::Relaxed);
            return;
        }
    }
    // The same thread pointer, another thread: says so.
    lane::mine(calls, board);
}

/// Posts a notice, and waits to be heard if it is one to wait for.
fn post(
    calls: &Calls,
    board: &Board,
    (kind, value, place): (u32, u64, u64),
    pid: u32,
    waits: bool,
) {
    let session = board.calls.load(Ordering::Relaxed);
    let mut wait = Wait::new(calls, calls.patience);
    let mut goes_on =
        || board.calls.load(Ordering::Relaxed) == session && pulse::lives(board) && wait.goes_on();
    let slot = loop {
        if let Some(slot) = take(board) {
            break slot;
        }
        if !goes_on() {
            return;
        }
    };
    slot.kind.store(kind, Ordering::Relaxed);
    slot.pid.store(pid, Ordering::Relaxed);
    slot.tid.store(sys::thread_id(), Ordering::Relaxed);
    slot.value.store(value, Ordering::Relaxed);
    slot.place.store(place, Ordering::Relaxed);
    let number = loop {
        let number = board.news.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if number != FREE && number != TAKEN {
            break number;
        }
    };
    slot.state.store(number, Ordering::Release);
    // The command looks at the slots when the number has changed, and this one may have been looked at too early.
    board.news.fetch_add(1, Ordering::Release);
    while waits && slot.state.load(Ordering::Acquire) == number {
        if !goes_on() {
            let _ = slot
                .state
                .compare_exchange(number, FREE, Ordering::AcqRel, Ordering::Relaxed);
            return;
        }
    }
}

fn take(board: &Board) -> Option<&Notice> {
    board.notices.iter().find(|slot| {
        slot.state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    })
}
