//! Opens the files that `-o` and `--record` name.
//!
//! Reports may hold what others on this machine may know nothing of, and lancet is often root in a folder that
//! others can write to, such as `/tmp`. So a file of ours is always a new one, which only its owner can read; what somebody
//! else has put at that name is not written to, not followed and not changed; and opening never waits.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub use again::Appended;
use anyhow::Context;
pub use whole::WholeFile;

mod again;
mod whole;

/// The mode of new files.
const PRIVATE: u32 = 0o600;

/// Opens a file for writing from its beginning on. A regular file is replaced by a new one that only the user can read;
/// pipes and devices are left as they are.
///
/// # Errors
/// It belongs to somebody else, is reached by somebody else's link, is a pipe that nobody reads, or cannot be written.
pub fn private_file(path: &Path) -> anyhow::Result<File> {
    if let Some(number) = own_descriptor(path) {
        return duplicate(number).with_context(|| cannot(path));
    }
    let mut place = path.to_owned();
    for _ in 0..ATTEMPTS {
        match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == ErrorKind::NotFound => match create(&place) {
                // Somebody has made one since.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.with_context(|| cannot(path)),
            },
            Err(error) => return Err(error).with_context(|| cannot(path)),
            Ok(there) if there.is_symlink() => {
                refuse_others(path, &there, "a link that belongs")?;
                place = fs::canonicalize(&place).with_context(|| cannot(path))?;
            }
            Ok(there) if there.is_file() => {
                if !is_ours(&there) {
                    refuse_others(path, &there, "a file that belongs")?;
                    anyhow::bail!(
                        "{}: it belongs to root: name a new file or one of yours",
                        cannot(path)
                    );
                }
                return replace(&place, &there).with_context(|| cannot(path));
            }
            Ok(there) => return open_special(path, &place, &there),
        }
    }
    anyhow::bail!(
        "{}: its name leads to another file each time it is looked at: name another",
        cannot(path)
    )
}

/// How often a name that changes while we look at it is looked at again.
const ATTEMPTS: usize = 8;

fn cannot(path: &Path) -> String {
    format!("cannot write to {}", path.display())
}

/// Refuses what belongs neither to us nor to root.
fn refuse_others(path: &Path, there: &Metadata, what: &str) -> anyhow::Result<()> {
    if is_ours(there) || there.uid() == 0 {
        return Ok(());
    }
    let user = there.uid();
    anyhow::bail!(
        "{}: it is {what} to user {user}: name a new file or one of yours",
        cannot(path)
    )
}

fn is_ours(there: &Metadata) -> bool {
    // SAFETY: takes nothing and cannot fail.
    there.uid() == unsafe { libc::geteuid() }
}

/// The number in `/dev/stdout`, `/dev/stderr`, `/dev/fd/N` and `/proc/self/fd/N`.
fn own_descriptor(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        name => {
            let number = name.strip_prefix("/dev/fd/");
            number
                .or_else(|| name.strip_prefix("/proc/self/fd/"))?
                .parse()
                .ok()
        }
    }
}

/// What is open already is used as it is: opening it again would empty a file, and a socket cannot be opened.
fn duplicate(number: i32) -> io::Result<File> {
    // SAFETY: takes two integers; the result is a new descriptor or -1.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made it for us.
        copy => Ok(unsafe { File::from_raw_fd(copy) }),
    }
}

/// Makes a new file; fails if there is anything at that name.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_NOFOLLOW)
        .mode(PRIVATE)
        .open(path)
}

/// Has `make` make a file beside another, under the name that it has until it is put in the place of that one. What has such a name already (left by a
/// lancet that was killed, or put there by somebody who has guessed it) is left alone, and another name is tried.
fn beside<T>(
    path: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    let mut made = Err(ErrorKind::AlreadyExists.into());
    for _ in 0..ATTEMPTS {
        let random = RandomState::new().build_hasher().finish();
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".lancet-{random:016x}"));
        let aside = path.with_file_name(name);
        made = make(&aside).map(|made| (aside, made));
        if !matches!(&made, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            break;
        }
    }
    made
}

/// Puts a new file in the place of one of ours: whoever has that one open, or another name for it, does not see what is
/// written. Where no file can be made beside it, it is emptied.
fn replace(path: &Path, there: &Metadata) -> io::Result<File> {
    match beside(path, create) {
        Ok((aside, file)) => match fs::rename(&aside, path) {
            Ok(()) => Ok(file),
            Err(_) => {
                fs::remove_file(&aside)?;
                empty(path, there)
            }
        },
        Err(_) => empty(path, there),
    }
}

