//! Opening the guest's files: those it has mapped, and others below its root.
//!
//! The guest may live in another mount namespace, or below a `chroot`. `/proc/PID/root` leads to its
//! root, but a plain path through it would still follow absolute symbolic links to *our* root;
//! `openat2` with `RESOLVE_IN_ROOT` resolves as the guest does. The maps show a path from our root if
//! the file can be reached from there, otherwise from the root of the guest's mount namespace
//! (kernel `fs/d_path.c`); both readings are tried.
//!
//! A path proves nothing: a library that was upgraded has a new file at the old path. A file counts
//! as the mapped one if device and inode are those of the maps. On btrfs, and on
//! overlayfs under older kernels, the maps show another device than `stat`; there the build ID in the
//! guest's memory decides.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, major, minor};

use super::Module;
use crate::elf::{Error, Headers};
use crate::maps::{Device, Mapping};

/// Where the symbols of a module were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The file itself, opened at this path of ours.
    File(PathBuf),
    /// The guest's memory, because the file is gone, replaced or not to be opened.
    Memory,
}

/// The files of one guest.
#[derive(Debug)]
pub struct GuestFiles {
    pid: i32,
    /// Kept open so that the files are still those of this guest when it has ended.
    root: Option<File>,
    /// Where the guest's root lies, in the words of the maps.
    root_path: PathBuf,
}

impl GuestFiles {
    /// The files of process `pid`. Succeeds always; what cannot be opened shows when it is needed.
    pub fn of(pid: i32) -> GuestFiles {
        let link = PathBuf::from(format!("/proc/{pid}/root"));
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        GuestFiles {
            pid,
            root: OpenOptions::new()
                .read(true)
                .custom_flags(flags.bits())
                .open(&link)
                .ok(),
            root_path: std::fs::read_link(link).unwrap_or_else(|_| PathBuf::from("/")),
        }
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The path below the guest's root for a path that the maps show.
    pub fn path_in_guest(&self, shown: &Path) -> PathBuf {
        match shown.strip_prefix(&self.root_path) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => shown.to_owned(),
        }
    }

    /// The path of ours that leads to `path` of the guest (but for absolute symbolic links in it).
    pub fn path_for_us(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").unwrap_or(path);
        PathBuf::from(format!("/proc/{}/root", self.pid)).join(inside)
    }

    /// Opens a regular file for reading at a path of the guest's, as the guest would resolve it.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let Some(root) = &self.root else {
            return open_regular(&self.path_for_us(path));
        };
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
            .mode(Mode::empty())
            .resolve(ResolveFlag::RESOLVE_IN_ROOT);
        match openat2(root.as_fd(), path, how) {
            Ok(file) => regular(File::from(file)),
            // Before Linux 5.6, or forbidden by an older container's seccomp filter.
            Err(Errno::ENOSYS | Errno::EPERM) => open_regular(&self.path_for_us(path)),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the file of a module, if there is a way to the very file that is mapped.
    pub fn open_module(
        &self,
        module: &Module,
        memory: &dyn vm::Memory,
    ) -> Result<(File, PathBuf), Error> {
        let mapping = module
            .mappings
            .iter()
            .find(|mapping| mapping.inode == module.inode);
        let mut failure = None;
        for (path, file) in self.ways(&module.shown_path, mapping) {
            match file {
                Ok(file) if is_mapped_file(&file, module, memory) => return Ok((file, path)),
                Ok(_) => failure = failure.or(Some(Error::Malformed {
                    file: path,
                    reason: "is not the file that the process has loaded; it was replaced since",
                })),
                Err(source) => failure = failure.or(Some(Error::File { path, source })),
            }
        }
        Err(failure.unwrap_or_else(|| Error::Malformed {
            file: module.path.clone(),
            reason: "is no longer mapped",
        }))
    }

    /// Opens the file of one mapping, told by device and inode alone.
    pub(super) fn open_mapping(&self, mapping: &Mapping) -> Option<File> {
        let shown = mapping.path.as_deref()?;
        self.ways(shown, Some(mapping)).find_map(|(_, file)| {
            file.ok()
                .filter(|file| identity(file) == Some((mapping.device, mapping.inode)))
        })
    }

    /// The ways to a mapped file. The last needs `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`, but
    /// finds deleted files too.
    fn ways<'a>(
        &'a self,
        shown: &'a Path,
        mapping: Option<&'a Mapping>,
    ) -> impl Iterator<Item = (PathBuf, io::Result<File>)> + 'a {
        let inside = self.path_in_guest(shown);
        let by_guest =
            std::iter::once_with(move || (self.path_for_us(&inside), self.open(&inside)));
        let by_us = std::iter::once_with(|| (shown.to_owned(), open_regular(shown)));
        let by_mapping = mapping.into_iter().map(|mapping| {
            let (start, end) = (mapping.start, mapping.end);
            let path = PathBuf::from(format!("/proc/{}/map_files/{start:x}-{end:x}", self.pid));
            let file = open_regular(&path);
            (path, file)
        });
        by_guest.chain(by_us).chain(by_mapping)
    }
}

/// Opens a regular file at a path of ours; never waits, as for a pipe's other end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    regular(
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(path)?,
    )
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

fn identity(file: &File) -> Option<(Device, u64)> {
    let metadata = file.metadata().ok()?;
    let device = Device {
        major: u32::try_from(major(metadata.dev())).ok()?,
        minor: u32::try_from(minor(metadata.dev())).ok()?,
    };
    Some((device, metadata.ino()))
}

fn is_mapped_file(file: &File, module: &Module, memory: &dyn vm::Memory) -> bool {
    let identity = identity(file);
    if identity == Some((module.device, module.inode)) {
        return true;
    }
    let Ok(headers) = Headers::read(file) else {
        return false;
    };
    match (module.build_id(memory), headers.build_id(file)) {
        (Some(loaded), Some(found)) => loaded == found,
        (None, None) => {
            identity.is_some_and(|(_, inode)| inode == module.inode) && headers == module.headers
        }
        _ => false,
    }
}
