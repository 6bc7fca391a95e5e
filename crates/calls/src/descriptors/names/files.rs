//! Resolves paths: from a call's argument and a working directory. Used by `names`.

use super::name::{Device, More, Name};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use process::{guest, proc_file};
use prototypes::show::{Captures, Memory as _};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::rc::Rc;

/// A path is no longer than this (`PATH_MAX` in include/uapi/linux/limits.h).
const LONGEST: usize = 4096;

/// The root and working directory of a process.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Its root, held open while its paths are looked up.
    root: Option<Rc<OwnedFd>>,
    /// Its working directory, if it is known.
    current: Option<String>,
}

impl Place {
    /// For a process that runs now.
    pub fn of(process: i32) -> Self {
        let path = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_DIRECTORY;
        let link = proc_file::path(process, "root");
        let root = nix::fcntl::open(&link, path, nix::sys::stat::Mode::empty());
        Place {
            root: root.ok().map(Rc::new),
            current: guest::working_directory(process),
        }
    }

    /// Returns the working directory; if it is not known, that of the process now, if it still exists.
    pub fn current(&self, process: Option<i32>) -> Option<String> {
        let known = self.current.clone();
        known.or_else(|| guest::working_directory(process?))
    }

    /// Notes that the process has another working directory.
    pub fn enter(&mut self, path: &str, process: i32) {
        let joined = joined(self.current.as_deref(), path, process);
        self.current = joined.map(|path| self.resolved(&path).map_or(path, |name| name.link));
    }

    /// Returns the file with this path; `of` names the process and the descriptor if the kernel can be asked.
    pub fn file(
        &self,
        base: Option<&str>,
        path: &str,
        process: i32,
        of: Option<(i32, i32)>,
    ) -> Option<Name> {
        let known = of.and_then(|(of, number)| Some((of, number, link_of(of, number)?)));
        let last = path.rsplit('/').next().unwrap_or_default();
        if let Some((of, number, link)) = known {
            let found = found(of, number, link);
            let shown = found.link.rsplit('/').next().unwrap_or_default();
            // The link of a namespace is `net:[4026531840]`.
            let of_namespace = shown.strip_prefix(last);
            let same = shown == last || of_namespace.is_some_and(|rest| rest.starts_with(":["));
            if same && !matches!(last, "" | "." | "..") {
                return Some(found);
            }
        }
        let joined = joined(base, path, process)?;
        Some(self.resolved(&joined).unwrap_or(Name {
            link: joined,
            ..Name::default()
        }))
    }

    /// Returns what a path within the root leads to now, if it exists.
    fn resolved(&self, path: &str) -> Option<Name> {
        let root = self.root.as_ref()?;
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let file = openat2(root.as_ref(), path, how).ok()?;
        let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let device = File::from(file).metadata().ok().and_then(|of| device(&of));
        Some(Name {
            link: link.to_string_lossy().into_owned(),
            deleted: false,
            more: device.map(More::Device),
        })
    }
}

/// Returns a path from the root on. `/proc/self` is the guest's own.
fn joined(base: Option<&str>, path: &str, process: i32) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    let base = if path.starts_with('/') { "" } else { base? };
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let id = process.to_string();
    if let [first, second, ..] = parts.as_mut_slice()
        && (*first, *second) == ("proc", "self")
    {
        *second = &id;
    }
    Some(format!("/{}", parts.join("/")))
}

/// Returns where a descriptor leads now.
pub fn link_of(process: i32, number: i32) -> Option<String> {
    let link = fs::read_link(proc_file::path(process, &format!("fd/{number}"))).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// What a descriptor is by its link.
pub fn found(process: i32, number: i32, link: String) -> Name {
    // A file may really have this suffix in its name.
    let removed = link
        .strip_suffix(" (deleted)")
        .filter(|_| !leads_to(process, &link, number));
    let deleted = removed.is_some();
    let link = removed.map_or(link.clone(), str::to_owned);
    let more = match link.as_str() {
        "anon_inode:[pidfd]" => told_process(process, number).map(More::Process),
        path if path.starts_with("/dev/") => {
            let file = fs::metadata(proc_file::path(process, &format!("fd/{number}")));
            file.ok().and_then(|of| device(&of)).map(More::Device)
        }
        _ => None,
    };
    Name {
        link,
        deleted,
        more,
    }
}

/// Whether a path of a process leads to the file that it has open as `number`. The path is resolved in its root, and only from what the
/// kernel has cached: a file system of the process itself (FUSE), or one whose server is gone, would make us wait.
fn leads_to(process: i32, path: &str, number: i32) -> bool {
    let Some(root) = Place::of(process).root else {
        return false;
    };
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let cached = ResolveFlag::from_bits_retain(RESOLVE_CACHED);
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
    let Ok(found) = openat2(root.as_ref(), path, how.resolve(resolve | cached)) else {
        return false;
    };
    let file = node(process, number);
    file.is_some() && file == node(std::process::id() as i32, found.as_raw_fd())
}

/// `RESOLVE_CACHED` (Linux 5.12, include/uapi/linux/openat2.h): fails if a part of the path is not in the kernel's cache, where that of
/// an open file always is.
const RESOLVE_CACHED: u64 = 0x20;

/// Returns the mount and the inode of an open file from the kernel's data, without asking its file system (`seq_show`, fs/proc/fd.c;
/// the inode since Linux 5.14).
fn node(process: i32, number: i32) -> Option<(u64, u64)> {
    let text = proc_file::of_process(process, &format!("fdinfo/{number}")).ok()?;
    let field = |name| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u64>().ok()
    };
    Some((field("mnt_id:")?, field("ino:")?))
}

/// Returns the process that a pidfd refers to (Documentation/filesystems/proc.rst, pidfd in fdinfo).
fn told_process(process: i32, number: i32) -> Option<i32> {
    let text = proc_file::of_process(process, &format!("fdinfo/{number}")).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok()
}

fn device(of: &fs::Metadata) -> Option<Device> {
    let kind = of.file_type();
    let number = of.rdev();
    (kind.is_block_device() || kind.is_char_device()).then(|| Device {
        block: kind.is_block_device(),
        major: nix::sys::stat::major(number) as u32,
        minor: nix::sys::stat::minor(number) as u32,
    })
}

/// Returns the text that was copied from this address.
pub fn text(captures: &Captures, mut at: u64) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST {
        let Some(piece) = captures.piece(at).filter(|piece| !piece.is_empty()) else {
            break;
        };
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                bytes.extend_from_slice(&piece[..end]);
                break;
            }
            None => bytes.extend_from_slice(piece),
        }
        at = at.wrapping_add(piece.len() as u64);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined() {
        let join = |base: &str, path: &str| joined(Some(base), path, 7);
        assert_eq!(join("/srv", "a/../b").as_deref(), Some("/srv/b"));
        assert_eq!(join("/srv", "/etc//hosts").as_deref(), Some("/etc/hosts"));
        assert_eq!(join("/", "../..").as_deref(), Some("/"));
        assert_eq!(
            join("/", "/proc/self/maps").as_deref(),
            Some("/proc/7/maps")
        );
        assert_eq!(joined(None, "a", 7), None);
    }
}
