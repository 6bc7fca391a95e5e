//! What is mounted where a process sees it (Documentation/filesystems/proc.rst, `/proc/PID/mountinfo`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::proc_file;

/// Limit of the bytes of `mountinfo` that are read.
const MOST: u64 = 1 << 20;

/// Kinds of file systems that answer from this machine's own disks and memory, where files of programs lie. Of `overlay` and `erofs` the
/// data may be elsewhere all the same.
const LOCAL: [&str; 12] = [
    "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "squashfs", "tmpfs",
    "xfs", "zfs",
];
/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of its device.
    pub device: (u32, u32),
    /// Its kind: `ext4`.
    pub kind: String,
    /// Where it is mounted.
    point: PathBuf,
}

impl Mount {
    /// Returns whether files of programs may lie in it, and are read without asking another machine or program for them.
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
        Mounts::read(&proc_file::path(pid, "mountinfo"))
    }

    /// Reads those of lancet itself.
    pub fn own() -> Mounts {
        Mounts::read(Path::new("/proc/self/mountinfo"))
    }

    fn read(path: &Path) -> Mounts {
        let text = proc_file::text_up_to(path, MOST).unwrap_or_default();
        Mounts(text.lines().filter_map(mount).collect())
    }

    /// Returns the mount with this number.
    pub fn get(&self, number: &str) -> Option<&Mount> {
        self.0.get(number)
    }

    /// Returns the mount point in which a path lies, as far as its words say.
    pub fn around(&self, path: &Path) -> PathBuf {
        let points = self.0.values().map(|mount| &mount.point);
        let around = points.filter(|point| path.starts_with(point));
        let longest = around.max_by_key(|point| point.components().count());
        longest.map_or_else(|| PathBuf::from("/"), PathBuf::clone)
    }
}

/// Returns the number of a mount and the mount, from its line: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn mount(line: &str) -> Option<(String, Mount)> {
    let (head, tail) = line.split_once(" - ")?;
    let mut words = head.split(' ');
    let number = words.next()?.to_owned();
    let (major, minor) = words.nth(1)?.split_once(':')?;
    // A blank in a path is written as an octal number; such a mount point is never found.
    let point = words.nth(1)?.into();
    let mount = Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: tail.split(' ').next()?.to_owned(),
        point,
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
            point: "/mnt2".into(),
        };
        assert_eq!((number.as_str(), &read), ("36", &expected));
        assert_eq!(mount("36 35 98:0 /mnt1"), None, "cut off");
        let mounts = Mounts([(number, read)].into());
        for (path, expected) in [("/mnt2/a.py", "/mnt2"), ("/mnt22/a.py", "/"), ("/a", "/")] {
            assert_eq!(
                mounts.around(Path::new(path)),
                Path::new(expected),
                "{path}"
            );
        }
    }
}
