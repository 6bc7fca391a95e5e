//! What the agent tells of itself: the answer that becomes table `agent`, and its health as Prometheus reads it. Used by `run`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use report::agent::{Captures, Used, captures, used};
use report::forms::FORMS;

use super::config::Config;
use super::health::Text;
use super::state::{State, Sum};
use super::tasks::Task;
use crate::losses::Losses;

/// Nanoseconds since 1970.
pub fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// What is known beside the state.
pub struct Now<'a> {
    /// What it is to do.
    pub config: &'a Config,
    /// The tasks of that.
    pub tasks: &'a [Task],
    /// How many processes each choice has.
    pub processes: Vec<usize>,
    /// Its own resident memory.
    pub memory: u64,
    /// There is no room for answers.
    pub is_full: bool,
    /// The bytes of this host's tables.
    pub stored: u64,
}

/// The service and the command in the name of a task.
fn parts(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((service, command)) => (Some(service), command),
        None => (None, key),
    }
}

/// Writes what has become of captures since it was told last, and notes that it is told now.
///
/// # Errors
/// Memory cannot be written to.
pub fn report(state: &mut State, now: &Now) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let [passed, budget] = state.passed.map(|micros| micros.saturating_mul(1000));
    let [sum, told] = state.used;
    used(
        &mut out,
        Used {
            began_at_ns: wall().saturating_sub(passed),
            took_ns: passed,
            cpu_ns: sum.saturating_sub(told).saturating_mul(1000),
            budget_ns: budget,
            memory: now.memory,
            memory_budget: now.config.memory,
            stored: now.stored,
        },
    )?;
    let more = |(key, sum): (&String, &Sum)| {
        let told = state.told.get(key).copied().unwrap_or_default();
        (key.clone(), sum.since(&told))
    };
    let mut rows: BTreeMap<String, Sum> = state.sums.iter().map(more).collect();
    // Each task has a row, so that what was used is told where nothing else is; what is not in the configuration any more has its last one.
    rows.retain(|_, sum| !sum.is_nothing());
    for task in now.tasks {
        rows.entry(task.key.clone()).or_default();
    }
    state.sums.retain(|key, _| rows.contains_key(key));
    for (key, sum) in &rows {
        let (service, command) = parts(key);
        captures(
            &mut out,
            Captures {
                watch: service,
                command,
                done: sum.done,
                failed: sum.failed,
                shed_for_cpu: sum.shed_for_cpu,
                shed_for_memory: sum.shed_for_memory,
                shed_for_disk: sum.shed_for_disk,
                cpu_ns: sum.cpu.saturating_mul(1000),
                memory: sum.memory,
            },
        )?;
    }
    let json = FORMS.iter().find(|form| form.is_json());
    Losses::default().end_records(&mut out, json.expect("it is one of them"))?;
    state.note_told();
    Ok(out)
}

/// Its health.
pub fn health(state: &State, now: &Now) -> String {
    let mut text = Text::default();
    let mut one = |name: &str, kind: &str, about: &str, value: f64| {
        text.figure(name, kind, about);
        text.value(name, "", value);
    };
    let used = Duration::from_micros(state.used[0]).as_secs_f64();
    one(
        "cpu_seconds_total",
        "counter",
        "Processor time that it and its captures have used",
        used,
    );
    one(
        "cpu_budget_ratio",
        "gauge",
        "The share of one processor that they may use",
        now.config.cpu,
    );
    one(
        "memory_bytes",
        "gauge",
        "Its own resident memory",
        now.memory as f64,
    );
    one(
        "stored_bytes",
        "gauge",
        "Tables of this host in its folder",
        now.stored as f64,
    );
    let full = f64::from(u8::from(now.is_full));
    one(
        "disk_full",
        "gauge",
        "1: there is no room for answers, and captures are shed",
        full,
    );
    of_tasks(&mut text, state, now);
    text.into_text()
}

/// What is chosen, and what has become of captures.
fn of_tasks(text: &mut Text, state: &State, now: &Now) {
    text.figure("processes", "gauge", "Processes that are chosen");
    for (watch, count) in now.config.watch.iter().zip(&now.processes) {
        text.value(
            "processes",
            &format!("watch=\"{}\"", watch.service()),
            count,
        );
    }
    text.figure(
        "captures_total",
        "counter",
        "Captures, by what has become of them",
    );
    for task in now.tasks {
        let sum = state.sums.get(&task.key).copied().unwrap_or_default();
        let (service, command) = parts(&task.key);
        for (result, count) in [
            ("done", sum.done),
            ("failed", sum.failed),
            ("shed_for_cpu", sum.shed_for_cpu),
            ("shed_for_memory", sum.shed_for_memory),
            ("shed_for_disk", sum.shed_for_disk),
        ] {
            let watch = service.unwrap_or_default();
            let labels = format!("watch=\"{watch}\",command=\"{command}\",result=\"{result}\"");
            text.value("captures_total", &labels, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tasks;
    use super::*;

    #[test]
    fn each_task_has_a_row_and_what_was_told_is_not_told_again() {
        let text = "folder = '/f'\n[[watch]]\nname = 'a'\nchoose = { port = 80 }\n[watch.profile]\n[tune]\n";
        let config: Config = crate::cli::written::parsed(text).expect("a configuration");
        let tasks = tasks::of(&config);
        let now = Now {
            config: &config,
            tasks: &tasks,
            processes: vec![0],
            memory: 1,
            is_full: false,
            stored: 2,
        };
        let mut state = State::default();
        let mut told = || {
            let text = report(&mut state, &now).expect("memory");
            let records = text
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty());
            let records = records.map(|line| serde_json::from_slice(line).expect("JSON"));
            let records: Vec<serde_json::Value> = records.collect();
            (state.passed, state.used, state.sum("gone/mem").done) = ([7, 3], [5, 5], 1);
            records
        };
        let kinds = |records: &[serde_json::Value]| -> Vec<String> {
            let commands = records.iter().map(|record| record["command"].as_str());
            commands.flatten().map(str::to_owned).collect()
        };
        // Nothing has come to pass.
        assert_eq!(kinds(&told()), ["profile", "tune"]);
        let second = told();
        assert_eq!(kinds(&second), ["profile", "mem", "tune"]);
        assert_eq!(second[0]["took_ns"], 7000);
        assert_eq!(second[0]["budget_ns"], 3000);
        assert_eq!(second[0]["cpu_ns"], 0);
        // What is not in the configuration any more was told.
        assert_eq!(kinds(&told()), ["profile", "tune"]);
    }
}
