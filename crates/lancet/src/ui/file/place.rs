//! Where a file of ours is to be: a name in a folder that is open. Used by `file` and `whole`.
//!
//! lancet is often root, and a name that the user gives may lead through folders of others (`/tmp`, a home, an application's spool). There
//! somebody else may put a symbolic link in the place of a folder, and a file of ours would be made, or one of root's replaced, wherever
//! that link leads. So the way is walked here, one name after the other, each opened in the folder before it (`O_PATH`, open(2)) and never
//! looked up again; a link is followed by us and not by the kernel, and only if nobody else can have put it there:
//!
//! | link | followed if |
//! |---|---|
//! | in place of a folder | it belongs to root or to the user, or nobody else can write to the folder that it is in |
//! | in place of the file | it belongs to root or to the user |
//!
//! The user is whom lancet runs as, and for root also whoever has become root by sudo. Ordinary users are refused a link in place of a
//! folder only where everybody can write, as the kernel does it (`fs.protected_symlinks`, proc_sys_fs(5)); groups of people who share
//! folders keep theirs.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;

use super::{PRIVATE, cannot};

/// As many links as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// `f_type` of a file system of processes (statfs(2)).
const PROC: i64 = 0x9fa0;

/// A name in an open folder. No link has it when it is made.
#[derive(Debug)]
pub struct Place {
    folder: File,
    /// The name.
    pub name: OsString,
    /// What has the name; `None` = nothing.
    pub there: Option<Metadata>,
}

/// The way to a place, as far as it was walked.
struct Way<'a> {
    asked: &'a Path,
    folder: File,
    /// The folder's name, for messages.
    walked: PathBuf,
    /// The names that are still to be walked, the next one last.
    rest: Vec<OsString>,
    links: usize,
}

impl Place {
    /// Walks to a file that is to be written.
    ///
    /// # Errors
    /// A folder on the way is not there, or a link is one of somebody else's.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let mut way = Way {
            asked: path,
            folder: at_cwd(c".").with_context(|| cannot(path))?,
            walked: PathBuf::new(),
            rest: Vec::new(),
            links: 0,
        };
        way.lead_to(path).with_context(|| cannot(path))?;
        while let Some(name) = way.rest.pop() {
            if let Some(place) = way.step(name)? {
                return Ok(place);
            }
        }
        let what = match path.as_os_str().is_empty() {
            true => libc::ENOENT,
            false => libc::EISDIR,
        };
        Err(io::Error::from_raw_os_error(what)).with_context(|| cannot(path))
    }

    /// Opens what has the name. A link that has come there since is not followed.
    pub fn open(&self, flags: i32) -> io::Result<File> {
        open(&self.folder, &self.name, flags)
    }

    /// Opens a new file without a name in the folder (`O_TMPFILE`).
    pub fn nameless(&self) -> io::Result<File> {
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        open(&self.folder, OsStr::new("."), flags)
    }

    /// Makes a new file beside it that only the user can read; fails if there is anything at that name.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        open(
            &self.folder,
            name,
            libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        )
    }

    /// Makes a folder of its name that only the user can enter; fails if there is anything at that name.
    pub fn make_folder(&self) -> io::Result<()> {
        let name = text(&self.name)?;
        // SAFETY: takes integers and a text of this frame, which is only read.
        done(unsafe { libc::mkdirat(self.folder.as_raw_fd(), name.as_ptr(), 0o700) })
    }

    /// Gives an open file without a name this one.
    pub fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        let (from, to) = (CString::new(from)?, text(name)?);
        // SAFETY: takes integers and texts of this frame, which are only read.
        done(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                self.folder.as_raw_fd(),
                to.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        })
    }

    /// Gives a file beside it its name.
    pub fn take(&self, name: &OsStr) -> io::Result<()> {
        let (from, to) = (text(name)?, text(&self.name)?);
        let folder = self.folder.as_raw_fd();
        // SAFETY: takes integers and texts of this frame, which are only read.
        done(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })
    }

    /// Removes a file beside it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = text(name)?;
        // SAFETY: takes integers and a text of this frame, which is only read.
        done(unsafe { libc::unlinkat(self.folder.as_raw_fd(), name.as_ptr(), 0) })
    }
}

