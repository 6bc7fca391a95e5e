//! What a process may use of a resource: `/proc/PID/limits`.

/// Returns the soft limit with this name, out of the text of a `limits` file: a number, or `unlimited`. Each line is `NAME  SOFT  HARD  UNIT`, as
/// `Max stack size  8388608  unlimited  bytes` (fs/proc/base.c, `proc_pid_limits`). `None` if there is no such line.
pub fn soft<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()
}
