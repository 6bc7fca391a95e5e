//! Has a process make the file of the pool and map it, in one call of the agent that also closes the descriptor (`agent::calls::share`).
//! Used by `pool`.
//!
//! ```text
//!   a thread in a remote call                us
//!   memfd_create ──────────────────────────► duplicate its descriptor, check the file, size it, seal its size, write the headers of
//!   │ (it stands at the end of that call)     rings that are in use; then write down what is to be mapped
//!   mmap: what is written down, or nothing
//!   close
//! ```
//!
//! If lancet dies while the thread stands there, the kernel lets it go on, and it closes the descriptor all the same: no process keeps one.

use super::record::{There, pool};
use super::{Pool, is_shared_pool};
use crate::limits::USER_END;
use inject::remote_call::RemoteThread;
use inject::resident::Resident;
use nix::errno::Errno;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::io;
use std::mem::offset_of;
use wire::calls;
use wire::calls::share::{Part, Share};
use wire::control_page::enter;

/// The address of what the agent is told to map.
fn share(resident: &Resident) -> u64 {
    pool(resident) + offset_of!(calls::Pool, share) as u64
}

/// Makes the file and maps it into the process and here. `record` gets fewer slots if other memory of the process lies where the rest would
/// be.
///
/// # Errors
/// [`Error::Remote`] and [`Error::System`]: the kernel has no memfd_create, the process has no room, or we may not take its file.
pub fn map(
    memory: &GuestMemory,
    resident: &Resident,
    remote: &mut RemoteThread,
    there: &mut There,
) -> Result<Pool> {
    let at = share(resident);
    memory.write(at + offset_of!(Share, count) as u64, &0u64.to_le_bytes())?;
    let mut prepared = None;
    remote.call_prepared(resident.header.enter, enter::SHARE, |file| {
        prepared = Some(prepare(memory, at, file, *there));
    })?;
    let unmade = || {
        Error::system(
            "the memory for rings",
            io::Error::from_raw_os_error(libc::EPERM),
        )
    };
    let (mut pool, count) = prepared.ok_or_else(unmade)??;
    let answer = |number: usize| -> Result<u64> {
        let part = offset_of!(Share, parts) + number * size_of::<Part>();
        let answer = memory.word(at + (part + offset_of!(Part, answer)) as u64)?;
        answered(memory.pid(), "mmap", answer)
    };
    if there.at == 0 {
        pool.at = answer(0)?;
        let is_one = pool.at % wire::PAGE as u64 == 0 && pool.at < USER_END - there.bytes();
        return if is_one { Ok(pool) } else { Err(unmade()) };
    }
    let (used, all) = (there.in_use(), there.bytes());
    if used != 0 && answer(0)? != there.at {
        return Err(unmade());
    }
    if used != all && !is_at(remote, answer(count - 1), there.at + used, all - used)? {
        there.slots = there.used;
        pool.bytes = used;
    }
    Ok(pool)
}

/// Prepares the file that the process has just made, and says what is to be mapped of it: how many parts.
fn prepare(memory: &GuestMemory, at: u64, file: u64, there: There) -> Result<(Pool, usize)> {
    let pid = memory.pid();
    let file = answered(pid, "memfd_create", file)?;
    let pool = Pool::open(pid, file, there)?;
    let (used, all) = (there.in_use(), there.bytes());
    let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let mut parts = Vec::new();
    if there.at == 0 {
        parts.push([0, all, libc::PROT_NONE as u64, shared as u64, 0]);
    } else {
        for (offset, ring) in there.rings(memory)? {
            pool.write_file(offset, &ring)?;
        }
        if used != 0 {
            // One system call replaces the memory: if lancet dies around it, no thread misses memory that it uses.
            let read_write = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let flags = (shared | libc::MAP_FIXED) as u64;
            parts.push([there.at, used, read_write, flags, 0]);
        }
        if used != all {
            let place = there.at + used;
            let how = match is_shared_pool(pid, place..there.at + all)? {
                true => libc::MAP_FIXED,
                false => libc::MAP_FIXED_NOREPLACE,
            };
            let flags = (shared | how) as u64;
            parts.push([place, all - used, libc::PROT_NONE as u64, flags, used]);
        }
    }
    for (number, part) in parts.iter().enumerate() {
        let bytes: Vec<u8> = part.iter().flat_map(|word| word.to_le_bytes()).collect();
        let part = offset_of!(Share, parts) + number * size_of::<Part>();
        memory.write(at + part as u64, &bytes)?;
    }
    // This comes last: what is not written down whole is not mapped.
    let count = parts.len() as u64;
    memory.write(at + offset_of!(Share, count) as u64, &count.to_le_bytes())?;
    Ok((pool, parts.len()))
}

/// Whether what was mapped lies where it was wanted; if not, it is unmapped.
fn is_at(remote: &mut RemoteThread, mapped: Result<u64>, place: u64, bytes: u64) -> Result<bool> {
    match mapped {
        Ok(at) if at == place => Ok(true),
        // A kernel before 4.17 takes the address for a hint.
        Ok(at) => remote.unmap(at, bytes).map(|()| false),
        Err(Error::Remote { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The result of a system call of the process.
fn answered(pid: i32, call: &'static str, value: u64) -> Result<u64> {
    match value as i64 {
        error @ -4095..0 => Err(Error::Remote {
            pid,
            call,
            errno: Errno::from_raw(-error as i32),
        }),
        _ => Ok(value),
    }
}
