//! What the agent remembers from one run to the next, so that a restart tells nothing twice, and owes what it has used. Used by `run`,
//! `turn`, `work` and others.
//!
//! Times are of CLOCK_BOOTTIME, which nobody sets and which goes on while the machine sleeps. With another boot they mean nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::choose::Process;
use super::turn::Why;
use crate::ui::file::WholeFile;

/// What the agent knows of what it has done, which outlives it in a file.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct State {
    /// The boot that its times are of.
    boot_id: String,
    /// The number of the next answer.
    pub next: u64,
    /// The processor time that it may use, in microseconds; negative: it has used more.
    pub credit: i64,
    /// Of each task when it is to be done next, in milliseconds.
    due: BTreeMap<String, u64>,
    /// Of each task when which process was its last, in milliseconds.
    last: BTreeMap<String, BTreeMap<String, u64>>,
    /// Of each task with a condition from when on it looks at which process again, in milliseconds.
    not_before: BTreeMap<String, BTreeMap<String, u64>>,
    /// What each task has cost, in microseconds of processor time.
    pub cost: BTreeMap<String, u64>,
    /// What has become of the captures of each task, of all runs.
    pub sums: BTreeMap<String, Sum>,
    /// The part of that which is in a table `agent`.
    pub told: BTreeMap<String, Sum>,
    /// How often each answer in the spool was tried to be made tables of.
    tried: BTreeMap<u64, Tried>,
    /// The names that this machine had, of which there are tables.
    pub hosts: BTreeSet<String>,
    /// The time of day less the time since the start of the machine, in nanoseconds.
    clock: i64,
    /// Since when that is the same, in milliseconds.
    steady: u64,
    /// The time that it has run since it told, and the processor time of its budget in that, in microseconds.
    pub passed: [u64; 2],
    /// The processor time of all runs, in microseconds, and as far as it was told.
    pub used: [u64; 2],
}

/// What was told at some time.
pub struct Told {
    told: BTreeMap<String, Sum>,
    sums: BTreeMap<String, Sum>,
    passed: [u64; 2],
    used: u64,
}

/// An answer whose tables could not be written.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Tried {
    /// How often.
    times: u32,
    /// When it is tried again, in milliseconds.
    next: u64,
}

/// How often that is tried, and how much later it is the first time; then four times as long, and so on.
const TRIES: u32 = 4;
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// A clock that goes otherwise than time by so much was set.
const JUMP: Duration = Duration::from_secs(60);

/// What has become of captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Sum {
    /// How many have given an answer.
    pub done: u64,
    /// How many have failed.
    pub failed: u64,
    /// How many were not begun, or were ended before they were done, because they would use more processor time than they may.
    pub shed_for_cpu: u64,
    /// The same, because they would have more memory than they may.
    pub shed_for_memory: u64,
    /// The same, because there was no room for their answers on the disk.
    pub shed_for_disk: u64,
    /// Processor time, in microseconds.
    pub cpu: u64,
    /// The most memory of one since it was told, in bytes.
    pub memory: u64,
}

impl Sum {
    /// What is more than was told.
    pub fn since(&self, told: &Sum) -> Sum {
        Sum {
            done: self.done.saturating_sub(told.done),
            failed: self.failed.saturating_sub(told.failed),
            shed_for_cpu: self.shed_for_cpu.saturating_sub(told.shed_for_cpu),
            shed_for_memory: self.shed_for_memory.saturating_sub(told.shed_for_memory),
            shed_for_disk: self.shed_for_disk.saturating_sub(told.shed_for_disk),
            cpu: self.cpu.saturating_sub(told.cpu),
            memory: self.memory,
        }
    }

    /// How many were shed for this.
    pub fn shed(&mut self, why: Why) -> &mut u64 {
        match why {
            Why::Cpu => &mut self.shed_for_cpu,
            Why::Memory => &mut self.shed_for_memory,
            Why::Disk => &mut self.shed_for_disk,
        }
    }

    /// Whether nothing has become of any.
    pub fn is_nothing(&self) -> bool {
        let Sum {
            done,
            failed,
            shed_for_cpu,
            shed_for_memory,
            shed_for_disk,
            cpu,
            memory: _,
        } = *self;
        done + failed + shed_for_cpu + shed_for_memory + shed_for_disk + cpu == 0
    }
}

/// The time since the machine's start.
pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

