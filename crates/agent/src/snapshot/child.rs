//! How the child of a snapshot lives and ends. Used by `snapshot`.
//!
//! It ends when it is killed, when the reading end of its pipe is closed (the command has died), when an alarm comes and nobody has
//! the reading end open (a function of the VM or of an extension does not return, and the command that would kill it has died), when its five minutes are over, or by a fault; always without anything of the program's:
//! no handler, no `atexit`, no finalizer, no core.

use super::{allocator, heap::Heap, pipe, stream::Stream};
use crate::guard;
use crate::memory::follow::ours;
use crate::memory::sys::{self, child};
use crate::shared::{BORROWED, SNAPSHOT};
use core::ptr::{self, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use wire::snapshot::{Opened, Prepared, Stage};

/// Nanoseconds between two looks whether the command has opened the pipe.
const LOOK: u64 = 50_000;
/// Signals that end it at once: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGALRM, SIGSYS. All others stay blocked.
const FATAL: [u64; 8] = [4, 5, 6, 7, 8, 11, 14, 31];

/// What the heap is told by, a static of ours; null = it is not told. It does not lie on the stack, which is cleared.
static TOLD: AtomicPtr<Heap> = AtomicPtr::new(null_mut());

/// The life of the child, from the clone to the end.
#[inline(never)]
pub fn live(prepared: &AtomicU32, heap: Option<&'static Heap>) -> ! {
    // The guest waits for this much: that a memory limit ends the child before it, and that whatever the guest closes from now on is closed for
    // its peers, too (a socket, a lock of flock(2), a descriptor in an epoll set). Where the guest has no descriptor left the child has none
    // either until it has closed its own.
    let mut is_first = ends_first();
    child::close_all();
    if !is_first {
        is_first = ends_first();
    }
    let word = if is_first {
        Prepared::EndsFirst
    } else {
        Prepared::Refused
    };
    child::set_word(prepared, word as u32);
    let told = heap.map_or(null_mut(), |heap| ptr::from_ref(heap).cast_mut());
    TOLD.store(told, Ordering::Relaxed);
    let here = 0u64;
    // SAFETY: this function never returns, so nobody returns to what called it.
    unsafe { clear_stack((&raw const here).addr() as u64 + 8) };
    // SAFETY: `main` never returns; a panic in it does, and ends the child.
    unsafe { guard::guarded(main, 0) };
    child::end(1)
}

/// Asks the kernel to end this process before others where memory ends; whether it has taken that.
fn ends_first() -> bool {
    child::write_file(b"/proc/self/oom_score_adj\0", b"1000")
}

extern "C" fn main(_: u64) -> u64 {
    // SAFETY: `live` has written null or a pointer to a static, which nobody changes.
    let heap = unsafe { TOLD.load(Ordering::Relaxed).as_ref() };
    child::leave_group();
    child::leave_no_core();
    let mut mask = 0;
    for signal in FATAL {
        child::default_action(signal);
        mask |= 1 << (signal - 1);
    }
    pipe::begin();
    sys::unblock(mask);
    let Some([read, write]) = child::pipe() else {
        child::end(2);
    };
    if let Some(heap) = heap {
        (heap.note)();
    }
    SNAPSHOT.pipe.store(read, Ordering::Relaxed);
    SNAPSHOT.stage.store(Stage::Ready as u32, Ordering::Release);
    while SNAPSHOT.opened.load(Ordering::Acquire) == 0 {
        sys::pause(LOOK);
    }
    child::close(read);
    pipe::is_open(write);
    SNAPSHOT
        .stage
        .store(Stage::Walking as u32, Ordering::Relaxed);
    let wanted = SNAPSHOT.opened.load(Ordering::Relaxed);
    if wanted == Opened::ToAsk as u32 {
        allocator::run(write);
        wait_for_the_end(write)
    }
    if wanted == Opened::ToCompact as u32
        && let Some(compact) = heap.and_then(|heap| heap.compact)
    {
        compact(write);
        wait_for_the_end(write)
    }
    let Some(mut stream) = Stream::new(write) else {
        child::end(3);
    };
    if let Some(heap) = heap {
        (heap.write)(&mut stream);
    }
    if guard::broken() {
        child::end(1);
    }
    SNAPSHOT.stage.store(Stage::Whole as u32, Ordering::Release);
    wait_for_the_end(write)
}

/// More stack than lies between the place where a thread was stopped and us.
const DEEPEST: u64 = 256 << 10;

/// Puts zeros where the frames of the remote call are: the VM takes each word of this stack that looks like an object's address for a
/// reference, and in the gaps of frames there is what earlier calls of the program have left.
///
/// # Safety
/// No frame from `start` on, an aligned address of this stack, is returned to, up to the program's own.
unsafe fn clear_stack(start: u64) {
    let end = SNAPSHOT.stack.load(Ordering::Relaxed);
    if !BORROWED.load(Ordering::Relaxed) || end <= start || end - start > DEEPEST {
        return;
    }
    let mut at = start;
    while at + 8 <= end {
        // SAFETY: it is this thread's stack, below the program's own frames; the rest is the caller's promise.
        unsafe { ours::<u64>(at).write_volatile(0) };
        at += 8;
    }
}

/// Waits for the command, which reads our memory, to kill us.
fn wait_for_the_end(write: u64) -> ! {
    while child::has_reader(write, false, 1000) {
        pipe::go_on();
    }
    child::end(0)
}
