//! Files of processes below `/proc` are read in one place, `process::proc_file`.
//!
//! They hold names of threads, which need not be UTF-8, so `std::fs::read_to_string` fails on them and the process or the thread would be
//! taken for one that is gone. Names of the machine and of lancet's own process are text.

use super::{refuse, sources};

/// Where the folders and files of processes are read.
const HERE: [&str; 2] = ["process/src/proc_file.rs", "process/src/stop.rs"];

/// What is at fault, in code without line breaks.
const WRONG: [&str; 4] = [
    "read_to_string(format!(\"/proc/{",
    "read_to_string(&format!(\"/proc/{",
    "read_dir(format!(\"/proc/{",
    "read_dir(&format!(\"/proc/{",
];

#[test]
fn are_read_in_one_place() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let name = path.display().to_string();
        // Tests read what they compare with by themselves.
        let is_test = !name.contains("/src/") || name.ends_with("tests.rs");
        if is_test || HERE.contains(&name.as_str()) {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
        let joined: String = code.split_whitespace().collect();
        wrong.extend(
            WRONG
                .iter()
                .filter(|pattern| joined.contains(**pattern))
                .map(|pattern| format!("{name}: {pattern}: use process::proc_file")),
        );
    }
    refuse(wrong);
}
