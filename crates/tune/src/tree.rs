//! The machine's files, below a root that can be moved. Used by `apply`, `events::connector` and others here, and by
//! crate `lancet`.
//!
//! Live, a path means what it says. Below `--root DIR` every path, and every symbolic link on the way,
//! is resolved inside DIR by the kernel itself (`openat2` with `RESOLVE_IN_ROOT`, openat2(2)), so a
//! tree from a stranger cannot make us read this machine's files and take them for its own.
//!
//! What is read is bounded and must be a regular file: a FIFO in the place of `/proc/stat`, or
//! a link to `/dev/zero`, is an answer ("not a file"), not a hang.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::descriptor::owned;

/// The longest file that is read, in bytes: `/proc/interrupts` of 2,000 interrupts on 256 CPUs is 6 MiB.
const LONGEST: u64 = 16 << 20;

/// Why something could not be read, in words that can stand behind "cannot tell: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cannot {
    /// The file or directory is not there.
    #[error("{0} is not there")]
    Missing(String),
    /// The user may not read it.
    #[error("{what} needs {right}")]
    Denied {
        /// The file or request.
        what: String,
        /// The right that is missing, in words.
        right: &'static str,
    },
    /// The text is not what the file should hold.
    #[error("{what} reads `{text}`, which makes no sense")]
    Odd {
        /// The path of the file.
        what: String,
        /// The beginning of its text.
        text: String,
    },
    /// It can be read only on a running kernel, and there is only a tree of files.
    #[error("{0} can only be asked on the live machine, not below --root")]
    NeedsLive(&'static str),
    /// The kernel or the driver does not offer it.
    #[error("{what} is not supported ({why})")]
    Unsupported {
        /// The file or request.
        what: String,
        /// Why it is not offered.
        why: String,
    },
    /// It is a question about something that this machine, or this look at it, has not: no such process was named.
    #[error("{0}")]
    Elsewhere(&'static str),
    /// Another error of the system.
    #[error("{what}: {why}")]
    Failed {
        /// The file or request.
        what: String,
        /// The text of the error.
        why: String,
    },
}

impl Cannot {
    /// Returns the error for an I/O error on `what`.
    pub fn from_io(what: &str, error: &io::Error) -> Self {
        let what = what.to_owned();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH) => Self::Missing(what),
            Some(libc::EACCES | libc::EPERM) => {
                let of_process = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
                let right = if what.strip_prefix("/proc/").is_some_and(of_process) {
                    "root or the user it runs as"
                } else {
                    "root"
                };
                Self::Denied { what, right }
            }
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS) => Self::Unsupported {
                what,
                why: error.to_string(),
            },
            _ => Self::Failed {
                what,
                why: error.to_string(),
            },
        }
    }

    /// Returns the same error, and where a right is missing, with the right that it takes.
    pub(crate) fn needing(self, right: &'static str) -> Self {
        match self {
            Self::Denied { what, .. } => Self::Denied { what, right },
            other => other,
        }
    }

    /// Returns the error for a text that is not what its file should hold.
    pub fn odd(what: &str, text: &str) -> Self {
        Self::Odd {
            what: what.to_owned(),
            text: text.trim().chars().take(40).collect(),
        }
    }

    /// Returns whether the thing does not exist, as opposed to being out of reach.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

/// The files of one machine.
#[derive(Debug)]
pub struct Tree {
    /// The directory that stands for `/`; `None` on the live machine.
    root: Option<(PathBuf, OwnedFd)>,
    /// The sysfs of another network namespace, read in place of `/sys`.
    sys: Option<OwnedFd>,
    /// Why the network that the audit is about cannot be looked at.
    no_network: Option<Cannot>,
    /// The settings in /proc/sys that were read so far.
    read: RefCell<BTreeSet<String>>,
}

/// Returns whether each network namespace has its own of this. The counters of the CPUs are the machine's, though they
/// lie in the same directory.
fn is_of_network(path: &str) -> bool {
    let places = ["/proc/net/", "/proc/sys/net/", "/sys/class/net"];
    let inside = places.iter().any(|start| path.starts_with(start));
    inside && path != "/proc/net/softnet_stat"
}

impl Tree {
    /// Returns the files of the running machine.
    pub fn live() -> Self {
        Self {
            root: None,
            sys: None,
            no_network: None,
            read: RefCell::default(),
        }
    }

