//! Copies the stacks of a process at one instant. All threads that run are stopped, the registers and whole stacks of all are copied, and
//! the threads go on. A thread that sleeps in the kernel throughout is not stopped ([`crate::asleep`]). Unwinding, names and everything
//! else that takes time is done afterwards, on the copy.
//!
//! ```text
//!   before   read the maps; make room for the copies and touch it, so that no page fault comes in the stop;
//!            find what is wanted beside the stacks; copy the main thread's stack once and drop the copy:
//!            it is then in the processor's caches, and so is the kernel's code for it
//!            find who sleeps
//!   stop     seize, interrupt, wait: the rest ─┐
//!            process_vm_readv, registers       │ `stopped`
//!            who slept sleeps still            │ else once more, with those stopped
//!   go       detach                           ─┘
//!   after    unwinding, names, script frames
//! ```
//!
//! A thread in an uninterruptible wait (state D: a file server that does not answer, the parent in a `vfork`) does not stop before that
//! wait ends. It is copied like one that sleeps, with what can be read of it, and no other thread stands still for it.
//!
//! A stack is copied from 128 bytes below rsp (the red zone, psABI §3.2.2) to the end of its mapping. Nothing is
//! written into the guest.

use crate::proc_file;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::slice;
use std::time::Duration;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::asleep::{Asleep, UNKNOWN};
use crate::error::{Error, Result};
use crate::guest::missing_thread;
use crate::interrupted;
use crate::maps::Maps;
use crate::pagemap::{self, LARGEST_STACK, Pagemap};
use crate::pid_namespace::ids_of_thread;
use crate::ptrace;
use crate::room::Room;
use crate::stop::{PATIENCE, Stop, thread_ids, thread_state};

/// The bytes below rsp that a function may use without moving it.
const RED_ZONE: u64 = 128;
/// Bytes of room that are touched before the stop. What does not fit is copied too, only slower.
const ROOM: usize = 1 << 20;
/// Limit of the bytes that one snapshot copies; ranges beyond it are cut. The process itself says how long the stack of a coroutine or of a
/// VM is, and a false value must cost no more of lancet's memory and no more time in a stop than this.
const MOST_COPIED: usize = 1 << 29;
/// A main stack of which at most this many bytes were ever used is copied whole, before its registers are known.
const SMALL_STACK: u64 = 192 << 10;

/// The registers that unwinding begins with, and the address of thread-local data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindContext {
    /// rip: the address at which the thread goes on.
    pub ip: u64,
    /// rsp: the lowest address of its stack that is in use, apart from the red zone below.
    pub sp: u64,
    /// rbp: the frame pointer, where code is compiled with one.
    pub bp: u64,
    /// The fs base, which is what `pthread_self` returns.
    pub thread_area: u64,
}

/// A thread of a snapshot.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its id in the PID namespace of lancet.
    pub tid: i32,
    /// The id by which it knows itself, which is that of its own PID namespace.
    pub own_id: i32,
    /// Its name, from `/proc/PID/task/TID/comm`.
    pub name: String,
    /// Whether it is the first thread of the process, whose stack the kernel made.
    pub main: bool,
    /// Its registers when it was copied.
    pub context: UnwindContext,
    /// The part between guards of the mapping that its stack lies in; empty if rsp was in none.
    pub mapping: Range<u64>,
}

impl UnwindContext {
    /// The registers of a thread that sleeps in the kernel, as far as the kernel shows them.
    fn of_sleeping(thread: &Asleep) -> UnwindContext {
        UnwindContext {
            ip: thread.call().pc,
            sp: thread.call().sp,
            bp: UNKNOWN,
            thread_area: thread.thread_area(),
        }
    }
}

impl Thread {
    /// Returns the part of its stack that is in use, red zone included; `None` if rsp is in no mapping.
    fn used_stack(&self) -> Option<Range<u64>> {
        let from = self
            .context
            .sp
            .saturating_sub(RED_ZONE)
            .max(self.mapping.start);
        let used = from..self.mapping.end.min(from + LARGEST_STACK);
        (!self.mapping.is_empty()).then_some(used)
    }
}

/// Copied pieces of memory. Reading memory that was not copied is a fault.
#[derive(Debug, Default)]
pub struct Copies {
    bytes: Vec<u8>,
    used: usize,
    /// By the address that a piece was copied from: the end of the piece, and its index in `bytes`.
    pieces: BTreeMap<u64, (u64, usize)>,
    longest: u64,
}

