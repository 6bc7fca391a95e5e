//! The journal of changes: each is on disk before it is made. Used by `apply`, and by the crates `lancet` and `report`.
//!
//! One JSON object a line, only ever appended to:
//!
//! ```text
//! {"journal":1,"boot":"5c2f…","network":"net:[4026531833]"}          where it holds
//! {"intent":0,"rule":"T21","setting":{…},"before":"128\n","wanted":"4096"}   fsync, and only then the write
//! {"done":0,"after":"4096\n"}                                        what the kernel made of it
//! ```
//!
//! A crash leaves at most one intent without its `done`, and at most one torn line at the end: a torn
//! intent was never carried out, because the write comes after the fsync. A journal whose undo is
//! complete gets the ending `.undone`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::setting::Setting;

/// The version of the format that is written; a journal of any other is refused as damaged.
const VERSION: u32 = 1;
const ENDING: &str = "journal";
/// The longest journal that is read, in bytes. lancet writes none that is longer.
const LONGEST: u64 = 64 << 20;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system call.
        error: io::Error,
    },
    /// Another lancet holds the lock of the directory, whose path this is.
    #[error("another lancet tune is changing settings (it holds {})", .0.display())]
    Busy(PathBuf),
    /// A line of the file is not one of a journal.
    #[error("{}:{line}: not a line of a lancet journal", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |error| JournalError::Io { path, error }
}

/// Where values were saved. They mean something only in the same boot and the same network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The id of the boot, /proc/sys/kernel/random/boot_id.
    pub boot: String,
    /// The name of the network namespace, or with `--root` the path of the tree.
    pub network: String,
}

#[derive(Serialize, Deserialize)]
struct Head {
    journal: u32,
    #[serde(flatten)]
    origin: Origin,
}

/// A setting, what it was, and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The number of the step in the journal.
    pub intent: usize,
    /// The id of the rule that proposed it, or the key that the user named.
    pub rule: String,
    /// The setting that is written.
    pub setting: Setting,
    /// What tells the setting's device from a later one of the same name ([`Setting::identity`]).
    pub identity: Option<String>,
    /// The text that the setting read before, to the byte.
    pub before: String,
    /// The value that is written; none for the other half of a pair, of which only the value before is kept.
    pub wanted: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Done {
    done: usize,
    after: String,
}

/// An intent, and what its write led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    #[allow(missing_docs)] // The name says it.
    pub intent: Intent,
    /// What was read after the write; `None` if lancet died in between.
    pub after: Option<String>,
}

/// The directory of journals, locked: one lancet at a time changes settings.
#[derive(Debug)]
pub struct Journals {
    directory: PathBuf,
    _lock: File,
}

impl Journals {
    /// Opens and locks the directory, making it if it is not there.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed(directory))?;
        let lock = File::open(directory).map_err(failed(directory))?;
        // SAFETY: no memory is handed over. The lock goes with the descriptor, however we end.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::WouldBlock => JournalError::Busy(directory.to_owned()),
                _ => failed(directory)(error),
            });
        }
        Ok(Self {
            directory: directory.to_owned(),
            _lock: lock,
        })
    }

    /// Returns the journal written last whose changes still stand. One without a change in it, by a lancet that died
    /// before its first, is passed over.
    pub fn last(&self) -> Result<Option<PathBuf>, JournalError> {
        let mut found: Vec<PathBuf> = fs::read_dir(&self.directory)
            .map_err(failed(&self.directory))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .collect();
        // The names begin with the time.
        found.sort();
        let has_steps = |path: &PathBuf| !read(path).is_ok_and(|(_, steps)| steps.is_empty());
        Ok(found.into_iter().rfind(has_steps))
    }

    /// Begins a journal, and writes its head to disk.
    pub fn begin(&self, origin: Origin) -> Result<Journal, JournalError> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("{:013}-{}.{ENDING}", now.as_millis(), std::process::id());
        let path = self.directory.join(name);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed(&path))?;
        let mut journal = Journal { path, file };
        let head = Head {
            journal: VERSION,
            origin,
        };
        if let Err(error) = journal.append(&head) {
            // The journal is empty, so nothing is lost with it.
            let _ = fs::remove_file(&journal.path);
            return Err(error);
        }
        // The name must survive a crash as well as the contents.
        let directory = File::open(&self.directory).map_err(failed(&self.directory))?;
        directory.sync_all().map_err(failed(&self.directory))?;
        Ok(journal)
    }

    /// Marks a journal as taken back.
    pub fn retire(&self, path: &Path) -> Result<(), JournalError> {
        fs::rename(path, path.with_extension("undone")).map_err(failed(path))
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    /// The path of its file.
    pub path: PathBuf,
    file: File,
}

impl Journal {
    fn append(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let mut text =
            serde_json::to_string(line).map_err(|error| failed(&self.path)(error.into()))?;
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .map_err(failed(&self.path))?;
        self.file.sync_data().map_err(failed(&self.path))
    }

