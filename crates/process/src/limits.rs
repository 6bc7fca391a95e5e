//! Reads what a process may use of a resource: `/proc/PID/limits`.

use crate::proc_file;

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

fn stack_in(text: &str) -> Option<u64> {
    match soft(text, "Max stack size")? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::stack_in;

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
