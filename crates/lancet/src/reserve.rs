//! What happens when lancet itself has no memory left because what it may map is limited (`ulimit -v`, RLIMIT_AS; `ulimit -d`,
//! RLIMIT_DATA). Used by `ui::interrupt`.
//!
//! Rust ends a program whose allocation fails, and the hooks of a lancet that ends so stay in its guests until the next one lifts them. So
//! where there is a limit, a part of the address space is kept free from the beginning ([`begin`]). The first allocation that fails gets that
//! part, and from then on lancet is asked to end as by Ctrl-C ([`is_used`]): it leaves its guests, shows what it knows, and says why. What is
//! too small for the work from the start is refused at once.
//!
//! An allocation that is larger than what is kept ends lancet all the same, with a line and without a core. What may be large, a heap snapshot
//! and the memory for rings, is therefore held against what is left ([`process::limits::left_to_map`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::exit;

/// The bytes that are kept, which leaving needs at most.
const KEPT: usize = 32 << 20;
/// The bytes that a command needs besides, to open a process: tables of symbols, threads, rings.
const NEEDED: u64 = 64 << 20;

/// Where the kept part lies; null = there is none, or it was given away.
static PART: AtomicPtr<libc::c_void> = AtomicPtr::new(null_mut());
static USED: AtomicBool = AtomicBool::new(false);
/// An allocation has failed for good.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// The allocator of the system, which gets the kept part when it has nothing left.
struct Reserved;

#[global_allocator]
static RESERVED: Reserved = Reserved;

// SAFETY: every call is handed to the system's allocator as it is, a second time if the first has failed; a failed call has no effect.
unsafe impl GlobalAlloc for Reserved {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's allocator.
        or_again(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_again(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; what could not be grown stays as it was.
        or_again(|| unsafe { System.realloc(at, layout, size) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[inline]
fn or_again(ask: impl Fn() -> *mut u8) -> *mut u8 {
    let got = ask();
    match got.is_null() {
        true => without_memory(ask),
        false => got,
    }
}

#[cold]
fn without_memory(ask: impl Fn() -> *mut u8) -> *mut u8 {
    // Another thread may have given it away since the first try.
    give_away();
    let got = ask();
    REFUSED.store(got.is_null(), Ordering::Release);
    got
}

fn give_away() {
    let part = PART.swap(null_mut(), Ordering::AcqRel);
    if !part.is_null() {
        USED.store(true, Ordering::Release);
        // SAFETY: the mapping that `begin` has made, which nothing else refers to and which is given away once.
        unsafe { libc::munmap(part, KEPT) };
    }
}

/// Keeps a part of the address space, if that is limited.
///
/// # Errors
/// There is not enough for a command that opens processes.
pub fn begin() -> anyhow::Result<()> {
    let Some(left) = process::limits::left_to_map() else {
        return Ok(());
    };
    let wanted = KEPT as u64 + NEEDED;
    // Such as can be written, because only that counts for RLIMIT_DATA; no page of it is ever touched.
    // SAFETY: the kernel chooses the address of a new mapping.
    let part = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(
            null_mut(),
            KEPT,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if left < wanted || part == libc::MAP_FAILED {
        anyhow::bail!(
            "{WHOSE}: {} MiB are left of it, and it needs {} MiB and more to open a process: raise the limit",
            left >> 20,
            wanted >> 20
        );
    }
    PART.store(part, Ordering::Release);
    // SAFETY: a live record; the handler makes async-signal-safe calls alone. mallopt takes integers.
    unsafe {
        // Each thread's own arena of malloc would take 64 MiB of addresses, and one of them the whole part that is kept.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = aborted as *const () as usize;
        libc::sigaction(libc::SIGABRT, &raw const action, null_mut());
    }
    Ok(())
}

/// Blocks of so many bytes are mappings of their own: a heap snapshot of many objects consists of such as grow.
const LARGE: libc::c_int = 1 << 20;

/// So much free memory at the end of the heap is kept.
const SPARE: libc::c_int = 64 << 20;

/// Has each large block be a mapping of its own, whatever was freed before. Otherwise glibc raises that limit to 32 MiB as such blocks are
/// freed, and those that grow below it leave what they had in the heap: of a snapshot of 9.6 million objects 100 MiB.
///
/// Whoever sets it also stops glibc from raising what is kept at the end of the heap to twice as much: 128 KiB would go back to the kernel and
/// be asked for again all the time. So that is set too, to what it may become by itself.
pub fn map_what_is_large() {
    // SAFETY: mallopt takes integers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE);
    }
}

const WHOSE: &str = "the address space of lancet is limited (ulimit -v, -d)";

/// Whether a panic was one of the standard library's because a thread found no memory for its stack.
pub fn explains(panic: &str) -> bool {
    panic.starts_with("failed to spawn thread") && process::limits::left_to_map().is_some()
}

/// Whether memory has come to its end, so that lancet is to leave.
pub fn is_used() -> bool {
    USED.load(Ordering::Acquire)
}

/// What is said then.
pub fn line() -> String {
    format!("{WHOSE}, and it has no memory left: what was seen until then is all: raise the limit")
}

/// The standard library ends lancet, mostly because an allocation has failed for good.
extern "C" fn aborted(signal: libc::c_int) {
    if !REFUSED.load(Ordering::Acquire) {
        // SAFETY: takes integers; the signal is blocked until this returns, and ends lancet then.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    const LINE: &[u8] = b"lancet: it has no memory left (ulimit -v, -d): raise the limit; a process that it had opened goes on, and the next lancet takes out what is left in it\n";
    // SAFETY: the text lives for ever, and both calls may be made in a signal handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len());
        libc::_exit(exit::FAILED.into());
    }
}
