//! The folder of the agent: tables, as `lancet export` writes them, and below `.agent` what is not in them yet. Used by `run` and
//! `work`.
//!
//! An answer is written below `.agent/spool` first, and has its name there when it is whole; it is taken away when all of its tables are
//! written. Their names are made of the answer, so one that is exported again, after a kill between the two, is there once all the same.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};
use nix::sys::statvfs::statvfs;

use super::choose::Process;
use crate::ui::file::{WholeFile, private_file, private_folder};
use crate::ui::interrupt;

/// So much must be free: less would not take an answer and its tables.
const ROOM: u64 = 8 << 20;
/// What is written to see whether it can be.
const PROBE: usize = 256 << 10;
/// How long answers of an agent that was killed are waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks whether they have ended.
const LOOK: Duration = Duration::from_millis(100);

/// The folder, which no other agent has at the same time.
pub struct Store {
    folder: PathBuf,
    own: PathBuf,
    /// What we start has it too, so that nobody takes what one that outlives us still writes.
    _lock: Flock<File>,
}

/// An answer in the spool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spooled {
    /// Its number.
    pub number: u64,
    /// The command that has given it.
    pub command: String,
    /// The service that it is of; empty: none.
    pub service: String,
    /// The release of that; empty: not known.
    pub release: String,
}

/// What ends the name of an answer that is not whole yet.
const PART: &str = ".part";
const WHOLE: &str = ".json";

impl Spooled {
    fn name(&self, end: &str) -> String {
        let Spooled {
            number,
            command,
            service,
            release,
        } = self;
        format!("{number:012}~{command}~{service}~{release}{end}")
    }

    fn of(name: &str, end: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(end)?.split('~').map(str::to_owned);
        let mut next = || parts.next();
        Some(Spooled {
            number: next()?.parse().ok()?,
            command: next()?,
            service: next()?,
            release: next()?,
        })
    }
}

impl Store {
    /// Opens it, and waits until nothing is written any more that an agent has started which was killed.
    ///
    /// # Errors
    /// Another agent has it, or it cannot be written.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let own = folder.join(".agent");
        private_folder(&own.join("spool"))?;
        let path = own.join("lock");
        let lock = locked(&path).with_context(|| format!("cannot use {}", folder.display()))?;
        let store = Store {
            folder: folder.to_owned(),
            own,
            _lock: lock,
        };
        for one in store.list(PART)? {
            fs::rename(store.spool(&one, PART), store.spool(&one, WHOLE))?;
        }
        Ok(store)
    }

    /// Where its tables are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it remembers what it has done.
    pub fn state(&self) -> PathBuf {
        self.own.join("state.json")
    }

    fn spool(&self, one: &Spooled, end: &str) -> PathBuf {
        self.own.join("spool").join(one.name(end))
    }

    /// The file of a whole answer.
    pub fn path(&self, one: &Spooled) -> PathBuf {
        self.spool(one, WHOLE)
    }

    fn list(&self, end: &str) -> io::Result<Vec<Spooled>> {
        let names = fs::read_dir(self.own.join("spool"))?.flatten();
        let all = names.filter_map(|entry| Spooled::of(entry.file_name().to_str()?, end));
        let mut all: Vec<Spooled> = all.collect();
        all.sort();
        Ok(all)
    }

    /// The answers that wait to become tables, the oldest first.
    pub fn waiting(&self) -> Vec<Spooled> {
        self.list(WHOLE).unwrap_or_default()
    }

    /// Makes the file of an answer that is to come.
    ///
    /// # Errors
    /// There is no room.
    pub fn begin(&self, one: &Spooled) -> anyhow::Result<(PathBuf, File)> {
        let path = self.spool(one, PART);
        let file = private_file(&path)?;
        Ok((path, file))
    }

    /// It is whole now.
    ///
    /// # Errors
    /// There is no room for what was written.
    pub fn keep(&self, one: &Spooled) -> io::Result<()> {
        let path = self.spool(one, PART);
        File::open(&path)?.sync_all()?;
        fs::rename(path, self.spool(one, WHOLE))
    }

    /// It is not wanted, or is in the tables.
    pub fn drop(&self, one: &Spooled) {
        for end in [PART, WHOLE] {
            // One of them is not there.
            let _ = fs::remove_file(self.spool(one, end));
        }
    }

    /// Whether there is room for an answer and its tables: what the file system says, and what it does.
    pub fn has_room(&self) -> bool {
        let free = statvfs(&self.own).map(|of| of.blocks_available() * of.fragment_size());
        free.is_ok_and(|free| free >= ROOM) && self.probe().is_ok()
    }

    /// Writes something that goes away at once.
    fn probe(&self) -> anyhow::Result<()> {
        let mut whole = WholeFile::begin(&self.own.join("probe"))?;
        whole.file.write_all(&vec![0; PROBE])?;
        Ok(whole.file.sync_all()?)
    }

    /// The files of tables whose names begin so, the oldest first, each with its size.
    fn tables(&self, host: &str) -> Vec<(SystemTime, u64, PathBuf)> {
        let folders = |path: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|of| of.is_dir());
            let entries =
                entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
            entries
                .filter(is_folder)
                .map(|entry| entry.path())
                .collect()
        };
        let days = folders(&self.folder);
        let days = days.iter().flat_map(|table| folders(table));
        let mut all = Vec::new();
        for entry in days
            .filter_map(|day| fs::read_dir(day).ok())
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let is_ours = name.to_str().is_some_and(|name| {
                name.strip_prefix(host)
                    .is_some_and(|rest| rest.starts_with('-'))
                    && name.ends_with(".parquet")
            });
            let of = entry.metadata().ok().filter(fs::Metadata::is_file);
            if let (true, Some(of)) = (is_ours, of) {
                all.push((
                    of.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    of.len(),
                    entry.path(),
                ));
            }
        }
        all.sort();
        all
    }

    /// Removes this host's files that are older than `oldest`, and the oldest of the others where all have more than `most` bytes. Returns
    /// how many bytes are left, and how many files were removed.
    pub fn tidy(&self, host: &str, oldest: SystemTime, most: u64) -> (u64, u64) {
        let all = self.tables(host);
        let mut size: u64 = all.iter().map(|(_, size, _)| size).sum();
        let mut removed = 0;
        for (written, bytes, path) in all {
            if written >= oldest && size <= most {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                size -= bytes;
                removed += 1;
                // The folder of its day goes with the last of it.
                let _ = path.parent().map(fs::remove_dir);
            }
        }
        (size, removed)
    }
}

