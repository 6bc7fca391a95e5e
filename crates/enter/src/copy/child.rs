//! The process that a guest calls a copy of itself. What it is, is read from the kernel again before each effect on it.
//! Used by `copy`.
//!
//! The guest may have forged it: another child of its own, which has the guest's program and rights when lancet looks, and runs a program
//! with other rights a moment later (a set-user-ID one). Lancet as root could write to such a process and end it, so each effect comes
//! right behind a look, and leads to the process by a descriptor that cannot come to mean another one.

use languages::snapshot::copied::lost;
use process::error::{Error, Result};
use process::guest::Status;
use process::pidfd::PidFd;
use process::proc_file;
use process::ptrace;
use process::status_file::StatusFile;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::Duration;

/// A child of a guest that had the guest's program and rights when it was opened.
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: i32,
    /// Refers to this process and never to another one.
    pub process: PidFd,
    /// Its folder in `/proc`, which is empty when it has been waited for, whatever process has its id then.
    folder: File,
    rights: Rights,
}

/// The program of a process, and its rights.
#[derive(Debug, PartialEq, Eq)]
struct Rights {
    /// Device and inode of the program.
    program: (u64, u64),
    /// The fields of `/proc/PID/status` that tell its users, groups and capabilities.
    told: [Option<String>; 5],
}

impl Rights {
    fn of(pid: i32) -> io::Result<Self> {
        let status = StatusFile::of(pid)?;
        let told = ["Uid", "Gid", "Groups", "CapPrm", "CapEff"];
        let told = told.map(|name| status.field(name).map(str::to_owned));
        let program = fs::metadata(proc_file::path(pid, "exe"))?;
        Ok(Rights {
            program: (program.dev(), program.ino()),
            told,
        })
    }
}

impl Child {
    /// Opens the child of a guest with this id.
    ///
    /// # Errors
    /// It has ended, or is no copy of the guest.
    pub fn open(parent: i32, pid: i32) -> Result<Self> {
        let gone = || lost(parent, "it ended at once");
        let because = |error: &dyn std::fmt::Display| lost(parent, &error.to_string());
        let process = PidFd::open(pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => gone(),
            _ => because(&error),
        })?;
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
            .open(format!("/proc/{pid}"))
            .map_err(|error| because(&error))?;
        // Read again: now the descriptor refers to this process, whose id cannot be reused.
        match Status::read(pid) {
            Ok(status) if status.parent == parent => {}
            Err(error) if !error.is_end() => return Err(because(&error)),
            Ok(_) | Err(_) => return Err(gone()),
        }
        let rights = |of| Rights::of(of).map_err(|error| because(&error));
        let child = Child {
            pid,
            process,
            folder,
            rights: rights(parent)?,
        };
        match child.check() {
            Ok(()) => Ok(child),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(lost(parent, "its child of that id is no copy of it"))
            }
            Err(error) => Err(because(&error)),
        }
    }

    /// Looks whether it still is what it was.
    ///
    /// # Errors
    /// It has the program or the rights of another one (`PermissionDenied`), or cannot be read.
    pub fn check(&self) -> io::Result<()> {
        let rights = Rights::of(self.pid);
        // What was read by the number is of this process only if that has not been waited for meanwhile.
        if self.process.has_ended(Duration::ZERO) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if rights? == self.rights {
            Ok(())
        } else {
            Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "it runs another program, or has other rights, by now",
            ))
        }
    }

    /// Has the kernel end it before others where memory ends.
    ///
    /// # Errors
    /// It is not what it was, or the kernel refuses.
    pub fn ends_first(&self) -> io::Result<()> {
        let folder = self.folder.as_raw_fd();
        let path = format!("/proc/self/fd/{folder}/oom_score_adj");
        // Opened before the look, so that nothing but the write lies behind it.
        let mut file = OpenOptions::new().write(true).open(path)?;
        self.check()?;
        io::Write::write_all(&mut file, b"1000")
    }

    /// Ends it by SIGKILL; one that has ended already is no error.
    ///
    /// # Errors
    /// It is not what it was, or may not be killed.
    pub fn kill(&self) -> Result<()> {
        let what = || format!("killing process {}, a copy", self.pid);
        match self.check() {
            Err(_) if self.process.has_ended(Duration::ZERO) => return Ok(()),
            checked => checked.map_err(|error| Error::system(what(), error))?,
        }
        let killed = match self.process.kill() {
            // It takes CAP_KILL to send a signal to the process of another user, which who may trace it need not have.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                if self.process.has_ended(Duration::ZERO) {
                    return Ok(());
                }
                std::thread::scope(|scope| {
                    let killing = scope.spawn(|| ptrace::kill(self.pid, || self.check().is_ok()));
                    killing
                        .join()
                        .unwrap_or_else(|_| Err(ErrorKind::Other.into()))
                })
            }
            killed => killed,
        };
        killed.map_err(|error| Error::system(what(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    /// A child that has become another program keeps its place among those that a memory limit ends, and lives.
    #[test]
    fn what_has_become_another_program_is_not_touched() {
        let mut child = Command::new("sh")
            .args(["-c", "echo ready; read go; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let pid = child.id() as i32;
        let mut told = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        told.read_line(&mut line).expect("it says so");
        let copy = Child {
            pid,
            process: PidFd::open(pid).expect("it is there"),
            folder: File::open(format!("/proc/{pid}")).expect("it is there"),
            rights: Rights::of(pid).expect("it can be read"),
        };
        copy.check().expect("it is what it was");
        let score = || fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("it lives");
        let before = score();
        let mut to = child.stdin.take().expect("it is piped");
        to.write_all(b"go\nhere\n").expect("it listens");
        line.clear();
        told.read_line(&mut line).expect("cat says it");
        assert_eq!(line, "here\n");
        let refused = copy.ends_first().expect_err("it is another program");
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        copy.kill().expect_err("it is another program");
        assert_eq!(score(), before);
        assert!(!copy.process.has_ended(Duration::ZERO));
        drop(to);
        assert!(child.wait().expect("our child").success());
        copy.kill().expect("what has ended is no error");
    }
}
