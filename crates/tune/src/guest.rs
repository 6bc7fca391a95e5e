//! The process that `-p` names, as `/proc/PID` shows it. Used by `first_thread`, `groups`, `machine` and others.
//!
//! Source: Documentation/filesystems/proc.rst, proc_pid_stat(5), proc_pid_limits(5).

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::cpus::{Cpus, list};
use crate::first_thread::folder;
use crate::tree::{Cannot, Tree};
use vm::{Description, Language};

/// Descriptors that are looked at one by one, at most; those beyond are only counted.
const LOOKED_AT: usize = 65_536;
/// glibc's arenas beside the first begin at multiples of this (malloc/arena.c, HEAP_MAX_SIZE).
const ARENA: u64 = 64 << 20;
/// The largest guard of a thread's stack that is taken for one (glibc's own is a page).
const GUARD: u64 = 1 << 20;

/// A process, read once.
#[derive(Debug)]
pub struct Guest {
    /// The id of the process.
    pub pid: i32,
    /// The name of the process (`comm`).
    pub comm: String,
    /// When it started, in clock ticks after boot: with the PID it names the process for good.
    pub started: u64,
    /// The ids of its threads.
    pub threads: Vec<String>,
    /// The CPUs it may run on.
    pub allowed: Cpus,
    /// The CPUs that its threads ran on last.
    pub last_cpus: Cpus,
    /// The folder of /proc that shows what its threads share.
    folder: String,
    status: String,
    descriptors: OnceCell<Result<Descriptors, Cannot>>,
    maps: OnceCell<Result<String, Cannot>>,
}

/// What a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptors {
    /// How many descriptors are open.
    pub count: usize,
    /// The numbers and inodes of its sockets, among the first 65,536 descriptors; so for the lists below.
    pub sockets: Vec<(i32, u32)>,
    /// Numbers of epoll instances.
    pub epolls: Vec<i32>,
    /// Numbers of inotify instances.
    pub inotifies: Vec<i32>,
}

/// The library that serves malloc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// glibc serves malloc itself.
    Glibc,
    /// A library in its place: jemalloc, tcmalloc, mimalloc.
    Other(String),
    /// No libc that we know is mapped.
    Unknown,
}

impl Guest {
    /// Reads what `/proc/PID` says of a process now; its descriptors and mappings are read when they are first asked
    /// for.
    ///
    /// # Errors
    ///
    /// There is no such process, it is a zombie, or its files cannot be read.
    pub fn open(tree: &Tree, pid: i32) -> Result<Self, Cannot> {
        let base = format!("/proc/{pid}");
        let folder = folder(tree, pid);
        let status = tree.read(&format!("{folder}/status")).map_err(|cannot| {
            if cannot.is_missing() {
                Cannot::Missing(format!("process {pid}"))
            } else {
                cannot
            }
        })?;
        let stat = tree.read(&format!("{base}/stat"))?;
        let threads = tree.list(&format!("{base}/task"))?;
        let last_cpus = threads
            .iter()
            .filter_map(|thread| tree.read(&format!("{base}/task/{thread}/stat")).ok())
            .filter_map(|stat| field(&stat, 39)?.parse().ok())
            .collect();
        let mut guest = Self {
            pid,
            comm: tree.word(&format!("{base}/comm"))?,
            started: field(&stat, 22)
                .and_then(|ticks| ticks.parse().ok())
                .unwrap_or(0),
            threads,
            allowed: Cpus::new(),
            last_cpus,
            folder,
            status,
            descriptors: OnceCell::new(),
            maps: OnceCell::new(),
        };
        guest.allowed = guest
            .status("Cpus_allowed_list")
            .and_then(list)
            .unwrap_or_default();
        match guest.status("State") {
            Some(state) if state.starts_with(['Z', 'X']) => Err(Cannot::Failed {
                what: format!("process {pid} ({})", guest.comm),
                why: "it has ended, and nothing is left of it but its exit code (a zombie)".into(),
            }),
            _ => Ok(guest),
        }
    }

    /// Returns the path of a file of its directory in /proc. If its first thread has ended, it is that of another thread.
    pub fn file(&self, name: &str) -> String {
        let of_all = name == "task" || name.starts_with("task/");
        match of_all {
            true => format!("/proc/{}/{name}", self.pid),
            false => format!("{}/{name}", self.folder),
        }
    }

