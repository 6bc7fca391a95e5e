//! The few system calls the agent makes, without libc. Used by `interpreted`, `calls::children`, `calls::ring` and
//! others.
//!
//! Numbers and the calling sequence: Linux `arch/x86/entry/syscalls/syscall_64.tbl`, SysV ABI
//! supplement A.2.1 (arguments in rdi rsi rdx r10 r8 r9; rcx and r11 are lost).

#[cfg(not(miri))]
use core::arch::asm;

pub(super) const MMAP: u64 = 9;
pub(super) const MPROTECT: u64 = 10;
pub(super) const MUNMAP: u64 = 11;
pub(super) const RT_SIGPROCMASK: u64 = 14;
/// The `how` of [`RT_SIGPROCMASK`] that replaces the mask.
const SETMASK: u64 = 2;
pub(super) const NANOSLEEP: u64 = 35;
pub(super) const GETPID: u64 = 39;
const KILL: u64 = 62;
const PRCTL: u64 = 157;
pub(super) const GETTID: u64 = 186;
pub(super) const FUTEX: u64 = 202;
pub(super) const MREMAP: u64 = 25;
pub(super) const MADVISE: u64 = 28;
pub(super) const CLOCK_GETTIME: u64 = 228;
pub(super) const PROCESS_VM_READV: u64 = 310;

const PROT_READ_WRITE: u64 = 3;
const MAP_PRIVATE_ANONYMOUS: u64 = 0x22;
const MAP_FIXED: u64 = 0x10;
/// No value of `how` (`SIG_BLOCK` to `SIG_SETMASK` are 0 to 2).
const NO_HOW: u64 = 0x7fff_ffff;
const MAP_NORESERVE: u64 = 0x4000;
const MREMAP_MAYMOVE: u64 = 1;
const CLOCK_MONOTONIC: u64 = 1;

/// # Safety
/// The caller answers for what the call does.
unsafe fn syscall(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    // SAFETY: the caller's promise.
    #[cfg(miri)]
    return unsafe { super::interpreted::syscall(number, [a, b, c, d, e, f]) };
    #[cfg(not(miri))]
    // SAFETY: the kernel keeps every register but rax, rcx and r11; memory effects are the caller's.
    unsafe {
        let result;
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
        result
    }
}

fn address(result: u64) -> Option<u64> {
    // Errors are -4095..=-1.
    (result < 0u64.wrapping_sub(4095)).then_some(result)
}

/// Maps `bytes` zeroed bytes, which take memory only where they are touched.
pub fn map(bytes: u64) -> Option<u64> {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
    address(unsafe { syscall(MMAP, 0, bytes, PROT_READ_WRITE, flags, u64::MAX, 0) })
}

/// The same in the place of a mapping of ours; whether the kernel let us.
///
/// # Safety
/// The mapping is ours; what it held may go.
pub unsafe fn map_over(at: u64, bytes: u64, protection: u64) -> bool {
    let flags = MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { syscall(MMAP, at, bytes, protection, flags, u64::MAX, 0) == at }
}

/// Makes a mapping of ours longer; it may move.
///
/// # Safety
/// `at` and `bytes` are a whole mapping made by [`map`]; nothing keeps a pointer into it.
pub unsafe fn remap(at: u64, bytes: u64, longer: u64) -> Option<u64> {
    // SAFETY: the caller owns the mapping.
    address(unsafe { syscall(MREMAP, at, bytes, longer, MREMAP_MAYMOVE, 0, 0) })
}

/// Gives a mapping of ours back.
///
/// # Safety
/// As for [`remap`].
pub unsafe fn unmap(at: u64, bytes: u64) {
    // SAFETY: the caller owns the mapping.
    unsafe { syscall(MUNMAP, at, bytes, 0, 0, 0, 0) };
}

/// `PROT_READ | PROT_WRITE`, for callers of `protect` and `map_over`.
pub const READ_WRITE: u64 = PROT_READ_WRITE;

/// Changes the protection of whole pages; whether the kernel let us.
pub fn protect(at: u64, bytes: u64, protection: u64) -> bool {
    // SAFETY: the callers add rights, or take away what they added.
    unsafe { syscall(MPROTECT, at, bytes, protection, 0, 0, 0) == 0 }
}

