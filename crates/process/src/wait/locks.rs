//! Finds which process has locked a file: `/proc/locks` (fs/locks.c, `lock_get_status`), which also shows the processes that wait for each
//! lock:
//!
//! ```text
//! 8: POSIX  ADVISORY  WRITE 16133 fe:00:10003806 0 99        has it
//! 8: -> POSIX  ADVISORY  WRITE 16131 fe:00:10003806 0 99     waits for it
//! 7: OFDLCK ADVISORY  WRITE -1 fe:00:10003807 0 99           an open file description, which may be of several processes
//! ```
//!
//! The owner of a lock that a thread waits for is found by the inode alone, because the device in these lines is the file system's own,
//! which for some (btrfs, overlayfs) differs from the one that `stat` returns. It is the one that `mountinfo` has.

use crate::proc_file;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Limit of the bytes of the file that are read.
const MOST: u64 = 4 << 20;

/// Limit of owners whose own waits are followed.
const FOLLOWED: usize = 64;

/// The bytes of a database that SQLite locks, whatever the file's size (`PENDING_BYTE`, `RESERVED_BYTE`, 510 of `SHARED_FIRST`, os.h).
const OF_DATABASE: Range<u64> = 0x4000_0000..0x4000_0200;
/// Those of its `-shm` file (`WALINDEX_LOCK_OFFSET`, `SQLITE_SHM_NLOCK`, wal.c), without the one that every connection has.
const OF_INDEX: Range<u64> = 120..128;

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
    /// Returns the kind with this name; `None` for leases and delegations of a file server.
    fn of(name: &str) -> Option<Kind> {
        match name {
            "FLOCK" => Some(Kind::Whole),
            "POSIX" => Some(Kind::Process),
            "OFDLCK" => Some(Kind::Description),
            _ => None,
        }
    }
}

/// A line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lock {
    /// The number of the lock; lines of processes that wait for it have the same.
    number: u64,
    waits: bool,
    kind: Kind,
    /// Whether it excludes all others.
    writes: bool,
    /// The process that has requested it, in the PID namespace of `/proc`; -1 for an open file description.
    pid: i32,
    file: File,
    /// Its first byte, and the last one; `u64::MAX` for all that follow.
    bytes: [u64; 2],
}

/// A file: the device of its file system, and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct File {
    pub device: (u32, u32),
    pub inode: u64,
}

/// A file of SQLite that other processes have locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Database {
    /// Whether it is the index (`-shm`) and not the database itself.
    pub is_index: bool,
    /// The processes that have locked it.
    pub owners: Vec<i32>,
}

/// The owners of the locks that a process waits for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    /// The processes; -1 stands for an open file description.
    pub pids: Vec<i32>,
    /// Whether one of them in turn waits, directly or through others, for a lock that this process has.
    pub in_turn: bool,
}

/// The locks of all files of this machine, as they were when they were read.
#[derive(Debug)]
pub(super) struct Locks {
    locks: Vec<Lock>,
    /// Whether these are all: false if lancet may not read them, or if there are too many.
    pub whole: bool,
}

impl Locks {
    /// Reads the locks; none if lancet may not read them.
    pub(super) fn read() -> Locks {
        let text = proc_file::text_up_to("/proc/locks", MOST);
        let whole = text.as_ref().is_ok_and(|text| (text.len() as u64) < MOST);
        Locks {
            whole,
            ..Locks::parse(&text.unwrap_or_default())
        }
    }

    pub(super) fn parse(text: &str) -> Locks {
        Locks {
            locks: text.lines().filter_map(parse).collect(),
            whole: true,
        }
    }