impl Way<'_> {
    /// Walks where a path leads before what is left.
    fn lead_to(&mut self, path: &Path) -> io::Result<()> {
        for part in path.components().rev() {
            match part {
                Component::RootDir => {
                    self.folder = at_cwd(c"/")?;
                    self.walked = PathBuf::from("/");
                }
                Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => self.rest.push("..".into()),
                Component::Normal(name) => self.rest.push(name.to_owned()),
            }
        }
        Ok(())
    }

    /// Walks by one name. Returns the place if it was the last one and no link.
    fn step(&mut self, name: OsString) -> anyhow::Result<Option<Place>> {
        let asked = self.asked;
        let is_last = self.rest.is_empty();
        let found = match open(&self.folder, &name, libc::O_PATH) {
            Err(error) if error.kind() == ErrorKind::NotFound && is_last => None,
            found => Some(found.with_context(|| cannot(asked))?),
        };
        let there = found.as_ref().map(File::metadata).transpose();
        let there = there.with_context(|| cannot(asked))?;
        if let (Some(link), Some(there)) = (&found, &there)
            && there.is_symlink()
        {
            self.allow(&name, there, is_last)?;
            self.follow(link, &name).with_context(|| cannot(asked))?;
            return Ok(None);
        }
        match found {
            Some(folder) if !is_last || name == ".." => {
                self.folder = folder;
                match name == ".." {
                    true => drop(self.walked.pop()),
                    false => self.walked.push(name),
                }
                Ok(None)
            }
            _ => Ok(Some(Place {
                folder: self.folder.try_clone().with_context(|| cannot(asked))?,
                name,
                there,
            })),
        }
    }

    /// Refuses a link that somebody else can have put there.
    fn allow(&self, name: &OsStr, link: &Metadata, is_last: bool) -> anyhow::Result<()> {
        if is_trusted(link.uid()) {
            return Ok(());
        }
        if is_last {
            return super::refuse_others(self.asked, link, "a link that belongs");
        }
        let folder = self.folder.metadata().with_context(|| cannot(self.asked))?;
        let others = match is_root() {
            true => folder.mode() & 0o022 != 0 || !is_trusted(folder.uid()),
            false => folder.mode() & 0o002 != 0,
        };
        if !others {
            return Ok(());
        }
        anyhow::bail!(
            "{}: {} is a link that belongs to user {}, in a folder that others can write to: name the folder that it leads to, if that is the one you mean",
            cannot(self.asked),
            self.walked.join(name).display(),
            link.uid()
        )
    }

    /// Goes on where a link leads.
    fn follow(&mut self, link: &File, name: &OsStr) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        if !self.rest.is_empty() && is_of_proc(link) {
            // The text of such a link (`/proc/PID/root`) is not where it leads.
            let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
            self.folder = open_as(&self.folder, name, flags)?;
            self.walked.push(name);
            return Ok(());
        }
        let to = text_of_link(link)?;
        self.lead_to(&to)
    }
}

/// Whether a link of this user's is followed wherever it is.
fn is_trusted(user: u32) -> bool {
    // SAFETY: takes nothing and cannot fail.
    let us = unsafe { libc::geteuid() };
    let by_sudo = || std::env::var("SUDO_UID").is_ok_and(|uid| uid.parse() == Ok(user));
    user == 0 || user == us || is_root() && by_sudo()
}

fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn is_of_proc(file: &File) -> bool {
    // SAFETY: a live record of this frame, which the kernel fills.
    unsafe {
        let mut of: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut of) == 0 && of.f_type == PROC
    }
}

/// The text of a link that is open itself (`readlinkat` with an empty name, readlink(2)).
fn text_of_link(link: &File) -> io::Result<PathBuf> {
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let length = unsafe {
        libc::readlinkat(
            link.as_raw_fd(),
            c"".as_ptr(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
        )
    };
    bytes.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(OsString::from_vec(bytes).into())
}

fn at_cwd(name: &std::ffi::CStr) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a text that ends with a NUL; the result is a new descriptor or -1.
    opened(unsafe { libc::openat(libc::AT_FDCWD, name.as_ptr(), flags) })
}

/// Opens a name in a folder, and no link; a file that is made is the user's alone.
fn open(folder: &File, name: &OsStr, flags: i32) -> io::Result<File> {
    open_as(folder, name, flags | libc::O_NOFOLLOW | libc::O_CLOEXEC)
}

fn open_as(folder: &File, name: &OsStr, flags: i32) -> io::Result<File> {
    let name = text(name)?;
    // SAFETY: a text of this frame that ends with a NUL; the result is a new descriptor or -1.
    opened(unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, PRIVATE) })
}

fn opened(descriptor: i32) -> io::Result<File> {
    match descriptor {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made it for us.
        made => Ok(unsafe { File::from_raw_fd(made) }),
    }
}

fn done(result: i32) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn text(name: &OsStr) -> io::Result<CString> {
    Ok(CString::new(name.as_bytes())?)
}