/// Has children of fork inherit whole pages of a mapping (`MADV_DOFORK`); whether the kernel let us.
pub fn give_to_children(at: u64, bytes: u64) -> bool {
    const DOFORK: u64 = 11;
    // SAFETY: nothing changes in this process.
    unsafe { syscall(MADVISE, at, bytes, DOFORK, 0, 0, 0) == 0 }
}

/// Makes whole pages of ours zeros, which take no memory until they are touched (`MADV_DONTNEED`); whether the kernel let us.
///
/// # Safety
/// The pages are ours; what they held may go.
pub unsafe fn give_pages_back(at: u64, bytes: u64) -> bool {
    const DONTNEED: u64 = 4;
    // SAFETY: the caller's promise.
    unsafe { syscall(MADVISE, at, bytes, DONTNEED, 0, 0, 0) == 0 }
}

/// Keeps whole pages of ours, which hold numbers alone, out of children of fork, which find zeros there (`MADV_WIPEONFORK`), and out of core
/// files; and has each page take memory by itself (`MADV_NOHUGEPAGE`). A kernel that knows one of these not does without.
pub fn keep_apart(at: u64, bytes: u64) {
    const NOHUGEPAGE: u64 = 15;
    const DONTDUMP: u64 = 16;
    const WIPEONFORK: u64 = 18;
    for advice in [NOHUGEPAGE, DONTDUMP, WIPEONFORK] {
        // SAFETY: nothing changes in this process's memory.
        unsafe { syscall(MADVISE, at, bytes, advice, 0, 0, 0) };
    }
}

/// Nanoseconds of CLOCK_MONOTONIC, by a system call.
pub fn now() -> u64 {
    let mut time = [0u64; 2];
    let at = (&raw mut time) as u64;
    // SAFETY: `time` is a live `struct timespec`.
    unsafe { syscall(CLOCK_GETTIME, CLOCK_MONOTONIC, at, 0, 0, 0, 0) };
    time[0] * 1_000_000_000 + time[1]
}

/// Reads the time-stamp counter, without waiting for the instructions before (`rdtsc`).
#[inline]
pub fn ticks() -> u64 {
    #[cfg(miri)]
    return super::interpreted::ticks();
    // SAFETY: every x86-64 processor has the instruction, and Linux leaves it to user space unless a
    // thread asked otherwise for itself (PR_SET_TSC). Hooks of calls ask first (`calls::locks`); no VM does it.
    #[cfg(not(miri))]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

/// Whether the kernel lets this thread read the time-stamp counter (`prctl(PR_GET_TSC)`, arch/x86/kernel/process.c). Where
/// it does not, the instruction ends the thread's process. A thread has this from the one that made it.
pub fn reads_counter() -> bool {
    const GET_TSC: u64 = 25;
    const SIGSEGV: u32 = 2;
    let mut mode = 0u32;
    // SAFETY: `mode` is a live int.
    let result = unsafe { syscall(PRCTL, GET_TSC, (&raw mut mode) as u64, 0, 0, 0, 0) };
    result != 0 || mode != SIGSEGV
}

/// Sleeps so many nanoseconds, or until a signal.
pub fn pause(nanoseconds: u64) {
    let time = [0u64, nanoseconds];
    // SAFETY: `time` is a live `struct timespec`; the rest is not wanted.
    unsafe { syscall(NANOSLEEP, (&raw const time) as u64, 0, 0, 0, 0, 0) };
}

/// The kernel's id of this process.
pub fn process_id() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(GETPID, 0, 0, 0, 0, 0, 0) as u32 }
}

/// Whether there is a process or a thread with this id: signal 0 is none, and kill(2) finds any thread by its own id
/// (`kill_pid_info_type` in `kernel/signal.c` looks for a `PIDTYPE_PID`).
pub fn exists(id: u64) -> bool {
    const ESRCH: u64 = 0u64.wrapping_sub(3);
    // SAFETY: nothing is sent.
    unsafe { syscall(KILL, id, 0, 0, 0, 0, 0) != ESRCH }
}

/// The kernel's id of this thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(GETTID, 0, 0, 0, 0, 0, 0) as u32 }
}

