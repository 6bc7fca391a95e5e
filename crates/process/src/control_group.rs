//! How much memory, and how many processes, the control groups of a process leave it (cgroups(7)). Used by most crates
//! above.
//!
//! A limit holds for a group and all groups below it, so each group up to the root is read. The charge includes cached pages of
//! files, which the kernel reclaims first; those on its list of inactive pages count as free.
//!
//! | version | limit | charged | source |
//! |---|---|---|---|
//! | 2 | `memory.max`, `memory.high` | `memory.current` | Documentation/admin-guide/cgroup-v2.rst |
//! | 1 | `memory.limit_in_bytes` | `memory.usage_in_bytes` | Documentation/admin-guide/cgroup-v1/memory.rst |
//!
//! A process in another container, as `kubectl debug --target` shows it, has a group that is not below the one that lancet sees as the uppermost: its
//! path begins with `/..` (cgroup_namespaces(7)). What limits it is not known then, and that is said. Where no hierarchy is mounted at all nothing is
//! known, and nothing is taken for limited.
//!
//! Where a group of version 2, or one above it, has 1 in `memory.oom.group` (a kubelet sets it for each container), the kernel ends all its processes when
//! it ends one for want of memory, whatever `oom_score_adj` each of them has.

use crate::limits::left_to_map;
use crate::proc_file;
use std::path::{Path, PathBuf};

/// What the control groups of a process leave it, and what happens where that is not enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes that it may still use before it meets a limit; `None` = no limit is known.
    pub left: Option<u64>,
    /// The same of those limits that hold for lancet, too.
    pub shared: Option<u64>,
    /// Its group is not to be seen from here, so there may be a limit that is not known.
    pub is_hidden: bool,
    /// The kernel ends all processes of its group when it ends one.
    pub ends_together: bool,
}

/// The names of a version's files.
struct Version {
    /// Of the file system, in `/proc/PID/mountinfo`.
    file_system: &'static str,
    limits: &'static [&'static str],
    charged: &'static str,
    /// The line of `memory.stat` with the bytes of cached files that are on the inactive list.
    inactive: &'static str,
}

/// The controllers that are asked.
const MEMORY: &str = "memory";
const TASKS: &str = "pids";

const FIRST: Version = Version {
    file_system: "cgroup",
    limits: &["memory.limit_in_bytes"],
    charged: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};
const SECOND: Version = Version {
    file_system: "cgroup2",
    limits: &["memory.max", "memory.high"],
    charged: "memory.current",
    inactive: "inactive_file",
};

/// Returns how many bytes a process may still use before it reaches a limit of its control groups; `None` = no limit is known.
pub fn memory_left(pid: i32) -> Option<u64> {
    room_of(pid).left
}

/// Processes and threads that the control groups of a process may still have (`pids.max`); `None` = no limit is known.
pub fn tasks_left(pid: i32) -> Option<u64> {
    let read = |path: &str| proc_file::text(path).unwrap_or_default();
    let (mounts, groups) = (
        read("/proc/self/mountinfo"),
        read(&proc_file::path(pid, "cgroup").to_string_lossy()),
    );
    let chains = [FIRST, SECOND].into_iter().filter_map(|version| {
        let path = path_of(&groups, &version, TASKS)?;
        match Chain::of(&mounts, &version, TASKS, &path)? {
            Chain::Groups(groups) => Some(groups),
            Chain::Hidden => None,
        }
    });
    let left = |group: PathBuf| {
        let most = number(&group, "pids.max")?;
        Some(most.saturating_sub(number(&group, "pids.current")?))
    };
    chains.flatten().filter_map(left).min()
}

/// What the control groups of a process leave it.
pub fn room_of(pid: i32) -> Room {
    let read = |path: &str| proc_file::text(path).unwrap_or_default();
    let (groups, own) = (
        read(&proc_file::path(pid, "cgroup").to_string_lossy()),
        read("/proc/self/cgroup"),
    );
    room(&read("/proc/self/mountinfo"), &groups, &own)
}

