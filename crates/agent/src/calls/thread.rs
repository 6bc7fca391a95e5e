//! Identifies the thread that a hook runs on: by its thread pointer, and by the kernel's id of it. Used by
//! `system_calls::quick`, `quick`, `ring` and others.

use super::session::calls;
use crate::memory::sys;
use core::arch::asm;
use wire::calls::NO_POINTER;

/// Returns what identifies the running thread: its thread pointer, or its kernel id if it has none.
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

/// Returns the thread pointer if the processor can read it and the thread has one; then [`thread`] returns the same.
#[inline(always)]
pub fn told_pointer() -> Option<u64> {
    if calls().tells_pointer == 0 {
        return None;
    }
    Some(fs_base()).filter(|pointer| *pointer != 0)
}

/// Returns the base of the segment fs. Requires that [`Calls::tells_pointer`](wire::calls::Calls::tells_pointer) is not 0.
#[inline(always)]
fn fs_base() -> u64 {
    let pointer: u64;
    // SAFETY: the instruction has no effect on memory. The command has found in the auxiliary vector that the kernel lets programs use it;
    // callers check `tells_pointer`.
    unsafe { asm!("rdfsbase {}", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    pointer
}

/// Returns the thread pointer of a thread whose ring says that it [has a block](has_block).
#[inline]
pub fn thread_pointer() -> u64 {
    #[cfg(miri)]
    return crate::memory::interpreted::thread_pointer();
    #[cfg(not(miri))]
    // SAFETY: callers have checked that the thread has a block, or run on a thread that the C library made, whose thread pointer is stored
    // at its own address.
    unsafe {
        let pointer;
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
        pointer
    }
}

/// Whether the running thread, whose kernel id is `tid`, has a block of its own with the layout of the threads that the command saw, so
/// that hooks may read it.
///
/// A first word that points to itself does not suffice: every thread-local storage begins so by the ABI ("ELF Handling For Thread-Local
/// Storage", 3.4.6), also that of a runtime that makes its threads by a bare `clone` and gives them some bytes at the end of a mapping. So
/// the kernel compares each word without our reading it, and the id's word must hold the id.
#[cold]
pub fn has_block(thread: u64, tid: u32) -> bool {
    let calls = calls();
    let [low, high] = [thread as u32, (thread >> 32) as u32];
    let points_to_itself = || sys::holds(thread, low) && sys::holds(thread.wrapping_add(4), high);
    let id = thread.wrapping_add(calls.tid_offset);
    thread & NO_POINTER == 0 && points_to_itself() && (calls.tid_offset == 0 || sys::holds(id, tid))
}