/// Whether there is a 32-bit word of that value at an aligned address, which need not be mapped: the kernel looks
/// (`FUTEX_CMP_REQUEUE` of no waiters, `kernel/futex/requeue.c`). A call that most sandboxes let through, because
/// locks need it; the command asks before it opens a process.
pub fn holds(at: u64, value: u32) -> bool {
    const CMP_REQUEUE_PRIVATE: u64 = 4 | 128;
    // SAFETY: nobody is woken or moved.
    unsafe { syscall(FUTEX, at, CMP_REQUEUE_PRIVATE, 0, 0, at, value.into()) == 0 }
}

/// The error of the kernel for an address that cannot be read (include/uapi/asm-generic/errno-base.h).
pub const EFAULT: u64 = 14;

/// Copies memory of this process, of which `tid` is the running thread, to a buffer of ours, and returns how many bytes were copied: fewer
/// than asked for if the rest cannot be read. The kernel takes the memory of the thread that has this id, and a process's own memory
/// needs no permission (`process_vm_rw_core` in `mm/process_vm_access.c`, `mm_access` in `kernel/fork.c`).
///
/// # Safety
/// `into` has room for `length` bytes.
pub unsafe fn copy(tid: u32, at: u64, into: *mut u8, length: usize) -> Result<usize, u64> {
    // `struct iovec`: address, length.
    let (from, into) = (
        [at, length as u64],
        [into.expose_provenance() as u64, length as u64],
    );
    let (from, into) = ((&raw const from) as u64, (&raw const into) as u64);
    // SAFETY: both are live; the caller guarantees the room.
    let copied = unsafe { syscall(PROCESS_VM_READV, tid.into(), into, 1, from, 1, 0) };
    address(copied)
        .map(|bytes| bytes as usize)
        .ok_or(copied.wrapping_neg())
}

/// Whether a page can be read: the kernel copies the mask from there before it looks at `how`
/// (`rt_sigprocmask` in `kernel/signal.c`), and answers EFAULT or EINVAL. Nothing is changed. The answer may be wrong by the time it
/// is here, so it is no reason to follow the address.
pub fn is_readable(at: u64) -> bool {
    // The mask's eight bytes are to lie in the page of `at`.
    let at = at & !7;
    // Without a mask the kernel looks at nothing.
    // SAFETY: `how` does not exist, so the mask stays as it is.
    at != 0 && unsafe { syscall(RT_SIGPROCMASK, NO_HOW, at, 0, 8, 0, 0) != EFAULT.wrapping_neg() }
}

pub mod alarm;
pub mod confine;
pub mod shared;

/// System calls of the child that a snapshot is written by.
pub mod child {
    use super::{address, syscall};
    use core::sync::atomic::{AtomicU32, Ordering};

    const WRITE: u64 = 1;
    const OPEN: u64 = 2;
    const CLOSE: u64 = 3;
    const POLL: u64 = 7;
    const RT_SIGACTION: u64 = 13;
    const SETITIMER: u64 = 38;
    const CLONE: u64 = 56;
    const WAIT4: u64 = 61;
    const FCNTL: u64 = 72;
    const SETSID: u64 = 112;
    const SETRLIMIT: u64 = 160;
    const EXIT_GROUP: u64 = 231;
    const PIPE2: u64 = 293;
    const CLOSE_RANGE: u64 = 436;

    /// The number of an error.
    fn errno(result: u64) -> u64 {
        result.wrapping_neg()
    }

    /// Makes a process that is a copy of this one: 0 in the copy, its id here, or the error's number. Its end sends no signal
    /// (the lowest byte of the flags is 0), so only a wait with `__WCLONE` or `__WALL` sees it; a tracer of this thread does not
    /// get it (`CLONE_UNTRACED`).
    ///
    /// # Safety
    /// The copy has this thread alone; whatever lock another held stays taken in it.
    pub unsafe fn copy() -> Result<u64, u64> {
        const UNTRACED: u64 = 0x0080_0000;
        // SAFETY: without CLONE_VM and with stack 0 the copy goes on here, on its own copy of this stack.
        let result = unsafe { syscall(CLONE, UNTRACED, 0, 0, 0, 0, 0) };
        address(result).ok_or_else(|| errno(result))
    }

    /// Waits for a child made by [`copy`] that has ended, without blocking: `None` = it has not, or there is none; else how.
    pub fn ended(pid: u64) -> Result<Option<u32>, ()> {
        const NOHANG_CLONE: u64 = 0x8000_0001;
        let mut status = 0u32;
        let at = (&raw mut status) as u64;
        // SAFETY: `status` is a live int.
        match unsafe { syscall(WAIT4, pid, at, NOHANG_CLONE, 0, 0, 0) } {
            0 => Ok(None),
            found if found == pid => Ok(Some(status)),
            _ => Err(()),
        }
    }

