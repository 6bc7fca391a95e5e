//! What the agent remembers from one run to the next, so that a restart tells nothing twice, and owes what it has used. Used by `run`,
//! `turn`, `work` and others.
//!
//! Times are of CLOCK_BOOTTIME, which nobody sets and which goes on while the machine sleeps. With another boot they mean nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::choose::Process;
use crate::ui::file::WholeFile;

/// All of it.
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
    /// What each task has cost, in microseconds of processor time.
    pub cost: BTreeMap<String, u64>,
    /// What has become of the captures of each task, of all runs.
    pub sums: BTreeMap<String, Sum>,
    /// The same as far as it was told.
    pub told: BTreeMap<String, Sum>,
    /// When it was told, in nanoseconds since 1970.
    pub told_at: u64,
    /// The processor time of all runs, in microseconds, and as far as it was told.
    pub used: [u64; 2],
}

/// What was told at some time.
pub struct Told {
    sums: BTreeMap<String, Sum>,
    at: u64,
    used: u64,
}

/// What has become of captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Sum {
    /// An answer came.
    pub done: u64,
    /// None did.
    pub failed: u64,
    /// Not begun, or ended before they were done, for want of: processor time.
    pub shed_for_cpu: u64,
    /// Memory.
    pub shed_for_memory: u64,
    /// Room on the disk.
    pub shed_for_disk: u64,
    /// Processor time, in microseconds.
    pub cpu: u64,
    /// The most memory of one, in bytes.
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
}

impl Sum {
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

    /// It has it now.
    pub fn took(&mut self, task: &str, process: &Process, now: Duration) {
        let last = self.last.entry(task.to_owned()).or_default();
        last.insert(process.key(), milliseconds(now));
    }

    /// Forgets processes that are not there any more, and tasks that are no more asked for.
    pub fn forget(&mut self, living: &[Process], tasks: &[&str]) {
        let keys: Vec<String> = living.iter().map(Process::key).collect();
        self.due.retain(|task, _| tasks.contains(&task.as_str()));
        self.last.retain(|task, _| tasks.contains(&task.as_str()));
        for processes in self.last.values_mut() {
            processes.retain(|process, _| keys.contains(process));
        }
    }

    /// What was told until now.
    pub fn told_so_far(&self) -> Told {
        Told {
            sums: self.told.clone(),
            at: self.told_at,
            used: self.used[1],
        }
    }

    /// What was told since was not.
    pub fn untell(&mut self, told: Told) {
        self.told = told.sums;
        self.told_at = told.at;
        self.used[1] = told.used;
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
        let process = Process { pid: 7, start: 9 };
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
        again.forget(&[], &["a/profile"]);
        assert_eq!(again.last("a/profile", &process), None);
        again.boot_id = "another".into();
        again.write(&path).expect("room");
        let other = State::read(&path);
        assert_eq!(other.due("a/profile"), Duration::ZERO);
        assert_eq!(other.sums["a/profile"].done, 4);
        fs::write(&path, "{").expect("room");
        assert_eq!(State::read(&path).next, 0);
        fs::remove_file(&path).expect("it is there");
    }
}
