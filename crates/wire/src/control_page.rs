//! How a resident agent is found, what the command tells it once, and what it asks of it.

use crate::notices::{NOTICES, Notice};
use crate::ruby::Functions;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Routines of an agent that stubs jump to.
pub const ROUTINES: usize = 5;

/// Stands at the start of the agent's mapping, read-only for the guest; written and read by the
/// command alone.
///
/// A resident agent is found again by looking for this header at the start of the guest's anonymous
/// read-only mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// [`crate::MAGIC`].
    pub magic: [u8; 8],
    /// [`crate::VERSION`] of the command that mapped it.
    pub version: u32,
    /// 0 while the image is being written, 1 when it is whole. A command that died in between left 0
    /// and the next one writes the image again, in the same place.
    pub whole: u32,
    /// Hash of the agent's file: agents of two builds are not mixed.
    pub build: u64,
    /// Bytes of the whole mapping, header page included.
    pub size: u64,
    /// Address of the [`ControlPage`].
    pub control_page: u64,
    /// Address of the [`Config`].
    pub config: u64,
    /// Address of the [`crate::Ledger`].
    pub ledger: u64,
    /// Address of the function that a borrowed thread calls: `extern "C" fn(u64) -> u64`, told by [`enter`](mod@enter).
    pub enter: u64,
    /// Address of the [`crate::calls::Calls`].
    pub calls: u64,
    /// Address of the function that makes ready what `calls` says: `extern "C" fn(u64) -> u64`.
    pub open_calls: u64,
    /// Addresses of the code that stubs jump to: call-through, probe, and the answers to `_Unwind_Find_FDE`, `_dl_find_object`
    /// and `dl_iterate_phdr`.
    pub routines: [u64; ROUTINES],
}

/// Who is using the agent and what it does, as numbers in [`ControlPage::state`].
///
/// A forked child reads 0, [`State::Quiet`], because the kernel wiped its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nobody is here; hooks that are still called return at once.
    Quiet = 0,
    /// A command owns the agent; births are counted if the hook is in.
    Open = 1,
}

/// What the command wants done by a guest thread that holds the VM's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// Nothing.
    None = 0,
    /// Set the hook and count from now on.
    Watch = 1,
    /// Walk the heap and fill [`Counts`](crate::Counts).
    Census = 2,
    /// Take the hook out, give all memory back, go quiet.
    Leave = 3,
    /// Have the VM collect garbage: [`COLLECT_MINOR`] or [`COLLECT_FULL`].
    Collect = 4,
}

/// Argument of [`Request::Collect`]: young objects only.
pub const COLLECT_MINOR: u64 = 1;
/// Argument of [`Request::Collect`]: all objects. 0 = where the thread stands no collection may be run.
pub const COLLECT_FULL: u64 = 2;

/// What a borrowed thread is told when it enters the agent ([`Header::enter`]): bits of the argument.
pub mod enter {
    /// Ask the VM for the job.
    pub const REGISTER: u64 = 1;
    /// Wake the VM's main thread.
    pub const WAKE: u64 = 2;
    /// The thread blocks without the VM's lock; take it and do the job.
    pub const LOCK: u64 = 4;
}

/// How the last request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reply {
    /// Done.
    Done = 1,
    /// The agent could not map the memory it needs.
    NoMemory = 2,
    /// The VM refused (a call that must succeed failed).
    Refused = 3,
}

/// Why an agent left without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Farewell {
    /// The heartbeat stood still: nobody reads any more.
    Alone = 1,
    /// The program is making a Ractor, which this VM does not bear beside a birth hook.
    Ractor = 2,
    /// A fault of the agent's own.
    Broken = 3,
}

