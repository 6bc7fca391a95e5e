//! What is mounted where a process sees it (Documentation/filesystems/proc.rst, `/proc/PID/mountinfo`).

use std::collections::HashMap;

use crate::proc_file;

/// Limit of the bytes of `mountinfo` that are read.
const MOST: u64 = 1 << 20;

/// Kinds of file systems that answer from this machine's own disks and memory: nobody else is asked, so nobody makes us wait.
const LOCAL: [&str; 12] = [
    "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "squashfs", "tmpfs",
    "xfs", "zfs",
];
/// Kinds in which the kernel shows its own data. A file of these is no text of a program, and to read it may have an effect.
const KERNELS: [&str; 15] = [
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of its device.
    pub device: (u32, u32),
    /// Its kind: `ext4`.
    pub kind: String,
}

impl Mount {
    /// Returns whether files of programs may lie in it, and are read without asking another machine or program.
    pub fn is_local(&self) -> bool {
        LOCAL.contains(&self.kind.as_str())
    }
}

/// The file systems that a process sees, by the number of the mount as the kernel writes it.
#[derive(Debug, Clone, Default)]
pub struct Mounts(HashMap<String, Mount>);

impl Mounts {
    /// Reads those of a process; none if they cannot be read.
    pub fn of(pid: i32) -> Mounts {
        let path = proc_file::path(pid, "mountinfo");
        let text = proc_file::text_up_to(path, MOST).unwrap_or_default();
        Mounts(text.lines().filter_map(mount).collect())
    }

    /// Returns the mount with this number.
    pub fn get(&self, number: &str) -> Option<&Mount> {
        self.0.get(number)
    }

    /// Returns whether a path can be looked up without asking another machine or program, wherever it leads.
    pub fn are_local(&self) -> bool {
        let is_local = |one: &Mount| one.is_local() || KERNELS.contains(&one.kind.as_str());
        !self.0.is_empty() && self.0.values().all(is_local)
    }
}

/// Returns the number of a mount and the mount, from its line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn mount(line: &str) -> Option<(String, Mount)> {
    let (head, tail) = line.split_once(" - ")?;
    let mut words = head.split(' ');
    let number = words.next()?.to_owned();
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let mount = Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: tail.split(' ').next()?.to_owned(),
    };
    Some((number, mount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_number_device_and_kind() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - fuse.sshfs me@there rw";
        let (number, read) = mount(line).expect("a mount");
        let expected = Mount {
            device: (98, 0),
            kind: "fuse.sshfs".to_owned(),
        };
        assert_eq!((number.as_str(), &read), ("36", &expected));
        assert_eq!(mount("36 35 98:0 /mnt1"), None, "cut off");
        assert!(!Mounts([(number, read)].into()).are_local());
        assert!(!Mounts::default().are_local(), "they could not be read");
    }
}