impl Copies {
    /// Adds a piece that was read elsewhere, a core file for instance.
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        let start = self.used;
        self.bytes.truncate(start);
        self.bytes.extend_from_slice(bytes);
        self.used = self.bytes.len();
        self.note(at..at.saturating_add(bytes.len() as u64), start);
    }

    /// Adds a piece that was copied. Of two that begin at the same address the longer one is kept.
    fn note(&mut self, piece: Range<u64>, start: usize) {
        self.longest = self.longest.max(piece.end - piece.start);
        let known = self.pieces.entry(piece.start).or_insert((piece.end, start));
        if known.0 < piece.end {
            *known = (piece.end, start);
        }
    }

    /// The copied bytes of `range`, if all of it was copied in one piece.
    pub fn slice(&self, range: Range<u64>) -> Option<&[u8]> {
        let near = self.pieces.range(..=range.start).rev();
        let (at, (_, start)) = near
            .take_while(|(at, _)| range.start - **at < self.longest)
            .find(|(_, (end, _))| range.end <= *end)?;
        let from = start + usize::try_from(range.start - at).ok()?;
        self.bytes
            .get(from..from + usize::try_from(range.end.checked_sub(range.start)?).ok()?)
    }

    /// The number of bytes that were copied.
    pub fn size(&self) -> u64 {
        self.used as u64
    }
}

impl vm::Memory for Copies {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        let end = at.checked_add(into.len() as u64).ok_or(vm::Fault { at })?;
        into.copy_from_slice(self.slice(at..end).ok_or(vm::Fault { at })?);
        Ok(())
    }
}

/// Memory that is read from copies, and where there is no copy, from another memory.
pub struct Overlay<'a> {
    /// The copied pieces, which are read first.
    pub copies: &'a Copies,
    /// The memory that is read where there is no copy.
    pub rest: &'a dyn vm::Memory,
}

impl vm::Memory for Overlay<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        self.copies
            .read(at, into)
            .or_else(|_| self.rest.read(at, into))
    }
}

/// The threads of a process and their stacks; see the module's documentation.
#[derive(Debug)]
pub struct Snapshot {
    /// The threads, the main one first.
    pub threads: Vec<Thread>,
    /// Their stacks, and the other ranges that were requested.
    pub copies: Copies,
    /// Ids of threads that slept and were not stopped. Their rbp is not known: it is [`crate::asleep::UNKNOWN`].
    pub asleep: Vec<i32>,
    /// How long those that were stopped stood still.
    pub stopped: Duration,
}

/// How often a snapshot is begun again because a thread woke up; after that every thread is stopped.
const TRIES: u32 = 2;

impl Snapshot {
    /// Takes a snapshot. A sleeping thread is stopped too if `must_stop` returns true for it and it can be stopped. While the guest stands,
    /// `more` is called once for each thread, with what has been copied by then, and returns what else must be copied; it must be quick.
    /// The ranges that it will `likely` return for the main thread are copied by the same system call as that thread's stack.
    pub fn take(
        pid: i32,
        maps: &Maps,
        likely: &[Range<u64>],
        must_stop: &dyn Fn(&Asleep) -> bool,
        more: &mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
    ) -> Result<Snapshot> {
        let mut woke = HashSet::new();
        let mut held = HashSet::new();
        let mut tries = 0;
        loop {
            let may_sleep = tries < TRIES;
            let asleep = sleeping(pid, &held, |thread| {
                may_sleep && !woke.contains(&thread.tid()) && !must_stop(thread)
            })?;
            match Self::take_once(pid, maps, likely, &asleep, more) {
                Ok(Ok(snapshot)) => return Ok(snapshot),
                Ok(Err(_)) if tries > TRIES => return Err(missing_thread(pid)),
                Ok(Err(tids)) => woke.extend(tids),
                // The next try does not stop this thread.
                Err(Error::WouldNotStop { tid, .. }) if is_held(pid, tid) && held.insert(tid) => {
                    continue;
                }
                Err(error) => return Err(error),
            }
            tries += 1;
        }
    }

