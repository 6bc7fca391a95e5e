//! `--check`: what the configuration would have the agent do. Used by `run`.

use process::guest::command_line;
use report::figures::{grouped, plural, size};
use report::text::printable;

use super::choose;
use super::config::Config;
use super::tasks::{self, Task};

/// Processes of one choice that are named.
const MOST: usize = 5;

/// Says it, as lines.
pub fn told(config: &Config) -> String {
    let found = choose::processes(config.watch.iter().map(|watch| &watch.choose));
    let tasks = tasks::of(config);
    let mut text = format!(
        "tables in {}, at most {}, for {}; at most {} % of a processor and {} of memory\n",
        config.folder.display(),
        size(config.keep_size),
        span(config.keep_for),
        (config.cpu * 1e6).round() / 1e4,
        size(config.memory)
    );
    for (at, (watch, processes)) in config.watch.iter().zip(&found).enumerate() {
        let count = processes.len() as u64;
        text += &format!(
            "{}: {} {} now\n",
            watch.service(),
            grouped(count),
            plural(count, "process", "processes")
        );
        for process in processes.iter().take(MOST) {
            let command = command_line(process.pid).join(" ");
            let command: String = printable(&command).chars().take(100).collect();
            text += &format!("    {} {command}\n", process.pid);
        }
        if processes.len() > MOST {
            text += &format!("    … and {} more\n", processes.len() - MOST);
        }
        for task in tasks.iter().filter(|task| task.watch == Some(at)) {
            text += &line(task);
        }
    }
    for task in tasks.iter().filter(|task| task.watch.is_none()) {
        text += &line(task);
    }
    text
}

/// A task, as a person would type it.
fn line(task: &Task) -> String {
    let pid = if task.watch.is_some() {
        " --pid=PID"
    } else {
        ""
    };
    let when = match task.when {
        Some(when) => format!(
            "when one {when}, of each at most every {}",
            span(task.every)
        ),
        None => format!("every {}", span(task.every)),
    };
    format!("  {when}: lancet {}{pid}\n", task.words.join(" "))
}

/// A length of time in its largest whole unit.
fn span(length: std::time::Duration) -> String {
    match length.as_secs() {
        _ if length.subsec_millis() > 0 => format!("{}ms", length.as_millis()),
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}
