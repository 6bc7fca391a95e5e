//! What the tests of the agent need of the kernel and the processor under Miri, which interprets neither assembly nor system calls by
//! number. Memory is an allocation of its own, so that Miri sees who goes beyond it or keeps a pointer to what was given back.
//! Used by `sys` and `calls::thread`.

use super::follow::ours;
use super::sys::{CLOCK_GETTIME, FUTEX, GETTID, MADVISE, MMAP, MPROTECT, MREMAP, MUNMAP};
use super::sys::{GETPID, NANOSLEEP, PROCESS_VM_READV, RT_SIGPROCMASK};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
const ENOMEM: u64 = 12;
const EFAULT: u64 = 14;
const EINVAL: u64 = 22;
const ENOSYS: u64 = 38;

/// The mappings that the agent has made, with their bytes.
static MAPPED: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
/// The pages of them that may not be read.
static CLOSED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
/// What the clock and the time-stamp counter say next.
static TIME: AtomicU64 = AtomicU64::new(1);
/// The id of the thread that is made next.
static NEXT_THREAD: AtomicU64 = AtomicU64::new(1000);

std::thread_local! {
    static THREAD: Cell<u64> = Cell::new(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
}

/// The time-stamp counter.
pub fn ticks() -> u64 {
    TIME.fetch_add(1, Ordering::Relaxed)
}

/// The thread pointer: a number that no other thread has.
pub fn thread_pointer() -> u64 {
    THREAD.get() << 12
}

/// Does what the system call of that number does.
///
/// # Safety
/// As for the system call.
pub unsafe fn syscall(number: u64, [a, b, c, d, ..]: [u64; 6]) -> u64 {
    match number {
        MMAP if a == 0 => map(b as usize),
        MMAP => {
            // SAFETY: the caller's own mapping, whose bytes may go.
            unsafe { ours::<u8>(a).write_bytes(0, b as usize) };
            protect(a, b, c);
            a
        }
        // SAFETY: the caller gives its own mapping back.
        MUNMAP => unsafe { unmap(a) },
        // SAFETY: the caller's own mapping.
        MREMAP => unsafe { remap(a, b as usize, c as usize) },
        MPROTECT => {
            protect(a, b, c);
            0
        }
        MADVISE => 0,
        CLOCK_GETTIME => {
            // SAFETY: the caller gives a `struct timespec`.
            unsafe { ours::<[u64; 2]>(b).write([0, ticks()]) };
            0
        }
        NANOSLEEP => {
            std::thread::yield_now();
            0
        }
        GETPID => 1,
        GETTID => THREAD.get(),
        // SAFETY: the caller gives one buffer of its own and says what to read.
        PROCESS_VM_READV => unsafe { copy(b, d) },
        RT_SIGPROCMASK if is_closed(b) => error(EFAULT),
        RT_SIGPROCMASK => 0,
        FUTEX => error(EINVAL),
        _ => error(ENOSYS),
    }
}

fn error(number: u64) -> u64 {
    number.wrapping_neg()
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.next_multiple_of(PAGE), PAGE).ok()
}

fn map(bytes: usize) -> u64 {
    /// More than any test uses, so that what asks for all there is gets the answer of a full machine.
    const MOST: usize = 1 << 26;
    let Some(layout) = layout(bytes).filter(|layout| (1..=MOST).contains(&layout.size())) else {
        return error(ENOMEM);
    };
    // SAFETY: the size is not 0.
    let at = unsafe { alloc_zeroed(layout) }.expose_provenance() as u64;
    MAPPED.lock().unwrap().insert(at, layout.size());
    at
}

fn protect(at: u64, bytes: u64, protection: u64) {
    let pages = (at..at + bytes).step_by(PAGE);
    let mut closed = CLOSED.lock().unwrap();
    match protection {
        0 => closed.extend(pages),
        _ => closed.retain(|page| !(at..at + bytes).contains(page)),
    }
}

fn is_closed(at: u64) -> bool {
    CLOSED
        .lock()
        .unwrap()
        .contains(&(at / PAGE as u64 * PAGE as u64))
}

unsafe fn unmap(at: u64) -> u64 {
    let Some(bytes) = MAPPED.lock().unwrap().remove(&at) else {
        return error(EINVAL);
    };
    protect(at, bytes as u64, 1);
    let layout = layout(bytes).expect("it was allocated with it");
    // SAFETY: it was allocated with this layout, and taken out of the table, so it is given back once.
    unsafe { dealloc(ours(at), layout) };
    0
}

unsafe fn remap(at: u64, bytes: usize, longer: usize) -> u64 {
    let to = map(longer);
    if to > error(4096) {
        return to;
    }
    // SAFETY: the old mapping has that many bytes, the new one at least as many, and they are two allocations.
    unsafe {
        ours::<u8>(at).copy_to_nonoverlapping(ours(to), bytes.min(longer));
        unmap(at);
    }
    to
}

/// Copies between two lists of one `struct iovec`. What lies in no mapping of ours is an object of a test, or an address that no program has.
unsafe fn copy(into: u64, from: u64) -> u64 {
    const OF_PROGRAMS: std::ops::Range<u64> = 0x1_0000..1 << 47;
    // SAFETY: the caller's lists are live.
    let [[to, room], [at, length]] =
        [into, from].map(|list| unsafe { ours::<[u64; 2]>(list).read() });
    if !OF_PROGRAMS.contains(&at) {
        return error(EFAULT);
    }
    let length = length.min(room);
    let of_mapping = |(begin, bytes): (&u64, &usize)| {
        (at < begin + *bytes as u64).then_some(begin + *bytes as u64)
    };
    let end = MAPPED
        .lock()
        .unwrap()
        .range(..=at)
        .next_back()
        .and_then(of_mapping);
    let closed = CLOSED
        .lock()
        .unwrap()
        .range(at / PAGE as u64 * PAGE as u64..)
        .next()
        .copied();
    let until = end.unwrap_or(u64::MAX).min(closed.unwrap_or(u64::MAX));
    let length = length.min(until.saturating_sub(at)) as usize;
    if length == 0 {
        return error(EFAULT);
    }
    // SAFETY: the caller gives the room; what is read is there, which Miri checks.
    unsafe {
        ours::<u8>(at).copy_to(ours(to), length);
    }
    length as u64
}
