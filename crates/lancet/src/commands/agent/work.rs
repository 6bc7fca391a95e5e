//! What is under way: one capture, or one export, and what becomes of it. Used by `run`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use super::choose::Process;
use super::job::{Done, Ended, Job, Running};
use super::state::{self, State};
use super::store::{Spooled, Store};
use super::tasks::Task;
use super::turn::Why;
use crate::commands::export::NOTHING;
use crate::exit::{EXCEEDED, LOST};

/// The command whose answers the agent writes itself.
const OWN: &str = "agent";
/// The service that they are of.
const SERVICE: &str = "lancet-agent";

/// How much later a process is looked at again whose condition was met, where that has failed.
const AGAIN: Duration = Duration::from_secs(600);

/// What is under way, and what it is done with.
pub struct Work {
    pub store: Store,
    pub state: State,
    running: Option<(Running, What)>,
    is_full: bool,
    has_failed: bool,
    /// Why each task has failed last, as it was said.
    said: BTreeMap<String, String>,
    /// What was said to be shed since it was told last.
    said_shed: BTreeSet<(String, Why)>,
}

enum What {
    Capture {
        key: String,
        process: Option<Process>,
        answer: Spooled,
    },
    Export(Spooled),
}

/// What has become of a capture.
enum Outcome {
    Kept,
    Shed(Why),
    Failed(String),
}

/// The name of the task that an answer is of.
fn key(answer: &Spooled) -> String {
    match answer.service.as_str() {
        "" => answer.command.clone(),
        service => format!("{service}/{}", answer.command),
    }
}

impl Work {
    /// Nothing is under way. What an earlier run has told of itself, without noting that, is noted.
    pub fn new(store: Store, mut state: State) -> Self {
        let waiting = store.waiting();
        if waiting
            .iter()
            .any(|one| one.command == OWN && one.number >= state.next)
        {
            state.note_told();
        }
        let last = waiting.iter().map(|one| one.number + 1).max();
        state.next = state.next.max(last.unwrap_or(0));
        state.forget_tried(|answer| waiting.iter().any(|one| one.number == answer));
        Work {
            store,
            state,
            running: None,
            is_full: false,
            has_failed: false,
            said: BTreeMap::new(),
            said_shed: BTreeSet::new(),
        }
    }

    /// Whether something is.
    pub fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// Whether there is no room for answers.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether a capture has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Begins a capture, which may use so much processor time. `of` are the service and the release.
    pub fn begin(
        &mut self,
        task: &Task,
        process: Option<Process>,
        cpu: Duration,
        of: (&str, &str),
    ) {
        if !self.look_for_room() {
            return;
        }
        let answer = Spooled {
            number: self.number(),
            command: task.command.to_owned(),
            service: of.0.to_owned(),
            release: of.1.to_owned(),
        };
        let now = state::now();
        self.state.put_off(&task.key, now + task.every);
        if let Some(process) = &process {
            self.state.took(&task.key, process, now);
            if task.when.is_some() {
                self.state
                    .put_off_process(&task.key, process, now + task.every);
            }
        }
        let out = match self.store.begin(&answer) {
            Ok(out) => out,
            Err(error) => return self.fail(&task.key, process, &format!("{error:#}")),
        };
        let mut words = task.words.clone();
        words.extend(process.map(|process| format!("--pid={}", process.pid)));
        let job = Job {
            words,
            out: Some(out),
            lasts: task.lasts,
            memory: task.memory,
            cpu: Some(cpu),
            process,
        };
        let key = task.key.clone();
        let what = What::Capture {
            key,
            process,
            answer,
        };
        // A kill amid it must not have it begun again at once.
        self.save();
        self.start(job, what);
    }

    fn start(&mut self, job: Job, what: What) {
        match Running::start(job) {
            Ok(running) => self.running = Some((running, what)),
            Err(error) => self.ended(what, Err(error)),
        }
    }

    /// The number of the next answer.
    fn number(&mut self) -> u64 {
        self.state.next += 1;
        self.state.next - 1
    }

