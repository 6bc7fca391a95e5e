//! Adds up the resident memory of a process by what its mappings are (`/proc/PID/smaps`). Used by most crates above.
//!
//! The kernel shows for each mapping how much of it is in memory (`Rss`, Documentation/filesystems/proc.rst). The purpose of
//! a mapping follows from what it maps and who uses it: a file, the stack of a thread, code without a file.

use crate::interrupted::InCall;
use crate::proc_file;
use crate::smaps::{self, Area};
use crate::status_file::StatusFile;
use std::io;
use std::ops::Range;

/// Bytes in memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// All bytes of the process that are in memory.
    pub total: u64,
    /// Programs and libraries, with their data, and other files that are mapped.
    pub files: u64,
    /// Stacks of threads that sleep; the stack of a running thread is not known without stopping it.
    pub stacks: u64,
    /// How many threads the stacks in `stacks` belong to.
    pub threads: u64,
    /// Code that belongs to no file: the output of a JIT compiler.
    pub code: u64,
}

/// Memory of a process that is its own to fill, in bytes, as the kernel counts it: `VmRSS` and `VmSwap` (proc_pid_status(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes that are in memory, shared ones included.
    pub memory: u64,
    /// Bytes that are in swap and not in memory.
    pub swap: u64,
}

impl Resident {
    /// Reads both from `/proc/PID/status`; a line that is missing, as of a kernel thread, counts as 0.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(pid: i32) -> io::Result<Self> {
        let status = StatusFile::of(pid)?;
        Ok(Resident {
            memory: status.bytes("VmRSS").unwrap_or(0),
            swap: status.bytes("VmSwap").unwrap_or(0),
        })
    }
}

/// Returns the bytes that a process has in memory, shared ones included; `None` if it is gone. The second number of
/// `/proc/PID/statm` (proc_pid_statm(5)): of the files that tell it, the one with the least text, for what asks again and again.
pub fn resident_now(pid: i32) -> Option<u64> {
    let statm = proc_file::of_process(pid, "statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(crate::maps::PAGE)
}

impl Rss {
    /// Adds up the mappings of a process. Code within `without` is left out of [`Rss::code`].
    ///
    /// # Errors
    /// `/proc/PID/smaps` cannot be read; only who may trace the process may read it.
    pub fn of(pid: i32, without: &Range<u64>) -> io::Result<Self> {
        Ok(Self::sum(&smaps::areas(pid)?, &stacks(pid), without))
    }

    /// Adds up mappings; `stacks` are stack pointers.
    fn sum(areas: &[Area], stacks: &[u64], without: &Range<u64>) -> Self {
        let mut found = Rss::default();
        for Area { mapping, rss, .. } in areas {
            found.total += rss;
            let here = stacks.iter().filter(|sp| mapping.contains(**sp)).count() as u64;
            if mapping.is_file() {
                found.files += rss;
            } else if here != 0 || mapping.is_named("[stack]") {
                found.stacks += rss;
                found.threads += here;
            } else if mapping.permissions.execute
                && mapping.path.is_none()
                && !without.contains(&mapping.start)
            {
                found.code += rss;
            }
        }
        found
    }
}

/// The stack pointers of the threads that sleep.
fn stacks(pid: i32) -> Vec<u64> {
    let tids = proc_file::threads(pid);
    tids.filter_map(|tid| Some(InCall::of(pid, tid)?.sp))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d000-55e000 r-xp 00000000 fe:00 12 /usr/bin/ruby
Size:                  4 kB
Rss:                   4 kB
7f0000-7f4000 rw-p 00000000 00:00 0 
Rss:                   8 kB
THPeligible:    0
7f8000-7f9000 r-xp 00000000 00:00 0 
Rss:                   4 kB
7fa000-7fb000 r-xp 00000000 00:00 0 
Rss:                   4 kB
7fc000-7ff000 rw-p 00000000 00:00 0 [stack]
Rss:                  12 kB
800000-900000 rw-p 00000000 00:00 0 [heap]
Rss:                 100 kB
";

    #[test]
    fn each_mapping_counts_once() {
        let found = Rss::sum(
            &smaps::parse(&mut SMAPS.as_bytes(), 16).expect("text"),
            &[0x7f1000],
            &(0x7fa000..0x7fb000),
        );
        let expected = Rss {
            total: 132 << 10,
            files: 4 << 10,
            stacks: 20 << 10,
            threads: 1,
            code: 4 << 10,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_resident_is_what_the_mappings_add_up_to() {
        let pid = std::process::id() as i32;
        let resident = Resident::of(pid).expect("our own").memory;
        let mapped = Rss::of(pid, &(0..0)).expect("our own").total;
        let (least, most) = (mapped / 10 * 8, mapped / 10 * 12);
        assert!((least..most).contains(&resident), "{resident} {mapped}");
    }

    #[test]
    fn our_own_adds_up_to_what_the_kernel_says() {
        let pid = std::process::id() as i32;
        let found = Rss::of(pid, &(0..0)).expect("our own");
        let whole = smaps::rollup(pid).expect("our own");
        let (least, most) = (whole / 10 * 9, whole / 10 * 11);
        assert!((least..most).contains(&found.total), "{found:?} {whole}");
        assert!(found.files > 0 && found.stacks > 0 && found.files + found.stacks < found.total);
    }
}
