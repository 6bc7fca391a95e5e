//! What is to be done again and again: a command of lancet's, with its words. Used by `turn`, `run`, `check` and `told`.

use std::time::Duration;

use super::config::{Config, Watch};
use crate::commands::heap::when::When;

/// Rows of an answer, at most: what a table of many hosts is asked for stands first.
const ROWS: &str = "--top=1000";

/// One command of one choice.
#[derive(Debug)]
pub struct Task {
    /// Its name among all: `shop/profile`.
    pub key: String,
    /// Whose processes it is about, as the place in the configuration; `None`: it is about the machine.
    pub watch: Option<usize>,
    /// The command of lancet that makes a capture: `profile`, `heap`.
    pub command: &'static str,
    /// Its words, but for the process.
    pub words: Vec<String>,
    /// How often; with `when` of one process at most so often.
    pub every: Duration,
    /// For how long it watches.
    pub lasts: Duration,
    /// What is waited for.
    pub when: Option<When>,
    /// The memory that it may have.
    pub memory: u64,
}

/// All tasks of a configuration.
pub fn of(config: &Config) -> Vec<Task> {
    let mut all = Vec::new();
    for (at, watch) in config.watch.iter().enumerate() {
        of_watch(config, at, watch, &mut all);
    }
    if let Some(tune) = &config.tune {
        all.push(Task {
            key: "tune".to_owned(),
            watch: None,
            words: words(&["tune", "--json"]),
            ..new(config, "tune", tune.every)
        });
    }
    all
}

fn of_watch(config: &Config, at: usize, watch: &Watch, all: &mut Vec<Task>) {
    let task = |command, every| Task {
        key: format!("{}/{command}", watch.service()),
        watch: Some(at),
        ..new(config, command, every)
    };
    if let Some(profile) = &watch.profile {
        let mut words = words(&["profile", "--json", ROWS]);
        words.push(format!("--every={}us", profile.look_every.as_micros()));
        all.push(watching(
            task("profile", profile.every),
            words,
            profile.lasts,
        ));
    }
    if let Some(mem) = &watch.mem {
        let words = words(&["mem", "--json", ROWS]);
        all.push(watching(task("mem", mem.every), words, mem.lasts));
    }
    if let Some(calls) = &watch.calls {
        let mut words = words(&["calls", "-c", "--json"]);
        words.extend(calls.presets.iter().map(|name| format!("--preset={name}")));
        all.push(watching(task("calls", calls.every), words, calls.lasts));
    }
    if let Some(heap) = &watch.heap {
        let mut words = words(&["heap", "--json", "--top=100"]);
        // What it is expected to take is refused before the process is touched; what it takes is looked at meanwhile.
        words.push(format!("--max-memory={}K", heap.memory >> 10));
        all.push(Task {
            words,
            when: Some(heap.when),
            memory: heap.memory,
            ..task("heap", heap.every)
        });
    }
}

fn new(config: &Config, command: &'static str, every: Duration) -> Task {
    Task {
        key: String::new(),
        watch: None,
        command,
        words: Vec::new(),
        every,
        lasts: Duration::ZERO,
        when: None,
        memory: config.memory,
    }
}

/// A task that watches for so long.
fn watching(task: Task, mut words: Vec<String>, lasts: Duration) -> Task {
    words.push(format!("--for={}ms", lasts.as_millis()));
    Task {
        words,
        lasts,
        ..task
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn tasks_are_command_lines() {
        let text = "folder = '/f'\n[[watch]]\nname = 'shop'\nchoose = { port = 80 }\n[watch.profile]\n[watch.mem]\n\
            [watch.calls]\npresets = ['sql', 'locks']\n[watch.heap]\nwhen = 'rss>2G'\n[tune]\n";
        let config: Config = crate::cli::written::parsed(text).expect("a configuration");
        let tasks = of(&config);
        let keys: Vec<&str> = tasks.iter().map(|task| task.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "shop/profile",
                "shop/mem",
                "shop/calls",
                "shop/heap",
                "tune"
            ]
        );
        for task in &tasks {
            let pid = task.watch.map(|_| "--pid=1".to_owned());
            let words = task.words.iter().cloned().chain(pid);
            let line: Vec<String> = std::iter::once("lancet".to_owned()).chain(words).collect();
            let parsed = crate::cli::Cli::try_parse_from(&line);
            assert!(parsed.is_ok(), "{line:?}: {parsed:?}");
            assert_eq!(task.when.is_some(), task.command == "heap");
        }
    }
}
