//! Describes which system calls of a process hooks do not see. Used by `guest::announced`, `guest`, `process` and
//! others.
//!
//! What is certain is always reported. What depends on the process is examined when it has been hooked: rings of io_uring
//! among its descriptors, and code that belongs to no file, which may make system calls of its own (that of a just-in-time
//! compiler).

use hooks::Tracing;
use process::maps::{Mapping, Maps};
use process::memory::GuestMemory;
use process::proc_file;
use std::io;
use vm::Memory;

/// Describes what is not seen of a process, if `refused` places were refused.
pub fn of(tracing: &Tracing, refused: usize) -> Vec<String> {
    let pid = tracing.pid();
    let mut unseen = vec![RETURNS.to_owned(), CHILDREN.to_owned()];
    unseen.extend(counted(
        refused,
        "1 place that cannot be hooked",
        "N places that cannot be hooked",
    ));
    unseen.extend(of_kernel(pid));
    let made = made_at_run_time(tracing).map(|code| code.len());
    unseen.extend(known(MADE, made, MAPPINGS));
    unseen
}

/// What may come up while a process is watched, as far as it can be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Countable {
    rings: usize,
    mappings: usize,
}

impl Countable {
    /// Counts what there is now; 0 where that cannot be read. Code counts only if it holds the bytes of an instruction that enters the
    /// kernel: most code that is made at run time leaves that to the C library.
    pub fn of(tracing: &Tracing) -> Self {
        let code = made_at_run_time(tracing).unwrap_or_default();
        let enters = |one: &&Mapping| may_enter_kernel(tracing.memory(), one);
        Countable {
            rings: rings(tracing.pid()).unwrap_or(0),
            mappings: code.iter().filter(enters).count(),
        }
    }

    /// Describes what has come since then.
    pub fn more_than(&self, before: &Self) -> Vec<String> {
        let came = |what, now: usize, before: usize, words| {
            known(what, Ok(now.saturating_sub(before)), words)
        };
        let rings = came(KERNEL, self.rings, before.rings, RINGS);
        let code = came(MADE, self.mappings, before.mappings, MAPPINGS);
        rings.into_iter().chain(code).collect()
    }
}

/// Describes what can be seen of no process, however it is watched.
pub fn of_kernel(pid: i32) -> Option<String> {
    known(KERNEL, rings(pid), RINGS)
}

/// Whether this can be seen of no process.
pub fn is_of_kernel(unseen: &str) -> bool {
    unseen.starts_with(KERNEL)
}

/// Leaves only what was requested: returns from handlers with `returns`, what children do with `children`.
pub fn asked(unseen: Vec<String>, returns: bool, children: bool) -> Vec<String> {
    let is_asked = |text: &String| match text.as_str() {
        RETURNS => returns,
        CHILDREN => children,
        _ => true,
    };
    unseen.into_iter().filter(is_asked).collect()
}

const RETURNS: &str = "returns from signal handlers (rt_sigreturn)";
const CHILDREN: &str = "children of vfork and posix_spawn until they run another program";

const KERNEL: &str = "what the kernel does for io_uring";
const MADE: &str = "code that was made at run time";
const RINGS: [&str; 2] = ["1 ring", "N rings"];
const MAPPINGS: [&str; 2] = ["1 mapping", "N mappings"];

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(many.replace('N', &count.to_string())),
    }
}

/// Describes what there are so many of; also where their number cannot be read, because then there may be some.
fn known(what: &str, count: io::Result<usize>, [one, many]: [&str; 2]) -> Option<String> {
    match count {
        Ok(count) => counted(count, one, many).map(|count| format!("{what} ({count})")),
        Err(error) if proc_file::is_gone(&error) => None,
        Err(error) => Some(format!(
            "{what} (whether there is any cannot be read: {error})"
        )),
    }
}

/// Returns how many of its descriptors are rings of io_uring.
fn rings(pid: i32) -> io::Result<usize> {
    let descriptors = proc_file::descriptors(pid)?;
    let rings = descriptors
        .filter_map(|one| one.target())
        .filter(|target| target.as_os_str() == "anon_inode:[io_uring]");
    Ok(rings.count())
}

/// Returns the mappings that hold code and belong to no file, without those of lancet and the kernel.
fn made_at_run_time(tracing: &Tracing) -> io::Result<Vec<Mapping>> {
    let maps = Maps::read(tracing.pid())?;
    let own = tracing.code_of_lancets(&maps);
    let of_nobody = maps.iter().filter(|mapping| {
        let is_own = own.iter().any(|range| range.contains(&mapping.start));
        let is_kernels = ["[vdso]", "[vsyscall]", "[uprobes]"]
            .iter()
            .any(|name| mapping.is_named(name));
        mapping.permissions.execute && mapping.inode == 0 && !is_own && !is_kernels
    });
    Ok(of_nobody.cloned().collect())
}

/// Whether the bytes of an instruction that enters the kernel occur in a mapping (`syscall`, `int $0x80`, `sysenter`). Of very large ones
/// only the beginning is read.
fn may_enter_kernel(memory: &GuestMemory, mapping: &Mapping) -> bool {
    const MOST: u64 = 64 << 20;
    const PIECE: u64 = 1 << 20;
    let end = mapping.end.min(mapping.start.saturating_add(MOST));
    let mut piece = vec![0; PIECE as usize + 1];
    (mapping.start..end).step_by(PIECE as usize).any(|at| {
        let length = (end - at).min(piece.len() as u64) as usize;
        let piece = &mut piece[..length];
        memory.read(at, piece).is_ok() && hooks::may_enter_kernel(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_what_there_was_not_before() {
        let [few, more] = [(1, 2), (1, 5)].map(|(rings, mappings)| Countable { rings, mappings });
        assert_eq!(more.more_than(&few), [format!("{MADE} (3 mappings)")]);
        assert!(few.more_than(&more).is_empty());
    }
}
