//! How an agent that is already in a guest is found, what the command configures once, and what it requests later. Used
//! by `script`, and by most crates above.

use crate::notices::{NOTICES, Notice};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Routines of an agent that stubs jump to.
pub const ROUTINES: usize = 5;

/// The first page of the agent's mapping, read-only for the guest; only the command writes and reads it.
///
/// A later command finds the agent by this header, at the start of one of the guest's anonymous read-only mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Always [`crate::MAGIC`]; the command writes it.
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
    /// Address of the function that a remote call enters: `extern "C" fn(u64) -> u64`; its argument has the bits of
    /// [`enter`](mod@enter).
    pub enter: u64,
    /// Address of the [`crate::calls::Calls`].
    pub calls: u64,
    /// Address of the function that prepares the agent for what `calls` configures: `extern "C" fn(u64) -> u64`.
    pub open_calls: u64,
    /// Addresses of the code that stubs jump to: call-through, probe, and the replacements of `_Unwind_Find_FDE`, `_dl_find_object`
    /// and `dl_iterate_phdr`.
    pub routines: [u64; ROUTINES],
    /// Address of the [`crate::Script`].
    pub script: u64,
    /// Address of the work stacks on which hooks run where the caller's stack has no room (`routine::room`).
    pub works: u64,
    /// Address of the [`crate::Snapshot`].
    pub snapshot: u64,
}

/// Values of [`ControlPage::state`]: whether a command uses the agent.
///
/// A forked child reads 0, [`State::Quiet`], because the kernel has wiped its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// No command uses it; hooks that are still called return at once.
    Quiet = 0,
    /// A command uses it; births are counted if the hook is set.
    Open = 1,
}

/// Values of [`ControlPage::request`]: what a guest thread that holds the VM's lock is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// The guest's thread has nothing to do.
    None = 0,
    /// Set the hook and count from now on.
    Watch = 1,
    /// Walk the heap and fill [`Counts`](crate::Counts).
    Census = 2,
    /// Take the hook out, give all memory back and become [`State::Quiet`].
    Leave = 3,
    /// Let the VM collect garbage; the argument is [`COLLECT_MINOR`] or [`COLLECT_FULL`].
    Collect = 4,
    /// Evaluate the text of [`Script`](crate::Script).
    Evaluate = 5,
    /// Make a child that is a copy of the guest and writes out its heap ([`crate::snapshot`]).
    Snapshot = 6,
    /// Set the hook again, if it is out because nobody wanted to count ([`Ledger::rests`](crate::Ledger::rests)).
    Rise = 7,
}

/// Argument of [`Request::Census`], a bit: collect garbage first.
pub const CENSUS_COLLECT: u64 = 1;
/// Argument of [`Request::Census`], a bit: the main thread waits in a call, so no garbage is collected.
pub const CENSUS_BLOCKED: u64 = 2;
/// Argument of [`Request::Census`] to a Python, a bit: a collection of the VM's own has just run, so none is wanted. From
/// [`CENSUS_TIME`] on the argument says how many nanoseconds it took.
pub const CENSUS_RAN: u64 = 4;
/// See [`CENSUS_RAN`].
pub const CENSUS_TIME: u32 = 8;
/// Argument of [`Request::Collect`]: collect young objects only.
pub const COLLECT_MINOR: u64 = 1;
/// Argument of [`Request::Collect`]: collect all objects. 0 means that no collection may run where the thread stands.
pub const COLLECT_FULL: u64 = 2;

/// Bits of the argument of a remote call into the agent ([`Header::enter`]). From bit [`LANGUAGE`](enter::LANGUAGE) on it has the number of
/// the language whose VM is entered, 0 for what is done without the VM.
pub mod enter {
    /// The first bit of the language's number.
    pub const LANGUAGE: u32 = 32;
    /// Have the VM call the agent at its next safe point.
    pub const REGISTER: u64 = 1;
    /// Wake the VM's main thread.
    pub const WAKE: u64 = 2;
    /// The thread blocks without the VM's lock: take the lock and do the job.
    pub const LOCK: u64 = 4;
    /// Only say whether this thread holds the VM's lock: [`Reply::Refused`](super::Reply::Refused) if it does,
    /// [`Reply::Done`](super::Reply::Done) if it does not.
    pub const HOLDS: u64 = 8;
    /// Wait for the copies of snapshots that have ended; takes no lock.
    pub const REAP: u64 = 16;
    /// Make a copy of the process where this thread stands, for a command that reads the copy's memory; takes no lock.
    pub const COPY: u64 = 32;
    /// Make the file of the pool, map what [`Share`](crate::calls::share::Share) says, and close it; takes no lock.
    pub const SHARE: u64 = 64;
    /// The VM has one thread and no lock: do what is requested where this thread stands.
    pub const HERE: u64 = 128;
}

