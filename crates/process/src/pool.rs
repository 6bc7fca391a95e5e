//! Memory for lanes that we share with a guest: what stands there can still be read when the guest is gone, whatever ended it.
//! Layout: `wire::calls::Pool`.
//!
//! ```text
//!   borrowed thread                          us
//!   memfd_create ──────────────────────────► open /proc/PID/fd/N, size it, seal its size
//!                                            write what goes on of lanes that there are
//!   mmap: slots in use, in their place;
//!         the rest without protection
//!   close
//! ```
//!
//! The file has no name, the guest no descriptor of it, and nobody can make it smaller under our reading hands. When we leave,
//! memory of the guest's own comes in its place ([`withdraw`]), at the same addresses: a thread that was
//! stopped within a hook goes on where it stood. The next session puts a new file there.

use crate::borrow::Borrowed;
use crate::error::{Error, Result};
use crate::memory::{GuestMemory, Record};
use crate::resident::Resident;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::calls::{self, Calls, Lane};

/// Threads that have their lanes there.
const SLOTS: u64 = 256;
/// Of a limited address space a pool takes at most this part.
const PART: u64 = 16;

/// See the module's text.
#[derive(Debug)]
pub struct Pool {
    /// Where the guest has it.
    at: u64,
    bytes: u64,
    slot: u64,
    file: File,
    /// Where we have it.
    here: NonNull<u8>,
}

// SAFETY: the mapping is this value's alone until it is dropped, and is only touched by atomic loads and stores.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// What the agent knows of it.
#[derive(Clone, Copy, Debug)]
struct There {
    at: u64,
    slots: u64,
    slot: u64,
    used: u64,
}

impl There {
    fn read(memory: &GuestMemory, resident: &Resident) -> Result<Self> {
        let word = |offset| memory.word(pool(resident) + offset as u64);
        let slots = word(offset_of!(calls::Pool, slots))?;
        Ok(There {
            at: word(offset_of!(calls::Pool, at))?,
            slots,
            slot: word(offset_of!(calls::Pool, slot))?,
            used: word(offset_of!(calls::Pool, used))?.min(slots),
        })
    }

    fn in_use(&self) -> u64 {
        self.used * self.slot
    }

    fn bytes(&self) -> u64 {
        self.slots * self.slot
    }

    /// The lanes of slots in use as they are to go on: their places and positions, with tables that are empty.
    fn lanes(&self, memory: &GuestMemory) -> Result<Vec<(u64, Vec<u8>)>> {
        let slots = (0..self.used).map(|slot| slot * self.slot);
        slots
            .map(|offset| {
                let mut lane = vec![0; size_of::<Lane>()];
                memory.read_bytes(self.at + offset, &mut lane)?;
                let mut empty = |at: usize, bytes: usize| lane[at..at + bytes].fill(0);
                empty(offset_of!(Lane, counts), 8);
                empty(offset_of!(Lane, last_place), 4);
                Ok((offset, lane))
            })
            .collect()
    }
}

/// Where the agent has what it knows of it.
fn pool(resident: &Resident) -> u64 {
    resident.header.calls + offset_of!(Calls, pool) as u64
}

fn set(memory: &GuestMemory, resident: &Resident, offset: usize, value: u64) -> Result<()> {
    memory.write(pool(resident) + offset as u64, &value.to_le_bytes())
}

