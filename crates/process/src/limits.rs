//! Reads what a process may use of a resource: `/proc/PID/limits`. Used by `control_group`, and by most crates above.

use crate::error::{Error, Result};
use crate::proc_file;
use crate::status_file::StatusFile;
use std::io;

/// Returns the soft limit with this name, out of the text of a `limits` file: a number, or `unlimited`. Each line is `NAME  SOFT  HARD  UNIT`, as
/// `Max stack size  8388608  unlimited  bytes` (fs/proc/base.c, `proc_pid_limits`). `None` if there is no such line.
pub fn soft<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()
}

/// Returns how large a process lets its main thread's stack grow, in bytes: the soft limit, [`u64::MAX`] if there is none. `None` if the
/// file cannot be read, or is not understood.
pub fn stack(pid: i32) -> Option<u64> {
    stack_in(&proc_file::of_process(pid, "limits").ok()?)
}

/// Returns how many seconds of processor time a process may take, [`u64::MAX`] if that is not limited. `None` as for [`stack`].
pub fn of_time(pid: i32) -> Option<u64> {
    number_in(&proc_file::of_process(pid, "limits").ok()?, "Max cpu time")
}

/// Returns how many bytes this process may still map: of all addresses (RLIMIT_AS), and of such memory of its own as it can write
/// (RLIMIT_DATA). `None` = neither is limited.
pub fn left_to_map() -> Option<u64> {
    left_to_map_of(std::process::id() as i32)
}

/// The same of any process.
pub fn left_to_map_of(pid: i32) -> Option<u64> {
    let limits = proc_file::of_process(pid, "limits").ok()?;
    let status = StatusFile::of(pid).ok()?;
    left_in(&limits, &status)
}

fn left_in(limits: &str, status: &StatusFile) -> Option<u64> {
    let names = [("Max address space", "VmSize"), ("Max data size", "VmData")];
    let left = names.into_iter().filter_map(|(name, taken)| {
        let limit: u64 = soft(limits, name)?.parse().ok()?;
        Some(limit.saturating_sub(status.bytes(taken).unwrap_or(0)))
    });
    left.min()
}

/// Returns why a process cannot map `bytes` more, if a limit of its own is the reason (RLIMIT_AS), in words.
pub fn forbids_mapping(pid: i32, bytes: u64) -> Option<String> {
    let limits = proc_file::of_process(pid, "limits").ok()?;
    let limit: u64 = soft(&limits, "Max address space")?.parse().ok()?;
    let taken = StatusFile::of(pid).ok()?.bytes("VmSize")?;
    let left = limit.saturating_sub(taken);
    (left < bytes).then(|| {
        let [left, limit] = [left, limit].map(|bytes| bytes >> 10);
        format!("its limit of address space (RLIMIT_AS, {limit} KiB) leaves {left} KiB")
    })
}

/// The bytes that must be left before hooks are set: planning them takes the most memory, and to take them out again takes some, too.
const ROOM: u64 = 24 << 20;

/// Makes sure that there is memory left to take hooks out again.
///
/// # Errors
/// This process may map hardly anything any more.
pub fn check_room() -> Result<()> {
    match left_to_map() {
        Some(left) if left < ROOM => Err(Error::system(
            "what lancet may map is limited (ulimit -v, -d), and too little is left to take hooks out again: raise the limit",
            io::Error::from_raw_os_error(libc::ENOMEM),
        )),
        _ => Ok(()),
    }
}

fn stack_in(text: &str) -> Option<u64> {
    number_in(text, "Max stack size")
}

/// Returns the soft limit with this name as a number, [`u64::MAX`] if there is none.
fn number_in(text: &str, name: &str) -> Option<u64> {
    match soft(text, name)? {
        "unlimited" => Some(u64::MAX),
        limit => limit.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::{forbids_mapping, left_in, stack_in};
    use crate::status_file::StatusFile;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_limit_is_the_reason_where_less_is_left() {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 100000; echo ready; read line"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("sh");
        let mut line = String::new();
        let out = shell.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let pid = shell.id() as i32;
        assert_eq!(forbids_mapping(pid, 1 << 20), None);
        let why = forbids_mapping(pid, 100 << 20).expect("more than the limit");
        assert!(why.contains("(RLIMIT_AS, 100000 KiB)"), "{why}");
        drop(shell.stdin.take());
        shell.wait().expect("it has ended");
    }

    #[test]
    fn what_a_process_may_still_map_is_the_least_of_its_limits() {
        let status = StatusFile::from_text("VmSize:\t    1000 kB\nVmData:\t     300 kB\n");
        let limits = |data: &str, space: &str| {
            format!(
                "Max data size  {data}  unlimited  bytes\nMax address space  {space}  unlimited  bytes\n"
            )
        };
        let left = |data, space| left_in(&limits(data, space), &status);
        assert_eq!(left("unlimited", "unlimited"), None);
        assert_eq!(left("unlimited", "2048000"), Some(1_024_000));
        assert_eq!(left("409600", "2048000"), Some(102_400));
        assert_eq!(left("unlimited", "4096"), Some(0));
    }

    #[test]
    fn the_limit_of_a_stack_is_the_soft_one() {
        let line = |soft: &str| {
            format!("Max data size  unlimited\nMax stack size  {soft}  unlimited  bytes\n")
        };
        assert_eq!(stack_in(&line("8388608")), Some(8 << 20));
        assert_eq!(stack_in(&line("unlimited")), Some(u64::MAX));
        assert_eq!(stack_in(&line("much")), None);
        assert_eq!(stack_in(""), None);
    }
}
