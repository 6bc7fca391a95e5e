//! What an exec has pointed to, read where the kernel has put it for the program that runs now. Used by `events`.
//!
//! The programs in the kernel read only what is in memory already, and the words of an exec often stand in a page that nobody has touched yet; at
//! the end of the exec that memory is gone. The path, the arguments and the environment are on the stack of the new program then, and its tracer
//! sees it before it runs.

use crate::live::traced::{Begun, Told, copy_of};
use process::auxiliary;
use process::memory::GuestMemory;
use process::proc_file;
use prototypes::capture::GuestAccess;
use prototypes::show::Captures;
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
    let run = path(pid, memory)?;
    let [arguments, environment] = ["cmdline", "environ"]
        .map(|file| proc_file::bytes(proc_file::path(pid, file)).unwrap_or_default());
    // An exec without arguments has been given an empty one.
    if arguments.len() < 2 || arguments.last() != Some(&0) {
        return None;
    }
    let is_itself = match run.starts_with(DESCRIPTORS) {
        true => !is_among(&run, &arguments),
        false => is_run_itself(pid, &run)?,
    };
    if !is_itself {
        return None;
    }
    let path = match begun.number {
        322 => given(&run, &begun.registers.gp),
        _ => run,
    };
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

/// What the kernel puts before the number of a descriptor by which a program is run (`alloc_bprm`, fs/exec.c).
const DESCRIPTORS: &[u8] = b"/dev/fd/";

/// The path that `execveat` was given, of the one under which the kernel has run the program: of a file below a descriptor, or one that is
/// open itself, the kernel makes a path with the descriptor's number. Nobody gives an absolute path and that descriptor beside it.
fn given(run: &[u8], arguments: &[u64; 6]) -> Vec<u8> {
    let [descriptor, .., flags, _] = *arguments;
    let below = [DESCRIPTORS, (descriptor as i32).to_string().as_bytes()].concat();
    let is_empty = flags & libc::AT_EMPTY_PATH as u64 != 0;
    match run.strip_prefix(&below[..]) {
        Some([b'/', rest @ ..]) => rest.to_vec(),
        Some([0]) if is_empty => vec![0],
        _ => run.to_vec(),
    }
}

/// Whether a path is among the arguments behind the first one, where the kernel puts that of a file for the program that interprets it.
fn is_among(path: &[u8], arguments: &[u8]) -> bool {
    let mut texts = arguments.split_inclusive(|&byte| byte == 0);
    texts.next();
    texts.any(|text| text == path)
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

/// Whether the file of that path is the program that runs, and not one that another program interprets. A descriptor is of the program before
/// and may be closed, so of its path this is not asked.
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

impl GuestAccess for Former {
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

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: u64 = libc::AT_EMPTY_PATH as u64;

    fn of(run: &str, descriptor: i32, flags: u64) -> String {
        let arguments = [descriptor as u64, 1, 2, 3, flags, 5];
        let path = given(format!("{run}\0").as_bytes(), &arguments);
        String::from_utf8(path).expect("text")
    }

    /// What was given to `execveat`, by what the kernel has made of it.
    #[test]
    fn the_path_is_the_one_that_was_given() {
        assert_eq!(of("/dev/fd/7", 7, EMPTY), "\0");
        assert_eq!(of("/dev/fd/7", 7, 0), "/dev/fd/7\0");
        assert_eq!(of("/dev/fd/70", 7, EMPTY), "/dev/fd/70\0");
        assert_eq!(of("/dev/fd/7/bin/true", 7, 0), "bin/true\0");
        assert_eq!(of("/bin/true", 7, EMPTY), "/bin/true\0");
        assert_eq!(of("true", libc::AT_FDCWD, 0), "true\0");
    }

    /// The path of a file that is interpreted stands behind the interpreter and its argument.
    #[test]
    fn a_file_that_is_interpreted_is_among_the_arguments() {
        let path = b"/dev/fd/7\0";
        assert!(is_among(path, b"/bin/sh\0-e\0/dev/fd/7\0x\0"));
        assert!(!is_among(path, b"/dev/fd/7\0x\0/dev/fd/71\0"));
    }
}