    /// Returns the files of the running machine without its network, because the audit is about another network, which
    /// lancet may not see.
    pub fn without_network(why: Cannot) -> Self {
        Self {
            no_network: Some(why),
            ..Self::live()
        }
    }

    /// Returns an error if the network cannot be looked at.
    pub fn network(&self) -> Result<(), Cannot> {
        self.no_network.clone().map_or(Ok(()), Err)
    }

    /// Returns the files below a directory, which is a copy of a machine's.
    pub fn below(root: &Path) -> Result<Self, Cannot> {
        let what = root.display().to_string();
        let directory = File::open(root).map_err(|error| Cannot::from_io(&what, &error))?;
        match directory.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(Self {
                root: Some((root.to_owned(), directory.into())),
                ..Self::live()
            }),
            _ => Err(Cannot::Failed {
                what,
                why: "is not a directory".into(),
            }),
        }
    }

    /// Makes the tree read this sysfs in place of `/sys` from now on.
    pub fn use_sysfs(&mut self, sys: OwnedFd) {
        self.sys = Some(sys);
    }

    /// Returns whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the directory of `--root`.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_ref().map(|(path, _)| path.as_path())
    }

    /// Returns a path as lancet's own file system names it, for files that are created (journals).
    pub fn outside(&self, path: &str) -> PathBuf {
        match self.root() {
            Some(root) => root.join(path.trim_start_matches('/')),
            None => path.into(),
        }
    }

    fn open(&self, path: &str, flags: i32) -> Result<OwnedFd, Cannot> {
        if is_of_network(path) {
            self.network()?;
        }
        let opened = self.descriptor(path, flags);
        opened.map_err(|error| Cannot::from_io(path, &error))
    }

    fn descriptor(&self, path: &str, flags: i32) -> io::Result<OwnedFd> {
        // openat2 refuses flags without effect: with O_PATH nothing is opened that could block.
        let never_wait = match flags & libc::O_PATH {
            0 => libc::O_NONBLOCK | libc::O_NOCTTY,
            _ => 0,
        };
        let flags = flags | libc::O_CLOEXEC | never_wait;
        if let Some((_, root)) = &self.root {
            return open_in(root.as_raw_fd(), path, flags);
        }
        match (
            &self.sys,
            path.strip_prefix("/sys/"),
            path.strip_prefix("/proc/net/"),
        ) {
            (Some(sys), Some(rest), _) => open_at(sys.as_raw_fd(), rest, flags),
            // /proc/net is that of the process's first thread, while this thread may be in another namespace.
            (_, _, Some(rest)) => open_at(
                libc::AT_FDCWD,
                &format!("/proc/thread-self/net/{rest}"),
                flags,
            ),
            _ => open_at(libc::AT_FDCWD, path, flags),
        }
    }

    /// Returns the bytes of a file.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Cannot> {
        let failed = |error: io::Error| Cannot::from_io(path, &error);
        let file = File::from(self.open(path, libc::O_RDONLY)?);
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Cannot::Failed {
                what: path.into(),
                why: "is not a regular file".into(),
            });
        }
        let mut bytes = Vec::new();
        file.take(LONGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Err(Cannot::Failed {
                what: path.into(),
                why: "is longer than 16 MiB".into(),
            });
        }
        if path.starts_with("/proc/sys/") {
            self.read.borrow_mut().insert(path.to_owned());
        }
        Ok(bytes)
    }

    /// Returns a file's text; what is not UTF-8 is replaced.
    pub fn read(&self, path: &str) -> Result<String, Cannot> {
        Ok(String::from_utf8_lossy(&self.bytes(path)?).into_owned())
    }

    /// Returns a file's text without the white space around it.
    pub fn word(&self, path: &str) -> Result<String, Cannot> {
        Ok(self.read(path)?.trim().to_owned())
    }

    /// Returns the number in a file.
    pub fn number<T: FromStr>(&self, path: &str) -> Result<T, Cannot> {
        let text = self.read(path)?;
        text.trim().parse().map_err(|_| Cannot::odd(path, &text))
    }

    /// Returns the names in a directory, sorted.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Cannot> {
        let failed = |error: io::Error| Cannot::from_io(path, &error);
        let directory = self.open(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        let open = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let mut names: Vec<String> = fs::read_dir(open)
            .map_err(failed)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns whether this file of /proc/sys was read.
    pub fn has_read(&self, path: &str) -> bool {
        self.read.borrow().contains(path)
    }

    /// Returns whether there is a directory at the path.
    pub fn is_folder(&self, path: &str) -> bool {
        self.open(path, libc::O_PATH | libc::O_DIRECTORY).is_ok()
    }

    /// Returns whether there is something at the path.
    pub fn exists(&self, path: &str) -> bool {
        self.open(path, libc::O_PATH).is_ok()
    }

    /// Returns the target of a symbolic link.
    pub fn link(&self, path: &str) -> Result<String, Cannot> {
        if self.is_live() && path.starts_with("/proc/") {
            // The links of a process's 60,000 descriptors take one system call each here, not three.
            let target = fs::read_link(path).map_err(|error| Cannot::from_io(path, &error))?;
            return Ok(target.to_string_lossy().into_owned());
        }
        let link = self.open(path, libc::O_PATH | libc::O_NOFOLLOW)?;
        let mut text = vec![0u8; libc::PATH_MAX as usize];
        // SAFETY: the empty path names the descriptor itself (readlinkat(2)); the buffer is ours and its
        // length is given.
        let length = unsafe {
            libc::readlinkat(
                link.as_raw_fd(),
                c"".as_ptr(),
                text.as_mut_ptr().cast(),
                text.len(),
            )
        };
        match usize::try_from(length) {
            Ok(length) => Ok(String::from_utf8_lossy(&text[..length]).into_owned()),
            Err(_) => Err(Cannot::from_io(path, &io::Error::last_os_error())),
        }
    }

    /// Replaces what the file holds by the text.
    pub fn write(&self, path: &str, text: &str) -> Result<(), Cannot> {
        let failed = |error: io::Error| Cannot::from_io(path, &error);
        let fd = self.open(path, libc::O_WRONLY | libc::O_TRUNC)?;
        // One write: the kernel's files take a value only whole.
        let written = File::from(fd).write(text.as_bytes()).map_err(failed)?;
        if written == text.len() {
            return Ok(());
        }
        Err(Cannot::Failed {
            what: path.into(),
            why: format!("took {written} of {} bytes", text.len()),
        })
    }
}

