//! Opens the files that `-o`, `--record` and `--save` name. Used by `commands::man`, `sink` and `watching::run`.
//!
//! Reports may hold what others on this machine may know nothing of, and lancet is often root in a folder that
//! others can write to, such as `/tmp`. So a file of ours is always a new one, which only its owner can read; what somebody
//! else has put at that name, or at that of a folder on the way to it, is not written to, not followed and not changed
//! (`place`); and opening never waits.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

pub use again::Appended;
use anyhow::Context;
use place::Place;
pub use whole::{WholeFile, require_writable};

mod again;
mod place;
mod whole;

/// The mode of new files.
const PRIVATE: libc::mode_t = 0o600;

/// Opens a file for writing from its beginning on. A regular file is replaced by a new one that only the user can read;
/// pipes and devices are left as they are.
///
/// # Errors
/// It belongs to somebody else, is reached by somebody else's link, is a pipe that nobody reads, or cannot be written.
pub fn private_file(path: &Path) -> anyhow::Result<File> {
    if let Some(number) = own_descriptor(path) {
        return duplicate(number).with_context(|| cannot(path));
    }
    for _ in 0..ATTEMPTS {
        let place = Place::of(path)?;
        match &place.there {
            None => match place.create(&place.name) {
                // Somebody has made one since.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.with_context(|| cannot(path)),
            },
            Some(there) if there.is_file() => {
                if !is_ours(there) {
                    refuse_others(path, there, "a file that belongs")?;
                    anyhow::bail!(
                        "{}: it belongs to root: name a new file or one of yours",
                        cannot(path)
                    );
                }
                return replace(&place, there).with_context(|| cannot(path));
            }
            Some(there) => return open_special(path, &place, there),
        }
    }
    anyhow::bail!(
        "{}: its name leads to another file each time it is looked at: name another",
        cannot(path)
    )
}

/// Makes a file that all may read, as [`private_file`] makes one.
pub fn public_file(path: &Path) -> anyhow::Result<File> {
    let file = private_file(path)?;
    let all = Permissions::from_mode(0o644);
    if file.metadata()?.is_file() {
        file.set_permissions(all).with_context(|| cannot(path))?;
    }
    Ok(file)
}