    /// Returns a line of its `status`.
    pub fn status(&self, key: &str) -> Option<&str> {
        self.status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .map(str::trim)
    }

    /// Returns what it has open.
    pub fn descriptors(&self, tree: &Tree) -> Result<&Descriptors, Cannot> {
        let read = || {
            let numbers = tree.list(&self.file("fd"))?;
            let mut all = Descriptors {
                count: numbers.len(),
                ..Descriptors::default()
            };
            for number in numbers.iter().take(LOOKED_AT) {
                let Ok(target) = tree.link(&self.file(&format!("fd/{number}"))) else {
                    continue;
                };
                let Ok(number) = number.parse() else { continue };
                let inode = target
                    .strip_prefix("socket:[")
                    .and_then(|rest| rest.strip_suffix(']'));
                if let Some(inode) = inode.and_then(|inode| inode.parse().ok()) {
                    all.sockets.push((number, inode));
                } else if target == "anon_inode:[eventpoll]" {
                    all.epolls.push(number);
                } else if target == "anon_inode:inotify" {
                    all.inotifies.push(number);
                }
            }
            Ok(all)
        };
        self.descriptors
            .get_or_init(read)
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Returns the soft and the hard limit of descriptors.
    pub fn descriptor_limits(&self, tree: &Tree) -> Result<(u64, u64), Cannot> {
        let path = self.file("limits");
        let text = tree.read(&path)?;
        let line = text.lines().find(|line| line.starts_with("Max open files"));
        let mut words = line.unwrap_or_default().split_whitespace().skip(3);
        let mut next = || match words.next() {
            Some("unlimited") => Some(u64::MAX),
            word => word?.parse().ok(),
        };
        match (next(), next()) {
            (Some(soft), Some(hard)) => Ok((soft, hard)),
            _ => Err(Cannot::odd(&path, line.unwrap_or(&text))),
        }
    }

    /// Returns the text of its `maps`.
    pub fn maps(&self, tree: &Tree) -> Result<&str, Cannot> {
        let read = || tree.read(&self.file("maps"));
        let maps = self.maps.get_or_init(read).as_ref();
        maps.map(String::as_str).map_err(Clone::clone)
    }

    /// Returns the library that serves malloc.
    pub fn allocator(&self, tree: &Tree) -> Result<Allocator, Cannot> {
        let maps = self.maps(tree)?;
        let files: BTreeSet<&str> = maps
            .lines()
            .filter_map(|line| Some(line.rsplit_once('/')?.1))
            .collect();
        let other = ["jemalloc", "tcmalloc", "mimalloc"]
            .iter()
            .find_map(|known| files.iter().find(|file| file.contains(known)));
        Ok(match other {
            Some(file) => Allocator::Other((*file).to_owned()),
            None if files
                .iter()
                .any(|file| file.starts_with("libc.so.6") || file.starts_with("libc-2.")) =>
            {
                Allocator::Glibc
            }
            None => Allocator::Unknown,
        })
    }

    /// Returns how many arenas glibc has made beside the first.
    pub fn arenas(&self, tree: &Tree) -> Result<usize, Cannot> {
        Ok(arenas_in(self.maps(tree)?))
    }

    /// Returns a variable of the environment that it was started with.
    pub fn environment(&self, tree: &Tree, name: &str) -> Result<Option<String>, Cannot> {
        let all = tree.read(&self.file("environ"))?;
        let value = all
            .split('\0')
            .find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
        Ok(value.map(str::to_owned))
    }

    /// Returns whether it runs a language, by its name or by what is mapped.
    pub fn runs(&self, tree: &Tree, language: Language) -> bool {
        let name = language.description().prefix;
        let is_mapped = |maps: &str| {
            maps.contains(&format!("/lib{name}")) || maps.contains(&format!("/bin/{name}"))
        };
        self.comm.starts_with(name) || self.maps(tree).is_ok_and(is_mapped)
    }

    /// Returns the language of this kind that it runs, if it runs one.
    pub fn language(&self, tree: &Tree, is_so: fn(&Description) -> bool) -> Option<Language> {
        let all = Language::ALL.iter().copied();
        let mut kind = all.filter(|language| is_so(language.description()));
        kind.find(|language| self.runs(tree, *language))
    }
}

/// Returns how many arenas of glibc beside the first a table of mappings has: anonymous memory that begins at a multiple of
/// 64 MiB and is, with the reserve behind it, at least that long. The kernel shows the reserve and the guard of a thread's stack
/// as one line where they touch, so the reserve can end later. What has a longer reserve is something else: the heap of a Java
/// VM, or the cage of V8.
fn arenas_in(maps: &str) -> usize {
    let mut arenas = 0;
    let mut open: Option<(u64, u64)> = None;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let bounds = words.next().and_then(|range| {
            let (from, to) = range.split_once('-')?;
            Some((
                u64::from_str_radix(from, 16).ok()?,
                u64::from_str_radix(to, 16).ok()?,
            ))
        });
        let Some((from, to)) = bounds else { continue };
        let rights = words.next().unwrap_or_default();
        let anonymous = words.nth(3).is_none();
        open = match open {
            _ if !anonymous => None,
            Some((start, end)) if end == from && rights.starts_with("---p") => {
                // Two that lie one behind the other share one line of reserve only if the first is full.
                let (whole, reserve) = (to.saturating_sub(start), to.saturating_sub(end));
                arenas += usize::from(whole >= ARENA && reserve < ARENA + GUARD);
                None
            }
            _ if from % ARENA == 0 && rights.starts_with("rw-p") => Some((from, to)),
            _ => None,
        };
    }
    arenas
}

