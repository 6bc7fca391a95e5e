//! A file that is made once and appended to many times, and is open only meanwhile. Used by
//! `commands::syscalls::separate`.
//!
//! Its name is looked up each time, and whoever may write to its folder can put something else there in between. So what
//! is found must be the file that was made: the same inode, ours, with no other name. A link is not followed, and a pipe
//! is not waited for.

use super::{is_still, private_file};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file of ours that text is added to.
pub struct Appended(Place);

enum Place {
    /// A regular file: where it lies when all links are followed, its device and its inode.
    Regular(PathBuf, (u64, u64)),
    /// A pipe or a device, by its name, which stays open: opening a pipe again would wait for a reader.
    Open(PathBuf, File),
}

impl Appended {
    /// Makes the file as [`private_file`] does.
    ///
    /// # Errors
    /// Those of [`private_file`].
    pub fn new(path: &Path) -> anyhow::Result<Self> {
        let file = private_file(path)?;
        let made = file.metadata()?;
        if !made.is_file() {
            return Ok(Appended(Place::Open(path.to_owned(), file)));
        }
        let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        Ok(Appended(Place::Regular(name, (made.dev(), made.ino()))))
    }

    /// Adds to its end.
    ///
    /// # Errors
    /// It cannot be written, or what has its name is not the file that was made.
    pub fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let explain = |path: &Path, error: io::Error| {
            let path = path.display();
            io::Error::new(error.kind(), format!("cannot write to {path}: {error}"))
        };
        let (path, there) = match &mut self.0 {
            Place::Open(path, file) => {
                return file.write_all(text).map_err(|error| explain(path, error));
            }
            Place::Regular(path, there) => (path, *there),
        };
        let open = || {
            let file = OpenOptions::new()
                .append(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(&*path)?;
            match is_still(&file.metadata()?, there) {
                true => Ok(file),
                false => Err(io::Error::other("it was replaced meanwhile")),
            }
        };
        let written = open().and_then(|mut file| file.write_all(text));
        written.map_err(|error| explain(path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn text_is_added_to_the_file_that_was_made() {
        let folder = Folder::new("appended");
        let (path, link) = (folder.join("file"), folder.join("link"));
        symlink(&path, &link).unwrap();
        fs::write(&path, "before").unwrap();
        // A link of one's own leads to what it names.
        let mut file = Appended::new(&link).unwrap();
        file.append(b"one ").unwrap();
        file.append(b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
    }

    #[test]
    fn a_full_disk_is_told_with_the_file() {
        let mut full = Appended::new(Path::new("/dev/full")).unwrap();
        let error = full.append(b"close(3) = 0").unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot write to /dev/full: No space left on device (os error 28)"
        );
    }

    /// Text of a guest must not reach a file that somebody has put in the place of ours.
    #[test]
    fn what_was_put_in_its_place_is_left_alone() {
        let folder = Folder::new("taken");
        let (path, mine) = (folder.join("file"), folder.join("mine"));
        fs::write(&mine, "mine").unwrap();
        let puts: [fn(&Path, &Path); 4] = [
            |path, mine| symlink(mine, path).unwrap(),
            |path, mine| fs::hard_link(mine, path).unwrap(),
            |path, _| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            |path, _| fs::write(path, "another").unwrap(),
        ];
        for put in puts {
            let mut file = Appended::new(&path).unwrap();
            // Kept by another name, so that its inode is not given to what comes in its place.
            fs::rename(&path, folder.join("away")).unwrap();
            put(&path, &mine);
            let error = file.append(b"text").unwrap_err().to_string();
            assert!(error.starts_with("cannot write to /"), "{error}");
            assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
            fs::remove_file(&path).unwrap();
        }
    }
}