/// Makes a folder that only the user can enter, with those on the way to it; those that are there are left as they are.
///
/// # Errors
/// One of them is reached by somebody else's link, or cannot be made.
pub fn private_folder(path: &Path) -> anyhow::Result<()> {
    let all: Vec<&Path> = path.ancestors().collect();
    for part in all.into_iter().rev() {
        let seen = part.symlink_metadata();
        if part.file_name().is_none() || !seen.is_err_and(|it| it.kind() == ErrorKind::NotFound) {
            continue;
        }
        match Place::of(part)?.make_folder() {
            // Somebody has made it since.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.with_context(|| format!("cannot make {}", part.display()))?,
        }
    }
    Ok(())
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

/// Has `make` make a file beside another, under the name that it has until it is put in the place of that one. What has such a name already (left by a
/// lancet that was killed, or put there by somebody who has guessed it) is left alone, and another name is tried.
fn beside<T>(
    place: &Place,
    mut make: impl FnMut(&OsStr) -> io::Result<T>,
) -> io::Result<(OsString, T)> {
    let mut made = Err(ErrorKind::AlreadyExists.into());
    for _ in 0..ATTEMPTS {
        let random = RandomState::new().build_hasher().finish();
        let mut name = place.name.clone();
        name.push(format!(".lancet-{random:016x}"));
        made = make(&name).map(|made| (name, made));
        if !matches!(&made, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            break;
        }
    }
    made
}

/// Puts a new file in the place of one of ours: whoever has that one open, or another name for it, does not see what is
/// written. Where no file can be made beside it, it is emptied.
fn replace(place: &Place, there: &Metadata) -> io::Result<File> {
    match beside(place, |name| place.create(name)) {
        Ok((aside, file)) => match place.take(&aside) {
            Ok(()) => Ok(file),
            Err(_) => {
                place.remove(&aside)?;
                empty(place, there)
            }
        },
        Err(_) => empty(place, there),
    }
}

/// Empties a file of ours that is the only name of its content, as it was looked at before.
fn empty(place: &Place, there: &Metadata) -> io::Result<File> {
    let file = place.open(libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY)?;
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
fn open_special(path: &Path, place: &Place, there: &Metadata) -> anyhow::Result<File> {
    let kind = there.file_type();
    if kind.is_fifo() {
        // What is written goes to whoever reads it. A terminal belongs to the user who has become root.
        refuse_others(path, there, "a pipe that belongs")?;
    }
    let opened = place.open(libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY);
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
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, symlink};
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    pub struct Folder(PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("lancet-file-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        pub fn path(&self) -> &Path {
            &self.0
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
    fn folders_are_made_on_the_way() {
        let folder = Folder::new("folders");
        let path = folder.join("a/b/../c");
        fs::create_dir(folder.join("a")).unwrap();
        fs::create_dir(folder.join("a/b")).unwrap();
        private_folder(&path).unwrap();
        private_folder(&path).unwrap();
        let mode = fs::metadata(folder.join("a/c")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
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

    /// As a folder of everybody's, of root's and of somebody else's.
    #[test]
    fn a_link_of_others_in_place_of_a_folder_is_not_followed() {
        // SAFETY: takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let folder = Folder::new("folders");
        let (inner, real) = (folder.join("inner"), folder.join("real"));
        fs::create_dir(&inner).unwrap();
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "before").unwrap();
        let link = inner.join("link");
        symlink(&real, &link).unwrap();
        let give = |path: &Path, user: u32, mode: u32| {
            std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
            if !path.is_symlink() {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            }
        };
        give(&link, 65534, 0);
        let ways = [
            "link/file",
            "link/new",
            "../inner/link/../real/file",
            "link/./file",
        ];
        for (user, mode) in [(0, 0o1777), (0, 0o777), (0, 0o775), (65534, 0o755)] {
            give(&inner, user, mode);
            for way in ways {
                let path = inner.join(way);
                let refused = [
                    refusal(&path),
                    format!("{:#}", WholeFile::begin(&path).expect_err("it is refused")),
                    format!("{:#}", Appended::new(&path).err().expect("it is refused")),
                ];
                let why = "/link is a link that belongs to user 65534, in a folder that others can write to: name the folder";
                for refused in refused {
                    assert!(refused.contains(why), "{user} {mode:o} {way}: {refused}");
                }
            }
        }
        // By another link, which is one of ours.
        symlink("inner/link", folder.join("ours")).unwrap();
        assert!(refusal(&folder.join("ours/file")).contains("inner/link is a link"));
        assert_eq!(fs::read_to_string(real.join("file")).unwrap(), "before");
        assert_eq!(fs::read_dir(&real).unwrap().count(), 1);
        // Nobody else can have put it there; or it is ours.
        give(&inner, 0, 0o755);
        write!(private_file(&link.join("file")).unwrap(), "one").unwrap();
        give(&inner, 0, 0o1777);
        give(&link, 0, 0);
        write!(private_file(&link.join("new")).unwrap(), "two").unwrap();
        let read = |name: &str| fs::read_to_string(real.join(name)).unwrap();
        assert_eq!([read("file"), read("new")], ["one", "two"]);
    }

    #[test]
    fn ways_lead_where_the_kernel_would_go() {
        let folder = Folder::new("ways");
        let at = |name: &str| folder.join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        symlink("a/b", at("relative")).unwrap();
        symlink(at("a"), at("absolute")).unwrap();
        symlink("../../new", at("a/b/dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let pid = std::process::id();
        let below_proc = format!("/proc/{pid}/root{}", at("proc").display());
        for (way, place) in [
            (at("relative/../one"), "a/one"),
            (at("absolute/./b//two"), "a/b/two"),
            (at("relative/dangling"), "new"),
            (below_proc.into(), "proc"),
        ] {
            write!(private_file(&way).unwrap(), "{place}").unwrap();
            assert_eq!(fs::read_to_string(at(place)).unwrap(), place);
        }
        for (way, why) in [
            (at("loop"), "Too many levels of symbolic links"),
            (at("none/file"), "No such file or directory"),
            (at("new/file"), "Not a directory"),
            (at("a"), "Is a directory"),
            (at("a/.."), "Is a directory"),
            (PathBuf::new(), "No such file or directory"),
        ] {
            let refused = refusal(&way);
            assert!(refused.contains(why), "{}: {refused}", way.display());
        }
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