/// Takes the lock of a folder.
fn locked(path: &Path) -> anyhow::Result<Flock<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    let mut left = PATIENCE;
    let mut lock = loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => break lock,
            Err((file, nix::errno::Errno::EWOULDBLOCK)) => file,
            Err((_, error)) => return Err(error.into()),
        };
        let owner = fs::read_to_string(path).unwrap_or_default();
        if let Some(owner) = process(&owner).filter(Process::is_there) {
            bail!("another agent has it, process {}", owner.pid);
        }
        // Its answers are being written by what it has started, which ends as soon as it has left its processes.
        if left.is_zero() || interrupt::asked() {
            bail!(
                "an answer is still being written that an agent has begun which was killed: try again"
            );
        }
        thread::sleep(LOOK);
        left = left.saturating_sub(LOOK);
    };
    fcntl(&*lock, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let own = Process::of(std::process::id() as i32).map(|own| own.key());
    lock.set_len(0)?;
    lock.write_all(own.unwrap_or_default().as_bytes())?;
    Ok(lock)
}

/// The process of a [`Process::key`].
fn process(key: &str) -> Option<Process> {
    let (pid, start) = key.split_once(':')?;
    Some(Process {
        pid: pid.parse().ok()?,
        start: start.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        let name = format!("lancet-store-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn spooled(number: u64) -> Spooled {
        Spooled {
            number,
            command: "profile".into(),
            service: "shop-1.2".into(),
            release: String::new(),
        }
    }

    #[test]
    fn what_was_begun_is_there_after_a_kill() {
        let folder = folder("kill");
        let store = Store::open(&folder.0).expect("room");
        for number in [10, 9] {
            let (_, mut file) = store.begin(&spooled(number)).expect("room");
            file.write_all(b"{}").expect("room");
        }
        store.keep(&spooled(10)).expect("room");
        assert_eq!(store.waiting(), [spooled(10)]);
        assert!(store.has_room());
        // Two of one process are two all the same.
        let error = Store::open(&folder.0).map(|_| ()).expect_err("it is taken");
        let said = format!("{error:#}");
        assert!(said.contains("another agent has it, process"), "{said}");
        drop(store);
        let store = Store::open(&folder.0).expect("it is free");
        assert_eq!(store.waiting(), [spooled(9), spooled(10)]);
        store.drop(&spooled(9));
        assert_eq!(store.waiting(), [spooled(10)]);
    }

    #[test]
    fn the_oldest_files_of_this_host_go_first() {
        let folder = folder("tidy");
        let store = Store::open(&folder.0).expect("room");
        let now = SystemTime::now();
        let day = folder.0.join("sample/dt=2026-11-30");
        fs::create_dir_all(&day).expect("room");
        let file = |name: &str, age: u64| {
            let path = day.join(name);
            fs::write(&path, [0; 100]).expect("room");
            let at = now - Duration::from_secs(age);
            File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_modified(at))
                .expect("a time");
            path
        };
        let old = file("web-a.parquet", 300);
        let mid = file("web-b.parquet", 200);
        let new = file("web-c.parquet", 100);
        let other = file("web2-d.parquet", 900);
        let begin = SystemTime::UNIX_EPOCH;
        assert_eq!(store.tidy("web", begin, 1000), (300, 0));
        assert_eq!(store.tidy("web", begin, 250), (200, 1));
        assert!(!old.exists() && mid.exists());
        assert_eq!(
            store.tidy("web", now - Duration::from_secs(150), 1000),
            (100, 1)
        );
        assert!(!mid.exists() && new.exists() && other.exists());
    }
}