    /// Returns the owners of locks of this kind for which process `pid` waits on the file with this inode; `None` = on any file.
    pub(super) fn owners(&self, pid: i32, inode: Option<u64>, kind: Kind) -> Owners {
        let asks = match kind {
            Kind::Description => -1,
            _ => pid,
        };
        let pids = self.having(&|lock| {
            let of_file = inode.is_none_or(|inode| lock.file.inode == inode);
            lock.kind == kind && lock.pid == asks && of_file
        });
        // The search goes from each owner to the owners of what it waits for; an open file description waits for nothing.
        let mut reached = pids.clone();
        let mut next = 0;
        while let Some(&owner) = reached.get(next).filter(|_| next < FOLLOWED) {
            let more = self.having(&|lock| owner > 0 && lock.pid == owner);
            let more: Vec<i32> = more
                .into_iter()
                .filter(|one| !reached.contains(one))
                .collect();
            reached.extend(more);
            next += 1;
        }
        Owners {
            in_turn: !pids.contains(&pid) && reached.contains(&pid),
            pids,
        }
    }

    /// Returns the databases that processes other than `pid` have locked against it in the way of SQLite (`fcntl`, and on these bytes):
    /// against all, or, where `pid` itself has a lock against all and so may wait for the readers to go, for reading.
    pub(super) fn databases(&self, pid: i32) -> HashMap<File, Database> {
        let is_of = |lock: &Lock, range: &Range<u64>| {
            range.contains(&lock.bytes[0]) && range.contains(&lock.bytes[1])
        };
        let mut found = HashMap::new();
        for lock in self.locks.iter().filter(|lock| !lock.waits) {
            let is_index = is_of(lock, &OF_INDEX);
            if lock.kind != Kind::Process || !is_index && !is_of(lock, &OF_DATABASE) {
                continue;
            }
            // What is written in each: whether `pid` writes, who else does, who reads.
            let (writes, writers, readers) = found
                .entry((lock.file, is_index))
                .or_insert_with(|| (false, Vec::new(), Vec::new()));
            match (lock.pid == pid, lock.writes) {
                (true, own) => *writes |= own,
                (false, true) => writers.push(lock.pid),
                (false, false) => readers.push(lock.pid),
            }
        }
        let owners = found.into_iter().filter_map(|((file, is_index), seen)| {
            let (writes, writers, readers) = seen;
            let mut owners = match writers.is_empty() && writes {
                true => readers,
                false => writers,
            };
            owners.sort_unstable();
            owners.dedup();
            let database = Database { is_index, owners };
            (!database.owners.is_empty()).then_some((file, database))
        });
        owners.collect()
    }

    /// Returns the processes that have the locks whose waiters match `meant`.
    fn having(&self, meant: &dyn Fn(&Lock) -> bool) -> Vec<i32> {
        let waiting = self.locks.iter().filter(|lock| lock.waits && meant(lock));
        let awaited: HashSet<u64> = waiting.map(|lock| lock.number).collect();
        if awaited.is_empty() {
            return Vec::new();
        }
        let has = |lock: &&Lock| !lock.waits && awaited.contains(&lock.number);
        let mut owners: Vec<i32> = self.locks.iter().filter(has).map(|lock| lock.pid).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

/// Parses a line of the file, or the text behind `lock:` in a line of `fdinfo`.
fn parse(line: &str) -> Option<Lock> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_suffix(':')?.parse().ok()?;
    let mut kind = words.next()?;
    let waits = kind == "->";
    if waits {
        kind = words.next()?;
    }
    // Behind `ADVISORY`.
    let writes = words.nth(1)? == "WRITE";
    let pid = words.next()?.parse().ok()?;
    let mut file = words.next()?.splitn(3, ':');
    let mut part = || u32::from_str_radix(file.next()?, 16).ok();
    let device = (part()?, part()?);
    let inode = file.next()?.parse().ok()?;
    let first = words.next()?.parse().ok()?;
    let last = match words.next()? {
        "EOF" => u64::MAX,
        last => last.parse().ok()?,
    };
    Some(Lock {
        number,
        waits,
        kind: Kind::of(kind)?,
        writes,
        pid,
        file: File { device, inode },
        bytes: [first, last],
    })
}

/// Whether an open file description has a lock of this kind, by its `fdinfo` (Documentation/filesystems/proc.rst).
pub(super) fn has(fdinfo: &str, kind: Kind) -> bool {
    let mut locks = fdinfo
        .lines()
        .filter_map(|line| parse(line.strip_prefix("lock:")?));
    locks.any(|lock| !lock.waits && lock.kind == kind)
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
        let owners = |pid, inode, kind| Locks::parse(LOCKS).owners(pid, inode, kind).pids;
        assert_eq!(owners(12, Some(77), Kind::Process), [11]);
        assert_eq!(owners(13, Some(77), Kind::Process), [11]);
        assert_eq!(owners(12, None, Kind::Whole), [14]);
        assert_eq!(owners(99, Some(78), Kind::Description), [-1]);
        let nobody: [i32; 0] = [];
        assert_eq!(owners(12, Some(78), Kind::Process), nobody);
        assert_eq!(owners(24924, Some(58), Kind::Whole), nobody);
        assert_eq!(
            Locks::parse("").owners(12, None, Kind::Whole),
            Owners::default()
        );
        let odd = "1: ->\n2:\n: x\n";
        assert_eq!(
            Locks::parse(odd).owners(12, None, Kind::Whole),
            Owners::default()
        );
    }

