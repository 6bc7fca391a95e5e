//! The files of `/proc` as text, and its folders whose entries are numbers. Used by `guest`, `threads` and others here,
//! and by most crates above.
//!
//! The name of a thread is what the program has set, cut after 15 bytes, maybe within a character, and `comm`, `stat`, `status` and
//! `sched` show these bytes as they are (`proc_task_name`, fs/proc/array.c). `std::fs::read_to_string` fails on a file that is not
//! UTF-8, and a thread that lives would be taken for one that has ended: it would not be stopped, or its seccomp filter not be
//! asked. So these files are read as bytes, here and nowhere else (a test of the house holds that), and what is not UTF-8 becomes
//! U+FFFD.
//!
//! `/proc/PID` is the folder of a process's first thread. When that has ended while others run on (`pthread_exit` in `main`), it is a
//! zombie without memory and without descriptors (`exit_mm`, `exit_files`, kernel/exit.c): `maps` is empty, `exe` and `fd` lead
//! nowhere. The folder of each living thread shows what they share. So every path of a process is made by [`path`], and a call that
//! takes a process by the id of one of its threads gets [`shown_by`].

use crate::descriptors::{open_briefly, refill, with_reserve};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes that most files of a process or thread have at most.
const USUAL: usize = 2048;

/// Returns the text of a file of `/proc`.
///
/// # Errors
/// The file is not there, as where the process has ended, or may not be read.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    bytes(path).map(as_text)
}

/// Returns the bytes of a file of `/proc`.
///
/// # Errors
/// As for [`text`].
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    // With room for most of these files, and without asking for their sizes, which are 0, it is four system calls.
    let mut bytes = Vec::with_capacity(USUAL);
    let read = open_briefly(path)?.take(u64::MAX).read_to_end(&mut bytes);
    refill();
    read.map(|_| bytes)
}

/// Whether reading a file of `/proc/PID` has failed because that process, or that thread, is no more. Any other error says nothing about
/// it: it lives, or cannot be looked at.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Returns the text of a file of `/proc`, or as much of it as `most` bytes hold.
///
/// # Errors
/// As for [`text`].
pub fn text_up_to(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = open_briefly(path)?.take(most).read_to_end(&mut bytes);
    refill();
    read.map(|_| as_text(bytes))
}

fn as_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns the id by which the kernel shows the memory, the descriptors and the namespaces of a process: its own, or, if its first
/// thread has ended while others run on, that of the first thread that lives. If none does, or it cannot be found out, its own.
pub fn shown_by(pid: i32) -> i32 {
    // This link needs the memory, and reading it is the cheapest question that does. A thread of the kernel has none either.
    let has_none =
        |folder: String| fs::read_link(folder + "/exe").is_err_and(|error| is_gone(&error));
    if !has_none(format!("/proc/{pid}")) {
        return pid;
    }
    let shows = |tid: &i32| !has_none(format!("/proc/{pid}/task/{tid}"));
    threads(pid).find(shows).unwrap_or(pid)
}

/// Returns the id of the calling thread as `/proc` shows it, which may be that of another PID namespace.
pub(crate) fn own_thread() -> Option<i32> {
    let path = fs::read_link("/proc/thread-self").ok()?;
    path.file_name()?.to_str()?.parse().ok()
}

/// Returns the path of a file of a process, or of a folder, that all its threads share: `/proc/PID/FILE`, or
/// `/proc/PID/task/TID/FILE` of a living thread if the first one has ended.
pub fn path(pid: i32, file: &str) -> PathBuf {
    let path = match shown_by(pid) {
        tid if tid == pid => format!("/proc/{pid}/{file}"),
        // The folder of a thread within its process has no such folder, but its folder in /proc has.
        tid if file.starts_with("map_files") => format!("/proc/{tid}/{file}"),
        tid => format!("/proc/{pid}/task/{tid}/{file}"),
    };
    path.into()
}

/// Returns the text of a file that all threads of a process share ([`path`]).
///
/// # Errors
/// As for [`text`].
pub fn of_process(pid: i32, file: &str) -> io::Result<String> {
    text(path(pid, file))
}

/// Returns the text of a file that tells of the first thread of a process, or of the thread with this id, whether it has ended or not.
///
/// # Errors
/// As for [`text`].
pub fn of_first_thread(id: i32, file: &str) -> io::Result<String> {
    text(format!("/proc/{id}/{file}"))
}

