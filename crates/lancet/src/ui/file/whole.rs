//! A file that has its name when it is whole.
//!
//! A snapshot that was cut by a full disk, a limit or a kill is of no use, and under the name that the user gave it looks like one that is.
//! So it is written without a name (`O_TMPFILE`, open(2)), or where the file system has no such files under a name beside the wanted one, and gets
//! its name at the end. Until then whatever was there stays as it was.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;

use super::{PRIVATE, beside, cannot, create, own_descriptor, private_file, refuse_others};

/// See the module's text. Dropped without [`WholeFile::finish`], it leaves nothing.
#[derive(Debug)]
pub struct WholeFile {
    /// What is written to.
    pub file: File,
    /// Where it is to be; `None` = it is there already: a pipe, a device, what is open, or a folder in which no file can be made.
    wanted: Option<PathBuf>,
    /// Its name until then, if it has one.
    temporary: Option<PathBuf>,
}

impl WholeFile {
    /// Begins a file that only the user can read. What is refused is what [`private_file`] refuses.
    ///
    /// # Errors
    /// As for [`private_file`].
    pub fn begin(path: &Path) -> anyhow::Result<Self> {
        let begun = match place_of(path)? {
            Some(place) => begun_in(&place).ok(),
            None => None,
        };
        match begun {
            Some(begun) => Ok(begun),
            None => Ok(WholeFile {
                file: private_file(path)?,
                wanted: None,
                temporary: None,
            }),
        }
    }

    /// Gives the file its name, in the place of a file of ours that has it. Before that it is on the disk: some file systems (NFS, FUSE, quotas) say only
    /// then that there is no room, and a machine that loses its power would otherwise have an empty file of that name.
    ///
    /// # Errors
    /// The kernel refused it.
    pub fn finish(mut self) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            match self.file.sync_all() {
                // A file system without anything to wait for.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                synced => synced?,
            }
        }
        let Some(wanted) = self.wanted.take() else {
            return Ok(());
        };
        let temporary = match self.temporary.clone() {
            Some(temporary) => temporary,
            None => {
                let number = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let link = |name: &Path| {
                    let follow = AtFlags::AT_SYMLINK_FOLLOW;
                    Ok(linkat(AT_FDCWD, number.as_str(), AT_FDCWD, name, follow)?)
                };
                let (temporary, ()) = beside(&wanted, link)?;
                self.temporary = Some(temporary.clone());
                temporary
            }
        };
        fs::rename(&temporary, &wanted)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Nobody is left to tell.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Where a new file gets the name; `None` = what is there is to be opened as it is, or is refused when it is opened.
fn place_of(path: &Path) -> anyhow::Result<Option<PathBuf>> {
    if own_descriptor(path).is_some() {
        return Ok(None);
    }
    let there = |place: &Path| -> anyhow::Result<Option<Metadata>> {
        match fs::symlink_metadata(place) {
            Ok(there) => Ok(Some(there)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| cannot(path)),
        }
    };
    let mut place = path.to_owned();
    let mut found = there(&place)?;
    if let Some(link) = found.as_ref().filter(|found| found.is_symlink()) {
        refuse_others(path, link, "a link that belongs")?;
        place = fs::canonicalize(&place).with_context(|| cannot(path))?;
        found = there(&place)?;
    }
    Ok(match found {
        None => Some(place),
        Some(found) if found.is_file() && super::is_ours(&found) => Some(place),
        Some(_) => None,
    })
}

/// Makes a file without a name in the folder of `place`, or one that is called otherwise.
fn begun_in(place: &Path) -> io::Result<WholeFile> {
    let folder = place
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let nameless = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(PRIVATE)
        .open(folder.unwrap_or(Path::new(".")));
    let (file, temporary) = match nameless {
        Ok(file) => (file, None),
        Err(_) => {
            let (temporary, file) = beside(place, create)?;
            (file, Some(temporary))
        }
    };
    Ok(WholeFile {
        file,
        wanted: Some(place.to_owned()),
        temporary,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Folder) -> usize {
        fs::read_dir(folder.join(".")).unwrap().count()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let folder = Folder::new("whole");
        let path = folder.join("file");
        let mut cut = WholeFile::begin(&path).unwrap();
        cut.file.write_all(b"cut").unwrap();
        drop(cut);
        assert_eq!(names(&folder), 0, "nothing is left of one that was cut");
        for text in ["first", "second"] {
            let mut whole = WholeFile::begin(&path).unwrap();
            whole.file.write_all(text.as_bytes()).unwrap();
            whole.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(&folder), 1, "nothing is left beside it");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        // What was there stays until the next one is whole, and a link of one's own leads to what it names.
        let soft = folder.join("soft");
        symlink(&path, &soft).unwrap();
        let mut next = WholeFile::begin(&soft).unwrap();
        next.file.write_all(b"third").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        next.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert!(fs::symlink_metadata(&soft).unwrap().is_symlink());
    }

    /// What a lancet of the same process id has left, in a container for instance, or somebody has put there.
    #[test]
    fn a_name_that_is_taken_is_not_waited_for() {
        let folder = Folder::new("taken");
        let mut tried = Vec::new();
        let made = beside(&folder.join("file"), |name| {
            tried.push(name.to_owned());
            if tried.len() < 3 {
                fs::write(name, "theirs")?;
            }
            create(name)
        });
        let (name, _) = made.unwrap();
        assert_eq!((tried.len(), tried.last()), (3, Some(&name)));
        for theirs in &tried[..2] {
            assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
        }
    }

    #[test]
    fn without_nameless_files_one_that_was_cut_is_removed() {
        let folder = Folder::new("named");
        let place = folder.join("file");
        let named = || {
            let (temporary, file) = beside(&place, create).unwrap();
            WholeFile {
                file,
                wanted: Some(place.clone()),
                temporary: Some(temporary),
            }
        };
        drop(named());
        assert_eq!(names(&folder), 0);
        named().finish().unwrap();
        assert!(place.exists());
        assert_eq!(names(&folder), 1);
    }
}
