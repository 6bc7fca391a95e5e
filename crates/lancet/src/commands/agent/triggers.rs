//! Looks whether processes have as much memory as a task waits for. Used by `run`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use process::rss::resident_now;

use super::choose::Process;
use super::state::State;
use super::tasks::Task;
use crate::commands::heap::when::Watch;

/// What was seen of each process that a task waits for.
#[derive(Debug, Default)]
pub struct Triggers {
    seen: HashMap<(String, Process), Watch>,
}

impl Triggers {
    /// Looks, and returns which tasks are met by which processes, but for those that had their turn.
    pub fn look(
        &mut self,
        tasks: &[Task],
        processes: &[Vec<Process>],
        state: &State,
        now: Duration,
    ) -> Vec<(usize, Process)> {
        let mut met = Vec::new();
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
                let had = state.last(&task.key, process);
                if is_met && had.is_none_or(|had| now >= had + task.every) {
                    met.push((at, *process));
                }
            }
        }
        met
    }

    /// Forgets all: other things are waited for.
    pub fn clear(&mut self) {
        self.seen.clear();
    }
}
