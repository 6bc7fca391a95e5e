//! Describes which system calls of a process hooks do not see.
//!
//! What is certain is always reported. What depends on the process is examined when it has been hooked: rings of io_uring
//! among its descriptors, and code that belongs to no file, which may make system calls of its own (that of a just-in-time
//! compiler).

use process::maps::Maps;
use process::proc_file;
use std::io;
use std::ops::Range;

/// Describes what is not seen of a process whose hooks run in the code `own`, if `refused` places were refused.
pub fn of(pid: i32, own: &[Range<u64>], refused: usize) -> Vec<String> {
    let mut unseen = vec![RETURNS.to_owned(), CHILDREN.to_owned()];
    unseen.extend(counted(
        refused,
        "1 place that cannot be hooked",
        "N places that cannot be hooked",
    ));
    unseen.extend(of_kernel(pid));
    unseen.extend(known(
        "code that was made at run time",
        made_at_run_time(pid, own),
        ["1 mapping", "N mappings"],
    ));
    unseen
}

/// Describes what can be seen of no process, however it is watched.
pub fn of_kernel(pid: i32) -> Option<String> {
    known(KERNEL, rings(pid), ["1 ring", "N rings"])
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
const CHILDREN: &str = "children of fork until it returns in them, and of vfork and posix_spawn until they run another program";

const KERNEL: &str = "what the kernel does for io_uring";

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

/// Returns how many mappings hold code and belong to no file, without those of lancet and the kernel.
fn made_at_run_time(pid: i32, own: &[Range<u64>]) -> io::Result<usize> {
    let maps = Maps::read(pid)?;
    let of_nobody = maps.iter().filter(|mapping| {
        let is_own = own.iter().any(|range| range.contains(&mapping.start));
        let is_kernels = ["[vdso]", "[vsyscall]", "[uprobes]"]
            .iter()
            .any(|name| mapping.is_named(name));
        mapping.permissions.execute && mapping.inode == 0 && !is_own && !is_kernels
    });
    Ok(of_nobody.count())
}
