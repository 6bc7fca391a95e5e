//! The ring buffer that programs write and we read (Documentation/bpf/ringbuf.rst, kernel/bpf/ringbuf.c): a page with our
//! position, which we write, a page with the writers' position, and the data, twice in a row, so that no record is cut.
//! Used by `watch`.
//!
//! ```text
//!   0           4096        8192             8192 + size         8192 + 2 size
//!   │ ours      │ theirs    │ data           │ the same data     │
//!                             ├ length, flags (4) │ page (4) │ record … │ (8-byte aligned)
//! ```

use crate::kernel::{Map, Refused};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// The record is still being written: `BPF_RINGBUF_BUSY_BIT` (include/uapi/linux/bpf.h).
const BUSY: u32 = 1 << 31;
/// The record was given up, and nothing is to be read of it: `BPF_RINGBUF_DISCARD_BIT` (include/uapi/linux/bpf.h).
const DISCARDED: u32 = 1 << 30;
/// Bytes before each record: `BPF_RINGBUF_HDR_SZ` (include/uapi/linux/bpf.h).
const HEADER: u64 = 8;
/// How long a record that is being written is waited for.
const LONGEST_WRITE: Duration = Duration::from_secs(1);

/// A ring buffer as lancet has mapped it; the text of this module draws what lies where.
#[derive(Debug)]
pub struct Ring {
    ours: *mut u8,
    /// The mapping of the page with the writers' position and of the data behind it, which we only read.
    theirs: *mut u8,
    size: usize,
}

impl Ring {
    /// Maps the ring buffer that this map is.
    pub fn new(map: &Map) -> Result<Self, Refused> {
        let size = map.entries() as usize;
        let mapped = |length, protection, offset| {
            // SAFETY: a new mapping, where the kernel wants it.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    protection,
                    libc::MAP_SHARED,
                    map.descriptor(),
                    offset,
                )
            };
            match at {
                libc::MAP_FAILED => Err(Refused::Kernel {
                    what: "the ring buffer",
                    error: io::Error::last_os_error(),
                }),
                at => Ok(at.cast::<u8>()),
            }
        };
        let mut ring = Ring {
            ours: mapped(PAGE, libc::PROT_READ | libc::PROT_WRITE, 0)?,
            theirs: std::ptr::null_mut(),
            size,
        };
        ring.theirs = mapped(PAGE + 2 * size, libc::PROT_READ, PAGE as libc::off_t)?;
        Ok(ring)
    }

    /// Hands on the records that are there, at most so many, and returns how many.
    pub fn read(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        // SAFETY: both are the first word of a mapped page, aligned, and are only used as atomics while it is mapped.
        let (ours, theirs) = unsafe {
            (
                &*self.ours.cast::<AtomicU64>(),
                &*self.theirs.cast::<AtomicU64>(),
            )
        };
        let (mut at, end) = (ours.load(Ordering::Relaxed), theirs.load(Ordering::Acquire));
        let mut count = 0;
        while at < end && count < most {
            // SAFETY: positions are multiples of 8 and are taken within the data, which the kernel has mapped twice in a row; a
            // header of 8 bytes is there.
            let header = unsafe { &*self.data(at).cast::<AtomicU32>() };
            let Some(length) = written(header) else {
                break;
            };
            let bytes = u64::from(length & !(BUSY | DISCARDED));
            if length & DISCARDED == 0 && bytes as usize <= self.size {
                // SAFETY: the kernel has written so many bytes behind the header, which nobody changes before our position has
                // passed them; a record at the end of the data goes on in the second mapping.
                let record = unsafe {
                    std::slice::from_raw_parts(self.data(at).add(HEADER as usize), bytes as usize)
                };
                take(record);
            }
            at += (bytes + HEADER).next_multiple_of(8);
            ours.store(at, Ordering::Release);
            count += 1;
        }
        count
    }

    fn data(&self, position: u64) -> *const u8 {
        let within = position as usize & (self.size - 1);
        // SAFETY: behind the page with the position lies the data, and `within` is less than its size, a power of two.
        unsafe { self.theirs.add(PAGE + within) }
    }
}

/// Returns the length and the flags of a record, once it is written. Its writer keeps its processor until then, so that lasts for less than a
/// microsecond, unless a hypervisor takes the processor away; and who asks after the end of a process wants all records of it, which may lie
/// behind this one. `None` = it was not written for [`LONGEST_WRITE`].
fn written(header: &AtomicU32) -> Option<u32> {
    let mut since = None;
    loop {
        let length = header.load(Ordering::Acquire);
        if length & BUSY == 0 {
            return Some(length);
        }
        if since.get_or_insert_with(Instant::now).elapsed() > LONGEST_WRITE {
            return None;
        }
        std::thread::yield_now();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mappings, which nobody refers to any more; the second is not there if it could not be made.
        unsafe {
            libc::munmap(self.ours.cast(), PAGE);
            if !self.theirs.is_null() {
                libc::munmap(self.theirs.cast(), PAGE + 2 * self.size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Pages as the kernel has them: a page with the writers' position, and the data twice in a row, of which the second is not used here.
    fn ring() -> Ring {
        let pages = |count: usize| {
            // SAFETY: new memory, wherever the kernel wants it.
            let at = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    count * PAGE,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(at, libc::MAP_FAILED);
            at.cast::<u8>()
        };
        Ring {
            ours: pages(1),
            theirs: pages(3),
            size: PAGE,
        }
    }

    /// A record that is being written when all are asked for hides none of those behind it.
    #[test]
    fn a_record_that_is_being_written_is_waited_for() {
        let mut ring = ring();
        let theirs = ring.theirs;
        // SAFETY: within the data, of which a word is aligned at multiples of 8.
        let word = |at: usize| unsafe { &*theirs.add(PAGE + at).cast::<AtomicU32>() };
        word(0).store(8 | BUSY, Ordering::Release);
        word(16).store(8, Ordering::Release);
        // SAFETY: the first word of a mapped page.
        let end = unsafe { &*theirs.cast::<AtomicU64>() };
        end.store(32, Ordering::Release);
        let begins = Arc::new(std::sync::Barrier::new(2));
        let (first, waits) = (theirs as usize, begins.clone());
        let writer = std::thread::spawn(move || {
            waits.wait();
            // Many looks later.
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            // SAFETY: as above; the ring lives until this thread was waited for.
            let header = unsafe { &*((first + PAGE) as *const AtomicU32) };
            header.store(8, Ordering::Release);
        });
        begins.wait();
        let mut records = 0;
        ring.read(usize::MAX, |_| records += 1);
        writer.join().expect("the writer");
        assert_eq!(records, 2);
    }

    /// What is not asked for keeps its room, so that its writers see how much waits.
    #[test]
    fn no_more_is_taken_than_is_asked_for() {
        let mut ring = ring();
        for at in [0, 16, 32] {
            // SAFETY: within the data, of which a word is aligned at multiples of 8.
            let word = unsafe { &*ring.theirs.add(PAGE + at).cast::<AtomicU32>() };
            word.store(8, Ordering::Release);
        }
        // SAFETY: the first words of mapped pages.
        let [ours, theirs] = unsafe {
            [
                &*ring.ours.cast::<AtomicU64>(),
                &*ring.theirs.cast::<AtomicU64>(),
            ]
        };
        theirs.store(48, Ordering::Release);
        assert_eq!(ring.read(2, |_| {}), 2);
        assert_eq!(ours.load(Ordering::Relaxed), 32);
        assert_eq!(ring.read(2, |_| {}), 1);
        assert_eq!(ring.read(2, |_| {}), 0);
    }
}