/// Returns field `number` of a stat line, as proc(5) counts: the name in parentheses is the second and may hold any
/// character.
pub(crate) fn field(stat: &str, number: usize) -> Option<&str> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)
}

/// Returns its start in clock ticks since boot, which tells a process from a later one with the same id.
pub fn started(tree: &Tree, pid: i32) -> Result<u64, Cannot> {
    let path = format!("/proc/{pid}/stat");
    let stat = tree.read(&path)?;
    field(&stat, 22)
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| Cannot::odd(&path, &stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let stat = "7 (a) b ) c) S 1 7 7 0 -1 4194304";
        assert_eq!(field(stat, 3), Some("S"));
        assert_eq!(field(stat, 4), Some("1"));
        assert_eq!(field(stat, 39), None);
        assert_eq!(field("nothing", 3), None);
    }

    #[test]
    fn the_reserve_of_an_arena_may_be_one_line_with_the_guard_of_a_stack() {
        let maps = "7f1000000000-7f1000021000 rw-p 00000000 00:00 0\n\
                    7f1000021000-7f1004000000 ---p 00000000 00:00 0\n\
                    7f1008000000-7f1008055000 rw-p 00000000 00:00 0\n\
                    7f1008055000-7f100c001000 ---p 00000000 00:00 0\n\
                    7f100c001000-7f100c801000 rw-p 00000000 00:00 0\n\
                    7f1010000000-7f1010100000 rw-p 00000000 00:00 0\n\
                    7f1010100000-7f1010101000 ---p 00000000 00:00 0\n\
                    7f1014000000-7f1014021000 rw-p 00000000 00:00 0 [anon: other]\n\
                    7f1014021000-7f1018000000 ---p 00000000 00:00 0\n";
        assert_eq!(arenas_in(maps), 2);
    }

    #[test]
    fn a_reserve_that_is_longer_than_an_arenas_is_no_arenas() {
        // A heap of a Java VM with 2 GiB reserved, and then an arena whose first heap is full.
        let maps = "700000000000-700001000000 rw-p 00000000 00:00 0\n\
                    700001000000-700080000000 ---p 00000000 00:00 0\n\
                    7f1000000000-7f1004021000 rw-p 00000000 00:00 0\n\
                    7f1004021000-7f1008000000 ---p 00000000 00:00 0\n";
        assert_eq!(arenas_in(maps), 1);
    }

    #[test]
    fn this_process_is_read() {
        let tree = Tree::live();
        let own = Guest::open(&tree, std::process::id() as i32).unwrap();
        assert!(own.threads.len() >= 2, "the test's thread and the main one");
        assert!(!own.allowed.is_empty() && !own.last_cpus.is_empty());
        assert_eq!(own.allocator(&tree).unwrap(), Allocator::Glibc);
        let (soft, hard) = own.descriptor_limits(&tree).unwrap();
        assert!(soft > 0 && soft <= hard);
        // The thread of this test has an arena of its own as soon as it allocates.
        assert!(own.arenas(&tree).unwrap() >= 1);
        assert_eq!(own.started, started(&tree, own.pid).unwrap());
    }
}
