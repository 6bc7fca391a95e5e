//! The source text of a guest's scripts, by the paths that the guest names.
//!
//! What a guest names is an attacker's word. So a path is looked up within its root by an `O_PATH` descriptor, which opens nothing, and
//! opened only if it leads to a regular file on a file system of this machine ([`Mounts`]), of a size that source text has, that the
//! guest's own user may read. Nothing of it is shown: the text is searched for names that the guest has told us already.
//!
//! Where other file systems are mounted (FUSE is a program of the guest's, NFS a machine that may be gone) a look-up alone may wait without
//! end. There only what the kernel has cached is looked up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};

use crate::modules::{GuestFiles, open_place};
use crate::mounts::Mounts;
use crate::status_file::StatusFile;
use crate::{guest, proc_file};

/// Limits of the bytes of a file, and of the files.
const LONGEST: u64 = 1 << 20;
const MOST_FILES: usize = 64;

/// `RESOLVE_CACHED` (Linux 5.12, include/uapi/linux/openat2.h): fails if a part of the path is not in the kernel's cache.
const RESOLVE_CACHED: u64 = 0x20;

/// The text of files of a process. Each is read once.
#[derive(Debug)]
pub struct Sources {
    files: GuestFiles,
    mounts: Mounts,
    known: RefCell<HashMap<String, Option<Rc<[u8]>>>>,
}

impl Sources {
    /// For the files of process `pid`.
    pub fn of(pid: i32) -> Sources {
        Sources {
            files: GuestFiles::of(pid),
            mounts: Mounts::of(pid),
            known: RefCell::default(),
        }
    }

    /// Returns the text of the file at this path of the guest's, from its working directory on if it is relative; `None` if it is not to
    /// be read.
    pub fn text(&self, path: &str) -> Option<Rc<[u8]>> {
        let mut known = self.known.borrow_mut();
        if let Some(text) = known.get(path) {
            return text.clone();
        }
        if known.len() >= MOST_FILES {
            return None;
        }
        let text = self.read(path);
        known.insert(path.to_owned(), text.clone());
        text
    }

    fn read(&self, path: &str) -> Option<Rc<[u8]>> {
        let pid = self.files.pid();
        let absolute = match path.starts_with('/') {
            true => path.into(),
            false => {
                let folder = guest::working_directory(pid)?;
                self.files.path_in_guest(Path::new(&folder)).join(path)
            }
        };
        let place = File::from(self.place(&absolute)?);
        let number = place.as_raw_fd();
        let info = proc_file::text(format!("/proc/self/fdinfo/{number}")).ok()?;
        let mut lines = info.lines();
        let mount = lines.find_map(|line| line.strip_prefix("mnt_id:"))?;
        let is_local = self.mounts.get(mount.trim())?.is_local();
        if !is_local || !is_text_of(pid, &place) {
            return None;
        }
        let mut text = Vec::new();
        let file = open_place(&place).ok()?;
        file.take(LONGEST).read_to_end(&mut text).ok()?;
        Some(text.into())
    }

    /// Looks up a path without opening what is there.
    fn place(&self, path: &Path) -> Option<std::os::fd::OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let cached = ResolveFlag::from_bits_retain(RESOLVE_CACHED);
        let open = |resolve| {
            let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
            let found = openat2(self.files.root()?.as_fd(), path, how.resolve(resolve));
            Some(found.map_err(io::Error::from))
        };
        let found = open(resolve | cached)?;
        match found {
            Ok(place) => Some(place),
            Err(_) if self.mounts.are_local() => open(resolve)?.ok(),
            Err(_) => None,
        }
    }
}

/// Whether a file is regular, has the size of source text, and may be read by the user of the process.
fn is_text_of(pid: i32, place: &File) -> bool {
    let (Ok(file), Ok(status)) = (place.metadata(), StatusFile::of(pid)) else {
        return false;
    };
    // Real, effective, saved, and that of the file system.
    let of_files = |field: &str| status.field(field)?.split_whitespace().nth(3)?.parse().ok();
    let (user, group): (Option<u32>, Option<u32>) = (of_files("Uid"), of_files("Gid"));
    let mode = file.permissions().mode();
    let may_read = match (user, group) {
        (Some(0), _) => true,
        (Some(user), _) if user == file.uid() => mode & 0o400 != 0,
        (_, Some(group)) if group == file.gid() => mode & 0o040 != 0,
        _ => mode & 0o004 != 0,
    };
    file.is_file() && file.len() <= LONGEST && may_read
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::fs;

    #[test]
    fn only_text_that_lies_on_this_machine_is_read() {
        let folder = std::env::temp_dir().join(format!("lancet-sources-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let at = |name: &str| folder.join(name).to_str().expect("plain").to_owned();
        fs::write(at("script.py"), "work()\n").expect("a file");
        let huge = File::create(at("huge.py")).expect("a file");
        huge.set_len(LONGEST + 1).expect("a size");
        mkfifo(Path::new(&at("fifo")), Mode::S_IRWXU).expect("a FIFO");
        let sources = Sources::of(std::process::id() as i32);
        let text = sources.text(&at("script.py")).expect("text");
        assert_eq!(&*text, b"work()\n");
        for name in [
            &at("huge.py"),
            &at("fifo"),
            &at("nothing"),
            &at(""),
            "/proc/self/status",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/dev/zero",
            "<string>",
        ] {
            assert_eq!(sources.text(name), None, "{name}");
        }
        fs::remove_dir_all(&folder).expect("the folder");
    }
}
