//! The folder of the agent: tables, as `lancet export` writes them, and below `.agent` what is not in them yet. Used by `run` and
//! `work`.
//!
//! An answer is written below `.agent/spool` first, and has its name there when it is whole; it is taken away when all of its tables are
//! written. Their names are made of the answer, so one that is exported again, after a kill between the two, is there once all the same.

use std::collections::{BTreeSet, BinaryHeap};
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
/// So many files are removed at once, at most.
const AT_ONCE: usize = 10_000;
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
            if fs::metadata(store.spool(&one, PART))?.len() == 0 {
                // Nothing was answered yet.
                store.drop(&one);
                continue;
            }
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
        fs::rename(path, self.spool(one, WHOLE))?;
        // Some file systems have nothing to wait for, and refuse it.
        let _ = File::open(self.own.join("spool")).and_then(|folder| folder.sync_all());
        Ok(())
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

    /// The files of tables of these hosts.
    fn tables(&self, hosts: &BTreeSet<String>) -> Tables {
        let mut found = Tables::default();
        for day in folders(&self.folder)
            .iter()
            .flat_map(|table| folders(table))
        {
            for entry in fs::read_dir(day).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let host = name.to_str().and_then(host_of);
                let Some(host) = host.and_then(|host| hosts.get(host)) else {
                    continue;
                };
                if let Some(of) = entry.metadata().ok().filter(fs::Metadata::is_file) {
                    let written = of.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.add(host, written, of.len(), entry.path());
                }
            }
        }
        found
    }

    /// Removes files of these hosts that are older than `oldest`, and the oldest of the others where all have more than `most` bytes. Hosts of
    /// which there are no files are taken out of `hosts`. Returns how many bytes are left, and how many files were removed.
    pub fn tidy(&self, hosts: &mut BTreeSet<String>, oldest: SystemTime, most: u64) -> (u64, u64) {
        let found = self.tables(hosts);
        let mut size = found.size;
        let mut removed = 0;
        for (written, bytes, path) in found.oldest.into_sorted_vec() {
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
        *hosts = found.hosts;
        (size, removed)
    }
}

/// What there is of tables.
#[derive(Default)]
struct Tables {
    /// The oldest files, with their sizes.
    oldest: BinaryHeap<(SystemTime, u64, PathBuf)>,
    /// The bytes of all.
    size: u64,
    /// The hosts that have one.
    hosts: BTreeSet<String>,
}

impl Tables {
    fn add(&mut self, host: &str, written: SystemTime, bytes: u64, path: PathBuf) {
        self.size += bytes;
        if !self.hosts.contains(host) {
            self.hosts.insert(host.to_owned());
        }
        self.oldest.push((written, bytes, path));
        if self.oldest.len() > AT_ONCE {
            self.oldest.pop();
        }
    }
}

/// The folders in a folder, but for hidden ones.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|of| of.is_dir());
    let is_hidden = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    entries
        .filter(|entry| is_folder(entry) && !is_hidden(entry))
        .map(|entry| entry.path())
        .collect()
}

/// The host in the name of a file of a table: `HOST-CAPTURE.parquet`. That of another host may begin with this one's name. What an export
/// that was killed has left, `HOST-CAPTURE.parquet.lancet-…`, goes with the others when it is old.
fn host_of(name: &str) -> Option<&str> {
    let name = name
        .rsplit_once(".lancet-")
        .map_or(name, |(whole, _)| whole);
    let (host, capture) = name.strip_suffix(".parquet")?.rsplit_once('-')?;
    let is_capture = capture.len() == 32 && capture.bytes().all(|c| c.is_ascii_hexdigit());
    is_capture.then_some(host)
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
        if let Some(owner) = Process::of_key(&owner).filter(Process::is_there) {
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
        let name = |host: &str, id: &str| format!("{host}-{}.parquet", id.repeat(32));
        let old = file(&name("web", "a"), 300);
        let mid = file(&name("before", "b"), 200);
        let new = file(&name("web", "c"), 100);
        let others = [name("web2", "d"), name("web-2", "e"), name("web", "x")];
        let others = others.map(|name| file(&name, 900));
        let begin = SystemTime::UNIX_EPOCH;
        let hosts = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(ToString::to_string).collect()
        };
        // What it has written under a name that the machine had is its own, too.
        let mut ours = hosts(&["web", "before", "none"]);
        assert_eq!(store.tidy(&mut ours, begin, 1000), (300, 0));
        assert_eq!(ours, hosts(&["web", "before"]));
        assert_eq!(store.tidy(&mut ours, begin, 250), (200, 1));
        assert!(!old.exists() && mid.exists());
        let young = now - Duration::from_secs(150);
        assert_eq!(store.tidy(&mut ours, young, 1000), (100, 1));
        assert!(!mid.exists() && new.exists());
        assert_eq!(store.tidy(&mut ours, young, 1000), (100, 0));
        assert_eq!(ours, hosts(&["web"]));
        assert!(others.iter().all(|other| other.exists()));
    }
}