fn c_path(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn open_at(at: RawFd, path: &str, flags: i32) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string that lives across the call, which makes the descriptor.
    unsafe { owned(libc::openat(at, path.as_ptr(), flags).into()) }
}

fn open_in(root: RawFd, path: &str, flags: i32) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: `open_how` is plain integers, for which all zeros is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: path and `how` live across the call, which makes the descriptor, and the size is that of `how`.
    unsafe {
        owned(libc::syscall(
            libc::SYS_openat2,
            root,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("lancet-tree-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("proc")).unwrap();
        path
    }

    #[test]
    fn links_stay_below_the_root() {
        let root = scratch("links");
        fs::write(root.join("proc/secret"), "inside").unwrap();
        std::os::unix::fs::symlink("/proc/secret", root.join("proc/absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../../etc/passwd", root.join("proc/up")).unwrap();
        let tree = Tree::below(&root).unwrap();
        assert_eq!(tree.read("/proc/absolute").unwrap(), "inside");
        assert!(tree.read("/proc/up").unwrap_err().is_missing());
        assert_eq!(tree.link("/proc/absolute").unwrap(), "/proc/secret");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_no_file_is_refused_and_does_not_hang() {
        let root = scratch("fifo");
        let fifo = c_path(root.join("proc/stat").to_str().unwrap()).unwrap();
        // SAFETY: a C string that lives across the call.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let tree = Tree::below(&root).unwrap();
        let said = tree.read("/proc/stat").unwrap_err().to_string();
        assert_eq!(said, "/proc/stat: is not a regular file");
        assert!(tree.read("/proc").is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_write_leaves_nothing_of_the_old() {
        let root = scratch("write");
        fs::write(root.join("proc/value"), "123456\n").unwrap();
        let tree = Tree::below(&root).unwrap();
        tree.write("/proc/value", "7\n").unwrap();
        assert_eq!(tree.number::<u32>("/proc/value").unwrap(), 7);
        assert!(tree.write("/proc/absent", "7").unwrap_err().is_missing());
        fs::remove_dir_all(root).unwrap();
    }
}