    /// Maps a page that a copy of this process shares with it.
    pub fn map_shared() -> Option<u64> {
        const SHARED_ANONYMOUS: u64 = 0x21;
        let protection = super::PROT_READ_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        address(unsafe {
            syscall(
                super::MMAP,
                0,
                4096,
                protection,
                SHARED_ANONYMOUS,
                u64::MAX,
                0,
            )
        })
    }

    /// Waits until the word in a shared page is not 0, at most so many nanoseconds.
    pub fn await_word(word: &AtomicU32, nanoseconds: u64) {
        const WAIT: u64 = 0;
        let end = super::now() + nanoseconds;
        let at = core::ptr::from_ref(word) as u64;
        while word.load(Ordering::Acquire) == 0 {
            let Some(left) = end.checked_sub(super::now()) else {
                return;
            };
            // `struct timespec`: the kernel refuses nanoseconds of a second or more.
            let time = [left / 1_000_000_000, left % 1_000_000_000];
            // SAFETY: the word and the `struct timespec` are live.
            unsafe { syscall(super::FUTEX, at, WAIT, 0, (&raw const time) as u64, 0, 0) };
        }
    }

    /// Sets that word to another value than 0 and wakes who waits for it.
    pub fn set_word(word: &AtomicU32, value: u32) {
        const WAKE: u64 = 1;
        word.store(value, Ordering::Release);
        let at = core::ptr::from_ref(word) as u64;
        // SAFETY: the word is live.
        unsafe { syscall(super::FUTEX, at, WAKE, 1, 0, 0, 0) };
    }

    /// Ends a child made by [`copy`] that has not been waited for.
    pub fn kill(pid: u64) {
        const SIGKILL: u64 = 9;
        // SAFETY: the id is that of our own child as long as we do not wait for it.
        unsafe { syscall(super::KILL, pid, SIGKILL, 0, 0, 0, 0) };
    }

    /// Closes every descriptor of this process, the standard ones included.
    pub fn close_all() {
        const MOST: u64 = 1 << 16;
        // SAFETY: the callers' process has no use for its descriptors.
        let closed = unsafe { syscall(CLOSE_RANGE, 0, u32::MAX.into(), 0, 0, 0, 0) };
        if closed != 0 {
            // Linux before 5.9.
            for descriptor in 0..MOST {
                close(descriptor);
            }
        }
    }

    pub fn close(descriptor: u64) {
        // SAFETY: as above.
        unsafe { syscall(CLOSE, descriptor, 0, 0, 0, 0, 0) };
    }

    /// A pipe whose ends do not block: reading and writing end. Asks for a mebibyte of room, which may be refused.
    pub fn pipe() -> Option<[u64; 2]> {
        const NONBLOCK: u64 = 0o4000;
        const SET_SIZE: u64 = 1031;
        let mut ends = [0u32; 2];
        // SAFETY: `ends` is a live array of two ints.
        let made = unsafe { syscall(PIPE2, (&raw mut ends) as u64, NONBLOCK, 0, 0, 0, 0) };
        if made != 0 {
            return None;
        }
        let [read, write] = ends.map(u64::from);
        // SAFETY: nothing but the pipe's size changes.
        unsafe { syscall(FCNTL, write, SET_SIZE, 1 << 20, 0, 0, 0) };
        Some([read, write])
    }

    /// Waits until there is room in a pipe (`room`) or for something to happen to it, at most so many milliseconds; whether its reading end
    /// is still open.
    pub fn has_reader(write: u64, room: bool, wait: u64) -> bool {
        const OUT: u64 = 4;
        const ERROR: u16 = 8;
        // `struct pollfd`: descriptor, events, revents.
        let mut wanted = write | if room { OUT << 32 } else { 0 };
        // SAFETY: `wanted` is a live `struct pollfd`.
        unsafe { syscall(POLL, (&raw mut wanted) as u64, 1, wait, 0, 0, 0) };
        (wanted >> 48) as u16 & ERROR == 0
    }