/// Empties a file of ours that is the only name of its content, as it was looked at before.
fn empty(path: &Path, there: &Metadata) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !is_still(&file.metadata()?, (there.dev(), there.ino())) {
        return Err(io::Error::other("it has other names: name a new file"));
    }
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    file.set_len(0)?;
    Ok(file)
}

/// Whether what was opened is the file of ours with this device and inode, and has no other name.
fn is_still(now: &Metadata, there: (u64, u64)) -> bool {
    now.is_file() && is_ours(now) && now.nlink() == 1 && (now.dev(), now.ino()) == there
}

/// Opens a pipe or a device, which stays as it is.
fn open_special(path: &Path, place: &Path, there: &Metadata) -> anyhow::Result<File> {
    let kind = there.file_type();
    if kind.is_fifo() {
        // What is written goes to whoever reads it. A terminal belongs to the user who has become root.
        refuse_others(path, there, "a pipe that belongs")?;
    }
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(place);
    let file = match opened {
        Err(error) if kind.is_fifo() && error.raw_os_error() == Some(libc::ENXIO) => {
            anyhow::bail!(
                "{}: nobody reads this pipe: start its reader first",
                cannot(path)
            )
        }
        opened => opened.with_context(|| cannot(path))?,
    };
    let now = file.metadata()?;
    if (now.dev(), now.ino()) != (there.dev(), there.ino()) {
        anyhow::bail!(
            "{}: it was replaced while it was opened: try again",
            cannot(path)
        );
    }
    // Only opening must not wait; a reader that is slow is waited for.
    // SAFETY: takes integers and changes a flag of a descriptor of ours.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } == -1 {
        return Err(io::Error::last_os_error()).with_context(|| cannot(path));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    pub struct Folder(PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("lancet-file-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        pub fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refusal(path: &Path) -> String {
        format!("{:#}", private_file(path).expect_err("it is refused"))
    }

    #[test]
    fn a_file_is_replaced_and_not_changed() {
        let folder = Folder::new("replaced");
        let (path, link) = (folder.join("file"), folder.join("hard"));
        fs::write(&path, "before").unwrap();
        fs::hard_link(&path, &link).unwrap();
        write!(private_file(&path).unwrap(), "after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_to_string(&link).unwrap(), "before");
        assert_eq!(
            fs::read_dir(&folder.0).unwrap().count(),
            2,
            "nothing is left beside it"
        );
        // A link of one's own leads to what it names, and stays a link.
        let soft = folder.join("soft");
        symlink(&path, &soft).unwrap();
        write!(private_file(&soft).unwrap(), "again").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "again");
        assert!(fs::symlink_metadata(&soft).unwrap().is_symlink());
    }

    #[test]
    fn what_belongs_to_others_is_left_alone() {
        // SAFETY: takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let folder = Folder::new("others");
        let theirs = |name: &str| {
            let path = folder.join(name);
            std::os::unix::fs::lchown(&path, Some(65534), Some(65534)).unwrap();
            path
        };
        fs::write(folder.join("file"), "before").unwrap();
        fs::set_permissions(folder.join("file"), Permissions::from_mode(0o644)).unwrap();
        let file = theirs("file");
        assert!(refusal(&file).contains("a file that belongs to user 65534: name a new file"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "before");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o644);
        fs::write(folder.join("mine"), "mine").unwrap();
        symlink(folder.join("mine"), folder.join("link")).unwrap();
        assert!(refusal(&theirs("link")).contains("a link that belongs to user 65534"));
        assert_eq!(fs::read_to_string(folder.join("mine")).unwrap(), "mine");
        nix::unistd::mkfifo(&folder.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refusal(&theirs("fifo")).contains("a pipe that belongs to user 65534"));
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let folder = Folder::new("pipe");
        let path = folder.join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let started = Instant::now();
        assert_eq!(
            refusal(&path),
            format!(
                "cannot write to {}: nobody reads this pipe: start its reader first",
                path.display()
            )
        );
        assert!(started.elapsed() < Duration::from_secs(5));
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .unwrap();
        let mut file = private_file(&path).unwrap();
        file.write_all(b"text").unwrap();
        drop(file);
        assert_eq!(io::read_to_string(reader).unwrap(), "text");
    }

    #[test]
    fn what_is_open_already_is_used() {
        assert_eq!(own_descriptor(Path::new("/dev/stdout")), Some(1));
        assert_eq!(own_descriptor(Path::new("/dev/fd/7")), Some(7));
        assert_eq!(own_descriptor(Path::new("/dev/fd/x")), None);
        assert_eq!(own_descriptor(Path::new("stdout")), None);
        let folder = Folder::new("open");
        let file = File::create(folder.join("file")).unwrap();
        (&file).write_all(b"one ").unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        write!(private_file(Path::new(&path)).unwrap(), "two").unwrap();
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "one two");
    }
}
