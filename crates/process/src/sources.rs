//! The source text of a guest's scripts, by the paths that the guest names.
//!
//! What a guest names is an attacker's word. So a path is looked up within its root by an `O_PATH` descriptor, which opens nothing, and
//! opened only if it leads to a regular file on a file system of this machine ([`crate::mounts`]), of a size that source text has. Nothing of it is
//! shown: the text is searched for names that the guest has told us already.
//!
//! A thread of its own does that, as the guest's user, so that the kernel refuses what the guest could not read ([`reader`](self)), and it
//! is waited for so long and no longer: a look-up may end at a program of the guest's (FUSE) or at a machine that is gone (NFS). To keep
//! it from there, only what the kernel has cached is looked up, and otherwise no other file system is entered on the way than one that
//! was looked at before.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::guest;
use crate::modules::GuestFiles;
use crate::status_file::StatusFile;

mod reader;
use reader::{Read, Reader, User};

/// Limits of the bytes of a file, and of all files together.
const LONGEST: u64 = 1 << 20;
const MOST_BYTES: usize = 32 << 20;
/// Limit of the files.
pub const MOST_FILES: usize = 256;
/// How long all of a process's files are waited for together.
const LIMIT: Duration = Duration::from_millis(300);

/// What is known of a file.
#[derive(Debug, Clone)]
pub enum Text {
    /// It is there, with this text.
    There(Rc<Lines>),
    /// There is none.
    NotThere,
    /// It was not looked at, or is none that may be read.
    NotLookedAt,
}

/// Text with its lines.
#[derive(Debug)]
pub struct Lines {
    text: Vec<u8>,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl Lines {
    /// Finds the lines of a text.
    pub fn of(text: Vec<u8>) -> Lines {
        let ends = memchr::memchr_iter(b'\n', &text);
        let starts = std::iter::once(0).chain(ends.map(|end| end + 1)).collect();
        Lines { text, starts }
    }

    /// Returns a line, of which the first has number 1.
    pub fn get(&self, number: u32) -> Option<&[u8]> {
        let at = (number as usize).checked_sub(1)?;
        let start = *self.starts.get(at)?;
        let end = self.starts.get(at + 1).map(|next| next - 1);
        self.text.get(start..end.unwrap_or(self.text.len()))
    }
}

/// The text of files of a process. Each is read once, and nothing before the first is asked for.
#[derive(Debug)]
pub struct Sources {
    pid: i32,
    asked: OnceCell<Option<Asked>>,
    known: RefCell<HashMap<String, Text>>,
    bytes: Cell<usize>,
}

/// The thread that reads.
#[derive(Debug)]
struct Asked {
    paths: SyncSender<PathBuf>,
    read: Receiver<Read>,
    root: GuestFiles,
    end: Instant,
    /// It did not answer in time: what it says now is of a file that was asked for before.
    is_late: Cell<bool>,
}

impl Sources {
    /// For the files of process `pid`.
    pub fn of(pid: i32) -> Sources {
        Sources {
            pid,
            asked: OnceCell::new(),
            known: RefCell::default(),
            bytes: Cell::new(0),
        }
    }

    /// Returns the text of the file at this path of the guest's, from its working directory on if it is relative.
    pub fn text(&self, path: &str) -> Text {
        let mut known = self.known.borrow_mut();
        if let Some(text) = known.get(path) {
            return text.clone();
        }
        if known.len() >= MOST_FILES || self.bytes.get() >= MOST_BYTES {
            return Text::NotLookedAt;
        }
        let asked = self.asked.get_or_init(|| Asked::of(self.pid));
        let read = asked.as_ref().and_then(|asked| asked.text(path));
        let text = match read.unwrap_or(Read::NotLookedAt) {
            Read::There(text) => {
                self.bytes.set(self.bytes.get() + text.len());
                Text::There(Rc::new(Lines::of(text)))
            }
            Read::NotThere => Text::NotThere,
            Read::NotLookedAt => Text::NotLookedAt,
        };
        known.insert(path.to_owned(), text.clone());
        text
    }
}

impl Asked {
    /// Begins the thread; `None` if the guest is gone, or has no root that can be opened.
    fn of(pid: i32) -> Option<Asked> {
        let user = User::of(&StatusFile::of(pid).ok()?)?;
        let mut reader = Reader::of(pid, user)?;
        // Neither side has more than one question open.
        let (paths, to_read) = sync_channel::<PathBuf>(1);
        let (answers, read) = sync_channel(1);
        let thread = std::thread::Builder::new().name("sources".to_owned());
        let run = move || {
            for path in to_read {
                if answers.send(reader.read(&path)).is_err() {
                    return;
                }
            }
        };
        // It is not waited for: it ends when there is no one left to ask it, or with this process.
        thread.spawn(run).ok()?;
        Some(Asked {
            paths,
            read,
            root: GuestFiles::of(pid),
            end: Instant::now() + LIMIT,
            is_late: Cell::new(false),
        })
    }

    fn text(&self, path: &str) -> Option<Read> {
        if self.is_late.get() {
            return None;
        }
        let absolute = match path.starts_with('/') {
            true => path.into(),
            false => {
                let folder = guest::working_directory(self.root.pid())?;
                self.root.path_in_guest(Path::new(&folder)).join(path)
            }
        };
        self.paths.try_send(absolute).ok()?;
        let left = self.end.saturating_duration_since(Instant::now());
        let read = self.read.recv_timeout(left).ok();
        self.is_late.set(read.is_none());
        read
    }
}

#[cfg(test)]
mod tests;
