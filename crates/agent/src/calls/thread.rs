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

/// The thread pointer of a thread whose ring says that it [has a block](has_block).
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the callers have asked, or run on a thread that the C library made.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags))
    };
    pointer
}

/// Whether the thread that runs here, whose kernel id is `tid`, has a block of its own that is laid out as those of the threads that the
/// command saw: then what hooks read of it is there.
///
/// That its first word points to itself says little: every thread-local storage begins so, by the ABI ("ELF Handling For Thread-Local
/// Storage", 3.4.6), also that of a runtime that makes its threads by a bare `clone` and gives them some bytes at the end of a mapping. So
/// the kernel is asked whether each word can be read, and the word of the id must have it.
#[cold]
pub fn has_block(thread: u64, tid: u32) -> bool {
    let calls = calls();
    let is_there = |offset: u64| sys::is_readable(thread.wrapping_add(offset));
    // SAFETY: the kernel has said that it can be read; it is this thread's own.
    let points_to_itself = || is_there(0) && unsafe { *(thread as *const u64) } == thread;
    let has_id = || {
        let id = thread.wrapping_add(calls.tid_offset) as *const u32;
        // SAFETY: as above.
        calls.tid_offset == 0 || is_there(calls.tid_offset) && unsafe { *id } == tid
    };
    thread & NO_POINTER == 0 && points_to_itself() && has_id()
}