/// The same, from the mounts that lancet sees, and the groups of the process and of lancet.
fn room(mounts: &str, groups: &str, own: &str) -> Room {
    let mut room = Room::default();
    for version in [FIRST, SECOND] {
        let of = |groups: &str| {
            let path = path_of(groups, &version, MEMORY)?;
            Chain::of(mounts, &version, MEMORY, &path)
        };
        let chain = match of(groups) {
            Some(Chain::Groups(chain)) => chain,
            Some(Chain::Hidden) => {
                room.is_hidden = true;
                continue;
            }
            None => continue,
        };
        let own = match of(own) {
            Some(Chain::Groups(own)) => own,
            _ => Vec::new(),
        };
        for group in &chain {
            let left = left_in(group, &version);
            let shared = left.filter(|_| own.contains(group));
            room.left = room.left.into_iter().chain(left).min();
            room.shared = room.shared.into_iter().chain(shared).min();
            let together = proc_file::text(group.join("memory.oom.group"));
            room.ends_together |= together.is_ok_and(|text| text.trim() == "1");
        }
    }
    room
}

/// Returns how many bytes a process may still use: the least of what the machine can give without swapping (`MemAvailable` in
/// `/proc/meminfo`, which in a container is the host's), what its control groups leave it, and, of this process, a third of what its limits
/// leave of its address space, because a table that grows is there twice for a moment. 0 if none is known.
pub fn memory_for(pid: i32) -> u64 {
    memory_within(pid, &room_of(pid))
}

/// The same of a process whose control groups leave it this.
pub fn memory_within(pid: i32, room: &Room) -> u64 {
    let text = proc_file::text("/proc/meminfo").unwrap_or_default();
    let memory = least(&text, room.left);
    match left_to_map() {
        Some(left) if pid == std::process::id() as i32 => memory.min(left / 3),
        _ => memory,
    }
}

fn least(meminfo: &str, of_groups: Option<u64>) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let of_machine = number.map(|kib: u64| kib.saturating_mul(1024));
    of_machine.into_iter().chain(of_groups).min().unwrap_or(0)
}

/// The path of a process's group in the hierarchy with a controller: `4:memory:/a/b`, or `0::/a/b` of version 2.
fn path_of(groups: &str, version: &Version, controller: &str) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = if version.file_system == SECOND.file_system {
            number == "0"
        } else {
            controllers.split(',').any(|one| one == controller)
        };
        is_it.then(|| path.to_owned())
    })
}

/// A group and those above it, as far as lancet sees them.
#[derive(Debug, PartialEq, Eq)]
enum Chain {
    Groups(Vec<PathBuf>),
    /// The hierarchy is mounted, and the group is not in it.
    Hidden,
}

impl Chain {
    /// The folders of the group at `path` and of those above it; `None` = the hierarchy is not mounted.
    fn of(mounts: &str, version: &Version, controller: &str, path: &str) -> Option<Self> {
        let mut is_mounted = false;
        let places = mounts.lines();
        for (root, top) in places.filter_map(|line| place(line, version, controller)) {
            is_mounted = true;
            let below = Path::new(path).strip_prefix(root).ok();
            let below = below.filter(|_| !Path::new(path).starts_with("/.."));
            let Some(folder) = below.map(|below| Path::new(top).join(below)) else {
                continue;
            };
            if folder.is_dir() {
                let groups = folder
                    .ancestors()
                    .take_while(|group| group.starts_with(top));
                return Some(Chain::Groups(groups.map(Path::to_owned).collect()));
            }
        }
        is_mounted.then_some(Chain::Hidden)
    }
}

/// Which group is mounted where, from a line of `mountinfo` (proc_pid_mountinfo(5)) that is of this hierarchy: number,
/// parent, device, root, mount point, options, fields up to `-`, file system, source, options of the file system.
fn place<'a>(line: &'a str, version: &Version, controller: &str) -> Option<(&'a str, &'a str)> {
    let (mount, of) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut of = of.split(' ');
    let (file_system, _, options) = (of.next()?, of.next()?, of.next()?);
    let has_it = version.file_system == SECOND.file_system
        || options.split(',').any(|option| option == controller);
    (file_system == version.file_system && has_it).then_some((root, point))
}

