//! Computes how much memory the control groups of a process leave it (cgroups(7)).
//!
//! A limit holds for a group and all groups below it, so each group up to the root is read. The charge includes cached pages of
//! files, which the kernel reclaims first; those on its list of inactive pages count as free.
//!
//! | version | limit | charged | source |
//! |---|---|---|---|
//! | 2 | `memory.max`, `memory.high` | `memory.current` | Documentation/admin-guide/cgroup-v2.rst |
//! | 1 | `memory.limit_in_bytes` | `memory.usage_in_bytes` | Documentation/admin-guide/cgroup-v1/memory.rst |
//!
//! If lancet does not see the group of the process (another mount namespace), no limit is known and none is assumed.

use crate::proc_file;
use std::path::{Path, PathBuf};

/// The names of a version's files.
struct Version {
    /// Of the file system, in `/proc/PID/mountinfo`.
    file_system: &'static str,
    limits: &'static [&'static str],
    charged: &'static str,
    /// The line of `memory.stat` with the bytes of cached files that are on the inactive list.
    inactive: &'static str,
}

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
    let groups = proc_file::of_process(pid, "cgroup").ok()?;
    let mounts = proc_file::text("/proc/self/mountinfo").ok()?;
    [FIRST, SECOND]
        .iter()
        .filter_map(|version| {
            let path = path_of(&groups, version)?;
            left(&mounts, version, &path)
        })
        .min()
}

/// Returns how many bytes a process may still use: the lesser of what the machine can give without swapping (`MemAvailable` in
/// `/proc/meminfo`, which in a container is the host's) and what its control groups leave it. 0 if neither is known.
pub fn memory_for(pid: i32) -> u64 {
    let text = proc_file::text("/proc/meminfo").unwrap_or_default();
    least(&text, memory_left(pid))
}

fn least(meminfo: &str, of_groups: Option<u64>) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let of_machine = number.map(|kib: u64| kib.saturating_mul(1024));
    of_machine.into_iter().chain(of_groups).min().unwrap_or(0)
}

/// Returns the path of a process's group in the hierarchy with the memory controller: `4:memory:/a/b`, or `0::/a/b` of version
/// 2.
fn path_of(groups: &str, version: &Version) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = if version.file_system == SECOND.file_system {
            number == "0"
        } else {
            controllers.split(',').any(|one| one == "memory")
        };
        is_it.then(|| path.to_owned())
    })
}

/// Returns what the group at `path` of the hierarchy, and the groups above it, leave.
fn left(mounts: &str, version: &Version, path: &str) -> Option<u64> {
    let (top, mut group) = mounts.lines().find_map(|line| place(line, version, path))?;
    let mut least = None;
    loop {
        least = least.into_iter().chain(left_in(&group, version)).min();
        if group == top || !group.pop() {
            return least;
        }
    }
}

/// Returns where the hierarchy is mounted, and the group's path in it, from a line of `mountinfo` (proc_pid_mountinfo(5)):
/// number, parent, device, root, mount point, options, fields up to `-`, file system, source, options of the file system.
fn place(line: &str, version: &Version, path: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, of) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut of = of.split(' ');
    let (file_system, _, options) = (of.next()?, of.next()?, of.next()?);
    let has_memory = version.file_system == SECOND.file_system
        || options.split(',').any(|option| option == "memory");
    if file_system != version.file_system || !has_memory {
        return None;
    }
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some((point.into(), Path::new(point).join(below)))
}

fn left_in(group: &Path, version: &Version) -> Option<u64> {
    let number = |file: &str| -> Option<u64> {
        let text = proc_file::text(group.join(file)).ok()?;
        // `max` = none.
        text.trim().parse().ok()
    };
    let limit = version
        .limits
        .iter()
        .filter_map(|file| number(file))
        .min()?;
    let stat = proc_file::text(group.join("memory.stat")).unwrap_or_default();
    let inactive = stat.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == version.inactive).then(|| value.parse::<u64>().ok())?
    });
    let charged = number(version.charged)?.saturating_sub(inactive.unwrap_or(0));
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
        let path = path_of("1:cpu:/\n0::/a/b/c\n", &SECOND).expect("its line");
        assert_eq!(left(&mounts, &SECOND, &path), Some(250_000));
        assert_eq!(left(&mounts, &SECOND, "/../elsewhere"), None);
        assert_eq!(left(&mounts, &FIRST, "/a"), None);
        assert_eq!(
            path_of("4:cpu,memory:/x\n0::/\n", &FIRST).as_deref(),
            Some("/x")
        );
        fs::remove_dir_all(&top).expect("removed");
    }
}
