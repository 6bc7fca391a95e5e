//! The pool: memory for rings that we share with a process, so that their records can still be read when the process has ended for whatever
//! reason. Layout: `wire::calls::Pool`. Used by `open`, `lifting`, `patcher` and others.
//!
//! A thread of the process makes the file, maps it and closes it in one call of the agent (`share`); at the end of memfd_create it stands
//! still, and we take a duplicate of its descriptor.
//!
//! The process decides which file its descriptor N is: another process that shares its table (`CLONE_FILES`) may replace it, and a filter
//! (`SECCOMP_RET_USER_NOTIF`) may answer any number. So the descriptor is duplicated (`pidfd_getfd`, Linux 5.6) and never opened by its
//! path in `/proc`: a duplicate has the rights with which the process opened the file, where opening it again would use ours. `memfd` then
//! checks the file before anything is changed.
//!
//! The file has no name, and the process keeps no descriptor of it. Its size is sealed, because lancet would die of SIGBUS when it read a
//! page that another process has cut off. When we leave, private memory replaces the file at the same addresses ([`withdraw`]), because a
//! thread that was stopped within a hook goes on writing there. Only slots that were taken are replaced; the others are unmapped. The next
//! session maps a new file. Behind the slots in use it does so only where nothing else has been mapped since.
//!
//! Children that are not followed inherit only the slots in use, because their frames may know rings there. They still share the file when
//! we have left, so its pages are then given back to the kernel ([`Pool`]'s `drop`), and only addresses remain.

mod memfd;
mod record;
mod share;

use inject::records::Record;
use inject::remote_call::RemoteThread;
use inject::resident::Resident;
use process::error::{Error, Result};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::proc_file;
use process::status_file::StatusFile;
use record::{SLOTS, There, pool};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::calls::{self, Ring};

/// Where the address space is limited (RLIMIT_AS), the largest part of it that a pool takes: 1 in [`PART`].
const PART: u64 = 16;
/// The same where that of lancet is.
const OUR_PART: u64 = 4;

/// The shared memory; see the module's documentation.
#[derive(Debug)]
pub struct Pool {
    /// Its address in the process.
    at: u64,
    /// Its size in the process.
    bytes: u64,
    /// Its size here, and that of the file.
    mapped: u64,
    slot: u64,
    file: File,
    /// The address of the mapping in our own memory.
    here: NonNull<u8>,
}

// SAFETY: `here` is a mapping of this value's own, which only its `drop` unmaps. Nothing in it depends on the thread that made it.
unsafe impl Send for Pool {}
// SAFETY: through `&Pool` the mapping is reached by atomic loads and stores only (`atomic`, `half`, `read_words`, `set_word`). `drop` has
// `&mut self`, so no other thread uses the mapping when it is unmapped.
unsafe impl Sync for Pool {}

fn set(memory: &GuestMemory, resident: &Resident, offset: usize, value: u64) -> Result<()> {
    memory.write(pool(resident) + offset as u64, &value.to_le_bytes())
}

/// What kind of pool is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Bytes of each ring.
    pub ring_size: u64,
    /// Whether the process may make it: a seccomp filter may forbid the system calls for it.
    pub may: bool,
    /// Whether children of the process are followed, which need all slots.
    pub followed: bool,
}