/// The number in a file of a group; `None` = there is none, or it is `max`.
fn number(group: &Path, file: &str) -> Option<u64> {
    let text = proc_file::text(group.join(file)).ok()?;
    text.trim().parse().ok()
}

fn left_in(group: &Path, version: &Version) -> Option<u64> {
    let limits = version.limits.iter();
    let limit = limits.filter_map(|file| number(group, file)).min()?;
    let stat = proc_file::text(group.join("memory.stat")).unwrap_or_default();
    let inactive = stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == version.inactive).then(|| value.parse::<u64>().ok())?
    });
    let charged = number(group, version.charged)?.saturating_sub(inactive.unwrap_or(0));
    Some(limit.saturating_sub(charged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A container has the `/proc/meminfo` of its host.
    #[test]
    fn a_group_has_less_than_its_machine() {
        let machine = "MemTotal:  2000 kB\nMemFree:  1 kB\nMemAvailable:    1000 kB\n";
        assert_eq!(least(machine, None), 1_024_000);
        assert_eq!(least(machine, Some(512)), 512);
        assert_eq!(least(machine, Some(u64::MAX)), 1_024_000);
        assert_eq!(least("", Some(512)), 512);
        assert_eq!(least("", None), 0);
    }

    #[test]
    fn the_least_of_all_groups_counts() {
        let top = std::env::temp_dir().join(format!("lancet-groups-{}", std::process::id()));
        let write = |group: &str, file: &str, text: &str| {
            let folder = top.join(group);
            fs::create_dir_all(&folder).expect("made");
            fs::write(folder.join(file), text).expect("written");
        };
        write("a", "memory.max", "1000000\n");
        write("a", "memory.high", "900000\n");
        write("a", "memory.current", "700000\n");
        write("a", "memory.stat", "anon 600000\ninactive_file 50000\n");
        write("a/b", "memory.max", "max\n");
        write("a/b", "memory.current", "500000\n");
        write("a/b/c", "memory.max", "2000000\n");
        write("a/b/c", "memory.current", "500000\n");
        let mounts = format!(
            "31 23 0:28 / /proc rw - proc proc rw\n32 31 0:29 / {} rw,relatime shared:4 - cgroup2 cgroup2 rw\n",
            top.display()
        );
        let of = |groups: &str, own: &str| room(&mounts, groups, own);
        let found = of("1:cpu:/\n0::/a/b/c\n", "0::/\n");
        let wanted = Room {
            left: Some(250_000),
            ..Room::default()
        };
        assert_eq!(found, wanted);
        // What lancet has in common with it leaves both together so much; and where one is ended all are.
        write("a/b", "memory.oom.group", "1\n");
        let found = of("0::/a/b/c\n", "0::/a/other\n");
        assert_eq!((found.shared, found.ends_together), (None, true));
        write("a/other", "memory.max", "max\n");
        assert_eq!(of("0::/a/b/c\n", "0::/a/other\n").shared, Some(250_000));
        assert!(!of("0::/a\n", "0::/\n").ends_together);
        // Another container's is not to be seen, and lancet's own limit is not taken for it.
        write("", "memory.max", "1\n");
        let hidden = Room {
            is_hidden: true,
            ..Room::default()
        };
        for elsewhere in ["0::/../elsewhere\n", "0::/not/there\n"] {
            assert_eq!(of(elsewhere, "0::/\n"), hidden);
        }
        assert_eq!(of("3:memory:/a\n", "0::/\n"), Room::default());
        assert_eq!(
            path_of("4:cpu,memory:/x\n0::/\n", &FIRST, MEMORY).as_deref(),
            Some("/x")
        );
        fs::remove_dir_all(&top).expect("removed");
    }
}