/// The control page: one page, `MADV_WIPEONFORK`.
///
/// The command writes `heartbeat`, `owner_*`, the request (`asked`, `request`, `argument`) and `loads_seen`; the agent writes
/// `forked`, `answered`, `reply`, `deserted`, `hooked`, `ended`, `loads` and `news`. Both write three: `state` and `calls`, which the
/// command opens and either side closes, and the slots of `notices`, which the agent fills and the command frees.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ControlPage {
    /// A [`State`]; first, because the hook reads it at every birth.
    pub state: AtomicU32,
    /// 1 in a child that found itself wiped and went on counting because [`Config::follow`] says so.
    pub forked: AtomicU32,
    /// Changes at least every [`Config::heartbeat_ticks`]; when it stands still for too long the
    /// command is gone and the agent leaves by itself.
    pub heartbeat: AtomicU64,
    /// Number of the last request; the agent compares it with `answered`.
    pub asked: AtomicU32,
    /// A [`Request`].
    pub request: AtomicU32,
    /// Argument of the request: bit 0 of a census = run the garbage collector first.
    pub argument: AtomicU64,
    /// Number of the last request that was carried out.
    pub answered: AtomicU32,
    /// A [`Reply`] to it.
    pub reply: AtomicU32,
    /// The owner's process id and start time (field 22 of `/proc/PID/stat`) in its own namespace.
    pub owner_pid: AtomicU64,
    /// See `owner_pid`.
    pub owner_start: AtomicU64,
    /// Inode of the owner's PID namespace: elsewhere its id says nothing.
    pub owner_namespace: AtomicU64,
    /// Why the agent left by itself, a [`Farewell`]; 0 = it has not.
    pub deserted: AtomicU32,
    /// 1 while the hook is set in the VM.
    pub hooked: AtomicU32,
    /// A [`Reply`] once the census at the program's end was taken.
    pub ended: AtomicU32,
    /// Not 0 = hooks tell calls; the session's number, so that a return is told only where its call was.
    pub calls: AtomicU32,
    /// How often the loader has changed what is loaded; a thread of the guest waits until `loads_seen` is the same.
    pub loads: AtomicU32,
    /// See `loads`; the command's.
    pub loads_seen: AtomicU32,
    /// The number of the last notice.
    pub news: AtomicU32,
    /// What threads say at once.
    pub notices: [Notice; NOTICES],
}

impl ControlPage {
    /// A wiped page.
    pub const fn new() -> Self {
        ControlPage {
            state: AtomicU32::new(0),
            forked: AtomicU32::new(0),
            heartbeat: AtomicU64::new(0),
            asked: AtomicU32::new(0),
            request: AtomicU32::new(0),
            argument: AtomicU64::new(0),
            answered: AtomicU32::new(0),
            reply: AtomicU32::new(0),
            owner_pid: AtomicU64::new(0),
            owner_start: AtomicU64::new(0),
            owner_namespace: AtomicU64::new(0),
            deserted: AtomicU32::new(0),
            hooked: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            loads: AtomicU32::new(0),
            loads_seen: AtomicU32::new(0),
            news: AtomicU32::new(0),
            notices: [const { Notice::new() }; NOTICES],
        }
    }
}

impl Default for ControlPage {
    fn default() -> Self {
        Self::new()
    }
}

/// Words reserved for the VM reader's facts.
pub const FACTS: usize = 16;

/// What the command tells the agent once, before anything runs. Not wiped by a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Changes with every attach.
    pub session: u64,
    /// Where Ruby's functions are.
    pub functions: Functions,
    /// The VM reader's facts, as `vm` hands them over.
    pub facts: [u64; FACTS],
    /// Call path frames kept for each birth; 1 = only the line.
    pub depth: u32,
    /// 1 = a forked child goes on counting in its copy of the tables.
    pub follow: u32,
    /// Cycles of the time-stamp counter without a heartbeat after which the command counts as gone.
    pub heartbeat_ticks: u64,
    /// Address of the VM's variable that holds the class Ractor; 0 = Ractors are no danger here.
    pub ractor_class: u64,
    /// 1 = the program was started by us: walk the heap when its main program has ended.
    pub census_at_end: u32,
    /// Argument of that census.
    pub end_argument: u32,
    /// Address of the VM's own signal handler, to wake its main thread by; 0 = nudge by signal.
    pub waker: u64,
    /// 1 = births are nothing to us; collections are timed ([`crate::Collection`]).
    pub collections: u64,
}

impl Config {
    /// No address is known yet.
    pub const NONE: Config = Config {
        session: 0,
        functions: Functions::NONE,
        facts: [0; FACTS],
        depth: 1,
        follow: 0,
        heartbeat_ticks: 0,
        ractor_class: 0,
        census_at_end: 0,
        end_argument: 0,
        waker: 0,
        collections: 0,
    };
}
