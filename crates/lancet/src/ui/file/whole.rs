//! A file that gets its name only when it is whole, so that nobody reads a half. Used by `commands::heap::live`,
//! `commands::heap::run` and `commands::profile::run`.
//!
//! A snapshot that was cut by a full disk, a limit or a kill is of no use, and under the name that the user gave it looks like one that is.
//! So it is written without a name (`O_TMPFILE`, open(2)), or where the file system has no such files under a name beside the wanted one, and gets
//! its name at the end. Until then whatever was there stays as it was.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Context;

use super::place::Place;
use super::{beside, own_descriptor, private_file};

/// See the module's text. Dropped without [`WholeFile::finish`], it leaves nothing.
#[derive(Debug)]
pub struct WholeFile {
    /// What is written to.
    pub file: File,
    /// Where it is to be; `None` = it is there already: a pipe, a device, what is open, or a folder in which no file can be made.
    wanted: Option<Place>,
    /// Its name until then, if it has one.
    temporary: Option<OsString>,
}

impl WholeFile {
    /// Begins a file that only the user can read. What is refused is what [`private_file`] refuses.
    ///
    /// # Errors
    /// As for [`private_file`].
    pub fn begin(path: &Path) -> anyhow::Result<Self> {
        let begun = match place_of(path)? {
            Some(place) => begun_in(place).ok(),
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
        let Some(wanted) = &self.wanted else {
            return Ok(());
        };
        let temporary = match self.temporary.clone() {
            Some(temporary) => temporary,
            None => {
                let (temporary, ()) = beside(wanted, |name| wanted.link(&self.file, name))?;
                self.temporary = Some(temporary.clone());
                temporary
            }
        };
        wanted.take(&temporary)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let (Some(place), Some(temporary)) = (&self.wanted, self.temporary.take()) {
            // Nobody is left to tell.
            let _ = place.remove(&temporary);
        }
    }
}

/// Refuses a name at which nothing can be written, without making or changing what has it: before work is begun whose answer is to go there.
///
/// # Errors
/// As for [`private_file`], as far as that is known before it is opened.
pub fn require_writable(path: &Path) -> anyhow::Result<()> {
    let Some(place) = place_of(path)? else {
        return Ok(());
    };
    let is_there = place.there.is_some();
    match begun_in(place) {
        // A file that is there may be replaced in a folder that takes no new ones.
        Err(error) if !is_there => Err(error).with_context(|| super::cannot(path)),
        _ => Ok(()),
    }
}

/// Where a new file gets the name; `None` = what is there is to be opened as it is, or is refused when it is opened.
fn place_of(path: &Path) -> anyhow::Result<Option<Place>> {
    if own_descriptor(path).is_some() {
        return Ok(None);
    }
    let place = Place::of(path)?;
    let is_free = match &place.there {
        None => true,
        Some(there) => there.is_file() && super::is_ours(there),
    };
    Ok(is_free.then_some(place))
}

/// Makes a file without a name in the folder of `place`, or one that is called otherwise.
fn begun_in(place: Place) -> io::Result<WholeFile> {
    let (file, temporary) = match place.nameless() {
        Ok(file) => (file, None),
        Err(_) => {
            let (temporary, file) = beside(&place, |name| place.create(name))?;
            (file, Some(temporary))
        }
    };
    Ok(WholeFile {
        file,
        wanted: Some(place),
        temporary,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;
    use std::fs;
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
        let place = Place::of(&folder.join("file")).unwrap();
        let made = beside(&place, |name| {
            tried.push(name.to_owned());
            if tried.len() < 3 {
                fs::write(folder.path().join(name), "theirs")?;
            }
            place.create(name)
        });
        let (name, _) = made.unwrap();
        assert_eq!((tried.len(), tried.last()), (3, Some(&name)));
        for theirs in &tried[..2] {
            let theirs = folder.path().join(theirs);
            assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
        }
    }

    #[test]
    fn without_nameless_files_one_that_was_cut_is_removed() {
        let folder = Folder::new("named");
        let place = folder.join("file");
        let named = || {
            let wanted = Place::of(&place).unwrap();
            let (temporary, file) = beside(&wanted, |name| wanted.create(name)).unwrap();
            WholeFile {
                file,
                wanted: Some(wanted),
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