/// Values of [`ControlPage::reply`]: how the last request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reply {
    /// It was carried out.
    Done = 1,
    /// The agent could not map the memory it needs.
    NoMemory = 2,
    /// A call of the VM failed that must succeed.
    Refused = 3,
}

/// Values of [`ControlPage::deserted`]: why an agent became quiet without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Farewell {
    /// The heartbeat stood still for too long: the command is gone.
    Alone = 1,
    /// The program is making a Ractor, and this version of the VM crashes when there is one beside a hook on births.
    Ractor = 2,
    /// A hook of the agent panicked.
    Broken = 3,
    /// The allocator functions of the VM were set by somebody else while ours were set, and ours are not called any more.
    Replaced = 4,
}

/// The control page. It is one page with `MADV_WIPEONFORK`, so that a forked child finds zeros.
///
/// The command writes `heartbeat`, `owner_*`, the request (`asked`, `request`, `argument`), `loads_seen` and `most`; the agent
/// writes `forked`, `answered`, `reply`, `deserted`, `hooked`, `ended`, `loads`, `news`, `at_work`, `pending` and `taken`. Both write three: `state`
/// and `calls`, which the command opens and either side closes, and the slots of `notices`, which the agent fills and
/// the command frees. An attach also clears `deserted` and `ended`, and sets `hooked` in a forked child that counts on.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ControlPage {
    /// A [`State`]. It comes first, because the hook reads it at every birth.
    pub state: AtomicU32,
    /// 1 in a child that found its page wiped and went on counting because [`Config::follow`] says so.
    pub forked: AtomicU32,
    /// The command changes it four times a second. When it has not changed for [`Config::heartbeat_ticks`], the agent
    /// takes the command for gone and becomes quiet.
    pub heartbeat: AtomicU64,
    /// Number of the last request. The agent compares it with `answered`.
    pub asked: AtomicU32,
    /// What is requested, a [`Request`]; written before `asked`.
    pub request: AtomicU32,
    /// Argument of the request. For a census bit 0 means that the garbage collector runs first.
    pub argument: AtomicU64,
    /// Number of the last request that was carried out.
    pub answered: AtomicU32,
    /// A [`Reply`] to that request.
    pub reply: AtomicU32,
    /// Process id of the command in its own PID namespace.
    pub owner_pid: AtomicU64,
    /// Start time of the command: field 22 of its `/proc/PID/stat`, which tells it from a later process with the same
    /// id.
    pub owner_start: AtomicU64,
    /// Inode of the command's PID namespace: in another one its process id means nothing.
    pub owner_namespace: AtomicU64,
    /// A [`Farewell`], if the agent became quiet by itself; else 0.
    pub deserted: AtomicU32,
    /// 1 while the hook is set in the VM.
    pub hooked: AtomicU32,
    /// A [`Reply`], once the census at the end of the program was taken.
    pub ended: AtomicU32,
    /// The gate: the session's number while hooks record calls, 0 when they fall through. A return is recorded only in
    /// the session of its call.
    pub calls: AtomicU32,
    /// How often the loader has changed the list of loaded modules. The thread that changed it waits until `loads_seen`
    /// is the same.
    pub loads: AtomicU32,
    /// The value of `loads` that the command has caught up with.
    pub loads_seen: AtomicU32,
    /// Number of the last notice.
    pub news: AtomicU32,
    /// Number of the request that a thread carries out, 0 while none does. The request may be that of a command that is gone. It lies here
    /// so that a child forked meanwhile finds 0: no thread of the child does that work.
    pub at_work: AtomicU32,
    /// 1 while a call of the agent waits in the VM's queue of such calls.
    pub pending: AtomicU32,
    /// Bytes that the agent may map for its books of births; 0 = as many as it wants. Written by the command at any time.
    pub most: AtomicU64,
    /// How many it has mapped for them. Written by the agent.
    pub taken: AtomicU64,
    /// What threads report and wait for an answer to.
    pub notices: [Notice; NOTICES],
}