/// Returns a field of the text of a `stat` file by its number in proc(5), from 3 on: those behind the name, in which anything may stand.
pub fn stat_field(stat: &str, number: usize) -> Option<&str> {
    let behind = stat.rsplit(") ").next()?;
    behind.split(' ').nth(number.checked_sub(3)?)
}

/// Returns the inode of what has no path, from its link in `/proc/PID/fd`: the kernel writes `socket:[4711]` of one of the kind `socket`. `None` =
/// it is of another kind.
pub fn inode_of_link(link: &str, kind: &str) -> Option<u64> {
    let number = link.strip_prefix(kind)?.strip_prefix(":[")?;
    number.strip_suffix(']')?.parse().ok()
}

/// Returns the text of `/proc/PID/task/TID/FILE`.
///
/// # Errors
/// As for [`text`]; also where the thread is not of this process.
pub fn of_thread(pid: i32, tid: i32, file: &str) -> io::Result<String> {
    text(format!("/proc/{pid}/task/{tid}/{file}"))
}

/// Returns the name of a process's main thread, or of the thread with this id; `None` if it is gone.
pub fn name(id: i32) -> Option<String> {
    let name = of_first_thread(id, "comm").ok()?;
    Some(name.strip_suffix('\n').unwrap_or(&name).to_owned())
}

/// Returns the ids in a folder of `/proc`: of processes in `/proc` itself, of threads in `/proc/PID/task`. None if it cannot be read.
pub fn numbers(folder: impl AsRef<Path>) -> impl Iterator<Item = i32> {
    folder_of(folder).into_iter().flat_map(numbers_in)
}

/// Opens a folder of `/proc` that is read at once.
pub(crate) fn folder_of(folder: impl AsRef<Path>) -> io::Result<fs::ReadDir> {
    with_reserve(|| fs::read_dir(&folder))
}

/// Returns the entries of an open folder that are numbers.
pub(crate) fn numbers_in(folder: fs::ReadDir) -> impl Iterator<Item = i32> {
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns the ids of the threads of a process; none if it is gone. [`thread_ids`](crate::stop::thread_ids) says why.
pub fn threads(pid: i32) -> impl Iterator<Item = i32> {
    numbers(format!("/proc/{pid}/task"))
}

/// A descriptor of a process, as `/proc/PID/fd` lists it.
#[derive(Debug)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    path: PathBuf,
}

impl Descriptor {
    /// Returns what it leads to: a path, or a word of the kernel's as `socket:[1234]`. `None` if it was closed, or may not be seen.
    pub fn target(&self) -> Option<PathBuf> {
        fs::read_link(&self.path).ok()
    }
}

/// Returns the descriptors of a process.
///
/// # Errors
/// The process has ended, or they may not be seen: that takes what ptrace takes (`PTRACE_MODE_READ`).
pub fn descriptors(pid: i32) -> io::Result<impl Iterator<Item = Descriptor>> {
    let entries = folder_of(path(pid, "fd"))?.flatten();
    Ok(entries.filter_map(|entry| {
        Some(Descriptor {
            number: entry.file_name().to_str()?.parse().ok()?,
            path: entry.path(),
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status_file::StatusFile;
    use crate::stop::thread_state;

    #[test]
    fn a_thread_whose_name_is_not_text_is_seen() {
        let pid = std::process::id() as i32;
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // The last character takes two bytes, and one is left when the kernel cuts it.
            let name = c"fünfzehn Byteü";
            // SAFETY: the text ends with a NUL, and gettid has no preconditions.
            let tid = unsafe {
                libc::prctl(libc::PR_SET_NAME, name.as_ptr());
                libc::gettid()
            };
            tell.send(tid).expect("somebody listens");
            ends.recv().expect("the end is told");
        });
        let tid = told.recv().expect("it has begun");
        assert!(fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).is_err());
        assert_eq!(name(tid).as_deref(), Some("fünfzehn Byte\u{fffd}"));
        assert!(thread_state(pid, tid).is_some());
        let status = StatusFile::of_thread(pid, tid).expect("it lives");
        assert_eq!(status.number::<u32>("Seccomp"), Some(0));
        assert!(threads(pid).any(|one| one == tid));
        end.send(()).expect("it waits");
        thread.join().expect("it ends");
    }
}
