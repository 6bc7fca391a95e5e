//! Where the threads of a guest that says nothing are, and those of all lancets, so that a failure tells a guest that
//! hangs from one that gets no processor.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

/// The lines of `/proc/PID/task/TID/status` that matter.
const STATUS: [&str; 7] = [
    "State",
    "TracerPid",
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "voluntary_ctxt_switches",
    "nonvoluntary_ctxt_switches",
];
/// Between the two looks: what runs or makes progress shows other figures in the second.
const BETWEEN: Duration = Duration::from_secs(2);

/// All of it, twice, with the load of the machine. `pid` is the guest or the lancet that is waited for.
pub fn standing(pid: i32) -> String {
    let mut text = String::new();
    for look in ["first look", "second look"] {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let _ = writeln!(text, "--- {look}, load {}", load.trim());
        for pid in concerned(pid) {
            let _ = writeln!(text, "process {pid}: {}", words(pid).join(" "));
            for tid in numbers(&format!("/proc/{pid}/task")) {
                text += &thread(pid, tid);
            }
        }
        std::thread::sleep(BETWEEN);
    }
    text
}

/// This process, every lancet, whoever has started it, and the guests that they were told of by `-p`.
fn concerned(pid: i32) -> BTreeSet<i32> {
    let is_lancet = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "lancet")
    };
    let lancets = numbers("/proc").into_iter().filter(is_lancet);
    let mut all: BTreeSet<i32> = lancets.chain([pid]).collect();
    for pid in all.clone() {
        let words = words(pid);
        let pairs = words.windows(2).filter(|pair| pair[0] == "-p");
        all.extend(pairs.filter_map(|pair| pair[1].parse::<i32>().ok()));
    }
    all
}

/// Its command line.
fn words(pid: i32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The names in a folder of `/proc` that are numbers.
fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let mut numbers: Vec<i32> = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// One thread: what it is called, does, and waits for, and how much processor time it has had and waited for.
fn thread(pid: i32, tid: i32) -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}"));
        text.map_or_else(|error| format!("({error})"), |text| text.trim().to_owned())
    };
    let status = read("status");
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let mut text = format!("  {tid} {:?}:", read("comm"));
    for (name, value) in lines.filter(|(name, _)| STATUS.contains(name)) {
        let _ = write!(text, " {name} {},", value.trim());
    }
    // Nanoseconds on a processor, and waiting for one (Documentation/scheduler/sched-stats.rst).
    let _ = writeln!(text, " schedstat {}", read("schedstat"));
    // The last word is the program counter, where the thread does not run.
    let call = read("syscall");
    let place = call.split(' ').next_back().and_then(|word| {
        let at = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        mapping(pid, at)
    });
    let stack = read("stack").replace('\n', " < ");
    let place = place.unwrap_or_default();
    let wchan = read("wchan");
    let _ = writeln!(
        text,
        "    wchan {wchan}, syscall {call}, {place}\n    stack {stack}"
    );
    text
}

/// The line of `/proc/PID/maps` that holds an address.
fn mapping(pid: i32, at: u64) -> Option<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.lines().find(|line| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let Some((from, to)) = range else {
            return false;
        };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        (number(from)..number(to)).contains(&at)
    });
    line.map(str::to_owned)
}