impl ControlPage {
    /// A page as the kernel leaves it when it wipes it: all zeros.
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
            at_work: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            most: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            notices: [const { Notice::new() }; NOTICES],
        }
    }
}

impl Default for ControlPage {
    fn default() -> Self {
        Self::new()
    }
}

/// Values of [`Config::purpose`]: what a VM is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Births are counted by a hook in the VM.
    #[default]
    Births = 0,
    /// Collections are timed ([`crate::Collection`]).
    Collections = 1,
    /// Nothing is watched; [`Request::Evaluate`] may come.
    Evaluation = 2,
    /// Nothing is watched; [`Request::Snapshot`] may come.
    Snapshot = 3,
}

/// Words that the facts of a VM's reader take.
pub const FACTS: usize = 16;
/// Most functions of a VM that the agent is given the addresses of.
pub const FUNCTIONS: usize = 32;

/// These words, followed by zeros. A table that is too small for them does not compile: the agent would call address 0 for each word that
/// it lacks.
pub fn padded<const WORDS: usize, const ROOM: usize>(words: [u64; WORDS]) -> [u64; ROOM] {
    const { assert!(WORDS <= ROOM, "the table has no room for all words") };
    let mut padded = [0; ROOM];
    padded[..WORDS].copy_from_slice(&words);
    padded
}

/// The first words of a table, which [`padded`] has made of them.
pub fn first<const WORDS: usize, const ROOM: usize>(table: &[u64; ROOM]) -> [u64; WORDS] {
    const { assert!(WORDS <= ROOM, "the table has no room for all words") };
    let mut words = [0; WORDS];
    words.copy_from_slice(&table[..WORDS]);
    words
}

/// What the command configures once, before the agent's code runs. A fork does not wipe it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Number of the session, another one with every attach.
    pub session: u64,
    /// The language of the VM that this session has entered, by `vm`'s number; 0 = none: the process is copied, or its calls are hooked.
    pub language: u64,
    /// Addresses of the VM's functions, as `vm::ruby::Functions` hands them over. All 0 where the language is Python: those are in
    /// [`Script::functions`](crate::Script::functions).
    pub functions: [u64; FUNCTIONS],
    /// The VM reader's facts, as `vm::ruby::Facts` hands them over. All 0 where the language is Python: those are in
    /// [`Snapshot::facts`](crate::Snapshot::facts).
    pub facts: [u64; FACTS],
    /// Frames of the call path that are kept for each birth; 1 = only the line.
    pub depth: u32,
    /// 1 = a forked child goes on counting in its copy of the tables.
    pub follow: u32,
    /// Cycles of the time-stamp counter without a heartbeat after which the command is taken for gone.
    pub heartbeat_ticks: u64,
    /// Address of the VM's variable that holds the class Ractor; 0 = a Ractor does no harm in this version.
    pub ractor_class: u64,
    /// 1 = lancet started the program: take a census when its main program has ended.
    pub census_at_end: u32,
    /// Argument of that census, as in [`ControlPage::argument`].
    pub end_argument: u32,
    /// Address of the VM's own signal handler, which wakes its main thread; 0 = the command has not looked for it
    /// yet.
    pub waker: u64,
    /// What the VM is opened for, a [`Purpose`].
    pub purpose: u64,
    /// Address of the VM's `rb_vm_t`.
    pub vm: u64,
    /// 1 = the program's library gives a module for the methods by which threads begin, read and end their accounts ([`crate::accounts`]).
    pub door: u64,
}

impl Config {
    /// A configuration in which no address is known yet.
    pub const NONE: Config = Config {
        session: 0,
        language: 0,
        functions: [0; FUNCTIONS],
        facts: [0; FACTS],
        depth: 1,
        follow: 0,
        heartbeat_ticks: 0,
        ractor_class: 0,
        census_at_end: 0,
        end_argument: 0,
        waker: 0,
        purpose: Purpose::Births as u64,
        vm: 0,
        door: 0,
    };
}