/// Shares memory with a guest that stands still, for lanes with rings of so many bytes; not where a filter would not have that.
/// `None` = it cannot be had: lanes are made in the guest's own memory.
pub fn open(
    memory: &GuestMemory,
    resident: &Resident,
    borrowed: &mut Borrowed,
    (ring, may): (u64, bool),
) -> Result<Option<Pool>> {
    set(memory, resident, offset_of!(calls::Pool, asks), may.into())?;
    if !may {
        withdraw(memory, resident, borrowed)?;
        return Ok(None);
    }
    let mut there = There::read(memory, resident)?;
    set(memory, resident, offset_of!(calls::Pool, open), 0)?;
    let slot = calls::slot(ring);
    if there.at == 0 {
        there.slot = slot;
        there.slots = slots(memory.pid(), slot);
    }
    if there.slots == 0 || there.slot != slot {
        return Ok(None);
    }
    let name = pool(resident) + offset_of!(calls::Pool, name) as u64;
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    let shared = borrowed
        .syscall(
            "memfd_create",
            libc::SYS_memfd_create,
            [name, flags, 0, 0, 0, 0],
        )
        .and_then(|file| {
            let shared = map(memory, borrowed, file, there);
            let close = [file, 0, 0, 0, 0, 0];
            borrowed.syscall("close", libc::SYS_close, close)?;
            shared
        });
    let pool = match shared {
        Ok(pool) => pool,
        // It has no such call, no room, or we may not open it.
        Err(Error::Remote { .. } | Error::System { .. }) => {
            withdraw(memory, resident, borrowed)?;
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    for (offset, value) in [
        (offset_of!(calls::Pool, at), pool.at),
        (offset_of!(calls::Pool, slots), there.slots),
        (offset_of!(calls::Pool, slot), there.slot),
        (offset_of!(calls::Pool, open), 1),
    ] {
        set(memory, resident, offset, value)?;
    }
    Ok(Some(pool))
}

/// Slots that a guest has room for.
fn slots(pid: i32, slot: u64) -> u64 {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let status = read("status");
    let kib = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let word = line.and_then(|line| line.split_ascii_whitespace().next());
        word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    if kib("VmLck:") != 0 {
        // What it maps is locked, or counts as if it were.
        return 0;
    }
    let limits = read("limits");
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"));
    let limit = limit.and_then(|line| line.split_ascii_whitespace().next());
    match limit.and_then(|limit| limit.parse::<u64>().ok()) {
        Some(limit) => (limit.saturating_sub(kib("VmSize:") << 10) / PART / slot).min(SLOTS),
        None => SLOTS,
    }
}

/// Maps a file of the guest's here and there.
fn map(memory: &GuestMemory, borrowed: &mut Borrowed, file: u64, there: There) -> Result<Pool> {
    let mut pool = Pool::open(memory.pid(), file, there)?;
    if there.at == 0 {
        pool.at = map_shared(borrowed, there.bytes(), (file, 0), libc::PROT_NONE, None)?;
    } else {
        for (offset, lane) in there.lanes(memory)? {
            pool.write_file(offset, &lane)?;
        }
        // Each part at one blow: should we die in between, no thread misses what it stands in.
        let (used, all) = (there.in_use(), there.bytes());
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        for (part, protection) in [(0..used, read_write), (used..all, libc::PROT_NONE)] {
            let bytes = part.end - part.start;
            if bytes != 0 {
                let place = Some(there.at + part.start);
                map_shared(borrowed, bytes, (file, part.start), protection, place)?;
            }
        }
    }
    // A core file is not to have it: to read what was never written would give it memory.
    let advice = libc::MADV_DONTDUMP as u64;
    let part = [pool.at, there.bytes(), advice, 0, 0, 0];
    borrowed.syscall("madvise(MADV_DONTDUMP)", libc::SYS_madvise, part)?;
    Ok(pool)
}

fn map_shared(
    borrowed: &mut Borrowed,
    bytes: u64,
    (file, offset): (u64, u64),
    protection: i32,
    at: Option<u64>,
) -> Result<u64> {
    let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
    let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | fixed) as u64;
    let arguments = [
        at.unwrap_or(0),
        bytes,
        protection as u64,
        flags,
        file,
        offset,
    ];
    borrowed.syscall("mmap", libc::SYS_mmap, arguments)
}

/// Gives a guest that stands still memory of its own in the place of the pool.
pub fn withdraw(memory: &GuestMemory, resident: &Resident, borrowed: &mut Borrowed) -> Result<()> {
    set(memory, resident, offset_of!(calls::Pool, open), 0)?;
    let there = There::read(memory, resident)?;
    if there.at == 0 {
        return Ok(());
    }
    let lanes = there.lanes(memory)?;
    let (used, all) = (there.in_use(), there.bytes());
    let flags = libc::MAP_FIXED | libc::MAP_NORESERVE;
    if used != 0 {
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        borrowed.map(there.at, used, read_write, flags)?;
        for (offset, lane) in lanes {
            memory.write(there.at + offset, &lane)?;
        }
    }
    if used != all {
        borrowed.map(there.at + used, all - used, libc::PROT_NONE, flags)?;
    }
    Ok(())
}

/// Where a guest has it, shared or not.
pub fn range(memory: &GuestMemory, resident: &Resident) -> Result<Range<u64>> {
    let there = There::read(memory, resident)?;
    Ok(there.at..there.at + there.bytes())
}

/// Closes files that a session which was killed at a bad moment has left open in a guest.
pub fn close_left(memory: &GuestMemory, borrowed: &mut Borrowed) -> Result<()> {
    let name = String::from_utf8_lossy(&calls::POOL_NAME);
    let name = format!("/memfd:{} (deleted)", name.trim_end_matches('\0'));
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", memory.pid())) else {
        return Ok(());
    };
    let ours = files.flatten().filter(|file| {
        fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == name.as_str())
    });
    for file in ours {
        let number = file.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(number) = number {
            borrowed.syscall("close", libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
        }
    }
    Ok(())
}