impl State {
    /// Reads what an earlier run has written. What is no such file is said, and nothing is known then.
    pub fn read(path: &Path) -> Self {
        let mut state = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                tell!("{} is damaged, and begun anew: {error}", path.display());
                State::default()
            }),
            Err(_) => State::default(),
        };
        let boot_id = boot_id();
        if state.boot_id != boot_id {
            state.boot_id = boot_id;
            state.due.clear();
            state.last.clear();
            state.not_before.clear();
            state.clock = 0;
            (state.tried.values_mut()).for_each(|tried| tried.next = 0);
        }
        state
    }

    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written: there is no room.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut whole = WholeFile::begin(path)?;
        whole.file.write_all(&serde_json::to_vec(self)?)?;
        Ok(whole.finish()?)
    }

    /// When a task is to be done next; a new one at once.
    pub fn due(&self, task: &str) -> Duration {
        Duration::from_millis(self.due.get(task).copied().unwrap_or(0))
    }

    /// Has it be done then.
    pub fn put_off(&mut self, task: &str, until: Duration) {
        self.due.insert(task.to_owned(), milliseconds(until));
    }

    /// When a task had this process last; `None`: never, as far as is known.
    pub fn last(&self, task: &str, process: &Process) -> Option<Duration> {
        let at = self.last.get(task)?.get(&process.key())?;
        Some(Duration::from_millis(*at))
    }

    /// Notes that a task has this process now.
    pub fn took(&mut self, task: &str, process: &Process, now: Duration) {
        let last = self.last.entry(task.to_owned()).or_default();
        last.insert(process.key(), milliseconds(now));
    }

    /// From when on a task with a condition looks at this process.
    pub fn not_before(&self, task: &str, process: &Process) -> Duration {
        let of = self.not_before.get(task);
        let at = of.and_then(|of| of.get(&process.key())).copied();
        Duration::from_millis(at.unwrap_or(0))
    }

    /// Has it be so.
    pub fn put_off_process(&mut self, task: &str, process: &Process, until: Duration) {
        let of = self.not_before.entry(task.to_owned()).or_default();
        of.insert(process.key(), milliseconds(until));
    }

    /// Forgets processes that have ended, and tasks that are not in the configuration any more. `chosen` are processes that live.
    pub fn forget(&mut self, chosen: &[Process], tasks: &[&str]) {
        let chosen: BTreeSet<String> = chosen.iter().map(Process::key).collect();
        // One that is not chosen at this moment may be at the next: its turn is remembered.
        let is_there = |key: &String| {
            chosen.contains(key) || Process::of_key(key).is_some_and(|one| one.is_there())
        };
        self.due.retain(|task, _| tasks.contains(&task.as_str()));
        for of in [&mut self.last, &mut self.not_before] {
            of.retain(|task, _| tasks.contains(&task.as_str()));
            for processes in of.values_mut() {
                processes.retain(|process, _| is_there(process));
            }
        }
    }

    /// What was told until now.
    pub fn told_so_far(&self) -> Told {
        Told {
            told: self.told.clone(),
            sums: self.sums.clone(),
            passed: self.passed,
            used: self.used[1],
        }
    }

    /// What was told since was not.
    pub fn untell(&mut self, told: Told) {
        (self.told, self.sums) = (told.told, told.sums);
        self.passed = told.passed;
        self.used[1] = told.used;
    }

    /// Notes that all that is known is told.
    pub fn note_told(&mut self) {
        for sum in self.sums.values_mut() {
            sum.memory = 0;
        }
        self.told = self.sums.clone();
        self.used[1] = self.used[0];
        self.passed = [0; 2];
    }

    /// Whether an answer may be made tables of by now.
    pub fn may_try(&self, answer: u64, now: Duration) -> bool {
        let tried = self.tried.get(&answer);
        tried.is_none_or(|tried| milliseconds(now) >= tried.next)
    }

    /// Notes that it could not. Returns how often that was so; `None`: it was often enough.
    pub fn try_again(&mut self, answer: u64, now: Duration) -> Option<u32> {
        let tried = self.tried.entry(answer).or_default();
        tried.next = milliseconds(now + TRY_AGAIN * 4u32.pow(tried.times.min(TRIES)));
        tried.times += 1;
        (tried.times < TRIES).then_some(tried.times)
    }

    /// Forgets how often answers were tried that are not there any more.
    pub fn forget_tried(&mut self, there: impl Fn(u64) -> bool) {
        self.tried.retain(|answer, _| there(*answer));
    }

    /// Looks at the clock, which is the time of day less `now`. Returns by how many seconds it was set since the last time, if it was.
    pub fn heed_clock(&mut self, now: Duration, clock: i64) -> Option<u64> {
        let jump = Duration::from_nanos(clock.abs_diff(self.clock));
        let is_known = self.clock != 0;
        self.clock = clock;
        if jump <= JUMP {
            return None;
        }
        self.steady = milliseconds(now);
        is_known.then_some(jump.as_secs())
    }

    /// How long the clock was not set, as far as is known.
    pub fn steady(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.steady))
    }

    /// What has become of the captures of a task.
    pub fn sum(&mut self, task: &str) -> &mut Sum {
        self.sums.entry(task.to_owned()).or_default()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_in_the_same_boot() {
        let path = std::env::temp_dir().join(format!("lancet-state-{}", std::process::id()));
        // There is none of that start.
        let process = Process {
            pid: 1,
            start: u64::MAX,
        };
        let mut state = State::read(&path);
        state.put_off("a/profile", Duration::from_secs(3));
        state.took("a/profile", &process, Duration::from_secs(2));
        state.sum("a/profile").done = 4;
        state.write(&path).expect("room");
        let mut again = State::read(&path);
        assert_eq!(again.due("a/profile"), Duration::from_secs(3));
        assert_eq!(
            again.last("a/profile", &process),
            Some(Duration::from_secs(2))
        );
        assert_eq!(again.sum("a/profile").done, 4);
        let own = Process::of(std::process::id() as i32).expect("it lives");
        again.took("a/profile", &own, Duration::from_secs(5));
        again.forget(&[], &["a/profile"]);
        assert_eq!(again.last("a/profile", &process), None);
        let seconds = again.last("a/profile", &own).map(|at| at.as_secs());
        assert_eq!(seconds, Some(5), "it lives");
        again.boot_id = "another".into();
        again.write(&path).expect("room");
        let other = State::read(&path);
        assert_eq!(other.due("a/profile"), Duration::ZERO);
        assert_eq!(other.sums["a/profile"].done, 4);
        fs::write(&path, "{").expect("room");
        assert_eq!(State::read(&path).next, 0);
        fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn what_is_told_is_of_the_time_since_the_last_time() {
        let mut state = State::default();
        state.used[0] = 5;
        state.passed = [8, 4];
        let sum = state.sum("a/mem");
        (sum.done, sum.memory) = (2, 100);
        let before = state.told_so_far();
        state.note_told();
        let since = |state: &State| state.sums["a/mem"].since(&state.told["a/mem"]);
        assert!(since(&state).is_nothing() && since(&state).memory == 0);
        assert_eq!((state.passed, state.used), ([0, 0], [5, 5]));
        state.untell(before);
        assert_eq!(state.sums["a/mem"].memory, 100);
        assert_eq!((state.passed, state.used), ([8, 4], [5, 0]));
    }

    #[test]
    fn an_export_is_tried_again_for_a_while() {
        let mut state = State::default();
        let mut now = Duration::ZERO;
        for (times, wait) in [(1, 60), (2, 240), (3, 960)] {
            assert!(state.may_try(7, now));
            assert_eq!(state.try_again(7, now), Some(times));
            let later = now + Duration::from_secs(wait);
            assert!(!state.may_try(7, later - Duration::from_secs(1)));
            now = later;
        }
        assert_eq!(state.try_again(7, now), None);
        state.forget_tried(|answer| answer != 7);
        assert!(state.may_try(7, now));
    }

    #[test]
    fn a_clock_that_was_set_is_not_steady() {
        let mut state = State::default();
        let at = Duration::from_secs;
        let clock = |seconds: i64| (1_700_000_000 + seconds) * 1_000_000_000;
        // What it was before is not known.
        assert_eq!(state.heed_clock(at(100), clock(0)), None);
        assert_eq!(state.steady(at(4000)), at(3900));
        assert_eq!(state.heed_clock(at(4000), clock(59)), None);
        assert_eq!(state.steady(at(4000)), at(3900));
        assert_eq!(state.heed_clock(at(5000), clock(-41)), Some(100));
        assert_eq!(state.steady(at(5001)), at(1));
    }
}
