//! Posts notices to the command, and mostly waits for its answer (`wire::notices`): before the process ends or runs
//! another program, so that no record is lost with its memory; in a child of fork, so that it is followed from its first
//! call; when an IFUNC has picked a function, so that this is hooked before it is called. Used by `call`, `children`,
//! `locks` and others.
//!
//! Every wait ends: when the notice is answered, when the time is over, or when the command is gone or leaves.

use super::session::{self, calls};
use super::wait::Wait;
use super::{locks, pulse};
use crate::memory::sys;
use crate::shared::CONTROL_PAGE;
use core::sync::atomic::Ordering;
use routine::frame::Frame;
use wire::calls::want;
use wire::notices::{FREE, Notice, TAKEN, notice};

/// Posts that the process ends with this exit code, and waits until the command has read all records. With `-S` both
/// `_exit` and the system call that it makes come here, because programs may make that call themselves.
pub fn ends(code: u64) {
    let pid = sys::process_id();
    // A child of vfork works in its parent's memory.
    if u64::from(pid) == calls().pid && calls().most_wait != 0 {
        post((notice::ENDS, code, 0), pid, true);
    }
}

/// Posts that the thread is about to make a system call after which hooks may end it; `program` as in [`notice::LOCKS`].
/// When this returns, the command has left the process, or has found that hooks do no harm, or the gate is closed.
#[cold]
pub fn locks(program: u64) {
    let pid = sys::process_id();
    let session = session::number();
    if session == 0 {
        return;
    }
    // While a child of vfork runs, its parent cannot be stopped.
    let ours = u64::from(pid) == calls().pid;
    if !post((notice::LOCKS, program, 0), pid, ours) || !ours {
        let order = Ordering::Relaxed;
        let gate = &CONTROL_PAGE.calls;
        let _ = gate.compare_exchange(session, 0, order, order);
    }
}

/// Handles the call of a function that is hooked for one of the reasons above. Returns whether its return is wanted.
pub fn at_call(frame: &Frame, wanted: u64) -> u64 {
    let pid = sys::process_id();
    let ours = u64::from(pid) == calls().pid;
    if wanted & want::ENDS != 0 {
        ends(frame.rdi);
    }
    if wanted & want::SCRIPT != 0 && ours {
        post((notice::SCRIPT, 0, 0), pid, true);
        // This does what the command wants done before the script's first line. The command requests it while this thread
        // waits above (`lancet mem`); without a request nothing is done.
        // SAFETY: the command wants `SCRIPT` of the one function that the program's `main` calls when the VM is made
        // (`vm::language::Description::entry`), on the main thread, which holds the VM's lock.
        unsafe { crate::jobs::at_script() };
    }
    if wanted & want::EXECS != 0 && (ours || calls().follow != 0) {
        post((notice::EXEC, 0, 0), pid, true);
    }
    // The routine tests the lower half of the result.
    u64::from(wanted & (want::EXECS | want::FORKS | want::PICKS) != 0)
}

/// Handles the return of the function that is hooked at `place`. It returned `result`, and the gate was open for `session`
/// when it was called.
pub fn at_return((wanted, place): (u64, u64), session: u32, result: u64) {
    let heard = session::number() == session;
    if wanted & want::EXECS != 0 && heard {
        let said = (notice::EXEC_FAILED, 0, 0);
        post(said, sys::process_id(), false);
    }
    if wanted & want::PICKS != 0 && heard {
        let pid = sys::process_id();
        // While a child of vfork runs, its parent cannot be stopped.
        if u64::from(pid) == calls().pid {
            post((notice::PICKED, result, place), pid, true);
        }
    }
}

/// Posts that the process has made a child in which hooks are wanted.
pub fn forks(child: u64) {
    post((notice::FORK, child, 0), sys::process_id(), false);
}

/// Posts a notice, waits for the answer if `waits`, and returns whether it came. A [`notice::LOCKS`] without an answer
/// stays in its slot for a command that comes back.
fn post((kind, value, place): (u32, u64, u64), pid: u32, waits: bool) -> bool {
    let is_lock = kind == notice::LOCKS;
    if !is_lock && locks::are_there() {
        return false;
    }
    let session = session::number();
    let reads_counter = !is_lock || sys::reads_counter();
    let mut wait = if reads_counter {
        Wait::new(calls().patience)
    } else {
        Wait::without_counter()
    };
    // A thread that is about to give up rights waits until the command has left, which begins with the end of the session.
    let waits_longer = is_lock;
    let mut goes_on = || {
        let here = waits_longer || session::number() == session;
        // `pulse::lives` reads the counter to close the gate; a thread that must not read it has a shorter wait instead.
        here && (!reads_counter || pulse::lives()) && wait.goes_on()
    };
    let slot = loop {
        if let Some(slot) = take() {
            break slot;
        }
        if !goes_on() {
            return false;
        }
    };
    slot.kind.store(kind, Ordering::Relaxed);
    slot.pid.store(pid, Ordering::Relaxed);
    slot.tid.store(sys::thread_id(), Ordering::Relaxed);
    slot.value.store(value, Ordering::Relaxed);
    slot.place.store(place, Ordering::Relaxed);
    let number = loop {
        let number = CONTROL_PAGE
            .news
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1);
        if number != FREE && number != TAKEN {
            break number;
        }
    };
    slot.state.store(number, Ordering::Release);
    // The command looks at the slots when this number changes, and it may have looked at this slot too early.
    CONTROL_PAGE.news.fetch_add(1, Ordering::Release);
    while waits && slot.state.load(Ordering::Acquire) == number {
        if !goes_on() {
            if !waits_longer {
                let _ =
                    slot.state
                        .compare_exchange(number, FREE, Ordering::AcqRel, Ordering::Relaxed);
            }
            return false;
        }
    }
    true
}

fn take() -> Option<&'static Notice> {
    CONTROL_PAGE.notices.iter().find(|slot| {
        slot.state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    })
}
