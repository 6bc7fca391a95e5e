//! What runs inside the guest.
//!
//! A position-independent program that is mapped, relocated and entered by crate `process` from
//! outside. It imports nothing, has no thread, no thread-local data and no allocator of the guest's;
//! what it needs of the VM are addresses, which stand in [`CONFIG`] before it runs.
//!
//! ```text
//!   borrowed thread ──► enter ──► "run this job"          any state of the guest, like a signal
//!   VM, at a safe point ──► job ──► watch, census, leave  with the VM's lock
//!   VM, at each birth ──► on_birth ──► books              with the VM's lock
//! ```
//!
//! | file | what |
//! |---|---|
//! | `arrive` | the way in for a program that we started |
//! | `watch` | the hook, moving objects, forks, a command that is gone |
//! | `books` | which row a birth belongs to |
//! | `slots` | the row's number per heap slot |
//! | `census` | the walk over the living |
//! | `collections` | how long the collector marks |
//! | `calls` | hooked functions: what they tell, on which line's behalf |
//! | `names` | the VM's structures as text |
//! | `vmcalls` | the VM's functions |
//! | `store`, `sys`, `builtins`, `guard` | what a program without libc brings along |

#![no_std]
#![no_main]

mod arrive;
mod books;
mod builtins;
mod calls;
mod census;
mod collections;
mod guard;
mod names;
mod slots;
mod store;
mod sys;
mod vmcalls;
mod watch;

use core::sync::atomic::{AtomicBool, Ordering};
use wire::board::enter::{LOCK, REGISTER, WAKE};
use wire::{Board, Config, Ledger, Reply, Request, Segments, State, ledger};

/// The page that a fork wipes.
#[unsafe(no_mangle)]
static BOARD: Board = Board::new();

/// Written by the command before [`enter`] is called.
#[unsafe(no_mangle)]
static mut CONFIG: Config = NO_CONFIG;

/// Read by the command.
#[unsafe(no_mangle)]
static mut LEDGER: Ledger = Ledger {
    sites: Segments::new(ledger::SITES),
    frames: Segments::new(ledger::FRAMES),
    kinds: Segments::new(ledger::KINDS),
    stacks: Segments::new(ledger::STACKS),
    text: Segments::new(ledger::TEXT),
    entries: 0,
    entry_count: 0,
    slot_roots: 0,
    page_shift: 0,
    site_counts: 0,
    site_count: 0,
    kind_counts: 0,
    kind_count: 0,
    gc_nanos: 0,
    walk_nanos: 0,
    garbage: 0,
    lost_memory: 0,
    unbooked: 0,
    unsized_objects: 0,
    mapped: 0,
    slots: 0,
    moved: 0,
    collections: 0,
    collected: 0,
};

static mut AGENT: watch::Agent = watch::Agent::new();

/// A signal number Linux never sends (SIGSTKFLT), for which nobody sets a trap.
const UNUSED_SIGNAL: i32 = 16;

/// Called by a borrowed thread, wherever that stood: does only what a signal handler may do; with
/// [`LOCK`], where it stood in a system call that the VM itself made or had made without its lock.
#[unsafe(no_mangle)]
extern "C" fn enter(what: u64) -> u64 {
    // SAFETY: the command wrote the configuration while no thread ran here.
    let config = unsafe { *(&raw const CONFIG) };
    let calls = vmcalls::Calls(config.functions);
    if what & LOCK != 0 {
        // SAFETY: the command saw that the thread is in a blocking region, from where this may be called.
        unsafe { calls.with_lock(locked_job, 0) };
    }
    if what & REGISTER != 0 {
        // SAFETY: the function may be called from signal handlers; `job` lives for ever.
        unsafe { calls.register_job(0, job, 0) };
    }
    if what & WAKE != 0 && config.waker != 0 {
        // SAFETY: the command found the VM's own signal handler here.
        unsafe {
            let waker: unsafe extern "C" fn(i32) = core::mem::transmute(config.waker);
            waker(UNUSED_SIGNAL);
        }
    }
    0
}

/// Called by the VM at a safe point, with its lock held.
///
/// How often it is called is nothing we may rely on: up to Ruby 3.2 a job registered while the VM takes
/// jobs off its table may run twice, or once more long after (`rb_postponed_job_flush`, `vm_trace.c`), and
/// the command asks again when no answer comes. So a call carries nothing: what is to be done stands on the
/// board, each request under a number that the answer repeats, and whoever comes second finds it answered.
#[unsafe(no_mangle)]
unsafe extern "C" fn job(_: u64) {
    if BOARD.state.load(Ordering::Acquire) != State::Open as u32 {
        return;
    }
    let asked = BOARD.asked.load(Ordering::Acquire);
    if asked == BOARD.answered.load(Ordering::Relaxed) {
        return;
    }
    // A collection runs finalizers, in which another thread may come by here.
    if AT_WORK.swap(true, Ordering::Relaxed) {
        return;
    }
    let request = BOARD.request.load(Ordering::Relaxed);
    let reply = if request == Request::Watch as u32 {
        guarded(watch)
    } else if request == Request::Census as u32 {
        census::take(BOARD.argument.load(Ordering::Relaxed))
    } else if request == Request::Leave as u32 {
        guarded(leave)
    } else if request == Request::Collect as u32 {
        collections::collect(BOARD.argument.load(Ordering::Relaxed))
    } else {
        Reply::Refused
    };
    BOARD.reply.store(reply as u32, Ordering::Relaxed);
    BOARD.answered.store(asked, Ordering::Release);
    AT_WORK.store(false, Ordering::Relaxed);
}

/// A job is being done.
static AT_WORK: AtomicBool = AtomicBool::new(false);

/// Does `work`; a panic in it is a refusal.
fn guarded(work: extern "C" fn(u64) -> u64) -> Reply {
    // SAFETY: the work owns nothing, and the VM's functions it calls do not call back.
    match unsafe { guard::guarded(work, 0) } {
        done if done == Reply::Done as u64 => Reply::Done,
        none if none == Reply::NoMemory as u64 => Reply::NoMemory,
        _ => Reply::Refused,
    }
}

unsafe extern "C" fn locked_job(_: u64) -> u64 {
    // SAFETY: the VM has given this thread its lock for the call.
    unsafe { job(0) };
    0
}

extern "C" fn watch(_: u64) -> u64 {
    // SAFETY: the VM's lock is held.
    let (agent, ledger, config) = unsafe {
        (
            &mut *(&raw mut AGENT),
            &mut *(&raw mut LEDGER),
            *(&raw const CONFIG),
        )
    };
    (ledger.lost_memory, ledger.unbooked, ledger.moved) = (0, 0, 0);
    let reply = agent.watch(&BOARD, ledger, config);
    BOARD
        .hooked
        .store(u32::from(agent.hooked), Ordering::Relaxed);
    reply as u64
}

extern "C" fn leave(_: u64) -> u64 {
    // SAFETY: the VM's lock is held.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    agent.leave(ledger);
    BOARD.hooked.store(0, Ordering::Relaxed);
    BOARD.state.store(State::Quiet as u32, Ordering::Relaxed);
    Reply::Done as u64
}

/// No address is known yet.
const NO_CONFIG: Config = Config {
    session: 0,
    functions: wire::board::Functions::NONE,
    facts: [0; wire::board::FACTS],
    depth: 1,
    follow: 0,
    beat_ticks: 0,
    ractor_class: 0,
    census_at_end: 0,
    end_argument: 0,
    waker: 0,
    collections: 0,
};