    /// Begins to make tables of the oldest answer in the spool that may be tried, with so much memory; whether there is one.
    pub fn export_next(&mut self, memory: u64) -> bool {
        if self.is_full {
            return false;
        }
        let now = state::now();
        let mut waiting = self.store.waiting().into_iter();
        let Some(answer) = waiting.find(|one| self.state.may_try(one.number, now)) else {
            return false;
        };
        let mut words = vec![
            "export".to_owned(),
            self.store.path(&answer).display().to_string(),
            format!("--output={}", self.store.folder().display()),
        ];
        for (option, value) in [("service", &answer.service), ("release", &answer.release)] {
            if !value.is_empty() {
                words.push(format!("--{option}={value}"));
            }
        }
        let job = Job {
            words,
            out: None,
            lasts: Duration::ZERO,
            memory,
            cpu: None,
            process: None,
        };
        self.start(job, What::Export(answer));
        true
    }

    /// Asks what is under way to end.
    pub fn ask_to_end(&self) {
        if let Some((running, What::Capture { .. })) = &self.running {
            running.ask_to_end();
        }
    }

    /// Takes what has ended.
    pub fn end_if_done(&mut self) {
        if self
            .running
            .as_ref()
            .is_some_and(|(running, _)| running.is_done())
        {
            self.end();
        }
    }

    /// Waits for the end of what is under way.
    pub fn end(&mut self) {
        let Some((running, what)) = self.running.take() else {
            return;
        };
        self.ended(what, running.end());
    }

    fn ended(&mut self, what: What, done: io::Result<Done>) {
        match what {
            What::Export(answer) => self.exported(&answer, done),
            What::Capture {
                key,
                process,
                answer,
            } => self.captured(&key, process, &answer, done),
        }
        self.save();
    }

    fn captured(
        &mut self,
        key: &str,
        process: Option<Process>,
        answer: &Spooled,
        done: io::Result<Done>,
    ) {
        if let Ok(done) = &done {
            let cost = u64::try_from(done.cpu.as_micros()).unwrap_or(u64::MAX);
            self.state.cost.insert(key.to_owned(), cost);
            let sum = self.state.sum(key);
            sum.cpu = sum.cpu.saturating_add(cost);
            sum.memory = sum.memory.max(done.memory);
        }
        let cut_for = match done.as_ref().map(|done| done.ended_for) {
            Ok(Some(Ended::Memory)) => Some(Why::Memory),
            Ok(Some(Ended::Cpu)) => Some(Why::Cpu),
            _ => None,
        };
        if let Some(why) = cut_for {
            self.shed(key, why);
        }
        match self.outcome(process, answer, done) {
            Outcome::Kept => return,
            Outcome::Failed(why) => {
                self.look_again(key, process);
                self.fail(key, process, &why);
            }
            Outcome::Shed(Why::Disk) => {
                self.look_again(key, process);
                self.shed(key, Why::Disk);
            }
            // It is counted.
            Outcome::Shed(why) if cut_for == Some(why) => {}
            Outcome::Shed(why) => self.shed(key, why),
        }
        self.store.drop(answer);
    }

    /// A process whose condition was met is looked at again soon, because it was not.
    fn look_again(&mut self, key: &str, process: Option<Process>) {
        let soon = state::now() + AGAIN;
        if let Some(process) = process.filter(|one| self.state.not_before(key, one) > soon) {
            self.state.put_off_process(key, &process, soon);
        }
    }

    /// Counts a process whose condition was met and that nobody has looked at.
    pub fn give_up(&mut self, key: &str) {
        let why = if self.is_full { Why::Disk } else { Why::Cpu };
        self.shed(key, why);
    }

    fn shed(&mut self, key: &str, why: Why) {
        *self.state.sum(key).shed(why) += 1;
        self.say_shed_of(key, why);
    }