    /// Writes; how many bytes were, 0 if there was no room, or `None`.
    pub fn write(descriptor: u64, bytes: &[u8]) -> Option<usize> {
        const EAGAIN: u64 = 11;
        let (at, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
        // SAFETY: the slice is live.
        let written = unsafe { syscall(WRITE, descriptor, at, length, 0, 0, 0) };
        match address(written) {
            Some(bytes) => Some(bytes as usize),
            None if errno(written) == EAGAIN => Some(0),
            None => None,
        }
    }

    /// Writes a file that exists; `path` ends with a zero. Returns whether all bytes were written.
    pub fn write_file(path: &[u8], bytes: &[u8]) -> bool {
        const WRITE_ONLY: u64 = 1;
        // SAFETY: the path is live and ends with a zero.
        let opened = unsafe { syscall(OPEN, path.as_ptr() as u64, WRITE_ONLY, 0, 0, 0, 0) };
        let Some(descriptor) = address(opened) else {
            return false;
        };
        let written = write(descriptor, bytes);
        close(descriptor);
        written == Some(bytes.len())
    }

    /// Has the kernel send SIGALRM so many seconds from now, and not when it was to before.
    pub fn alarm(seconds: u64) {
        // `struct itimerval`: interval, value.
        let time = [0, 0, seconds, 0];
        // SAFETY: `time` is live; ITIMER_REAL is 0.
        unsafe { syscall(SETITIMER, 0, (&raw const time) as u64, 0, 0, 0, 0) };
    }

    /// Has a signal do what it does by default.
    pub fn default_action(signal: u64) {
        // `struct sigaction` of the kernel: handler, flags, restorer, mask.
        let action = [0u64; 4];
        // SAFETY: `action` is live; SIG_DFL is 0.
        unsafe { syscall(RT_SIGACTION, signal, (&raw const action) as u64, 0, 8, 0, 0) };
    }

    /// Leaves no core: neither a file nor one for a program that the machine has for that (`kernel.core_pattern` begins with `|`: systemd-coredump,
    /// apport), which would be handed the whole memory. Such a program is given cores of any size, also where the limit is 0;
    /// the limit 1 alone stops it (`do_coredump` in `fs/coredump.c`, core(5)), and is too small for a file. Where that is more than the process may ask for
    /// its limit is 0, and a core has no memory in it.
    pub fn leave_no_core() {
        const CORE: u64 = 4;
        let least = [1u64; 2];
        // SAFETY: `least` is a live `struct rlimit`.
        unsafe { syscall(SETRLIMIT, CORE, (&raw const least) as u64, 0, 0, 0, 0) };
        write_file(b"/proc/self/coredump_filter\0", b"0");
    }

    /// Leaves the process group and the terminal, whose signals are the program's.
    pub fn leave_group() {
        // SAFETY: nothing of the caller's but its group and session changes.
        unsafe { syscall(SETSID, 0, 0, 0, 0, 0, 0) };
    }

    /// Ends the process, without anything of the program's.
    pub fn end(code: u64) -> ! {
        loop {
            // SAFETY: the process ends.
            unsafe { syscall(EXIT_GROUP, code, 0, 0, 0, 0, 0) };
        }
    }
}

/// All signals of this thread are blocked until it is dropped.
pub struct SignalsBlocked {
    before: u64,
}

impl SignalsBlocked {
    /// Blocks all signals that can be blocked: not SIGKILL and SIGSTOP.
    pub fn all() -> Self {
        let (all, mut before) = (u64::MAX, 0u64);
        let (new, old) = ((&raw const all) as u64, (&raw mut before) as u64);
        // SAFETY: both are live masks of eight bytes.
        unsafe { syscall(RT_SIGPROCMASK, SETMASK, new, old, 8, 0, 0) };
        SignalsBlocked { before }
    }
}

/// Blocks all signals of this thread but these, of which bit n-1 is signal n.
pub fn unblock(signals: u64) {
    let mask = !signals;
    // SAFETY: a live mask of eight bytes.
    unsafe {
        syscall(
            RT_SIGPROCMASK,
            SETMASK,
            (&raw const mask) as u64,
            0,
            8,
            0,
            0,
        )
    };
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let mask = (&raw const self.before) as u64;
        // SAFETY: a live mask of eight bytes.
        unsafe { syscall(RT_SIGPROCMASK, SETMASK, mask, 0, 8, 0, 0) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
