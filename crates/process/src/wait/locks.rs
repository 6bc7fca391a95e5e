//! Who has locked a file? `/proc/locks` (fs/locks.c, `lock_get_status`), which also shows who waits for each lock:
//!
//! ```text
//! 8: POSIX  ADVISORY  WRITE 16133 fe:00:10003806 0 99        has it
//! 8: -> POSIX  ADVISORY  WRITE 16131 fe:00:10003806 0 99     waits for it
//! 7: OFDLCK ADVISORY  WRITE -1 fe:00:10003807 0 99           an open file description, which may be of several processes
//! ```
//!
//! Files are compared by their inode alone: the device that stands here is the file system's own, which for some (btrfs, overlayfs) is not
//! what `stat` answers.

use std::fs::File;
use std::io::Read;

/// Bytes of the file that are read.
const MOST: u64 = 4 << 20;

/// Kinds of locks that a thread waits for (`lock_get_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `flock`.
    Whole,
    /// `fcntl(F_SETLKW)`: of a process.
    Process,
    /// `fcntl(F_OFD_SETLKW)`: of an open file description.
    Description,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Whole => "FLOCK",
            Kind::Process => "POSIX",
            Kind::Description => "OFDLCK",
        }
    }
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lock<'a> {
    /// The number of the lock; those who wait for it have the same.
    number: &'a str,
    waits: bool,
    kind: &'a str,
    /// The process that asked for it, in the PID namespace of `/proc`; -1 of an open file description.
    pid: i32,
    inode: u64,
}

/// Returns the processes that have a lock for which process `pid` waits on the file with this inode; -1 stands for an open file description.
pub(super) fn owners(pid: i32, inode: Option<u64>, kind: Kind) -> Vec<i32> {
    let mut text = String::new();
    let read = File::open("/proc/locks").and_then(|file| file.take(MOST).read_to_string(&mut text));
    match read {
        Ok(_) => owners_in(&text, pid, inode, kind),
        Err(_) => Vec::new(),
    }
}

fn owners_in(text: &str, pid: i32, inode: Option<u64>, kind: Kind) -> Vec<i32> {
    let locks: Vec<Lock> = text.lines().filter_map(parse).collect();
    let asks = match kind {
        Kind::Description => -1,
        _ => pid,
    };
    let is_ours = |lock: &&Lock| {
        let of_file = inode.is_none_or(|inode| lock.inode == inode);
        lock.waits && lock.kind == kind.name() && lock.pid == asks && of_file
    };
    let awaited: Vec<&Lock> = locks.iter().filter(is_ours).collect();
    let mut owners: Vec<i32> = locks
        .iter()
        .filter(|lock| !lock.waits)
        .filter(|lock| awaited.iter().any(|ours| ours.number == lock.number))
        .map(|lock| lock.pid)
        .collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// Parses a line of the file, or what stands behind `lock:` in a line of `fdinfo`.
fn parse(line: &str) -> Option<Lock<'_>> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_suffix(':')?;
    let mut kind = words.next()?;
    let waits = kind == "->";
    if waits {
        kind = words.next()?;
    }
    // `ADVISORY` and `WRITE`.
    let pid = words.nth(2)?.parse().ok()?;
    let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
    Some(Lock {
        number,
        waits,
        kind,
        pid,
        inode,
    })
}

/// Whether an open file description has a lock of this kind, by its `fdinfo` (Documentation/filesystems/proc.rst).
pub(super) fn has(fdinfo: &str, kind: Kind) -> bool {
    let mut locks = fdinfo
        .lines()
        .filter_map(|line| parse(line.strip_prefix("lock:")?));
    locks.any(|lock| !lock.waits && lock.kind == kind.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: FLOCK  ADVISORY  WRITE 24924 fe:00:58 0 EOF\n\
        2: POSIX  ADVISORY  READ 11 fe:00:77 0 99\n\
        2: -> POSIX  ADVISORY  WRITE 12 fe:00:77 0 99\n\
        2:    -> POSIX  ADVISORY  WRITE 13 fe:00:77 0 99\n\
        3: POSIX  ADVISORY  READ 12 fe:00:77 100 199\n\
        4: OFDLCK ADVISORY  WRITE -1 fe:00:78 0 EOF\n\
        4: -> OFDLCK ADVISORY  WRITE -1 fe:00:78 0 EOF\n\
        5: FLOCK  ADVISORY  WRITE 14 00:2a:77 0 EOF\n\
        5: -> FLOCK  ADVISORY  WRITE 12 00:2a:77 0 EOF\n";

    #[test]
    fn who_has_the_lock_that_another_waits_for() {
        let owners = |pid, inode, kind| owners_in(LOCKS, pid, inode, kind);
        assert_eq!(owners(12, Some(77), Kind::Process), [11]);
        assert_eq!(owners(13, Some(77), Kind::Process), [11]);
        assert_eq!(owners(12, None, Kind::Whole), [14]);
        assert_eq!(owners(99, Some(78), Kind::Description), [-1]);
        let nobody: [i32; 0] = [];
        assert_eq!(owners(12, Some(78), Kind::Process), nobody);
        assert_eq!(owners(24924, Some(58), Kind::Whole), nobody);
        assert_eq!(owners_in("", 12, None, Kind::Whole), nobody);
        assert_eq!(owners_in("1: ->\n2:\n: x\n", 12, None, Kind::Whole), nobody);
    }

    #[test]
    fn the_locks_of_a_descriptor() {
        let info = "pos:\t0\nflags:\t0100002\nlock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:78 0 99\n";
        assert!(has(info, Kind::Description) && !has(info, Kind::Whole));
        assert!(!has("flags:\t0100002\n", Kind::Description));
    }
}