    /// Takes a snapshot while the threads in `asleep` sleep. Returns those of them that woke up, if any.
    fn take_once(
        pid: i32,
        maps: &Maps,
        likely: &[Range<u64>],
        asleep: &[Asleep],
        more: &mut dyn FnMut(&Thread, &Copies) -> Vec<Range<u64>>,
    ) -> Result<std::result::Result<Snapshot, Vec<i32>>> {
        let mut copies = Copies {
            // Not zeros, because the allocator would provide those as pages that do not exist yet.
            bytes: vec![1; ROOM],
            used: 0,
            ..Copies::default()
        };
        let mut threads = Vec::with_capacity(64);
        let used = warm(pid, maps, likely, &mut copies);
        let pagemap = Pagemap::open(pid).ok();
        let own_ids = own_ids(pid);
        let shown_by = proc_file::shown_by(pid);
        let left = asleep.iter().map(Asleep::tid).collect();
        let stop = Stop::all_but(pid, &left)?;
        crate::fault::point("looking");
        let stopped = stop.threads().map(|tid| (tid, None));
        let sleeping = asleep.iter().map(|thread| (thread.tid(), Some(thread)));
        let mut all: Vec<(i32, Option<&Asleep>)> = stopped.chain(sleeping).collect();
        all.sort_by_key(|(tid, _)| *tid != pid);
        let mut later = None;
        let pagemap = pagemap.as_ref();
        let mut mapping_of = |sp| match pagemap::stack_above(pagemap, maps, sp) {
            // The mapping was made or has grown since the maps were read.
            none if none.is_empty() => {
                let later = later.get_or_insert_with(|| Maps::read(pid).unwrap_or_default());
                pagemap::stack_above(pagemap, later, sp)
            }
            found => found,
        };
        for (tid, sleeping) in all {
            // The kernel shows no registers of a thread before it has left its processor. Until then its stack is copied.
            if tid == pid && used.end - used.start <= SMALL_STACK {
                copy_all(
                    shown_by,
                    &[slice::from_ref(&used), likely].concat(),
                    &mut copies,
                );
            }
            let context = match sleeping {
                Some(thread) => Some(UnwindContext::of_sleeping(thread)),
                None => context_of(pid, tid)?,
            };
            let Some(context) = context else {
                continue;
            };
            let thread = Thread {
                tid,
                own_id: *own_ids.get(&tid).unwrap_or(&tid),
                name: String::new(),
                main: tid == pid,
                context,
                mapping: mapping_of(context.sp),
            };
            let mut wanted = Vec::with_capacity(64);
            wanted.extend(thread.used_stack());
            if thread.main {
                wanted.extend_from_slice(likely);
            }
            copy_new(shown_by, wanted, &mut copies);
            let wanted = more(&thread, &copies);
            copy_new(shown_by, wanted, &mut copies);
            threads.push(thread);
        }
        let woke = asleep.iter().filter(|thread| !thread.sleeps_on());
        let woke: Vec<i32> = woke.map(Asleep::tid).collect();
        let stopped = stop.release();
        if !woke.is_empty() {
            return Ok(Err(woke));
        }
        if threads.is_empty() {
            return Err(missing_thread(pid));
        }
        for thread in &mut threads {
            thread.name = name_of(pid, thread.tid);
            let stack = std::mem::take(&mut thread.mapping);
            thread.mapping = pagemap::above_guard(pagemap, thread.context.sp, stack);
        }
        threads.sort_by_key(|thread| (thread.tid != pid, thread.tid));
        Ok(Ok(Snapshot {
            threads,
            copies,
            asleep: asleep.iter().map(Asleep::tid).collect(),
            stopped,
        }))
    }
}

/// Finds the sleeping threads that will not be stopped: those for which `may` returns true, and those that cannot be stopped, because they
/// are in an uninterruptible wait and are in `held` (they did not stop before) or have waited longer than a stop waits for them.
fn sleeping(pid: i32, held: &HashSet<i32>, may: impl Fn(&Asleep) -> bool) -> Result<Vec<Asleep>> {
    let found = thread_ids(pid)?.into_iter().filter_map(|tid| {
        if held.contains(&tid) || is_held(pid, tid) && slept(pid, tid) >= Some(PATIENCE) {
            return Asleep::in_kernel(pid, tid);
        }
        Asleep::of(pid, tid).filter(&may)
    });
    Ok(found.collect())
}

/// Whether a thread is in an uninterruptible wait.
fn is_held(pid: i32, tid: i32) -> bool {
    thread_state(pid, tid) == Some('D')
}

/// Returns how long a thread has slept, if the kernel shows it.
fn slept(pid: i32, tid: i32) -> Option<Duration> {
    interrupted::slept(pid, tid).map(|(time, _)| time)
}

/// Returns the name of a thread; empty if it has ended.
fn name_of(pid: i32, tid: i32) -> String {
    let name = proc_file::of_thread(pid, tid, "comm");
    name.unwrap_or_default().trim_end().to_owned()
}

/// Returns the registers of a stopped thread; `None` if it was killed meanwhile.
fn context_of(pid: i32, tid: i32) -> Result<Option<UnwindContext>> {
    match ptrace::registers(tid) {
        Ok(registers) => Ok(Some(UnwindContext {
            ip: registers.rip,
            sp: registers.rsp,
            bp: registers.rbp,
            thread_area: registers.fs_base,
        })),
        Err(nix::errno::Errno::ESRCH) => Ok(None),
        Err(errno) => Err(ptrace::explain(pid, "reading a thread's registers", errno)),
    }
}

