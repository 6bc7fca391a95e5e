//! Measures how long the VM's collector marks, by the events that the collector reports to hooks. Used by `jobs`.
//!
//! ```text
//!   ENTER  START ── marks ── EXIT   …the program…   ENTER ── marks ── END_MARK ── sweeps ── EXIT
//!            └───── counted ──┘                       └─ counted ─┘
//! ```
//!
//! A minor collection marks in one step; a full one may take many steps, between which the program runs. Sweeping
//! is not measured: it is done in small pieces whenever a slot is needed, and looks at no stack. The order of
//! events is the same from Ruby 2.7 to 4.0 (`gc_start`, `gc_marks_finish`, `gc_enter`, `gc_exit` in `gc.c`,
//! `gc/default.c`).

use crate::languages::ruby::births::agent::{AGENT, Agent};
use crate::languages::ruby::births::presence::stranger;
use crate::languages::ruby::vmcalls::{Vm, collector};
use crate::memory::follow::kept;
use crate::memory::sys;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::Ordering;
use wire::control_page::{COLLECT_FULL, COLLECT_MINOR};
use wire::ledger::KEPT;
use wire::{Collection, Ledger, Reply, State};

/// The key of `GC.stat` for the number of full collections.
const MAJOR: &[u8] = b":major_gc_count\0";
/// The expression for a minor collection, which every version understands.
const MINOR: &[u8] = b"::GC.start(full_mark: false, immediate_sweep: false)\0";

struct Clock {
    /// The symbol of [`MAJOR`], an immediate value.
    major: u64,
    /// The number of full collections at the end of the last marking, or when the watch began.
    majors: u64,
    /// Whether a collection is marking.
    marking: bool,
    /// When the current step of the collector began, in nanoseconds of CLOCK_MONOTONIC; 0 = the program runs.
    since: u64,
    /// Nanoseconds that the earlier steps of this marking took.
    nanos: u64,
}

static mut CLOCK: Clock = Clock {
    major: 0,
    majors: 0,
    marking: false,
    since: 0,
    nanos: 0,
};
static mut COLLECTIONS: [Collection; KEPT] = [Collection { nanos: 0, full: 0 }; KEPT];

/// Begins to time the collector's steps. The VM's lock is held, at a safe point.
pub fn watch(agent: &mut Agent, ledger: &mut Ledger) -> Reply {
    // SAFETY: the VM's lock is held, at a safe point, as `start` requires.
    if !unsafe { start(&agent.vm, ledger) } {
        return Reply::Refused;
    }
    agent.farewell = None;
    agent.presence.begin(&CONTROL_PAGE);
    agent.hook = Some(on_event);
    Reply::Done
}

/// Sets the hook, and returns whether the VM allowed it.
///
/// # Safety
/// The VM's lock is held, at a safe point.
unsafe fn start(vm: &Vm, ledger: &mut Ledger) -> bool {
    // SAFETY: the caller holds the VM's lock, at a safe point, as these functions require. `CLOCK` is used by the
    // hook only, which is set last.
    unsafe {
        let Some(major) = vm.evaluate(MAJOR) else {
            return false;
        };
        *(&raw mut CLOCK) = Clock {
            major,
            majors: vm.figure(major),
            marking: false,
            since: 0,
            nanos: 0,
        };
        ledger.collections = (&raw const COLLECTIONS) as u64;
        ledger.collected = 0;
        vm.add_collector_hook(on_event);
    }
    true
}

/// Makes the VM collect garbage. The VM's lock is held, at a safe point.
pub fn collect(argument: u64) -> Reply {
    // SAFETY: the VM's lock is held, under which alone `AGENT` is used. `vm` is copied, because finalizers may run
    // Ruby code and with it the hook.
    let vm = unsafe { (*(&raw const AGENT)).vm };
    // SAFETY: the VM's lock is held, at a safe point, as these functions require.
    let done = unsafe {
        match argument {
            COLLECT_MINOR => vm.evaluate(MINOR).is_some(),
            COLLECT_FULL => {
                vm.collect();
                true
            }
            _ => false,
        }
    };
    if done { Reply::Done } else { Reply::Refused }
}

/// Called by the VM at every step of its collector, with its lock held.
unsafe extern "C" fn on_event(_data: u64, arg: u64) {
    if CONTROL_PAGE.state.load(Ordering::Relaxed) != State::Open as u32 {
        return stranger();
    }
    let now = sys::now();
    // SAFETY: the VM calls the hook with its lock held, which admits one thread at a time. `arg` is the address of
    // a live `rb_trace_arg_t`, whose first word is the event.
    let (agent, ledger, clock, event) = unsafe {
        (
            &mut *(&raw mut AGENT),
            &mut *(&raw mut LEDGER),
            &mut *(&raw mut CLOCK),
            *kept::<u32>(arg),
        )
    };
    let step = match clock.since {
        0 => 0,
        since => now.saturating_sub(since),
    };
    match event {
        collector::ENTER => clock.since = now,
        collector::START => {
            (clock.marking, clock.nanos, clock.since) = (true, 0, now);
        }
        collector::END_MARK if clock.marking => {
            clock.marking = false;
            // SAFETY: the VM's lock is held, as `figure` requires, and `clock.major` is the symbol of a figure of
            // `GC.stat`.
            let majors = unsafe { agent.vm.figure(clock.major) };
            let full = u64::from(majors != clock.majors);
            clock.majors = majors;
            let nanos = clock.nanos + step;
            let at = ledger.collected as usize % KEPT;
            // SAFETY: `at` is less than [`KEPT`], the entries of `COLLECTIONS`, which the command only reads.
            unsafe {
                (&raw mut COLLECTIONS)
                    .cast::<Collection>()
                    .add(at)
                    .write(Collection { nanos, full })
            };
            ledger.collected += 1;
        }
        collector::EXIT => {
            if clock.marking {
                clock.nanos += step;
            }
            clock.since = 0;
            agent.look_round(&CONTROL_PAGE, ledger);
        }
        _ => {}
    }
}
