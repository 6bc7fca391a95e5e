//! Opens the guest's files: those it has mapped, and others below its root. Used by `symbols`, `symbols::debug` and
//! others here, and by most crates above.
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

use crate::proc_file;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, major, minor};

use super::Module;
use crate::descriptors::with_reserve;
use crate::elf::{ElfError, Headers};
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
    /// The files of process `pid`. This always succeeds; what cannot be opened shows when it is needed.
    pub fn of(pid: i32) -> GuestFiles {
        let link = proc_file::path(pid, "root");
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

    /// Id of the process in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns its root; `None` if it could not be opened.
    pub(crate) fn into_root(self) -> Option<File> {
        self.root
    }

    /// Returns the path below the guest's root for a path that the maps show.
    pub fn path_in_guest(&self, shown: &Path) -> PathBuf {
        match shown.strip_prefix(&self.root_path) {
            Ok(inside) => Path::new("/").join(inside),
            Err(_) => shown.to_owned(),
        }
    }

    /// Returns the path of ours that leads to `path` of the guest (but for absolute symbolic links in it).
    pub fn path_for_us(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").unwrap_or(path);
        proc_file::path(self.pid, "root").join(inside)
    }

    /// Opens a regular file for reading at a path of the guest's, as the guest would resolve it. See [`open_regular`].
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let Some(root) = &self.root else {
            return open_regular(&self.path_for_us(path));
        };
        match place(root, path, ResolveFlag::RESOLVE_IN_ROOT) {
            Ok(place) => open_place(&place),
            // Before Linux 5.6, or forbidden by an older container's seccomp filter.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                open_regular(&self.path_for_us(path))
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the file of a module, if the very file that is mapped can be reached.
    pub fn open_module(
        &self,
        module: &Module,
        memory: &dyn vm::Memory,
    ) -> Result<(File, PathBuf), ElfError> {
        let mapping = module
            .mappings
            .iter()
            .find(|mapping| mapping.inode == module.inode);
        let mut failure = None;
        for (path, file) in self.ways(&module.shown_path, mapping) {
            match file {
                Ok(file) if is_mapped_file(&file, module, memory) => return Ok((file, path)),
                Ok(_) => failure = failure.or(Some(ElfError::Malformed {
                    file: path,
                    reason: "is not the file that the process has loaded; it was replaced since",
                })),
                Err(source) => failure = failure.or(Some(ElfError::File { path, source })),
            }
        }
        Err(failure.unwrap_or_else(|| ElfError::Malformed {
            file: module.path.clone(),
            reason: "is no longer mapped",
        }))
    }

    /// Opens the file of one mapping, recognised by device and inode alone.
    pub fn open_mapping(&self, mapping: &Mapping) -> Option<File> {
        let shown = mapping.path.as_deref()?;
        self.ways(shown, Some(mapping)).find_map(|(_, file)| {
            file.ok()
                .filter(|file| identity(file) == Some((mapping.device, mapping.inode)))
        })
    }

    /// Opens the paths that may lead to a mapped file, one after the other. The last needs `CAP_SYS_ADMIN` or
    /// `CAP_CHECKPOINT_RESTORE`, but finds deleted files too.
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
            let path = proc_file::path(self.pid, &format!("map_files/{start:x}-{end:x}"));
            let file = open_regular(&path);
            (path, file)
        });
        by_guest.chain(by_us).chain(by_mapping)
    }
}

/// The largest file that is read. Programs and libraries with all their debug information stay far below.
const LARGEST: u64 = 16 << 30;

/// Opens a regular file for reading at a path of ours.
///
/// The path is often one that a guest has chosen, and what is there may be anything: opening a FIFO or a device has
/// effects (`/dev/watchdog` restarts the machine), so it is looked at by an `O_PATH` descriptor, which opens nothing,
/// before it is opened through that descriptor.
///
/// # Errors
/// Nothing is there, it is not a regular file, or it is larger than any program.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_PATH;
    let place = with_reserve(|| {
        OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits())
            .open(path)
    });
    open_place(&place?)
}

/// Looks up a path from a folder on, without opening what is there.
pub(crate) fn place(from: &File, path: &Path, resolve: ResolveFlag) -> io::Result<File> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .mode(Mode::empty())
        .resolve(resolve);
    let found = with_reserve(|| openat2(from.as_fd(), path, how).map_err(io::Error::from));
    found.map(File::from)
}

/// Opens what an `O_PATH` descriptor stands for, if it is a regular file.
pub(crate) fn open_place(place: &File) -> io::Result<File> {
    let metadata = place.metadata()?;
    let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if !metadata.is_file() {
        return refused("not a regular file");
    }
    if metadata.len() > LARGEST {
        return refused("too large for a program or a library");
    }
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    // Without the reserve, because many callers keep it open.
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::mkfifo;
    use std::ffi::CString;
    use std::io::Read;
    use std::os::fd::FromRawFd;
    use std::os::unix::ffi::OsStringExt;
    use std::time::{Duration, Instant};

    /// What is there instead of a file is refused at once, and not opened: a FIFO that was opened for reading would let
    /// a writer in.
    #[test]
    fn only_regular_files_are_opened() {
        let folder = std::env::temp_dir().join(format!("lancet-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        std::fs::write(at("file"), "content").unwrap();
        mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(at("fifo"), at("link")).unwrap();
        let huge = File::create(at("huge")).unwrap();
        huge.set_len(1 << 43).unwrap();
        let files = GuestFiles::of(std::process::id() as i32);
        let started = Instant::now();
        // The kernel notes every opening of the pipe, but not a look by O_PATH.
        let fifo = CString::new(at("fifo").into_os_string().into_vec()).unwrap();
        // SAFETY: the calls take integers and a path that ends with a NUL; the descriptor is new, and owned by `watch`
        // alone.
        let mut watch = unsafe {
            let watch = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
            assert!(libc::inotify_add_watch(watch, fifo.as_ptr(), libc::IN_OPEN) > 0);
            File::from_raw_fd(watch)
        };
        for open in [
            &(|path: &Path| files.open(path)) as &dyn Fn(&Path) -> io::Result<File>,
            &open_regular,
        ] {
            assert_eq!(
                io::read_to_string(open(&at("file")).unwrap()).unwrap(),
                "content"
            );
            for name in ["fifo", "link", "huge", "."] {
                let error = open(&at(name)).expect_err(name);
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
            }
            assert!(open(Path::new("/dev/null")).is_err());
            assert_eq!(
                open(&at("nothing")).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
        }
        assert!(started.elapsed() < Duration::from_secs(5));
        let opened = watch.read(&mut [0; 4096]).map_err(|error| error.kind());
        assert_eq!(
            opened,
            Err(io::ErrorKind::WouldBlock),
            "the pipe was opened"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
