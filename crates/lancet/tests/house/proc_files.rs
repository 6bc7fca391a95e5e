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

/// Where a path of a process may be made: of copies with one thread, of one thread of a process, and where `process` is not known.
const MADE_HERE: [&str; 4] = [
    "process/src/proc_file.rs",
    "enter/src/copy.rs",
    "inject/src/seccomp.rs",
    "tracepoint/src/processes.rs",
];

/// What a first thread that has ended while others run on has no more, and the others show.
const SHARED: [&str; 14] = [
    "auxv",
    "cwd",
    "environ",
    "exe",
    "fd/",
    "fd\"",
    "fdinfo",
    "map_files",
    "maps",
    "mem\"",
    "ns/",
    "pagemap",
    "root",
    "smaps",
];

#[test]
fn of_what_threads_share_have_their_path_from_one_place() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let name = path.display().to_string();
        let is_test = !name.contains("/src/") || name.ends_with("tests.rs");
        if is_test || MADE_HERE.contains(&name.as_str()) {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
        let made = code.split("format!(\"/proc/{").skip(1);
        let behind = made.filter_map(|rest| rest.split_once("}/"));
        wrong.extend(
            behind
                .filter(|(_, file)| SHARED.iter().any(|shared| file.starts_with(shared)))
                .map(|(_, file)| file.split('"').next().unwrap_or(""))
                .map(|file| format!("{name}: {file}: use process::proc_file::path")),
        );
    }
    refuse(wrong);
}

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