    /// Writes an intent to disk. Only when this has returned may the setting be written, so that lancet's death at any
    /// moment leaves a journal that can be taken back.
    pub fn intend(&mut self, intent: &Intent) -> Result<(), JournalError> {
        self.append(intent)
    }

    /// Notes what was read after the write.
    pub fn done(&mut self, intent: usize, after: String) -> Result<(), JournalError> {
        self.append(&Done {
            done: intent,
            after,
        })
    }
}

/// Reads a journal: its origin (`None` if lancet died before that was on disk) and its steps.
pub fn read(path: &Path) -> Result<(Option<Origin>, Vec<Step>), JournalError> {
    let no_journal = || JournalError::Damaged {
        path: path.into(),
        line: 1,
    };
    // Opening a device may have effects, so it is looked at before; in a folder of somebody else it may be another one by the time it is
    // opened, and a pipe would be waited for without end.
    if !fs::metadata(path).map_err(failed(path))?.is_file() {
        return Err(no_journal());
    }
    let mut options = fs::File::options();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(failed(path))?;
    if !file.metadata().map_err(failed(path))?.is_file() {
        return Err(no_journal());
    }
    let mut text = Vec::new();
    let read = file.take(LONGEST + 1).read_to_end(&mut text);
    read.map_err(failed(path))?;
    if text.len() as u64 > LONGEST {
        return Err(no_journal());
    }
    let text = String::from_utf8_lossy(&text);
    let mut origin = None;
    let mut steps: Vec<Step> = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let Some(whole) = line.strip_suffix('\n') else {
            // A torn line: it was not on disk when lancet died, so its change was not made.
            break;
        };
        let damaged = || JournalError::Damaged {
            path: path.into(),
            line: at + 1,
        };
        if at == 0 {
            let head: Head = serde_json::from_str(whole).map_err(|_| damaged())?;
            if head.journal != VERSION {
                return Err(damaged());
            }
            origin = Some(head.origin);
        } else if let Ok(intent) = serde_json::from_str::<Intent>(whole) {
            steps.push(Step {
                intent,
                after: None,
            });
        } else {
            let done: Done = serde_json::from_str(whole).map_err(|_| damaged())?;
            let step = steps
                .iter_mut()
                .find(|step| step.intent.intent == done.done);
            step.ok_or_else(damaged)?.after = Some(done.after);
        }
    }
    Ok((origin, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("lancet-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn intent(number: usize) -> Intent {
        Intent {
            intent: number,
            rule: "T21".into(),
            setting: Setting::sysctl("net.core.somaxconn"),
            identity: None,
            before: "128\n".into(),
            wanted: Some("4096".into()),
        }
    }

    #[test]
    fn cut_anywhere_it_is_still_read() {
        let directory = scratch("cut");
        let journals = Journals::open(&directory).unwrap();
        let origin = Origin {
            boot: "b".into(),
            network: "n".into(),
        };
        let mut journal = journals.begin(origin.clone()).unwrap();
        for number in 0..2 {
            journal.intend(&intent(number)).unwrap();
            journal.done(number, "4096\n".into()).unwrap();
        }
        let whole = fs::read(&journal.path).unwrap();
        let (read_place, steps) = read(&journal.path).unwrap();
        assert_eq!(read_place, Some(origin));
        assert_eq!(steps.len(), 2);
        assert!(
            steps
                .iter()
                .all(|step| step.after.as_deref() == Some("4096\n"))
        );
        let lines = |length: usize| {
            whole[..length]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
        };
        for length in 0..whole.len() {
            fs::write(&journal.path, &whole[..length]).unwrap();
            let (_, steps) = read(&journal.path).unwrap();
            assert_eq!(steps.len(), lines(length) / 2, "cut at {length}");
        }
        fs::write(&journal.path, "noise\n").unwrap();
        assert!(matches!(
            read(&journal.path),
            Err(JournalError::Damaged { line: 1, .. })
        ));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn one_at_a_time_and_the_newest_first() {
        let directory = scratch("lock");
        let journals = Journals::open(&directory).unwrap();
        assert!(matches!(
            Journals::open(&directory),
            Err(JournalError::Busy(_))
        ));
        assert_eq!(journals.last().unwrap(), None);
        let origin = Origin {
            boot: String::new(),
            network: String::new(),
        };
        let mut journal = journals.begin(origin.clone()).unwrap();
        let path = journal.path.clone();
        assert_eq!(journals.last().unwrap(), None, "nothing was changed");
        journal.intend(&intent(0)).unwrap();
        assert_eq!(journals.last().unwrap(), Some(path.clone()));
        // A later one that did nothing does not hide it.
        // (Its name is another as soon as the clock is.)
        let later = || journals.begin(origin.clone()).ok();
        drop(std::iter::repeat_with(later).find_map(|begun| begun));
        assert_eq!(journals.last().unwrap(), Some(path.clone()));
        journals.retire(&path).unwrap();
        assert_eq!(journals.last().unwrap(), None);
        fs::remove_dir_all(directory).unwrap();
    }
}
