//! The thread that a hook runs on: what tells it from others, and the kernel's id of it.

use super::session::calls;
use crate::memory::sys;
use core::arch::asm;
use wire::calls::NO_POINTER;

/// What tells the thread that runs here from others: its thread pointer, or its kernel id where it has none.
///
/// glibc and musl keep the pointer at its own address (`struct pthread`, first word); but a thread made by a bare
/// `clone` may have none, and nothing at address 0 to read it from.
#[inline]
pub fn thread() -> u64 {
    if calls().tells_pointer == 0 {
        // The command hooks no program here in which a thread has no thread-local storage.
        return thread_pointer();
    }
    match fs_base() {
        0 => u64::from(sys::thread_id()) | NO_POINTER,
        pointer => pointer,
    }
}

/// The thread pointer where the processor tells it and the thread has one: what [`thread`] is then.
#[inline(always)]
pub fn told_pointer() -> Option<u64> {
    if calls().tells_pointer == 0 {
        return None;
    }
    Some(fs_base()).filter(|pointer| *pointer != 0)
}

/// The base of the segment fs; [`Calls::tells_pointer`](wire::calls::Calls::tells_pointer) is not 0.
#[inline(always)]
fn fs_base() -> u64 {
    let pointer: u64;
    // SAFETY: the kernel lets programs use the instruction: the command looked.
    unsafe { asm!("rdfsbase {}", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    pointer
}

/// The thread pointer of a thread that [has a block](has_block).
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the callers have asked, or run on a thread that the C library made.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
    };
    pointer
}

/// Whether the C library made this thread, so that what is known of its own block is there.
#[inline]
pub fn has_block(thread: u64) -> bool {
    // SAFETY: a thread pointer that is not 0; whoever set it reads there.
    thread & NO_POINTER == 0 && unsafe { *(thread as *const u64) } == thread
}

/// The kernel's id of that thread.
#[inline]
pub fn thread_id(thread: u64) -> u32 {
    let known = if has_block(thread) {
        // SAFETY: the command saw the thread's id there, within the thread's own block.
        unsafe { *(thread.wrapping_add(calls().tid_offset) as *const u32) }
    } else {
        0
    };
    match known {
        // Or musl has cleared it: the thread is about to end.
        0 => sys::thread_id(),
        known => known,
    }
}
