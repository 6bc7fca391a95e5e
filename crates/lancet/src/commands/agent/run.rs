//! Reads the configuration, and has done what it says until it is asked to end. Used by `commands`.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use report::forms::parquet;

use super::budget::{Budget, used_by_children, used_here};
use super::choose::{self, Process};
use super::config::{self, Config};
use super::health::Health;
use super::state::{self, State};
use super::store::Store;
use super::tasks::{self, Task};
use super::triggers::Triggers;
use super::turn::{Next, Turn};
use super::work::Work;
use super::{AgentArgs, check, told};
use crate::commands::heap::when::When;
use crate::exit::LOST;
use crate::ui::interrupt;
use crate::ui::sink::print;

/// Between two looks at which processes there are, at least.
const LOOK: Duration = Duration::from_secs(2);
/// Between two looks at how much memory they have, and at the room on the disk.
const SOON: Duration = Duration::from_secs(2);
/// The same at most: growth within a minute is seen by some looks.
const SELDOM_OF_MEMORY: Duration = Duration::from_secs(15);
/// Between two looks at all files of tables, at least.
const TIDY: Duration = Duration::from_secs(60);
/// What is looked at again and again comes so many times later than it takes: 0.05 % of a processor.
const SELDOM: u32 = 2000;
/// How long the clock must have gone on steadily before files are taken for old by it.
const STEADY: Duration = Duration::from_secs(3600);
/// Between two times at which those are served who ask for its health.
const SERVE: Duration = Duration::from_secs(1);
/// How long tables are still written when it is asked to end: what is in the spool then waits for the next start.
const LAST: Duration = Duration::from_secs(60);
/// How long nothing is looked at: while nothing is done, and while something is.
const IDLE: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_millis(200);

/// When what is done again and again is done next.
#[derive(Default)]
struct Times {
    look: Duration,
    memory: Duration,
    room: Duration,
    tidy: Duration,
    report: Duration,
    health: Duration,
}

/// All that it knows.
struct Agent {
    path: PathBuf,
    config: Config,
    tasks: Vec<Task>,
    /// Of each choice.
    processes: Vec<Vec<Process>>,
    budget: Budget,
    triggers: Triggers,
    health: Option<Health>,
    work: Work,
    stored: u64,
    at: Times,
}

/// Runs `lancet agent` and returns the exit code.
pub fn run(args: AgentArgs) -> anyhow::Result<u8> {
    let config = config::read(&args.config)?;
    if args.check {
        print(check::told(&config).as_bytes())?;
        return Ok(0);
    }
    interrupt::catch();
    interrupt::catch_again();
    let mut agent = Agent::open(&args.config, config, args.once)?;
    match args.once {
        true => Ok(agent.once()),
        false => {
            agent.go_on();
            Ok(0)
        }
    }
}

/// The time of day, less the time since the start of the machine.
fn clock() -> i64 {
    let of = |nanoseconds| i64::try_from(nanoseconds).unwrap_or(i64::MAX);
    of(u128::from(told::wall())) - of(state::now().as_nanos())
}

/// The name of this machine as files have it.
fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    parquet::plain(host.trim())
}

impl Agent {
    fn open(path: &Path, config: Config, is_once: bool) -> anyhow::Result<Self> {
        let store = Store::open(&config.folder)?;
        let is_first = !store.state().exists();
        let mut state = State::read(&store.state());
        let now = state::now();
        let tasks = tasks::of(&config);
        // What was due while nobody was there was not shed.
        for task in &tasks {
            let due = state.due(&task.key);
            if !due.is_zero() && due < now {
                state.put_off(&task.key, now);
            }
        }
        // While nobody was there nothing was seen of the clock: how it is now is compared.
        state.heed_clock(now, clock());
        let health = config.health.as_ref().filter(|_| !is_once);
        let health = health.map(Health::open).transpose()?;
        let left = (!is_first).then_some(state.credit);
        let report = now + config.report_every;
        Ok(Agent {
            path: path.to_owned(),
            budget: Budget::new(config.cpu, left, now),
            work: Work::new(store, state),
            tasks,
            config,
            processes: Vec::new(),
            triggers: Triggers::default(),
            health,
            stored: 0,
            at: Times {
                report,
                ..Times::default()
            },
        })
    }

    /// Does what is to be done until it is asked to end.
    fn go_on(&mut self) {
        tell!(
            "looks at {} choices of processes by {}; tables are in {}",
            self.config.watch.len(),
            self.path.display(),
            self.config.folder.display()
        );
        while !interrupt::asked() {
            self.step();
            self.wait();
        }
        self.finish();
    }

