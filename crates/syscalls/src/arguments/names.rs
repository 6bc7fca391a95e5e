//! What the arguments of system calls are called. Used by `writer`.

use foldhash::HashMap;
use std::sync::LazyLock;

static NAMES: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let lines = include_str!("../../conf/arguments.conf").lines();
    let rows = lines.filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| {
        let mut words = row.split_whitespace();
        Some((words.next()?, words.collect()))
    })
    .collect()
});

/// Returns what an argument of a call is called; `None` = it has no name, or it is written with one anyway (`clone`).
pub fn argument_name(call: &str, index: usize) -> Option<&'static str> {
    NAMES.get(call)?.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prototypes::bundle::system_calls;

    /// Each row is of a system call, and names no argument twice; of the calls of Linux few are without one.
    #[test]
    fn calls_have_names_of_arguments() {
        let known: Vec<&str> = system_calls().map(|(_, name)| name).collect();
        for (call, names) in NAMES.iter() {
            assert!(known.contains(call), "{call}");
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len(), "{call}");
        }
        assert!(NAMES.len() > 340, "{}", NAMES.len());
        assert_eq!(argument_name("openat", 0), Some("dirfd"));
        assert_eq!(argument_name("getpid", 0), None);
    }
}