    /// Three in a circle of two kinds of locks, of which the kernel sees no deadlock; and one that waits for them without being in it.
    #[test]
    fn who_waits_for_us_in_turn() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:1 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 12 fe:00:1 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 20 fe:00:1 0 EOF\n\
            2: POSIX  ADVISORY  WRITE 12 fe:00:2 0 EOF\n\
            2: -> POSIX  ADVISORY  WRITE 13 fe:00:2 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 fe:00:3 0 EOF\n\
            3: -> FLOCK  ADVISORY  WRITE 11 fe:00:3 0 EOF\n";
        let in_turn = |pid, inode, kind| Locks::parse(locks).owners(pid, Some(inode), kind).in_turn;
        assert!(in_turn(12, 1, Kind::Whole));
        assert!(in_turn(13, 2, Kind::Process));
        assert!(in_turn(11, 3, Kind::Whole));
        assert!(!in_turn(20, 1, Kind::Whole));
        assert!(!Locks::parse(LOCKS).owners(12, None, Kind::Whole).in_turn);
    }

    /// Of SQLite are only its bytes: not the whole of a pid file, not other parts of another file with such locks.
    #[test]
    fn who_has_locked_a_database() {
        let of = |pid: i32, locks: &str| {
            let found = Locks::parse(locks).databases(pid);
            let mut found: Vec<_> = found.into_iter().collect();
            found.sort_by_key(|(file, _)| (file.device, file.inode));
            let seen = found.into_iter().map(|(file, database)| {
                (
                    file.device.0,
                    file.inode,
                    database.is_index,
                    database.owners,
                )
            });
            seen.collect::<Vec<_>>()
        };
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:1 1073741824 1073742335\n\
                     1: -> POSIX  ADVISORY  WRITE 14 fe:00:1 1073741824 1073741824\n\
                     2: POSIX  ADVISORY  WRITE 11 fe:00:1 1073741825 1073741825\n\
                     3: POSIX  ADVISORY  READ 12 fe:00:1 1073741826 1073742335\n\
                     4: FLOCK  ADVISORY  WRITE 13 fe:00:1 0 EOF\n\
                     5: POSIX  ADVISORY  WRITE 15 fe:00:2 0 EOF\n\
                     6: POSIX  ADVISORY  WRITE 15 0a:00:1 120 120\n";
        assert_eq!(
            of(10, locks),
            [(0x0a, 1, true, vec![15]), (0xfe, 1, false, vec![11])]
        );
        assert_eq!(of(11, locks).len(), 2);
        // Readers keep nobody from reading, but whoever has announced that it will write.
        let reads = "1: POSIX  ADVISORY  READ 12 fe:00:1 1073741826 1073742335\n";
        assert!(of(10, reads).is_empty());
        let writes = format!("{reads}2: POSIX  ADVISORY  WRITE 10 fe:00:1 1073741824 1073741825\n");
        assert_eq!(of(10, &writes), [(0xfe, 1, false, vec![12])]);
    }

    #[test]
    fn the_locks_of_a_descriptor() {
        let info = "pos:\t0\nflags:\t0100002\nlock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:78 0 99\n";
        assert!(has(info, Kind::Description) && !has(info, Kind::Whole));
        assert!(!has("flags:\t0100002\n", Kind::Description));
    }
}
