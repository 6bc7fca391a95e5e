//! The agents of a process, found before a stop so that the stop need not look for them. Used by crate `hooks`.
//!
//! Finding them reads all mappings of a process, and one page of each that may hold an agent: in a large process that takes longer than
//! it may stand still. An agent has code, so one that comes changes how much executable memory the process has mapped, which the kernel
//! counts (`exec_vm` in `struct mm_struct`; `VmLib` and `VmExe` in `/proc/PID/status` are made of it). If that is in the stop what it was
//! before the mappings were read, no agent has come, unless the process has given up just as many pages of code in between; if it is not,
//! they are found once more.

use crate::resident::Resident;
use process::error::Result;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::status_file::StatusFile;

/// Where the agents of a process were found.
#[derive(Clone, Debug)]
pub struct Agents {
    bases: Vec<u64>,
    /// Executable memory in bytes, as it was before they were looked for; `None` = the kernel does not tell it.
    executable: Option<u64>,
}

impl Agents {
    /// Finds the agents of a process.
    ///
    /// # Errors
    /// Its mappings cannot be read.
    pub fn find(memory: &GuestMemory) -> Result<Self> {
        // In this order: an agent that comes meanwhile is either found or changes the number.
        let executable = executable(memory.pid());
        let maps = Maps::of(memory.pid())?;
        let all = Resident::all(memory, &maps);
        Ok(Agents {
            bases: all.map(|agent| agent.base).collect(),
            executable,
        })
    }

    /// Whether no agent has come since.
    pub fn are_all(&self, pid: i32) -> bool {
        self.executable.is_some() && self.executable == executable(pid)
    }

    /// Reads the headers of the agents of a process that stands still; they are found once more only if one may have come.
    ///
    /// # Errors
    /// As for [`Agents::find`].
    pub fn read(&self, memory: &GuestMemory) -> Result<Vec<Resident>> {
        if !self.are_all(memory.pid()) {
            let maps = Maps::of(memory.pid())?;
            return Ok(Resident::all(memory, &maps).collect());
        }
        let bases = self.bases.iter();
        Ok(bases
            .filter_map(|base| Resident::at(memory, *base))
            .collect())
    }
}

/// Returns how much executable memory a process has mapped, in bytes; `None` = the kernel does not tell.
fn executable(pid: i32) -> Option<u64> {
    let status = StatusFile::of(pid).ok()?;
    Some(status.bytes("VmLib")? + status.bytes("VmExe")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_comes_and_code_that_goes_is_noticed() {
        let pid = std::process::id() as i32;
        let memory = GuestMemory::open(pid).expect("ours");
        let agents = Agents::find(&memory).expect("our own mappings");
        assert!(agents.bases.is_empty());
        let map = |protection| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping at an address of the kernel's choice, which nothing uses.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), wire::PAGE, protection, flags, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at
        };
        let data = map(libc::PROT_READ);
        assert!(agents.are_all(pid));
        let code = map(libc::PROT_READ | libc::PROT_EXEC);
        assert!(!agents.are_all(pid));
        for at in [data, code] {
            // SAFETY: mapped above, and used by nobody.
            unsafe { libc::munmap(at, wire::PAGE) };
        }
        assert!(agents.are_all(pid));
    }
}
