//! Handles the command's requests to a Ruby, and decides which thread of the guest does the work. Used by `ruby`.
//!
//! ```text
//!   thread in a remote call ──► enter ──► rb_postponed_job_register_one   anywhere, like a signal handler
//!   VM, at a safe point ──────► job ────► watch, census, leave, …   with the VM's lock
//! ```

use super::births::agent::AGENT;
use super::births::census;
use super::snapshot::HEAP;
use super::vmcalls::Vm;
use super::{collections, evaluation};
use crate::at_work::{begin, end};
use crate::shared::{BORROWED, CONFIG, CONTROL_PAGE, LEDGER};
use crate::{guard, snapshot};
use core::sync::atomic::Ordering;
use wire::control_page::enter::{LOCK, REGISTER, WAKE};
use wire::{Purpose, Reply, Request, State};

/// A signal number that Linux never sends (SIGSTKFLT), for which no program sets a trap.
const UNUSED_SIGNAL: i32 = 16;

/// A borrowed thread calls this, wherever it was stopped, so it does only what a signal handler may do. With
/// [`LOCK`] the thread must have been stopped in a system call that the VM itself made, or had made, without its
/// lock.
pub fn enter(what: u64) {
    // SAFETY: the command writes `CONFIG` only while no thread runs here; it is copied.
    let config = unsafe { *(&raw const CONFIG) };
    let vm = Vm::of(&config);
    if what & LOCK != 0 {
        // SAFETY: the command requests [`LOCK`] only of a thread in a blocking region without the VM's lock, from
        // where this function may be called.
        unsafe { vm.with_lock(locked_job, 0) };
    }
    if what & REGISTER != 0 {
        // SAFETY: the function may be called from signal handlers, and `job` is in the agent's image, which is
        // never unmapped.
        unsafe { vm.register_job(0, job, 0) };
    }
    if what & WAKE != 0 && config.waker != 0 {
        // SAFETY: the command has found the VM's own signal handler at this address, which has this prototype.
        unsafe {
            let waker: unsafe extern "C" fn(i32) = core::mem::transmute(config.waker);
            waker(UNUSED_SIGNAL);
        }
    }
}

/// The main thread of a Ruby that lancet has started calls this before the script begins.
///
/// # Safety
/// It is the main thread, which is about to run the script and has the VM's lock ([`crate::jobs::at_script`]).
pub unsafe fn at_script() {
    // SAFETY: the caller is the program's main thread, which holds the VM's lock. `ruby_run_node`, where it stands, is called by `main`
    // when the VM is made. It is not called from within the VM, so the place is as good as the safe point of a job.
    unsafe { job(0) };
}

/// The VM calls this at a safe point, with its lock held.
///
/// The number of calls is not reliable: up to Ruby 3.2 a job that is registered while the VM takes jobs off its
/// table may run twice, or once more long after (`rb_postponed_job_flush`, `vm_trace.c`), and the command repeats
/// a request when no answer comes. So a call has no arguments: the control page says what to do, each request
/// under a number that the answer repeats, and a second call finds the request answered.
unsafe extern "C" fn job(_: u64) {
    // A collection runs finalizers, and evaluated code lets other threads run: this function may be called again meanwhile.
    let Some(asked) = begin() else { return };
    let request = CONTROL_PAGE.request.load(Ordering::Relaxed);
    let reply = if request == Request::Watch as u32 {
        guarded(watch)
    } else if request != Request::Leave as u32 && !knows_vm() {
        Reply::Refused
    } else if request == Request::Census as u32 {
        census::take(CONTROL_PAGE.argument.load(Ordering::Relaxed))
    } else if request == Request::Leave as u32 {
        guarded(leave)
    } else if request == Request::Collect as u32 {
        collections::collect(CONTROL_PAGE.argument.load(Ordering::Relaxed))
    } else if request == Request::Rise as u32 {
        guarded(rise)
    } else if request == Request::Evaluate as u32 {
        evaluation::evaluate()
    } else if request == Request::Snapshot as u32 {
        snapshot::take(Some(&HEAP))
    } else {
        Reply::Refused
    };
    end(asked, reply);
}

/// Whether this session has handed over the VM ([`watch`]). Until then the agent has no addresses of the VM's functions, or those of a
/// session before, so nothing may be done that calls one.
fn knows_vm() -> bool {
    // SAFETY: `job` calls this with the VM's lock held, under which alone `AGENT` is used, and the command writes `CONFIG` only while
    // no thread runs here; both are copied.
    let (known, session) = unsafe {
        (
            (*(&raw const AGENT)).config.session,
            (*(&raw const CONFIG)).session,
        )
    };
    session != 0 && known == session
}

