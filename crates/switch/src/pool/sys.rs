//! The system calls of the pool, each with its errors sorted.

use core::ops::Range;
use core::ptr;

use crate::error::Error;

/// Page size of Linux on x86-64.
pub const PAGE: usize = 4096;

/// `MADV_GUARD_INSTALL` (include/uapi/asm-generic/mman-common.h, Linux 6.13): a fault on the range
/// is fatal, without a mapping of its own.
const MADV_GUARD_INSTALL: i32 = 102;

/// `PIDFD_SELF_THREAD_GROUP` (include/uapi/linux/pidfd.h, Linux 6.14): this process, without a
/// descriptor.
const THIS_PROCESS: i32 = -10_001;

/// The most guards that [`light_guards`] makes with one call.
pub const BATCH: usize = 32;

fn errno() -> i32 {
    // SAFETY: glibc's errno is a valid int of this thread.
    unsafe { *libc::__errno_location() }
}

/// Maps `len` bytes for stacks: private, not reserved, never in huge pages. `MAP_STACK` alone keeps
/// huge pages away on today's kernels only; with them one touched byte costs 2 MiB.
pub fn map(len: usize) -> Result<usize, Error> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(Error::OutOfMemory { asked: len });
    }
    // SAFETY: advice on our own mapping. It may fail on a kernel without huge pages: all the same.
    unsafe { libc::madvise(at, len, libc::MADV_NOHUGEPAGE) };
    Ok(at.expose_provenance())
}

/// Unmaps what [`map`] made.
///
/// # Safety
///
/// Nobody may use the range any more.
pub unsafe fn unmap(at: usize, len: usize) {
    // SAFETY: the caller promises that the mapping is out of use.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(at), len) };
}

/// How guards are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// `MADV_GUARD_INSTALL` where the kernel has it, else `mprotect`.
    Auto,
    /// `mprotect` only: two mappings for each stack.
    Mprotect,
}

/// Makes a guard of `range`; says which way it was made.
///
/// The range is page-aligned, in one of our mappings, and no stack uses it.
pub fn guard(range: Range<usize>, how: Guard) -> Result<Guard, Error> {
    let at = ptr::with_exposed_provenance_mut(range.start);
    if how == Guard::Auto {
        // SAFETY: the range is ours and unused: nothing is lost when its pages are.
        if unsafe { libc::madvise(at, range.len(), MADV_GUARD_INSTALL) } == 0 {
            return Ok(Guard::Auto);
        }
        // Anything else than a shortage (an old kernel, locked memory, a filter) leaves mprotect.
        if errno() == libc::ENOMEM {
            return Err(Error::OutOfMemory { asked: range.len() });
        }
    }
    // SAFETY: as above.
    if unsafe { libc::mprotect(at, range.len(), libc::PROT_NONE) } == 0 {
        return Ok(Guard::Mprotect);
    }
    match errno() {
        libc::ENOMEM => Err(Error::OutOfMappings),
        errno => Err(Error::GuardRefused { errno }),
    }
}

/// Makes a guard of `len` bytes at `start` and at every `stride` from there, `count` in all and at most
/// [`BATCH`], with one system call; false when it did not make them all: the kernel has no such guards,
/// or takes them one at a time only. Those it made do no harm.
///
/// The ranges are as for [`guard`]. Under a seccomp filter nothing is tried: it may kill for a call that it
/// does not know, and hardly any program makes this one. Nor for Valgrind, whose 3.19 does not know it.
pub fn light_guards(start: usize, len: usize, stride: usize, count: usize) -> bool {
    // SAFETY: asks for a number.
    if cfg!(feature = "valgrind") || unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) } != 0 {
        return false;
    }
    let mut ranges = [libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: len,
    }; BATCH];
    let count = count.min(BATCH);
    for (index, range) in ranges[..count].iter_mut().enumerate() {
        range.iov_base = ptr::with_exposed_provenance_mut(start + index * stride);
    }
    // SAFETY: the kernel reads `count` ranges, all of which are ours and unused.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            THIS_PROCESS,
            ranges.as_ptr(),
            count,
            MADV_GUARD_INSTALL,
            0,
        )
    };
    done == (count * len) as libc::c_long
}

/// What happens to the pages of a stack that comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    /// They stay in the 64 stacks of a size that came back last. The others keep their highest page, so that the memory of
    /// many deep stacks comes back by itself and a coroutine that needs little faults no more often.
    #[default]
    Warm,
    /// They stay: the next coroutine faults on none of them, and finds old bytes there.
    Keep,
    /// `MADV_FREE`: the kernel takes them when it is short of memory.
    Free,
    /// `MADV_DONTNEED`: gone at once, zeros on the next use.
    DontNeed,
}

/// Applies `how` to a stack nobody uses.
pub fn release(range: Range<usize>, how: Reuse) {
    let advice = match how {
        Reuse::Warm | Reuse::Keep => return,
        Reuse::Free => libc::MADV_FREE,
        Reuse::DontNeed => libc::MADV_DONTNEED,
    };
    // SAFETY: the range is a stack of ours that nobody uses. Refused advice changes nothing.
    unsafe {
        libc::madvise(
            ptr::with_exposed_provenance_mut(range.start),
            range.len(),
            advice,
        )
    };
}

/// The most bytes of a stack that were in use since its pages were last given back, in whole
/// pages: from the lowest page the kernel holds to the top. Async-signal-safe; one system call for
/// every 4 MiB looked at.
///
/// Pages that were swapped out do not count, and those that the stack's previous owner touched do
/// ([`Reuse::Keep`]). Zero for a range that is not mapped.
pub fn high_water_mark(range: Range<usize>) -> usize {
    const CHUNK: usize = 1024;
    let mut present = [0u8; CHUNK];
    let mut at = range.start & !(PAGE - 1);
    while at < range.end {
        let pages = (range.end - at).div_ceil(PAGE).min(CHUNK);
        // SAFETY: mincore writes one byte for each page asked for, and `present` has that many.
        let answer = unsafe {
            libc::mincore(
                ptr::with_exposed_provenance_mut(at),
                pages * PAGE,
                present.as_mut_ptr(),
            )
        };
        if answer != 0 {
            return 0;
        }
        if let Some(first) = present[..pages].iter().position(|byte| byte & 1 != 0) {
            return range.end - (at + first * PAGE).max(range.start);
        }
        at += pages * PAGE;
    }
    0
}