impl Pool {
    /// A file of the guest's, sized.
    fn open(pid: i32, file: u64, there: There) -> Result<Self> {
        let path = format!("/proc/{pid}/fd/{file}");
        let failed = |error: io::Error| Error::system(path.clone(), error);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(failed)?;
        let bytes = there.bytes();
        file.set_len(bytes).map_err(failed)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: a descriptor of ours and a new mapping at an address of the kernel's choice.
        let here = unsafe {
            if libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) != 0 {
                return Err(failed(io::Error::last_os_error()));
            }
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
            slot: there.slot,
            file,
            here,
        })
    }

    /// Where it is in the guest.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at + self.bytes
    }

    /// How far into it a range lies that it holds whole.
    fn offset(&self, at: u64, bytes: usize) -> Option<u64> {
        let offset = at.checked_sub(self.at)?;
        let end = offset.checked_add(bytes as u64)?;
        (end <= self.bytes).then_some(offset)
    }

    fn atomic(&self, at: u64) -> Option<&AtomicU64> {
        let offset = self.offset(at, 8).filter(|_| at.is_multiple_of(8))?;
        // SAFETY: within the mapping, which lives as long as we, aligned; sealed against shrinking.
        Some(unsafe { &*self.here.as_ptr().add(offset as usize).cast() })
    }

    /// The word that the guest has at `at`; `None` = elsewhere.
    pub fn word(&self, at: u64) -> Option<u64> {
        self.atomic(at).map(|word| word.load(Ordering::Acquire))
    }

    /// The 32-bit word that it has there.
    pub fn half(&self, at: u64) -> Option<u32> {
        let offset = self.offset(at, 4).filter(|_| at.is_multiple_of(4))?;
        // SAFETY: as in `atomic`.
        let half: &AtomicU32 = unsafe { &*self.here.as_ptr().add(offset as usize).cast() };
        Some(half.load(Ordering::Acquire))
    }

    /// Fills `into` with the words from `at`; whether they are here.
    pub fn read_words(&self, at: u64, into: &mut [u64]) -> bool {
        let inside = self.offset(at, size_of_val(into)).is_some();
        if inside {
            for (at, word) in (at..).step_by(8).zip(into) {
                *word = self.word(at).unwrap_or(0);
            }
        }
        inside
    }

    /// Sets the word at `at`; whether it is here.
    pub fn set_word(&self, at: u64, value: u64) -> bool {
        let word = self.atomic(at);
        word.is_some_and(|word| {
            word.store(value, Ordering::Release);
            true
        })
    }

    /// Plain records. Read through the file: what was never written takes no memory by that.
    pub fn records<T: Record>(&self, at: u64, count: usize) -> Option<Vec<T>> {
        let size = size_of::<T>();
        let offset = self.offset(at, size * count)?;
        let mut bytes = vec![0; size * count];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes.chunks_exact(size).map(T::from_bytes).collect())
    }

    /// The lanes that were made in it.
    pub fn lanes(&self) -> Vec<u64> {
        let slots = self.range().step_by(self.slot as usize);
        let made = |at: &u64| {
            let ring = self.records::<u64>(at + offset_of!(Lane, ring) as u64, 1);
            ring.is_some_and(|ring| ring[0] != 0)
        };
        slots.filter(made).collect()
    }

    fn write_file(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| Error::system("the file of the lanes", error))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no reference is left.
        unsafe { libc::munmap(self.here.as_ptr().cast(), self.bytes as usize) };
    }
}
