//! What of a guest must be after lancet as it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Threads may be on their way in or out when we look; what differs for so long is different.
const SETTLE: Duration = Duration::from_secs(3);
/// The most bytes of code that a hook changes.
const JUMP: usize = 8;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Bytes of program text, threads, descriptors, dispositions, protections.
#[derive(PartialEq, Eq)]
pub struct Snapshot {
    /// Of each executable file mapping.
    text: BTreeMap<String, Vec<u8>>,
    /// Address, protection, offset and name of each file mapping.
    files: BTreeSet<String>,
    threads: BTreeSet<i32>,
    descriptors: BTreeMap<String, String>,
    /// Caught, ignored and blocked signals of each thread.
    signals: BTreeMap<i32, Vec<String>>,
}

/// The lines of `/proc/PID/status` that say what is done with signals.
const SIGNALS: [&str; 3] = ["SigCgt:", "SigIgn:", "SigBlk:"];

impl Snapshot {
    /// Looks until two looks agree: a thread that is just being made has all signals blocked for a
    /// moment, and its descriptors come one by one. On a busy machine that moment may be long.
    pub fn take(pid: i32) -> Self {
        let deadline = Instant::now() + SETTLE;
        let mut last = Snapshot::look(pid);
        loop {
            std::thread::sleep(PAUSE);
            let now = Snapshot::look(pid);
            if (now == last && !now.has_nascent_threads()) || Instant::now() > deadline {
                return now;
            }
            last = now;
        }
    }

    /// Whether a thread has blocked all signals that libc lets it block, as at its birth.
    fn has_nascent_threads(&self) -> bool {
        self.signals.values().flatten().any(|line| {
            let mask = line.strip_prefix("SigBlk:").map(str::trim);
            let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok());
            mask.is_some_and(|mask| mask.count_ones() > 56)
        })
    }

    fn look(pid: i32) -> Self {
        // Also of a guest whose first thread has ended.
        let shared = |file| process::proc_file::path(pid, file);
        let memory = File::open(shared("mem")).expect("the guest's memory");
        let maps = fs::read_to_string(shared("maps")).expect("the guest's maps");
        let mut text = BTreeMap::new();
        let mut files = BTreeSet::new();
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [range, protection, offset, _, _, name, ..] = words[..] else {
                continue;
            };
            if !name.starts_with('/') && name != "[vdso]" {
                continue;
            }
            files.insert(format!("{range} {protection} {offset} {name}"));
            if protection.contains('x') {
                let mut ends = range
                    .split('-')
                    .map(|end| u64::from_str_radix(end, 16).expect("an address"));
                let (start, end) = (ends.next().expect("two"), ends.next().expect("two"));
                let mut bytes = vec![0; (end - start) as usize];
                memory
                    .read_exact_at(&mut bytes, start)
                    .expect("program text");
                text.insert(format!("{range} {name}"), bytes);
            }
        }
        let threads: BTreeSet<i32> = names(&format!("/proc/{pid}/task"))
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        let signals = threads
            .iter()
            .filter_map(|tid| Some((*tid, dispositions(pid, *tid)?)))
            .collect();
        let folder = shared("fd");
        let descriptors = names(&folder.to_string_lossy())
            .into_iter()
            .filter_map(|name| {
                let target = fs::read_link(folder.join(&name)).ok()?;
                Some((name, target.to_string_lossy().into_owned()))
            })
            .collect();
        Snapshot {
            text,
            files,
            threads,
            descriptors,
            signals,
        }
    }

    /// Nothing of it has changed.
    pub fn holds(&self, pid: i32, what: &str) {
        assert!(!self.text.is_empty(), "{what}: there is program text");
        let deadline = Instant::now() + SETTLE;
        loop {
            let now = Snapshot::look(pid);
            if now == *self {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{what}: the guest is not as it was: {}",
                self.differences(&now).join("; ")
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The text is as it was, byte for byte, and nothing of it has moved. For guests that change the rest themselves.
    pub fn text_holds(&self, pid: i32, what: &str) {
        self.text_holds_but(pid, what, 0);
    }

    /// The same, but for so many hooks that stay: runs of bytes no longer than the jump that a hook is.
    pub fn text_holds_but(&self, pid: i32, what: &str, hooks: usize) {
        let now = Snapshot::look(pid);
        let mut jumps = Vec::new();
        for (place, bytes) in &self.text {
            let other = now.text.get(place);
            let other = other.unwrap_or_else(|| panic!("{what}: text {place} is gone"));
            let mut at = 0;
            while let Some(next) = differs_from(bytes, other, at) {
                jumps.push(format!("{place} from byte {next:#x}"));
                at = next + JUMP;
            }
        }
        assert!(
            jumps.len() <= hooks,
            "{what}: text differs, {hooks} hooks may stay: {}",
            jumps.join(", ")
        );
    }

    fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (place, bytes) in &self.text {
            match now.text.get(place) {
                None => found.push(format!("text {place} is gone")),
                Some(other) if other != bytes => {
                    let at = bytes.iter().zip(other).position(|(a, b)| a != b);
                    found.push(format!("text {place} differs from byte {at:x?}"));
                }
                Some(_) => {}
            }
        }
        let mut differ = |what: &str, before: String, after: String| {
            if before != after {
                found.push(format!("{what}: {before} → {after}"));
            }
        };
        differ(
            "mappings",
            format!("{:?}", self.files.difference(&now.files)),
            format!("{:?}", now.files.difference(&self.files)),
        );
        differ(
            "threads",
            format!("{:?}", self.threads),
            format!("{:?}", now.threads),
        );
        differ(
            "descriptors",
            format!("{:?}", self.descriptors),
            format!("{:?}", now.descriptors),
        );
        differ(
            "signals",
            format!("{:?}", self.signals),
            format!("{:?}", now.signals),
        );
        found
    }
}

/// Where two texts differ first, from a byte on. Pages that are equal are passed over as a whole: a loop over bytes, which tests run without
/// optimisation, took more than half of the time of all of lancet's own work.
fn differs_from(bytes: &[u8], other: &[u8], at: usize) -> Option<usize> {
    const PAGE: usize = 4096;
    let pages = bytes
        .get(at..)?
        .chunks(PAGE)
        .zip(other.get(at..)?.chunks(PAGE));
    let unequal = pages.enumerate().find(|(_, (page, now))| page != now);
    let (number, (page, now)) = unequal?;
    let within = page.iter().zip(now).position(|(was, is)| was != is);
    Some(at + number * PAGE + within.unwrap_or(page.len().min(now.len())))
}

fn names(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn dispositions(pid: i32, tid: i32) -> Option<Vec<String>> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let of_signals = |line: &&str| SIGNALS.iter().any(|key| line.starts_with(key));
    Some(
        status
            .lines()
            .filter(of_signals)
            .map(str::to_owned)
            .collect(),
    )
}