    /// Looks once at everything.
    fn once(&mut self) -> u8 {
        self.look(state::now());
        let now = state::now();
        (self.triggers).look(&self.tasks, &self.processes, &self.work.state, now);
        let met = self.triggers.met();
        self.export_all();
        for at in 0..self.tasks.len() {
            if interrupt::asked() {
                break;
            }
            let task = &self.tasks[at];
            let met = met.iter().find(|(task, _)| *task == at);
            let process = match (task.when, task.watch) {
                (Some(When::Growth(..)), _) => {
                    let key = &task.key;
                    tell!("{key} waits for growth, which --once does not see: it is left out");
                    None
                }
                (Some(_), _) => met.map(|(_, process)| Some(*process)),
                (None, Some(watch)) => {
                    let process = self.turn(now).process(task, watch, &self.work.state);
                    process.map(Some)
                }
                (None, None) => Some(None),
            };
            if let Some(process) = process {
                self.begin(Next { task: at, process });
                self.wait_for_end();
                self.export_all();
            }
        }
        self.tidy(state::now());
        self.finish();
        if self.work.has_failed() { LOST } else { 0 }
    }

    /// Waits for the end of a capture, which is asked to end when we are.
    fn wait_for_end(&mut self) {
        while self.work.is_under_way() {
            if interrupt::asked() {
                self.work.ask_to_end();
            }
            pause(&mut [], BUSY);
            self.work.end_if_done();
        }
    }