/// Returns the ids by which the threads of a process know themselves, if those are others than ours. A thread that begins later is not among
/// them.
fn own_ids(pid: i32) -> HashMap<i32, i32> {
    let own = |tid: i32| ids_of_thread(pid, tid)?.last().copied();
    if own(pid).is_none_or(|own| own == pid) {
        return HashMap::new();
    }
    let threads = thread_ids(pid).unwrap_or_default().into_iter();
    threads.filter_map(|tid| Some((tid, own(tid)?))).collect()
}

/// Copies what will probably be copied in the stop, while the process runs, and drops the copy; see the module's documentation. Returns the
/// part of the main thread's stack that was ever used.
fn warm(pid: i32, maps: &Maps, likely: &[Range<u64>], copies: &mut Copies) -> Range<u64> {
    let stack = maps.iter().find(|mapping| mapping.is_named("[stack]"));
    let used = stack.map_or(0..0, |stack| {
        let used = Room::of(pid, maps, &(stack.start..stack.end)).high_water;
        stack.end - used.min(ROOM as u64)..stack.end
    });
    let shown_by = proc_file::shown_by(pid);
    copy_all(shown_by, &[slice::from_ref(&used), likely].concat(), copies);
    *copies = Copies {
        bytes: std::mem::take(&mut copies.bytes),
        ..Copies::default()
    };
    used
}

/// Copies those of `ranges` that have not been copied. `shown_by` is the id of a living thread.
fn copy_new(shown_by: i32, mut ranges: Vec<Range<u64>>, copies: &mut Copies) {
    ranges.retain(|range| copies.slice(range.clone()).is_none());
    copy_all(shown_by, &ranges, copies);
}

/// Shortens the list of ranges, and the last range in it, so that together they have at most `room` bytes.
fn within_room(ranges: &[Range<u64>], mut room: usize) -> Vec<Range<u64>> {
    let cut = ranges.iter().map(|range| {
        let size = range.end.saturating_sub(range.start).min(room as u64);
        room -= size as usize;
        range.start..range.start + size
    });
    cut.collect()
}

/// Copies several ranges by one system call, or one by one if not all of them can be read.
fn copy_all(shown_by: i32, ranges: &[Range<u64>], copies: &mut Copies) {
    let ranges = within_room(ranges, MOST_COPIED.saturating_sub(copies.used));
    let sizes = ranges
        .iter()
        .map(|range| (range.end - range.start) as usize);
    let size: usize = sizes.clone().sum();
    let start = copies.used;
    if size == 0 {
        return;
    }
    if copies.bytes.len() < start + size {
        copies.bytes.resize(start + size, 0);
    }
    let from: Vec<RemoteIoVec> = ranges
        .iter()
        .zip(sizes.clone())
        .map(|(range, len)| RemoteIoVec {
            base: range.start as usize,
            len,
        })
        .collect();
    let mut into = [std::io::IoSliceMut::new(
        &mut copies.bytes[start..start + size],
    )];
    if process_vm_readv(Pid::from_raw(shown_by), &mut into, &from) != Ok(size) {
        for range in ranges {
            copy(shown_by, range, copies);
        }
        return;
    }
    for (range, size) in ranges.iter().zip(sizes) {
        copies.note(range.clone(), copies.used);
        copies.used += size;
    }
}

/// Copies the readable part of `range`, from its start.
fn copy(shown_by: i32, range: Range<u64>, copies: &mut Copies) {
    let (Ok(base), Ok(size)) = (
        usize::try_from(range.start),
        usize::try_from(range.end.saturating_sub(range.start)),
    ) else {
        return;
    };
    if size == 0 {
        return;
    }
    let start = copies.used;
    if copies.bytes.len() < start + size {
        copies.bytes.resize(start + size, 0);
    }
    let mut into = [std::io::IoSliceMut::new(
        &mut copies.bytes[start..start + size],
    )];
    let from = [RemoteIoVec { base, len: size }];
    let done = process_vm_readv(Pid::from_raw(shown_by), &mut into, &from).unwrap_or(0);
    copies.used = start + done;
    if done > 0 {
        copies.note(range.start..range.start + done as u64, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_of_its_stacks_is_cut_to_what_there_is_room_for() {
        // As a process can have written it.
        let (start, end) = (0x9000, 0x8000);
        let ranges = [0x1000..0x1800, start..end, 0x2000..u64::MAX, 0x3000..0x3010];
        let cut = within_room(&ranges, 0x1000);
        let expected = [
            0x1000..0x1800,
            0x9000..0x9000,
            0x2000..0x2800,
            0x3000..0x3000,
        ];
        assert_eq!(cut, expected);
    }
}
