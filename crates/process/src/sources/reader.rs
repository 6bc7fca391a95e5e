//! Reads files as the user of a guest, in a thread of its own. Used by `sources`.
//!
//! User and groups for files are a thread's own in the kernel (setfsuid(2)): by them and without `CAP_DAC_OVERRIDE` and
//! `CAP_DAC_READ_SEARCH` it finds and opens what the guest's user could, folder by folder, and nothing else.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::fcntl::ResolveFlag;

use super::LONGEST;
use crate::modules::{GuestFiles, open_place, place};
use crate::mounts::{Mount, Mounts};
use crate::proc_file;
use crate::status_file::StatusFile;

/// `RESOLVE_CACHED` (Linux 5.12, include/uapi/linux/openat2.h): fails if a part of the path is not in the kernel's cache.
const RESOLVE_CACHED: u64 = 0x20;

/// `_LINUX_CAPABILITY_VERSION_3`, and the two capabilities (include/uapi/linux/capability.h).
const CAPABILITIES: u32 = 0x2008_0522;
const CAP_DAC_OVERRIDE: u32 = 1 << 1;
const CAP_DAC_READ_SEARCH: u32 = 1 << 2;

/// What was found at a path.
pub(super) enum Read {
    There(Vec<u8>),
    NotThere,
    NotLookedAt,
}

/// Who a process is for the files that it opens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl User {
    /// Reads them of a process's `status`.
    pub fn of(status: &StatusFile) -> Option<User> {
        // Real, effective, saved, and that of the file system.
        let of_files = |field: &str| status.field(field)?.split_whitespace().nth(3)?.parse().ok();
        let groups = status.field("Groups")?.split_whitespace();
        Some(User {
            user: of_files("Uid")?,
            group: of_files("Gid")?,
            groups: groups
                .map(|group| group.parse().ok())
                .collect::<Option<_>>()?,
        })
    }

    /// Makes the thread that calls it this user for files. Returns whether it is.
    fn take(&self) -> bool {
        let own = StatusFile::own().ok().and_then(|own| User::of(&own));
        let is_own = own.as_ref() == Some(self);
        // SAFETY: raw calls change this thread alone, unlike those of the C library, which change all of them; the list of groups lives
        // until they return. The last call changes nothing, because there is no such user, and returns the one of now.
        let is_user = unsafe {
            let groups = self.groups.as_ptr();
            (is_own || libc::syscall(libc::SYS_setgroups, self.groups.len(), groups) == 0) && {
                libc::syscall(libc::SYS_setfsgid, self.group);
                libc::syscall(libc::SYS_setfsuid, self.user);
                libc::syscall(libc::SYS_setfsgid, u32::MAX) == i64::from(self.group)
                    && libc::syscall(libc::SYS_setfsuid, u32::MAX) == i64::from(self.user)
            }
        };
        is_user && give_up_capabilities()
    }
}

/// Gives up the capabilities by which this thread may open files of others. Returns whether it has none of them.
fn give_up_capabilities() -> bool {
    let header = [CAPABILITIES, 0];
    // Effective, permitted, inheritable, for the lower and the upper 32.
    let mut sets = [0_u32; 6];
    // SAFETY: both calls concern this thread (0); the arrays have the size of the kernel's structures in this version and outlive them.
    unsafe {
        let got = libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr());
        sets[0] &= !(CAP_DAC_OVERRIDE | CAP_DAC_READ_SEARCH);
        got == 0 && libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) == 0
    }
}

/// Reads files of a process. What its methods do may wait without end.
pub(super) struct Reader {
    pid: i32,
    root: File,
    user: User,
    /// Whether the thread has become the user; it is not asked before the first file.
    is_user: Option<bool>,
}

impl Reader {
    /// For the files of process `pid`.
    pub fn of(pid: i32, user: User) -> Option<Reader> {
        Some(Reader {
            pid,
            root: GuestFiles::of(pid).into_root()?,
            user,
            is_user: None,
        })
    }

    /// Reads a file, by an absolute path of the guest's.
    pub fn read(&mut self, path: &Path) -> Read {
        let user = &self.user;
        if !*self.is_user.get_or_insert_with(|| user.take()) {
            return Read::NotLookedAt;
        }
        match self.find(path).and_then(|place| self.text(&place)) {
            Ok(text) => Read::There(text),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Read::NotThere,
            Err(_) => Read::NotLookedAt,
        }
    }

    /// Looks up a path without opening what is there.
    fn find(&self, path: &Path) -> io::Result<File> {
        let resolve = ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let cached = resolve | ResolveFlag::from_bits_retain(RESOLVE_CACHED);
        let found = place(&self.root, path, cached | ResolveFlag::RESOLVE_IN_ROOT);
        // EINVAL: the kernel does not know the flag.
        let is_unknown =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINVAL));
        if !found.as_ref().is_err_and(is_unknown) {
            return found;
        }
        let inside = resolve | ResolveFlag::RESOLVE_NO_XDEV;
        let around = self.mounts().around(path);
        if around == Path::new("/") {
            self.require_local(&self.root)?;
            return place(&self.root, path, inside | ResolveFlag::RESOLVE_IN_ROOT);
        }
        // A folder on which something is mounted is in the cache as long as that is.
        let start = place(&self.root, &around, cached | ResolveFlag::RESOLVE_IN_ROOT)?;
        self.require_local(&start)?;
        let rest = path.strip_prefix(&around).map_err(io::Error::other)?;
        place(&start, rest, inside | ResolveFlag::RESOLVE_BENEATH)
    }

    fn text(&self, place: &File) -> io::Result<Vec<u8>> {
        self.require_local(place)?;
        // Asks the file system, so it comes after that.
        let metadata = place.metadata()?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut text = Vec::new();
        open_place(place)?.take(LONGEST).read_to_end(&mut text)?;
        Ok(text)
    }

    fn mounts(&self) -> Mounts {
        Mounts::of(self.pid)
    }

    /// Fails if a file is not on a file system of this machine. The numbers of mounts are used again, so they are read while the file is
    /// held, and its mount with it.
    fn require_local(&self, place: &File) -> io::Result<()> {
        let info = proc_file::text(format!("/proc/self/fdinfo/{}", place.as_raw_fd()))?;
        let mut lines = info.lines();
        let mount = lines.find_map(|line| line.strip_prefix("mnt_id:"));
        let mount = mount.unwrap_or_default().trim();
        let is_local = |mounts: Mounts| mounts.get(mount).map(Mount::is_local);
        // Below a chroot that is no mount, the kernel does not show the guest the mount of its own root.
        match is_local(self.mounts()).or_else(|| is_local(Mounts::own())) {
            Some(true) => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