/// Does `work`; a panic in it counts as a refusal.
fn guarded(work: extern "C" fn(u64) -> u64) -> Reply {
    // SAFETY: the work owns nothing that a panic would leak, and the VM's functions that it calls do not call
    // back.
    match unsafe { guard::guarded(work, 0) } {
        done if done == Reply::Done as u64 => Reply::Done,
        none if none == Reply::NoMemory as u64 => Reply::NoMemory,
        _ => Reply::Refused,
    }
}

unsafe extern "C" fn locked_job(_: u64) -> u64 {
    BORROWED.store(true, Ordering::Relaxed);
    // SAFETY: the VM calls this with its lock held, on a thread that was in a blocking region, which is a safe
    // point.
    unsafe { job(0) };
    BORROWED.store(false, Ordering::Relaxed);
    0
}

extern "C" fn watch(_: u64) -> u64 {
    // SAFETY: `job` runs this with the VM's lock held, under which alone the statics are used, and keeps no
    // reference to them.
    let (agent, ledger, config) = unsafe {
        (
            &mut *(&raw mut AGENT),
            &mut *(&raw mut LEDGER),
            *(&raw const CONFIG),
        )
    };
    (ledger.lost_memory, ledger.unbooked, ledger.moved) = (0, 0, 0);
    if agent.hook.is_some() || ledger.rests != 0 {
        // The last command died, and the agent has not noticed that yet.
        agent.leave(ledger);
    }
    guard::begin_anew();
    agent.vm = Vm::of(&config);
    agent.config = config;
    let reply = if agent.names.open(&config.facts).is_err() {
        Reply::Refused
    } else if [Purpose::Evaluation, Purpose::Snapshot]
        .map(|it| it as u64)
        .contains(&config.purpose)
    {
        Reply::Done
    } else if config.purpose == Purpose::Collections as u64 {
        collections::watch(agent, ledger)
    } else {
        agent.watch(&CONTROL_PAGE, ledger)
    };
    CONTROL_PAGE
        .hooked
        .store(u32::from(agent.hook.is_some()), Ordering::Relaxed);
    reply as u64
}

extern "C" fn rise(_: u64) -> u64 {
    // SAFETY: `job` runs this with the VM's lock held, under which alone the statics are used, and keeps no
    // reference to them.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    if ledger.rests != 0 && !agent.rise(&CONTROL_PAGE, ledger) {
        return Reply::Refused as u64;
    }
    Reply::Done as u64
}

extern "C" fn leave(_: u64) -> u64 {
    // SAFETY: `job` runs this with the VM's lock held, under which alone the statics are used, and keeps no
    // reference to them.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    agent.leave(ledger);
    snapshot::reap();
    CONTROL_PAGE.hooked.store(0, Ordering::Relaxed);
    CONTROL_PAGE
        .state
        .store(State::Quiet as u32, Ordering::Relaxed);
    Reply::Done as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at_work::tests::PAGE;

    /// The command that opened a started program asks for a count before the program has come to a safe point at all: the addresses of the
    /// VM's functions are not there, and to call one would end the program.
    #[test]
    fn what_needs_the_vm_is_refused_before_it_was_handed_over() {
        let _one = PAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the lock is held, under which alone tests use these statics.
        unsafe { (*(&raw mut CONFIG)).session = 7 };
        CONTROL_PAGE
            .state
            .store(State::Open as u32, Ordering::Relaxed);
        for (number, request) in [
            Request::Census,
            Request::Collect,
            Request::Rise,
            Request::Evaluate,
            Request::Snapshot,
        ]
        .into_iter()
        .enumerate()
        {
            let asked = number as u32 + 1;
            CONTROL_PAGE
                .request
                .store(request as u32, Ordering::Relaxed);
            CONTROL_PAGE.asked.store(asked, Ordering::Relaxed);
            // SAFETY: nothing of a VM is called, as the test is to show.
            unsafe { job(0) };
            assert_eq!(CONTROL_PAGE.answered.load(Ordering::Relaxed), asked);
            let reply = CONTROL_PAGE.reply.load(Ordering::Relaxed);
            assert_eq!(reply, Reply::Refused as u32, "{request:?}");
        }
        CONTROL_PAGE
            .state
            .store(State::Quiet as u32, Ordering::Relaxed);
    }
}
