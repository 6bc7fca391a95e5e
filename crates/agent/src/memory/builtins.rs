//! The memory functions that compiled Rust calls by name. libc has them; the agent has no libc.
//!
//! They use `rep` instructions, because loops written in Rust would be compiled into calls of these very functions. `rep` takes some 10 ns
//! to begin, so few bytes are copied by loads and stores of fixed sizes, the last of which overlap.

use core::arch::asm;

/// C's `memcpy`.
///
/// # Safety
/// Both areas have `count` bytes and do not overlap.
#[cfg_attr(panic = "abort", unsafe(no_mangle))]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller gives two areas of `count` bytes, and each size is at most that.
    unsafe {
        match count {
            0..4 => {
                if count != 0 {
                    let (first, middle, last) = (*from, *from.add(count / 2), *from.add(count - 1));
                    *to = first;
                    *to.add(count / 2) = middle;
                    *to.add(count - 1) = last;
                }
            }
            4..8 => ends::<u32>(to, from, count),
            8..16 => ends::<u64>(to, from, count),
            16..=32 => ends::<[u64; 2]>(to, from, count),
            33..=64 => ends::<[u64; 4]>(to, from, count),
            _ => many(to, from, count),
        }
    }
    to
}

/// Copies `count` bytes; `T` has at most that many and at least half of them.
///
/// # Safety
/// Both areas have `count` bytes. They may overlap, because all is read before anything is written.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, count: usize) {
    let last = count - size_of::<T>();
    // SAFETY: the caller guarantees two areas of `count` bytes, at least as many as `T` has, so both halves lie within them.
    unsafe {
        let first = from.cast::<T>().read_unaligned();
        let end = from.add(last).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(first);
        to.add(last).cast::<T>().write_unaligned(end);
    }
}

/// Copies `count` bytes between areas of which `to` does not begin within `from`, by one `rep movsb`.
unsafe fn many(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller gives two areas of `count` bytes.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
}

/// C's `memmove`.
///
/// # Safety
/// Both areas have `count` bytes; they may overlap.
#[cfg_attr(panic = "abort", unsafe(no_mangle))]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= count {
        // SAFETY: the end of `from` is not overwritten before it is read.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: the caller gives two areas of `count` bytes; from the end backwards each byte is read
    // before it is overwritten.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") count => _,
             inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
             inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// C's `memset`.
///
/// # Safety
/// The area has `count` bytes, which may be written.
#[cfg_attr(panic = "abort", unsafe(no_mangle))]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller gives an area of `count` bytes.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8,
             options(nostack, preserves_flags));
    }
    to
}

/// C's `memcmp`.
///
/// # Safety
/// Both areas have `count` bytes.
#[cfg_attr(panic = "abort", unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at + 8 <= count {
        // SAFETY: the caller gives two areas of `count` bytes. Volatile, so that this loop is not recognised and compiled into a call of
        // itself; as an array of bytes, because they lie at any address.
        let (x, y) = unsafe {
            let word = |from: *const u8| {
                u64::from_be_bytes(from.add(at).cast::<[u8; 8]>().read_volatile())
            };
            (word(a), word(b))
        };
        if x != y {
            return if x < y { -1 } else { 1 };
        }
        at += 8;
    }
    while at < count {
        // SAFETY: the caller gives two areas of `count` bytes. Volatile, so that this loop is not
        // recognised and compiled into a call of itself.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        at += 1;
    }
    0
}

/// BSD's `bcmp`, which the compiler calls where only equality is asked.
///
/// # Safety
/// Both areas have `count` bytes.
#[cfg_attr(panic = "abort", unsafe(no_mangle))]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, count: usize) -> i32 {
    // SAFETY: the caller guarantees two areas of `count` bytes, as `memcmp` requires.
    unsafe { memcmp(a, b, count) }
}

#[cfg(all(test, not(miri)))]
mod tests;