    fn turn(&self, now: Duration) -> Turn<'_> {
        Turn {
            tasks: &self.tasks,
            processes: &self.processes,
            budget: &self.budget,
            is_full: self.work.is_full(),
            now,
        }
    }

    /// Does what is to be done now.
    fn step(&mut self) {
        let now = state::now();
        self.count(now);
        self.heed_clock(now);
        if interrupt::asked_again() {
            self.read_again();
        }
        self.work.end_if_done();
        if now >= self.at.look {
            self.look(now);
        }
        if now >= self.at.tidy {
            self.tidy(now);
        }
        if now >= self.at.memory {
            self.look_at_memory(now);
        }
        if now >= self.at.room && self.work.is_full() {
            self.at.room = now + SOON;
            self.work.look_for_room();
        }
        if now >= self.at.report {
            self.at.report = now + self.config.report_every;
            self.report();
        }
        if !self.work.is_under_way() && !self.work.export_next(self.config.memory) {
            self.next(now);
        }
        let text = || told::health(&self.work.state, &self.told());
        if now >= self.at.health
            && self
                .health
                .as_ref()
                .is_some_and(|health| health.serve(&text))
        {
            self.at.health = now + SERVE;
        }
    }

    /// Begins what is next, if something is.
    fn next(&mut self, now: Duration) {
        let mut state = std::mem::take(&mut self.work.state);
        let (next, shed) = self.turn(now).next(&mut state, &self.triggers.met());
        self.work.state = state;
        for (task, why) in shed {
            self.work.say_shed(&self.tasks[task], why);
        }
        if let Some(next) = next {
            self.begin(next);
        }
    }

    /// Looks whose memory is as large as a task waits for.
    fn look_at_memory(&mut self, now: Duration) {
        let before = used_here();
        let state = &self.work.state;
        let over = (self.triggers).look(&self.tasks, &self.processes, state, now);
        for (task, _) in over {
            self.work.give_up(&self.tasks[task].key);
        }
        let took = used_here().saturating_sub(before);
        self.at.memory = now + (took * SELDOM).clamp(SOON, SELDOM_OF_MEMORY);
    }

    fn begin(&mut self, next: Next) {
        let process = next.process;
        let had_condition = process.is_some_and(|process| self.triggers.take(next.task, &process));
        if process.is_some_and(|process| !process.is_there()) {
            // It has ended since: others may have come.
            self.at.look = self.at.look.min(state::now() + LOOK);
            for processes in &mut self.processes {
                processes.retain(|one| Some(*one) != process);
            }
            if had_condition {
                self.work.give_up(&self.tasks[next.task].key);
            }
            return;
        }
        let task = &self.tasks[next.task];
        let watch = task.watch.map(|watch| &self.config.watch[watch]);
        let of = watch.map(|watch| (watch.service(), watch.release()));
        let most = self.budget.most_of_one(task.when.is_some());
        self.work.begin(task, process, most, of.unwrap_or_default());
        if had_condition && self.work.is_full() {
            self.work.give_up(&task.key);
        }
    }

    /// Counts the processor time that was used.
    fn count(&mut self, now: Duration) {
        let counted = self.budget.count(now, used_here() + used_by_children());
        let state = &mut self.work.state;
        let [passed, granted] = &mut state.passed;
        for (sum, more) in [
            (&mut state.used[0], counted.used),
            (passed, counted.passed),
            (granted, counted.granted),
        ] {
            *sum = sum.saturating_add(u64::try_from(more.as_micros()).unwrap_or(u64::MAX));
        }
        state.credit = self.budget.left();
    }

    /// Looks which processes there are.
    fn look(&mut self, now: Duration) {
        let before = used_here();
        let choices = self.config.watch.iter().map(|watch| &watch.choose);
        self.processes = choose::processes(choices);
        let chosen: Vec<Process> = self.processes.iter().flatten().copied().collect();
        let keys: Vec<&str> = self.tasks.iter().map(|task| task.key.as_str()).collect();
        self.work.state.forget(&chosen, &keys);
        let took = used_here().saturating_sub(before);
        self.at.look = now + LOOK.max(took * SELDOM);
    }

    /// Says when the clock was set: files are not taken for old by one that is wrong.
    fn heed_clock(&mut self, now: Duration) {
        if let Some(seconds) = self.work.state.heed_clock(now, clock()) {
            tell!("the clock was set by {seconds} s: for an hour no file is taken for old");
        }
    }

    fn tidy(&mut self, now: Duration) {
        let before = used_here();
        let oldest = SystemTime::now().checked_sub(self.config.keep_for);
        let oldest = oldest.filter(|_| self.work.state.steady(now) >= STEADY);
        let oldest = oldest.unwrap_or(SystemTime::UNIX_EPOCH);
        let hosts = &mut self.work.state.hosts;
        hosts.insert(host());
        let (stored, removed) = (self.work.store).tidy(hosts, oldest, self.config.keep_size);
        // There will be some of it.
        hosts.insert(host());
        self.stored = stored;
        if removed > 0 {
            tell!(
                "removed {removed} files, the oldest, of {}",
                self.config.folder.display()
            );
        }
        let took = used_here().saturating_sub(before);
        self.at.tidy = now + TIDY.max(took * SELDOM);
    }

    fn told(&self) -> told::Now<'_> {
        told::Now {
            config: &self.config,
            tasks: &self.tasks,
            processes: self.processes.iter().map(Vec::len).collect(),
            memory: process::rss::resident_now(std::process::id() as i32).unwrap_or(0),
            is_full: self.work.is_full(),
            stored: self.stored,
        }
    }

    /// Tells of itself in its own table.
    fn report(&mut self) {
        let mut state = std::mem::take(&mut self.work.state);
        let told = state.told_so_far();
        let text = told::report(&mut state, &self.told());
        self.work.state = state;
        if text.map(|text| self.work.keep_report(&text)).ok() != Some(true) {
            self.work.state.untell(told);
        }
    }

    /// Reads the configuration again; what is wrong with the new one is said, and the old one stays.
    fn read_again(&mut self) {
        let read = config::read(&self.path).and_then(|new| {
            if new.folder != self.config.folder {
                anyhow::bail!("`folder` is another: start the agent anew for that");
            }
            let is_same = new.health.as_ref() == self.health.as_ref().map(Health::place);
            let health = match &new.health {
                Some(place) if !is_same => Some(Health::open(place)?),
                _ => None,
            };
            if !is_same {
                self.health = health;
            }
            Ok(new)
        });
        match read {
            Ok(new) => {
                self.budget.set(new.cpu);
                self.tasks = tasks::of(&new);
                self.at.report = self.at.report.min(state::now() + new.report_every);
                self.config = new;
                self.processes = vec![Vec::new(); self.config.watch.len()];
                self.triggers.clear();
                self.at.look = Duration::ZERO;
                tell!("{} was read again", self.path.display());
            }
            Err(error) => tell!("{error:#}; the configuration stays as it was"),
        }
    }

    /// Has all answers in the spool made tables.
    fn export_all(&mut self) {
        let began = Instant::now();
        let is_late = || interrupt::asked() && began.elapsed() > LAST;
        while !is_late() && self.work.export_next(self.config.memory) {
            self.work.end();
        }
    }

    /// Ends what is under way, and tells what there is to tell.
    fn finish(&mut self) {
        self.work.ask_to_end();
        self.work.end();
        self.export_all();
        self.count(state::now());
        self.report();
        self.export_all();
        self.work.save();
    }

    /// Waits for a moment, or until somebody asks for its health.
    fn wait(&self) {
        let length = if self.work.is_under_way() { BUSY } else { IDLE };
        let is_time = state::now() >= self.at.health;
        let asked = self.health.as_ref().filter(|_| is_time);
        let asked = asked.map(Health::descriptor);
        let mut asked: Vec<PollFd> = asked.into_iter().map(readable).collect();
        pause(&mut asked, length);
    }
}

/// Waits so long, or until one of these is ready. A signal ends it, too.
fn pause(descriptors: &mut [PollFd<'_>], length: Duration) {
    let timeout = PollTimeout::try_from(length).unwrap_or(PollTimeout::ZERO);
    let _ = poll(descriptors, timeout);
}

fn readable(descriptor: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::new(descriptor, PollFlags::POLLIN)
}