/// Makes the pool of a process that stands still, if it may be made. `None` = there is no pool, and rings are made in private memory of the
/// process.
pub fn open(
    memory: &GuestMemory,
    resident: &Resident,
    remote: &mut RemoteThread,
    wish: Wish,
) -> Result<Option<Pool>> {
    set(
        memory,
        resident,
        offset_of!(calls::Pool, asks),
        wish.may.into(),
    )?;
    if !wish.may {
        withdraw(memory, resident, remote)?;
        return Ok(None);
    }
    let mut there = There::read(memory, resident)?;
    set(memory, resident, offset_of!(calls::Pool, open), 0)?;
    let slot = calls::slot(wish.ring_size);
    if there.at == 0 {
        there.slot = slot;
    }
    there.slots = slots(memory.pid(), slot).max(there.used);
    if there.slots == 0 || there.slot != slot {
        // A child that was not followed may share it with its parent still.
        if is_shared_pool(memory.pid(), there.at..there.at + there.in_use())? {
            withdraw(memory, resident, remote)?;
        }
        return Ok(None);
    }
    let shared = share::map(memory, resident, remote, &mut there)
        .and_then(|pool| advised(pool, remote, there.in_use(), wish.followed));
    let pool = match shared {
        Ok(pool) => pool,
        // The kernel has no memfd_create, the process has no room, or we may not take its file.
        Err(Error::Remote { .. } | Error::System { .. }) => {
            withdraw(memory, resident, remote)?;
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    for (offset, value) in [
        (offset_of!(calls::Pool, at), pool.at),
        (offset_of!(calls::Pool, used), there.used),
        (offset_of!(calls::Pool, slots), there.slots),
        (offset_of!(calls::Pool, slot), there.slot),
        (offset_of!(calls::Pool, open), 1),
    ] {
        set(memory, resident, offset, value)?;
    }
    Ok(Some(pool))
}

/// Returns how many slots a process, and we, have room for.
fn slots(pid: i32, slot: u64) -> u64 {
    // Without this knowledge there is no pool, so that the process's limits are kept.
    let (Ok(status), Ok(limits)) = (StatusFile::of(pid), proc_file::of_process(pid, "limits"))
    else {
        return 0;
    };
    if status.bytes("VmLck").unwrap_or(0) != 0 {
        // All that it maps is locked (mlockall), or counts as if it were.
        return 0;
    }
    let limit = process::limits::soft(&limits, "Max address space");
    let ours = process::limits::left_to_map().map_or(SLOTS, |left| left / OUR_PART / slot);
    let theirs = match limit.and_then(|limit| limit.parse::<u64>().ok()) {
        Some(limit) => {
            let taken = status.bytes("VmSize").unwrap_or(0);
            limit.saturating_sub(taken) / PART / slot
        }
        None => SLOTS,
    };
    theirs.min(ours).min(SLOTS)
}

/// Keeps what the process has mapped out of its core files, and what no thread has taken out of children that are not followed.
fn advised(pool: Pool, remote: &mut RemoteThread, used: u64, followed: bool) -> Result<Pool> {
    if pool.bytes == 0 {
        return Err(Error::system(
            "the memory for rings",
            io::Error::from_raw_os_error(libc::EEXIST),
        ));
    }
    // Writing a core file would allocate pages that were never used.
    let advice = libc::MADV_DONTDUMP as u64;
    let part = [pool.at, pool.bytes, advice, 0, 0, 0];
    remote.syscall("madvise(MADV_DONTDUMP)", libc::SYS_madvise, part)?;
    if !followed && pool.bytes != used {
        let part = [pool.at + used, pool.bytes - used];
        let part = [part[0], part[1], libc::MADV_DONTFORK as u64, 0, 0, 0];
        remote.syscall("madvise(MADV_DONTFORK)", libc::SYS_madvise, part)?;
    }
    Ok(pool)
}

/// Whether a range is the pool of a session, shared still, as a killed session leaves it.
fn is_shared_pool(pid: i32, range: Range<u64>) -> Result<bool> {
    let maps = Maps::over(pid, range.clone())?;
    let name = String::from_utf8_lossy(&calls::POOL_NAME);
    let name = format!("/memfd:{}", name.trim_end_matches('\0'));
    let (mut end, mut named) = (range.start, true);
    for mapping in maps.within(range.clone()) {
        named &= mapping.start <= end && mapping.is_named(&name);
        end = mapping.end;
    }
    Ok(named && end >= range.end)
}

/// Replaces the used part of the pool of a process that stands still by private memory with the same headers of rings, and unmaps the rest.
/// The new memory is filled elsewhere and moved to its place by one system call (mremap(2)): a thread that was stopped between two
/// instructions which write to its ring must not find a ring without a size, even if lancet dies in between.
pub fn withdraw(
    memory: &GuestMemory,
    resident: &Resident,
    remote: &mut RemoteThread,
) -> Result<()> {
    set(memory, resident, offset_of!(calls::Pool, open), 0)?;
    let there = There::read(memory, resident)?;
    if there.at == 0 {
        return Ok(());
    }
    let rings = there.rings(memory)?;
    let (used, all) = (there.in_use(), there.bytes());
    if used != 0 {
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        let made = remote.map(0, used, read_write, libc::MAP_NORESERVE)?;
        for (offset, ring) in rings {
            memory.write(made + offset, &ring)?;
        }
        remote.move_to(made, used, there.at)?;
    }
    // This comes first: from then on no thread takes a slot, in memory that is no longer shared.
    set(memory, resident, offset_of!(calls::Pool, slots), there.used)?;
    let rest = there.at + used..there.at + all;
    if !rest.is_empty() && is_shared_pool(memory.pid(), rest.clone())? {
        remote.unmap(rest.start, rest.end - rest.start)?;
    }
    if used == 0 {
        // No address in the pool is known to any thread.
        set(memory, resident, offset_of!(calls::Pool, at), 0)?;
    }
    Ok(())
}

/// Returns the addresses at which a process has its pool, shared or not.
pub fn range(memory: &GuestMemory, resident: &Resident) -> Result<Range<u64>> {
    let there = There::read(memory, resident)?;
    Ok(there.at..there.at + there.bytes())
}

/// Returns the headers of the rings in use, as far as they can be read: for the fuzz target `guest`.
#[cfg(feature = "fuzz")]
pub fn headers(memory: &GuestMemory, resident: &Resident) -> Result<Vec<(u64, Vec<u8>)>> {
    There::read(memory, resident)?.rings(memory)
}

/// Closes the file that a killed session has left open in a process because it was just making the pool.
pub fn close_left(memory: &GuestMemory, remote: &mut RemoteThread) -> Result<()> {
    let name = String::from_utf8_lossy(&calls::POOL_NAME);
    let name = format!("/memfd:{} (deleted)", name.trim_end_matches('\0'));
    let Ok(files) = proc_file::descriptors(memory.pid()) else {
        return Ok(());
    };
    let is_ours = |target: std::path::PathBuf| target.as_os_str() == name.as_str();
    for file in files.filter(|file| file.target().is_some_and(is_ours)) {
        let number = file.number.into();
        remote.syscall("close", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
    }
    Ok(())
}

impl Pool {
    /// Sizes a file that the process has just made, and maps it into our memory.
    fn open(pid: i32, file: u64, there: There) -> Result<Self> {
        let failed = |error: io::Error| Error::system("the memory for rings", error);
        let bytes = there.bytes();
        let file = memfd::of_process(pid, file, bytes).map_err(failed)?;
        // SAFETY: `file` is an open descriptor of ours; the kernel chooses the address, so no memory of ours is replaced.
        let here = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        let here = NonNull::new(here.cast()).filter(|_| here != libc::MAP_FAILED);
        let here = here.ok_or_else(|| failed(io::Error::last_os_error()))?;
        Ok(Pool {
            at: there.at,
            bytes,
            mapped: bytes,
            slot: there.slot,
            file,
            here,
        })
    }

    /// Its addresses in the process.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.bytes
    }

    /// The offset in the pool of a range of the process's memory, if all of it lies in the pool.
    fn offset(&self, at: u64, bytes: usize) -> Option<u64> {
        let offset = at.checked_sub(self.at)?;
        let end = offset.checked_add(bytes as u64)?;
        (end <= self.bytes).then_some(offset)
    }

    fn atomic(&self, at: u64) -> Option<&AtomicU64> {
        let offset = self.offset(at, 8).filter(|_| at.is_multiple_of(8))?;
        // SAFETY: `offset` has checked that the eight bytes lie within the mapping, and the filter that they are aligned. The mapping lives
        // as long as `self`, and the file is sealed against shrinking, so that every page can be read.
        Some(unsafe { &*self.here.as_ptr().add(offset as usize).cast() })
    }

    /// The 64-bit word that the process has at address `at`; `None` = not in the pool, or not aligned.
    pub fn word(&self, at: u64) -> Option<u64> {
        self.atomic(at).map(|word| word.load(Ordering::Acquire))
    }

    /// The 32-bit word at address `at`, in the same way.
    pub fn half(&self, at: u64) -> Option<u32> {
        let offset = self.offset(at, 4).filter(|_| at.is_multiple_of(4))?;
        // SAFETY: `offset` has checked that the four bytes lie within the mapping, and the filter that they are aligned. The mapping lives
        // as long as `self`, and the file is sealed against shrinking.
        let half: &AtomicU32 = unsafe { &*self.here.as_ptr().add(offset as usize).cast() };
        Some(half.load(Ordering::Acquire))
    }

    /// Fills `into` with the words from address `at` on; false if they are not all in the pool.
    pub fn read_words(&self, at: u64, into: &mut [u64]) -> bool {
        let offset = self.offset(at, size_of_val(into));
        let Some(offset) = offset.filter(|_| at.is_multiple_of(8)) else {
            return false;
        };
        // SAFETY: `offset` has checked that all bytes of `into.len()` words lie within the mapping, and the filter that they are aligned.
        // The mapping lives as long as `self`, and the file is sealed against shrinking. The process may write them at the same time, so
        // they are read as atomics.
        let words: &[AtomicU64] = unsafe {
            let first = self.here.as_ptr().add(offset as usize);
            std::slice::from_raw_parts(first.cast(), into.len())
        };
        // The order matters: a record's first word, which says that it is complete, is read before the others.
        for (word, into) in words.iter().zip(into) {
            *into = word.load(Ordering::Acquire);
        }
        true
    }

    /// Sets the word at address `at`; false if it is not in the pool.
    pub fn set_word(&self, at: u64, value: u64) -> bool {
        let word = self.atomic(at);
        word.is_some_and(|word| {
            word.store(value, Ordering::Release);
            true
        })
    }

    /// Returns the `count` records from address `at` on. They are read through the file, because reading the mapping would allocate pages
    /// that were never used.
    pub fn records<T: Record>(&self, at: u64, count: usize) -> Option<Vec<T>> {
        let size = size_of::<T>();
        let offset = self.offset(at, size.checked_mul(count)?)?;
        let mut bytes = vec![0; size * count];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes.chunks_exact(size).map(T::from_bytes).collect())
    }

    /// Addresses of the rings that were made in the pool.
    pub fn rings(&self) -> Vec<u64> {
        let slots = self.range().step_by(self.slot as usize);
        let made = |at: &u64| {
            let ring = self.records::<u64>(at + offset_of!(Ring, records) as u64, 1);
            ring.is_some_and(|ring| ring[0] != 0)
        };
        slots.filter(made).collect()
    }

    fn write_file(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| Error::system("the file of the rings", error))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: `here` and `mapped` are the mapping made in `open`; `drop` has `&mut self`, so no reference into it is left.
        unsafe { libc::munmap(self.here.as_ptr().cast(), self.mapped as usize) };
        // Children that still share the file would keep its pages for good. From now on they read zeros there, as of a ring that was never
        // made.
        let how = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
        // SAFETY: the call takes an open descriptor of ours and integers; it writes no memory of ours.
        unsafe { libc::fallocate(self.file.as_raw_fd(), how, 0, self.mapped as i64) };
    }
}
