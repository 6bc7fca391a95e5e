//! Looks whether processes have as much memory as a task waits for. Used by `run`.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use process::rss::resident_now;

use super::choose::Process;
use super::state::State;
use super::tasks::Task;
use crate::commands::heap::when::Watch;

/// Where a condition is not met any more, its process is still looked at for so long: what was under way may have held it up.
const WAITS: Duration = Duration::from_secs(120);

/// What was seen of processes that tasks wait for.
#[derive(Debug, Default)]
pub struct Triggers {
    seen: HashMap<(String, Process), Watch>,
    /// Tasks, by their places, and processes that have met their condition and had no turn yet, and when it was met last.
    met: BTreeMap<(usize, Process), Duration>,
}

impl Triggers {
    /// Looks at all of them. Returns the tasks of which a process has met the condition and is given up, each with it.
    pub fn look(
        &mut self,
        tasks: &[Task],
        processes: &[Vec<Process>],
        state: &State,
        now: Duration,
    ) -> Vec<(usize, Process)> {
        let mut before = std::mem::take(&mut self.seen);
        for (at, task) in tasks.iter().enumerate() {
            let (Some(when), Some(watch)) = (task.when, task.watch) else {
                continue;
            };
            for process in processes.get(watch).into_iter().flatten() {
                let Some(bytes) = resident_now(process.pid) else {
                    continue;
                };
                let key = (task.key.clone(), *process);
                let mut watch = before.remove(&key).unwrap_or_else(|| Watch::new(when));
                let is_met = watch.is_met(Instant::now(), bytes);
                self.seen.insert(key, watch);
                if is_met && now >= state.not_before(&task.key, process) {
                    self.met.insert((at, *process), now);
                }
            }
        }
        let is_over = |met: &Duration| now.saturating_sub(*met) > WAITS;
        let over = self.met.iter().filter(|(_, met)| is_over(met));
        let over: Vec<(usize, Process)> = over.map(|(of, _)| *of).collect();
        self.met.retain(|_, met| !is_over(met));
        over
    }

    /// Those that have met a condition and had no turn yet.
    pub fn met(&self) -> Vec<(usize, Process)> {
        self.met.keys().copied().collect()
    }

    /// Takes one out; whether it was there.
    pub fn take(&mut self, task: usize, process: &Process) -> bool {
        self.met.remove(&(task, *process)).is_some()
    }

    /// Forgets all: other things are waited for.
    pub fn clear(&mut self) {
        *self = Triggers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::super::tasks;
    use super::*;

    #[test]
    fn a_condition_that_is_met_waits_for_its_turn_and_not_for_ever() {
        let text = "folder = '/f'\n[[watch]]\nname = 'a'\nchoose = { port = 80 }\n[watch.heap]\nwhen = 'rss>1K'\n";
        let config: Config = crate::cli::written::parsed(text).expect("a configuration");
        let tasks = tasks::of(&config);
        let own = Process::of(std::process::id() as i32).expect("it lives");
        let (both, none) = ([vec![own]], [vec![]]);
        let at = Duration::from_secs;
        let (mut triggers, mut state) = (Triggers::default(), State::default());
        assert_eq!(triggers.look(&tasks, &both, &state, at(1)), []);
        // It is not chosen for a moment.
        assert_eq!(triggers.look(&tasks, &none, &state, at(121)), []);
        assert_eq!(triggers.met(), [(0, own)]);
        assert_eq!(triggers.look(&tasks, &none, &state, at(122)), [(0, own)]);
        assert_eq!(triggers.met(), []);
        // It has had its turn, and has the next later.
        triggers.look(&tasks, &both, &state, at(130));
        assert!(triggers.take(0, &own) && !triggers.take(0, &own));
        state.put_off_process("a/heap", &own, at(200));
        triggers.look(&tasks, &both, &state, at(199));
        assert_eq!(triggers.met(), []);
        triggers.look(&tasks, &both, &state, at(200));
        assert_eq!(triggers.met(), [(0, own)]);
    }
}
