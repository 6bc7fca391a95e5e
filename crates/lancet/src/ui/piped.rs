//! Lines that a command reads: `-o '|gzip >out.gz'`, as strace has it. Used by `sink` and `commands::syscalls`.

use process::descriptors::with_first_limit;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Those that are still to be waited for.
static READERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// The command that a name stands for, if it is one: behind a `|` or a `!`.
pub fn command(name: &Path) -> Option<&OsStr> {
    match name.as_os_str().as_bytes() {
        [b'|' | b'!', command @ ..] => Some(OsStr::from_bytes(command)),
        _ => None,
    }
}

/// Starts a command of the shell's that reads what is written.
///
/// # Errors
/// There is no shell, or no process can be made.
pub fn to(command: &OsStr) -> std::io::Result<File> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    let mut reader = with_first_limit(&mut shell).spawn()?;
    let Some(input) = reader.stdin.take() else {
        return Err(std::io::ErrorKind::BrokenPipe.into());
    };
    if let Ok(mut readers) = READERS.lock() {
        readers.push(reader);
    }
    Ok(OwnedFd::from(input).into())
}

/// Waits until all commands that read our lines have ended.
pub fn wait() {
    if let Ok(mut readers) = READERS.lock() {
        for mut reader in readers.drain(..) {
            // An error means that its end was taken with those of other processes.
            let _ = reader.wait();
        }
    }
}
