//! Whose turn it is: the task that is due longest, and of its processes the one that was looked at longest ago, as soon as there is
//! processor time for it. Used by `run` and `work`.

use std::time::Duration;

use super::budget::Budget;
use super::choose::Process;
use super::state::State;
use super::tasks::Task;

/// What a task is taken to cost before it was done once, in microseconds.
const GUESS: u64 = 300_000;

/// What is to be begun.
#[derive(Debug, PartialEq, Eq)]
pub struct Next {
    /// The place of the task.
    pub task: usize,
    /// The process that it is about.
    pub process: Option<Process>,
}

/// Why captures are shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Room on the disk.
    Disk,
}

/// What is looked at to see whose turn it is.
pub struct Turn<'a> {
    pub tasks: &'a [Task],
    pub processes: &'a [Vec<Process>],
    pub budget: &'a Budget,
    /// There is no room for answers.
    pub is_full: bool,
    pub now: Duration,
}

impl Turn<'_> {
    /// Whose turn it is. `met` are those whose condition is met, who come first. What has waited for its whole interval is shed: it is counted,
    /// and returned with the reason.
    pub fn next(
        &self,
        state: &mut State,
        met: &[(usize, Process)],
    ) -> (Option<Next>, Vec<(usize, Why)>) {
        let mut due: Vec<(Duration, Next)> = Vec::new();
        for (task, process) in met {
            let next = Next {
                task: *task,
                process: Some(*process),
            };
            due.push((Duration::ZERO, next));
        }
        let mut shed = Vec::new();
        for (at, task) in self.tasks.iter().enumerate() {
            let since = state.due(&task.key);
            if task.when.is_some() || since > self.now {
                continue;
            }
            let process = task.watch.map(|watch| self.process(task, watch, state));
            if since.is_zero() || process == Some(None) {
                // It is new, or nobody is there: it does not wait.
                state.put_off(&task.key, self.now);
            } else if let Some(why) = self.shed(task, since, state) {
                shed.push((at, why));
            }
            if process != Some(None) {
                let process = process.flatten();
                due.push((state.due(&task.key), Next { task: at, process }));
            }
        }
        due.sort_by_key(|(since, next)| (*since, next.task));
        let next = due.into_iter().next().map(|(_, next)| next);
        let next = next.filter(|next| {
            let task = &self.tasks[next.task];
            let cost = match task.when {
                // It cannot be looked at later: what it costs is owed.
                Some(_) => 0,
                None => state.cost.get(&task.key).copied().unwrap_or(GUESS),
            };
            !self.is_full && self.budget.affords(cost)
        });
        (next, shed)
    }

    /// Which process of a choice is looked at next: the one that has waited longest since it was looked at, or began. So those that come and go
    /// quickly do not keep the others from it.
    pub fn process(&self, task: &Task, watch: usize, state: &State) -> Option<Process> {
        let all = self.processes.get(watch)?.iter();
        let since = |process: &&Process| state.last(&task.key, process).unwrap_or(process.began());
        all.min_by_key(since).copied()
    }

    /// Counts the whole intervals that a task has waited.
    fn shed(&self, task: &Task, since: Duration, state: &mut State) -> Option<Why> {
        let waited = self.now.saturating_sub(since).as_millis();
        let times = u32::try_from(waited / task.every.as_millis().max(1)).unwrap_or(u32::MAX);
        if times == 0 {
            return None;
        }
        state.put_off(&task.key, since + task.every * times);
        let why = if self.is_full { Why::Disk } else { Why::Cpu };
        *state.sum(&task.key).shed(why) += u64::from(times);
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::super::tasks;
    use super::*;

    const TEXT: &str = "folder = '/f'\n[[watch]]\nname = 'a'\nchoose = { port = 80 }\n[watch.profile]\nevery = '10s'\n\
        [watch.heap]\nwhen = 'rss>2G'\n[tune]\nevery = '100s'\n";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn who_has_waited_longest_is_next_and_what_waits_too_long_is_shed() {
        let config: Config = crate::cli::written::parsed(TEXT).expect("a configuration");
        let tasks = tasks::of(&config);
        let [one, two] = [7, 8].map(|pid| Process { pid, start: 1 });
        let (profile, heap, tune) = (0, 1, 2);
        let rich = Budget::new(1.0, None, Duration::ZERO);
        let poor = Budget::new(0.005, Some(0), Duration::ZERO);
        let owes = Budget::new(0.005, Some(-1), Duration::ZERO);
        let mut state = State::default();
        let turn = |now, budget, processes, is_full| Turn {
            tasks: &tasks,
            processes,
            budget,
            is_full,
            now: seconds(now),
        };
        let next = |task, process| Some(Next { task, process });
        let (none, both) = ([vec![]], [vec![one, two]]);
        // Nobody is there: it waits without being shed.
        assert_eq!(
            turn(100, &rich, &none, false).next(&mut state, &[]),
            (next(tune, None), vec![])
        );
        state.put_off("tune", seconds(200));
        assert_eq!(
            turn(150, &rich, &none, false).next(&mut state, &[]),
            (None, vec![])
        );
        // Each has its turn.
        state.took("a/profile", &one, seconds(1));
        let found = turn(151, &rich, &both, false).next(&mut state, &[]);
        assert_eq!(found, (next(profile, Some(two)), vec![]));
        state.took("a/profile", &two, seconds(151));
        state.put_off("a/profile", seconds(161));
        assert_eq!(
            turn(160, &rich, &both, false).next(&mut state, &[]),
            (None, vec![])
        );
        let found = turn(161, &rich, &both, false).next(&mut state, &[]);
        assert_eq!(found, (next(profile, Some(one)), vec![]));
        // One that has come since waits shorter.
        let with_new = [vec![one, Process { pid: 9, start: 500 }]];
        let found = turn(161, &rich, &with_new, false).next(&mut state, &[]);
        assert_eq!(found, (next(profile, Some(one)), vec![]));
        // A condition that is met goes before all, with what there is of processor time.
        let met = [(heap, two)];
        let found = turn(161, &poor, &both, false).next(&mut state, &met);
        assert_eq!(found, (next(heap, Some(two)), vec![]));
        // Without processor time it waits, and is shed after its interval, each of them.
        assert_eq!(
            turn(170, &owes, &both, false).next(&mut state, &met),
            (None, vec![])
        );
        let found = turn(182, &poor, &both, false).next(&mut state, &[]);
        assert_eq!(found, (None, vec![(profile, Why::Cpu)]));
        assert_eq!(state.sum("a/profile").shed_for_cpu, 2);
        assert_eq!(state.due("a/profile"), seconds(181));
        let found = turn(191, &rich, &both, true).next(&mut state, &[]);
        assert_eq!(found, (None, vec![(profile, Why::Disk)]));
        assert_eq!(state.sum("a/profile").shed_for_disk, 1);
        // What is known of its cost counts.
        state.cost.insert("a/profile".into(), 0);
        let found = turn(192, &poor, &both, false).next(&mut state, &[]);
        assert_eq!(found, (next(profile, Some(one)), vec![]));
    }
}
