//! What an exec has pointed to, read where the kernel has put it for the program that runs now.
//!
//! The programs in the kernel read only what is in memory already, and the words of an exec often stand in a page that nobody has touched yet; at
//! the end of the exec that memory is gone. The path, the arguments and the environment are on the stack of the new program then, and its tracer
//! sees it before it runs.

use crate::live::traced::{Begun, Told, copy_of};
use process::auxiliary;
use process::memory::GuestMemory;
use process::proc_file;
use prototypes::Captures;
use prototypes::capture::Guest;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The longest path (`PATH_MAX`, include/uapi/linux/limits.h).
const LONGEST_PATH: usize = 4096;
/// Where we have texts begin of which nobody knows where they were: no program has memory there.
const TEXTS: u64 = 1 << 60;

/// Returns what an exec has pointed to, of whose program `pid` stands at the beginning. `None` = not all of it is known: the kernel has put the
/// interpreter of a script in the place of the first argument, or others have changed what would say so.
pub fn captures(pid: i32, begun: &Begun, told: &Told, memory: &GuestMemory) -> Option<Captures> {
    // `execve` (59) and `execveat` (322): arch/x86/entry/syscalls/syscall_64.tbl.
    let places: [u64; 3] = match (begun.number, begun.registers.gp) {
        (59, [path, arguments, environment, ..]) => [path, arguments, environment],
        (322, [_, path, arguments, environment, ..]) => [path, arguments, environment],
        _ => return None,
    };
    let path = path(pid, memory)?;
    // One that is run by its descriptor has none, or not all of it.
    if path.starts_with(b"/dev/fd/") || !is_run_itself(pid, &path)? {
        return None;
    }
    let [arguments, environment] = ["cmdline", "environ"]
        .map(|file| proc_file::bytes(proc_file::path(pid, file)).unwrap_or_default());
    // An exec without arguments has been given an empty one.
    if arguments.len() < 2 || arguments.last() != Some(&0) {
        return None;
    }
    let second = TEXTS + arguments.len() as u64;
    let lists = [pointers(TEXTS, &arguments), pointers(second, &environment)];
    let [first, second] = lists;
    let mut former = Former {
        pieces: vec![
            (places[0], path),
            (places[1], first),
            (places[2], second),
            (TEXTS, [arguments, environment].concat()),
        ],
        captures: Captures::new(),
        all: true,
    };
    copy_of(begun, told, &mut former);
    former.all.then_some(former.captures)
}

/// The path that was to be run, with its end.
fn path(pid: i32, memory: &GuestMemory) -> Option<Vec<u8>> {
    let at = auxiliary::value(pid, memory, auxiliary::PATH).ok()??;
    let mut path = vec![0; LONGEST_PATH];
    let read = memory.read_up_to(at, &mut path);
    let end = path[..read].iter().position(|&byte| byte == 0)?;
    path.truncate(end + 1);
    Some(path)
}

/// Whether the file of that path is the program that runs, and not one that another program interprets.
fn is_run_itself(pid: i32, path: &[u8]) -> Option<bool> {
    let path = std::str::from_utf8(path.strip_suffix(&[0])?).ok()?;
    let folder = if path.starts_with('/') { "root" } else { "cwd" };
    let file = format!("{}/{path}", proc_file::path(pid, folder).display());
    let [asked, runs] =
        [file.into(), proc_file::path(pid, "exe")].map(|path| fs::metadata(path).ok());
    let [asked, runs] = [asked?, runs?].map(|of| (of.dev(), of.ino()));
    Some(asked == runs)
}

/// A list of where the texts are that lie one behind the other from an address on, with the null pointer at its end.
fn pointers(from: u64, texts: &[u8]) -> Vec<u8> {
    let ends = texts.iter().enumerate().filter(|(_, byte)| **byte == 0);
    let begins = ends.map(|(at, _)| at as u64 + 1);
    let all = std::iter::once(0).chain(begins).map(|at| from + at);
    let count = texts.iter().filter(|&&byte| byte == 0).count();
    let all = all.take(count).chain([0]);
    all.flat_map(u64::to_le_bytes).collect()
}

/// Memory that is gone, as far as it is known.
struct Former {
    /// The address of each piece, and what was there; zeros are behind it.
    pieces: Vec<(u64, Vec<u8>)>,
    captures: Captures,
    /// Whether all was known that was asked for.
    all: bool,
}

impl Guest for Former {
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        let found = self.pieces.iter().find_map(|(from, bytes)| {
            let from = usize::try_from(at.checked_sub(*from)?).ok()?;
            bytes.get(from..).filter(|bytes| !bytes.is_empty())
        });
        let Some(bytes) = found else {
            self.all = false;
            return false;
        };
        into.fill(0);
        for (into, byte) in into.iter_mut().zip(bytes) {
            *into = *byte;
        }
        true
    }

    fn output(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.captures.add(at, bytes);
        true
    }
}
