//! The fields of `/proc/PID/status` and `/proc/PID/task/TID/status` (proc_pid_status(5); `proc_pid_status`, fs/proc/array.c).
//! Used by `denial`, `guest` and others here, and by most crates above.

use crate::proc_file;
use std::io;
use std::str::FromStr;

/// The text of a `status` file: lines of a name, a colon and a value.
#[derive(Clone, Debug, Default)]
pub struct StatusFile(String);

impl StatusFile {
    /// Reads that of a process: of its first thread, or of another if that has ended.
    ///
    /// # Errors
    /// The file cannot be read: there is none of that id.
    pub fn of(pid: i32) -> io::Result<Self> {
        proc_file::of_process(pid, "status").map(StatusFile)
    }

    /// Reads that of the first thread of a process, or of the thread with this id, whatever process that is of, and whether it has ended or
    /// not.
    ///
    /// # Errors
    /// As for [`StatusFile::of`].
    pub fn of_first_thread(id: i32) -> io::Result<Self> {
        proc_file::of_first_thread(id, "status").map(StatusFile)
    }

    /// Reads that of this process. By its id it might be another one's: `/proc` may be mounted from another PID namespace.
    ///
    /// # Errors
    /// The file cannot be read, as where `/proc` is not mounted.
    pub fn own() -> io::Result<Self> {
        proc_file::text("/proc/self/status").map(StatusFile)
    }

    /// Reads that of a thread of a process.
    ///
    /// # Errors
    /// The file cannot be read: the thread is gone, or not of this process.
    pub fn of_thread(pid: i32, tid: i32) -> io::Result<Self> {
        proc_file::of_thread(pid, tid, "status").map(StatusFile)
    }

    /// Takes the text of such a file.
    pub fn from_text(text: impl Into<String>) -> Self {
        StatusFile(text.into())
    }

    /// Returns the value of a field, without the blanks around it; `None` if the kernel does not tell it.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    /// Returns the first word of a field as a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        let word = self.field(name)?.split_ascii_whitespace().next()?;
        word.parse().ok()
    }

    /// Returns a field that the kernel gives as `12 kB`, in bytes.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        let kib = self.field(name)?.strip_suffix(" kB")?;
        kib.trim().parse::<u64>().ok()?.checked_mul(1024)
    }

    /// Returns a field of bits, as of signals or capabilities, which the kernel gives in hexadecimal.
    pub fn bits(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }

    /// Returns the numbers of a field that has several, as `NSpid`.
    pub fn numbers(&self, name: &str) -> Option<Vec<i32>> {
        let words = self.field(name)?.split_ascii_whitespace();
        words.map(|word| word.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::StatusFile;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let status = StatusFile::from_text(
            "Name:\tPid:\t1\nNStgid:\t71\t3\nTgid:\t70\nVmRSS:\t   12 kB\nSigCgt:\t00000000000000ff\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        );
        assert_eq!(status.field("Name"), Some("Pid:\t1"));
        assert_eq!(status.number::<i32>("Tgid"), Some(70));
        assert_eq!(status.number::<i32>("Pid"), None);
        assert_eq!(status.number::<u32>("Seccomp"), Some(2));
        assert_eq!(status.numbers("NStgid"), Some(vec![71, 3]));
        assert_eq!(status.bytes("VmRSS"), Some(12 << 10));
        assert_eq!(status.bytes("VmSwap"), None);
        assert_eq!(status.bits("SigCgt"), Some(0xff));
    }
}
