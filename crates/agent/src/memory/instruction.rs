//! Changes of a word by one instruction, which an interrupt of this thread (a signal handler) cannot split. They are not atomic with
//! respect to other threads, and cost as little as an ordinary change. Used by `calls::counts`, `calls::call`,
//! `calls::counts::further` and others.
//!
//! Miri interprets no assembly and delivers no signal, so there each is written in Rust.

#[cfg(not(miri))]
use core::arch::asm;
use core::sync::atomic::AtomicU64;
#[cfg(miri)]
use core::sync::atomic::Ordering;

/// Adds 1 to a word.
///
/// # Safety
/// `word` is aligned and may be written; no other thread writes it.
#[inline(always)]
pub unsafe fn increment(word: *mut u64) {
    // SAFETY: the caller's promise.
    #[cfg(not(miri))]
    unsafe {
        asm!("add qword ptr [{}], 1", in(reg) word, options(nostack));
    }
    // SAFETY: the caller's promise.
    #[cfg(miri)]
    unsafe {
        *word = (*word).wrapping_add(1);
    }
}

/// Adds 1 to half a word.
///
/// # Safety
/// As for [`increment`].
#[inline(always)]
pub unsafe fn increment_half(half: *mut u32) {
    // SAFETY: the caller's promise.
    #[cfg(not(miri))]
    unsafe {
        asm!("add dword ptr [{}], 1", in(reg) half, options(nostack));
    }
    // SAFETY: the caller's promise.
    #[cfg(miri)]
    unsafe {
        *half = (*half).wrapping_add(1);
    }
}

/// Adds a number to a word.
///
/// # Safety
/// As for [`increment`].
#[inline(always)]
pub unsafe fn add(word: *mut u64, number: u64) {
    // SAFETY: the caller's promise.
    #[cfg(not(miri))]
    unsafe {
        asm!("add [{}], {}", in(reg) word, in(reg) number, options(nostack));
    }
    // SAFETY: the caller's promise.
    #[cfg(miri)]
    unsafe {
        *word = (*word).wrapping_add(number);
    }
}

/// Compares and exchanges a word. Returns whether it was `old`.
#[inline(always)]
pub fn exchange(word: &AtomicU64, old: u64, new: u64) -> bool {
    #[cfg(miri)]
    return word
        .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok();
    #[cfg(not(miri))]
    {
        let same: u8;
        // SAFETY: `word` is a live reference, and it is changed by one instruction, before or after which an interrupt comes.
        unsafe {
            asm!(
                "cmpxchg [{at}], {new}",
                "sete {same}",
                at = in(reg) word.as_ptr(),
                new = in(reg) new,
                same = out(reg_byte) same,
                inout("rax") old => _,
                options(nostack),
            );
        }
        same != 0
    }
}
