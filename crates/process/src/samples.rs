//! Samples where the threads of a process spend their time in user mode: the kernel records the program counter of each thread every
//! millisecond that it runs (`perf_event_open(2)`, the software event `PERF_COUNT_SW_TASK_CLOCK`). No thread is stopped, and a
//! sleeping thread is not sampled. Used by `calls::live::guest::budget`.
//!
//! ```text
//!   mapping of one event   page 0: data_head at 1024, data_tail at 1032 (struct perf_event_mmap_page,
//!                                  include/uapi/linux/perf_event.h)
//!                          page 1: records of 8 + n bytes { u32 type, u16 misc, u16 size }; type 9 is a sample, here of
//!                                  one word, the program counter
//! ```

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::stop::thread_ids;

/// The time between two samples of a thread, in nanoseconds of its processor time.
const PERIOD: u64 = 1_000_000;
/// Limit of threads that are sampled at the same time: each needs two pages of locked memory.
const MOST: usize = 64;
const PAGE: usize = 4096;
/// `PERF_TYPE_SOFTWARE`, and `PERF_ATTR_SIZE_VER0` in the upper half of the word.
const SOFTWARE: u64 = 1 | 64 << 32;
/// The event: processor time of the thread, in nanoseconds (`PERF_COUNT_SW_TASK_CLOCK`).
const TASK_CLOCK: u64 = 1;
/// A sample holds the program counter and nothing else (`PERF_SAMPLE_IP`).
const SAMPLE_IP: u64 = 1;
/// Time in the kernel and in a hypervisor is not sampled (`exclude_kernel` and `exclude_hv`).
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
/// Programs that lancet starts do not inherit the event (`PERF_FLAG_FD_CLOEXEC`).
const CLOEXEC: u64 = 1 << 3;
/// The type of a record that is a sample (`PERF_RECORD_SAMPLE`).
const SAMPLE: u32 = 9;
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Number of samples, and how many of them were in the requested code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All samples: about as many as the threads have used milliseconds of processor time in user mode.
    pub all: u64,
    /// How many of them were in the requested code.
    pub within: u64,
}

/// Samples of the threads of one process.
#[derive(Debug)]
pub struct Samples {
    pid: i32,
    threads: HashMap<i32, Thread>,
}

impl Samples {
    /// Begins to sample the threads of process `pid`, at most 64 of them.
    ///
    /// # Errors
    /// The kernel does not allow it (`kernel.perf_event_paranoid`, a seccomp filter), or cannot.
    pub fn of(pid: i32) -> io::Result<Samples> {
        let mut samples = Samples {
            pid,
            threads: HashMap::new(),
        };
        samples.threads.insert(pid, Thread::of(pid)?);
        samples.look_for_threads();
        Ok(samples)
    }

    /// Takes the samples since the last call. New threads are sampled from now on.
    pub fn take(&mut self, code: &[Range<u64>]) -> Share {
        let mut share = Share::default();
        for thread in self.threads.values() {
            thread.take(|at| {
                share.all += 1;
                share.within += u64::from(code.iter().any(|range| range.contains(&at)));
            });
        }
        self.look_for_threads();
        share
    }

    fn look_for_threads(&mut self) {
        let Ok(now) = thread_ids(self.pid) else {
            return;
        };
        self.threads.retain(|tid, _| now.contains(tid));
        for tid in now {
            if self.threads.len() < MOST
                && !self.threads.contains_key(&tid)
                && let Ok(thread) = Thread::of(tid)
            {
                self.threads.insert(tid, thread);
            }
        }
    }
}

/// The event of one thread.
#[derive(Debug)]
struct Thread {
    _event: OwnedFd,
    /// Two pages, mapped for as long as this lives.
    pages: NonNull<u8>,
}

impl Thread {
    fn of(tid: i32) -> io::Result<Thread> {
        let attributes = [
            SOFTWARE, TASK_CLOCK, PERIOD, SAMPLE_IP, 0, USER_ONLY, 0, 0u64,
        ];
        // SAFETY: the attributes are a live array of 64 bytes, the size that they state; the call only reads them.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                tid,
                -1,
                -1,
                CLOEXEC,
            )
        };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made the descriptor, and no other value owns it.
        let event = unsafe { OwnedFd::from_raw_fd(event as i32) };
        // SAFETY: a new mapping of the event, at an address of the kernel's choice, so no memory of ours is replaced.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = NonNull::new(pages.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Thread {
            _event: event,
            pages,
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: callers pass `HEAD` or `TAIL`, aligned words of the first page, which stays mapped as long as `self`. The kernel
        // changes the one and reads the other, and both are used as atomics.
        unsafe { AtomicU64::from_ptr(self.pages.as_ptr().add(at).cast()) }
    }

    /// Passes on the program counters of the available samples.
    fn take(&self, mut each: impl FnMut(u64)) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        while tail + 8 <= head {
            let begin: u64 = u64::from_le_bytes(self.bytes(tail));
            let (kind, size) = (begin as u32, begin >> 48);
            if size < 8 {
                break;
            }
            if kind == SAMPLE && size >= 16 {
                each(u64::from_le_bytes(self.bytes(tail + 8)));
            }
            tail += size;
        }
        self.word(TAIL).store(head, Ordering::Release);
    }

    /// Returns eight bytes of the records, which wrap around at the end of the page.
    fn bytes(&self, at: u64) -> [u8; 8] {
        std::array::from_fn(|n| {
            let at = PAGE + (at as usize + n) % PAGE;
            // SAFETY: the address is within the second page, which stays mapped as long as `self`; the kernel writes nothing between
            // tail and head.
            unsafe { self.pages.as_ptr().add(at).read_volatile() }
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: `of` has mapped these two pages; `drop` has `&mut self`, so no reference into them is left.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), 2 * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[inline(never)]
    fn spin(until: Instant) -> u64 {
        let mut sum = 0u64;
        while Instant::now() < until {
            for n in 0..10_000u64 {
                sum = std::hint::black_box(sum.wrapping_add(n));
            }
        }
        sum
    }

    #[test]
    fn a_thread_that_runs_is_seen_in_its_code() {
        let pid = std::process::id() as i32;
        let mut samples = match Samples::of(pid) {
            Ok(samples) => samples,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        let spun = std::thread::spawn(|| spin(Instant::now() + Duration::from_secs(2)));
        let mut share = Share::default();
        let deadline = Instant::now() + Duration::from_secs(20);
        while share.all < 100 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            let more = samples.take(std::slice::from_ref(&(0..u64::MAX)));
            share.all += more.all;
            share.within += more.within;
            let here = samples.take(std::slice::from_ref(&(0..1)));
            assert_eq!(here.within, 0);
            share.all += here.all;
            share.within += here.all;
        }
        spun.join().unwrap();
        assert!(share.all >= 100 && share.within == share.all, "{share:?}");
    }
}