    /// What has become of a capture; what is kept is whole in the spool then.
    fn outcome(
        &mut self,
        process: Option<Process>,
        answer: &Spooled,
        done: io::Result<Done>,
    ) -> Outcome {
        let done = match done {
            Ok(done) => done,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let now = process.and_then(|process| Process::of(process.pid));
        if now.is_some() && now != process {
            return Outcome::Failed("another process has its number by now".into());
        }
        let is = |code: u8| done.code == Some(code.into());
        let kept = match () {
            () if done.ended_for == Some(Ended::Size) => Err(io::Error::other(done.why())),
            () if is(0) || is(LOST) => self.store.keep(answer),
            () if is(EXCEEDED) || done.ended_for == Some(Ended::Memory) => {
                return Outcome::Shed(Why::Memory);
            }
            () if done.ended_for == Some(Ended::Cpu) => return Outcome::Shed(Why::Cpu),
            () => Err(io::Error::other(done.why())),
        };
        match kept {
            Ok(()) => Outcome::Kept,
            Err(_) if !self.look_for_room() => Outcome::Shed(Why::Disk),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn exported(&mut self, answer: &Spooled, done: io::Result<Done>) {
        let key = key(answer);
        let is_own = answer.command == OWN;
        let was_short = matches!(&done, Ok(done) if done.ended_for == Some(Ended::Memory));
        let (code, why) = match &done {
            Ok(done) => {
                let cost = u64::try_from(done.cpu.as_micros()).unwrap_or(u64::MAX);
                if !is_own {
                    // What a capture costs is all of it.
                    *self.state.cost.entry(key.clone()).or_default() += cost;
                    self.state.sum(&key).cpu += cost;
                }
                (done.code, done.why())
            }
            Err(error) => (None, error.to_string()),
        };
        let is_done = [Some(0), Some(LOST.into())].contains(&code);
        if !is_done && !self.look_for_room() {
            // It stays in the spool until there is.
            return;
        }
        // With a signal, for want of memory or of room it may go otherwise the next time; where no answer is there, it would not.
        let may_go = !is_done && why != NOTHING;
        if may_go && let Some(times) = self.state.try_again(answer.number, state::now()) {
            self.has_failed = true;
            if times == 1 {
                tell!("tables of {key} could not be written, and are tried again: {why}");
            }
            return;
        }
        match is_done {
            true if is_own => {}
            true => {
                self.state.sum(&key).done += 1;
                self.said.remove(&key);
            }
            false if was_short => self.shed(&key, Why::Memory),
            false if is_own => tell!("what became of captures cannot be told: {why}"),
            false => self.fail(&key, None, &why),
        }
        self.store.drop(answer);
    }

    /// A capture has given no answer: it is counted, and said unless it was so the last time.
    fn fail(&mut self, key: &str, process: Option<Process>, why: &str) {
        self.has_failed = true;
        self.state.sum(key).failed += 1;
        // What differs from process to process is the number.
        let digits = |c: char| c.is_ascii_digit();
        let about = why.replace(digits, "");
        if self.said.insert(key.to_owned(), about.clone()).as_ref() != Some(&about) {
            match process {
                Some(process) => tell!("{key} of process {} has failed: {why}", process.pid),
                None => tell!("{key} has failed: {why}"),
            }
        }
    }

    /// Says that captures of a task are shed, once until it is told.
    pub fn say_shed(&mut self, task: &Task, why: Why) {
        self.say_shed_of(&task.key, why);
    }

    fn say_shed_of(&mut self, key: &str, why: Why) {
        // That there is no room was said for all.
        if why != Why::Disk && self.said_shed.insert((key.to_owned(), why)) {
            let (want, budget) = match why {
                Why::Memory if key.ends_with("/heap") => ("memory", "`memory` of [watch.heap] in"),
                Why::Memory => ("memory", "`memory` of"),
                _ => ("processor time", "`cpu` of"),
            };
            tell!(
                "captures of {key} are shed for want of {want}: the budget is {budget} the configuration"
            );
        }
    }

    /// Looks whether there is room, and says when that has changed.
    pub fn look_for_room(&mut self) -> bool {
        let is_full = !self.store.has_room();
        if is_full != self.is_full {
            self.is_full = is_full;
            self.has_failed |= is_full;
            let folder = self.store.folder().display();
            match is_full {
                true => tell!("there is no room in {folder}: captures are shed until there is"),
                false => tell!("there is room in {folder} again"),
            }
        }
        !is_full
    }

    /// Keeps what is told of the agent itself; whether it could be. All that it counts is written before.
    pub fn keep_report(&mut self, text: &[u8]) -> bool {
        if self.is_full {
            return false;
        }
        let answer = Spooled {
            number: self.number(),
            command: OWN.to_owned(),
            service: SERVICE.to_owned(),
            release: String::new(),
        };
        let kept = self.store.begin(&answer).and_then(|(_, mut file)| {
            file.write_all(text)?;
            Ok(self.store.keep(&answer)?)
        });
        if kept.is_err() {
            self.store.drop(&answer);
            self.look_for_room();
            return false;
        }
        self.said_shed.clear();
        self.save();
        true
    }

    /// Writes what is to be remembered.
    pub fn save(&mut self) {
        if let Err(error) = self.state.write(&self.store.state())
            && self.look_for_room()
        {
            tell!(
                "{} cannot be written: {error:#}",
                self.store.state().display()
            );
        }
    }
}
