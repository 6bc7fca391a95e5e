//! The small server in each language that `lancet demo` starts and opens. Used by `entry` and `lancet::commands::demo`.

/// A server with three faults, each at a line that is marked so: it keeps what it needs no more, its query is slow, and two who work for it wait
/// for a lock for ever. It prints `ready N`, its process, and ends with its standard input.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// The interpreter, as the PATH has it.
    pub interpreter: &'static str,
    /// What the file is called.
    pub file: &'static str,
    /// What stands in it.
    pub text: &'static str,
    /// Who waits is a process of its own: the same file with the word `worker`. It prints the same when it has read a line from its standard
    /// input, and then waits.
    pub has_worker: bool,
    /// The words of a command that counts the slow query's calls.
    pub slow: &'static [&'static str],
}

/// What marks the lines of the faults.
pub const LEAK: &str = "the leak";
/// See [`LEAK`].
pub const QUERY: &str = "the slow query";
/// See [`LEAK`]; there are two.
pub const LOCK: &str = "the lock";

impl Demo {
    /// Returns the lines with this mark, numbered, without the mark.
    pub fn marked(&self, mark: &str) -> Vec<(usize, &'static str)> {
        let lines = self.text.lines().enumerate();
        let marked = lines.filter_map(|(at, line)| {
            let code = line.strip_suffix(mark)?.trim_end();
            let code = code.trim_end_matches(['#', '/']).trim();
            Some((at + 1, code))
        });
        marked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_line() {
        for entry in crate::ALL {
            let demo = entry.demo;
            let count = |mark| demo.marked(mark).len();
            assert_eq!([count(LEAK), count(QUERY)], [1, 1], "{}", demo.file);
            assert!(count(LOCK) >= 1, "{}", demo.file);
            let (_, code) = demo.marked(QUERY)[0];
            assert!(!code.is_empty() && !code.ends_with('#'), "{code}");
        }
    }
}
