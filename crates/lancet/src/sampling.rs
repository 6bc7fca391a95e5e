//! Looks at running processes again and again: for `stack --for`, which folds what each thread does, and `profile`, which asks where threads run.
//! Used by `commands::profile::run` and `commands::stack::live`.

mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use frames::live::open::{ALONE, Live, Look, Wanted};
use frames::live::scripts::NotRead;
use frames::profile::saved::{MOST_PROCESSES, Process};
use inject::lifecycle::{INTERRUPTED, await_end};
use process::clock::thread_time;
use process::guest::command_line;
use process::priority::FirstInLine;
use process::processors::{self, Apart};
use process::snapshot::Activity;
use report::figures::{grouped, pause, plural};
use report::losses::{Loss, What};

use self::watched::Watched;
use crate::looks::{not_read, some_missed, unread, without_table};
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::Sink;

/// The time between two looks unless the user says otherwise.
const INTERVAL: Duration = Duration::from_millis(10);

/// Threads of a process of which it is asked in each look on which processors they are.
const MOST_ASKED: usize = 64;

/// As long as looks take less than this part of a processor, nobody comes before them: one that comes late misses what was to be seen.
const IN_FRONT: f64 = 0.1;

/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// An error of a share, in points, that need not be told.
const SMALL_ERROR: u64 = 5;

/// Says by how many points a share of so many independent samples may differ from the share of the time, in 19 of 20 runs: 1.96 times the standard
/// deviation of a share of a half, which has the largest one. Nothing where that is little.
pub fn error(samples: u64) -> String {
    if samples == 0 {
        return String::new();
    }
    match (98.0 / (samples as f64).sqrt()).round() as u64 {
        points if points < SMALL_ERROR => String::new(),
        points => format!(" (so few that a share may be {points} points off)"),
    }
}

/// Which processes are looked at, for how long and how often.
pub struct Request<'a> {
    pub pids: &'a [i32],
    /// Their child processes as well.
    pub children: bool,
    /// The program to start in the place of opening processes; empty for none.
    pub program: &'a [OsString],
    /// Parked stacks as well.
    pub fibers: bool,
    /// Only the stacks of threads that run matter.
    pub running: bool,
    /// `None` = until Ctrl-C or the last end.
    pub length: Option<Duration>,
    /// How often the user wants to look; otherwise each [`INTERVAL`], or as seldom as keeps the process from standing still for long.
    pub every: Option<Duration>,
}

impl Request<'_> {
    /// What a look must find out.
    fn wanted(&self) -> Wanted {
        Wanted {
            fibers: self.fibers,
            running: self.running,
            // Who sleeps need not be read again at each look.
            states: true,
            ..Wanted::default()
        }
    }
}

/// Who is given the looks.
pub trait Viewer {
    /// Whether the screen of the terminal is taken over, so that nothing may be said before the end.
    fn has_screen(&self) -> bool {
        false
    }

    /// Takes a look at a process.
    fn seen(&mut self, pid: i32, live: &Live, look: &Look);

    /// Waits until the next looks are due, or it is over. Returns for how long none were wanted meanwhile; `None`: no more are.
    ///
    /// # Errors
    /// The terminal is gone.
    fn rest(
        &mut self,
        due: Instant,
        is_over: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Duration>> {
        rest_until(due, is_over);
        Ok(Some(Duration::ZERO))
    }
}

impl<F: FnMut(i32, &Live, &Look)> Viewer for F {
    fn seen(&mut self, pid: i32, live: &Live, look: &Look) {
        self(pid, live, look);
    }
}

/// Looks until the time is over, Ctrl-C comes, no process is left, or `viewer` wants no more.
pub fn run(request: &Request, viewer: &mut dyn Viewer) -> anyhow::Result<Sampled> {
    interrupt::catch();
    let mut watched = if request.program.is_empty() {
        Watched::open(request.pids, request.children)?
    } else {
        Watched::start(request.program, request.children)?
    };
    let wanted = request.wanted();
    let interval = request.every.unwrap_or(INTERVAL);
    let mut losses = Losses::new(viewer.has_screen());
    let mut sampling = Sampling {
        running: request.running,
        ..Sampling::default()
    };
    let mut paused = Duration::ZERO;
    let (began, started) = (SystemTime::now(), Instant::now());
    let end = request.length.map(|length| started + length);
    let is_over = || interrupt::asked() || end.is_some_and(|end| Instant::now() >= end);
    let apart = Apart::begin();
    let (mut first, used, mut due) = (None, thread_time(), started);
    while !watched.is_empty() && !is_over() {
        let before = sampling.stood;
        sampling.rounds += 1;
        watched.look(wanted, &mut losses, &is_over, |pid, live, look| {
            sampling.note(pid, live, look);
            viewer.seen(pid, live, look);
        });
        let (now, stopped) = (Instant::now(), sampling.stood - before);
        due = match request.every {
            Some(_) => sampling.next_due(due, now, interval),
            // Threads that we stopped need a processor before they sleep again; looked at too early, they seem to run.
            None => now + (jitter(interval).saturating_sub(now - due)).max(stopped * ALONE),
        };
        if let Some(apart) = &apart {
            apart.from(&std::mem::take(&mut sampling.processors));
        }
        let work = thread_time() - used;
        let is_light = request.running && work < started.elapsed().mul_f64(IN_FRONT);
        first = is_light.then(|| first.unwrap_or_else(FirstInLine::begin));
        let until = due + request.every.map_or(Duration::ZERO, part);
        let Some(rested) = viewer.rest(until, &is_over)? else {
            break;
        };
        due += rested;
        paused += rested;
    }
    drop(first);
    let took = started.elapsed().saturating_sub(paused);
    // The answer comes first on a terminal, and may hold all of this.
    losses.hold();
    sampling.tell(&mut losses);
    watched.say_unopened(&mut losses);
    Ok(Sampled {
        looks: sampling.title(took),
        began,
        took,
        rounds: sampling.rounds,
        interrupted: interrupt::asked(),
        sampling,
        watched,
        losses,
    })
}

/// The looks that were made.
pub struct Sampled {
    /// How many there were, in words.
    pub looks: String,
    /// When the first was.
    pub began: SystemTime,
    /// How long they took.
    pub took: Duration,
    /// How often all processes were looked at.
    pub rounds: u64,
    interrupted: bool,
    sampling: Sampling,
    watched: Watched,
    losses: Losses,
}

impl Sampled {
    /// Returns the title of an answer that counts so many samples, with what it says of their error.
    pub fn title(&self, samples: u64) -> String {
        format!("{}{}", self.looks, error(samples))
    }

    /// Returns in which way the looks were made and for how long the processes stood still for them, in words.
    pub fn cost(&self) -> String {
        self.sampling.cost()
    }

    /// Returns the processes that were looked at.
    pub fn processes(&self) -> Vec<Process> {
        let all = &self.sampling.processes;
        let mut told: Vec<Process> = all.values().flatten().cloned().collect();
        let more = all.len() - told.len();
        if more != 0 {
            let words = vec![format!("{more} more processes")];
            told.push(Process::new(0, words, Vec::new()));
        }
        told
    }

    /// Returns what was lost.
    pub fn missed(&self) -> &[Loss] {
        self.losses.all()
    }

    /// Says what the looks cost and what they missed, as a last record where the answer has records, and returns the exit code, which is that
    /// of a program that was started, once it has ended.
    pub fn finish(mut self, sink: &mut Sink) -> anyhow::Result<u8> {
        sink.out.flush()?;
        tell!("{}; {}", self.looks, self.cost());
        self.losses.say_held();
        self.losses.end(sink)?;
        let code = match (self.watched.starts(), self.interrupted) {
            (false, _) => 0,
            // Ctrl-C reached the program too.
            (true, true) => self.watched.code().unwrap_or(INTERRUPTED),
            (true, false) => await_end(interrupt::asked, || self.watched.code().map(i32::from)),
        };
        Ok(self.losses.exit_code(code))
    }
}

/// Returns a time between half of this one and one and a half: a process that does something by a clock is then seen at all its moments. One
/// of that kind is the scheduler's: who gets a processor for some ticks of it, looked at in time with these, was seen in one of two functions
/// for 45 % of the time in the place of 73 %.
fn jitter(interval: Duration) -> Duration {
    interval / 2 + part(interval)
}

/// Returns a random part of a time.
fn part(interval: Duration) -> Duration {
    // Its keys are random for each.
    let random = RandomState::new().build_hasher().finish();
    interval.mul_f64((random % 1024) as f64 / 1024.0)
}

/// Sleeps until then, or until it is over: a signal does not end a sleep of the standard library's.
fn rest_until(due: Instant, is_over: &dyn Fn() -> bool) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return;
        }
        sleep(left.min(LOOK));
    }
}

/// How the looks went until now.
#[derive(Default)]
struct Sampling {
    /// Whether only threads that run were to be seen.
    running: bool,
    /// How often all processes were looked at.
    rounds: u64,
    /// How often a process was looked at, and which.
    looks: u64,
    /// `None`: it is not told, because there are too many.
    processes: BTreeMap<i32, Option<Process>>,
    /// How long all of them stood still for that.
    stood: Duration,
    /// How often a thread was copied once more.
    again: u64,
    /// How often threads that run were stopped, by why.
    by_stops: BTreeMap<String, u64>,
    /// The processes of which some look has not seen every thread.
    missed: BTreeSet<i32>,
    /// Rounds of looks that should have begun and ended while an earlier one was made.
    late: u64,
    /// The processors of threads that ran in the last round, or wanted to.
    processors: Vec<usize>,
    /// The processes of which some script line could not be read, and why.
    unread: BTreeMap<i32, String>,
    /// The processes whose VM is of a version without a table, and by what it is read.
    notes: BTreeMap<i32, String>,
    /// What was not read of each, in any look.
    not_read: BTreeMap<(i32, String), NotRead>,
}

impl Sampling {
    /// Notes a look at a process.
    fn note(&mut self, pid: i32, live: &Live, look: &Look) {
        self.looks += 1;
        // Now, because one that has ended has no command line any more.
        let is_told = self.processes.len() < MOST_PROCESSES;
        self.processes.entry(pid).or_insert_with(|| {
            let told = || Process::new(pid.unsigned_abs(), command_line(pid), live.languages());
            is_told.then(told)
        });
        self.stood += look.stopped;
        self.again += look.again;
        if let Some(why) = &look.why_stopped {
            *self.by_stops.entry(why.clone()).or_default() += 1;
        }
        if !look.all {
            self.missed.insert(pid);
        }
        if let Some(why) = look.unread.first() {
            self.unread.entry(pid).or_insert_with(|| why.clone());
        }
        // What is opened anew is held against more.
        if let Some(note) = look.notes.first() {
            self.notes.insert(pid, note.clone());
        }
        for now in &look.not_read {
            let all = self.not_read.entry((pid, now.what.clone()));
            let all = all.or_insert_with(|| NotRead {
                stacks: 0,
                frames: 0,
                ..now.clone()
            });
            all.stacks += now.stacks;
            all.frames += now.frames;
        }
        let threads = look.stacks.iter().map(|stack| &stack.thread);
        // One that waits may wait for the processor that lancet has taken.
        let wants = |activity| matches!(activity, Activity::Ran | Activity::Queued);
        let ran = threads.filter(|thread| wants(thread.activity));
        let tids = ran
            .map(|thread| thread.tid)
            .chain(look.queued.iter().copied());
        let processors = tids.take(MOST_ASKED);
        let processors = processors.filter_map(|tid| processors::of_thread(pid, tid));
        self.processors.extend(processors);
    }

    /// Says in which way the looks were made, and what they cost.
    fn cost(&self) -> String {
        let stood = pause(self.stood);
        if !self.running {
            return format!("stood still for {stood} in all");
        }
        let mut told = match self.by_stops.is_empty() {
            true => format!("no thread was stopped, and interrupts took {stood} in all"),
            false => format!("stood still for {stood} in all"),
        };
        for (why, count) in &self.by_stops {
            let looks = plural(*count, "look", "looks");
            let count = grouped(*count);
            told += &format!("; {count} {looks} stopped threads that were awake: {why}");
        }
        if self.again != 0 {
            let samples = plural(self.again, "copy was", "copies were");
            let again = grouped(self.again);
            told += &format!(
                "; {again} {samples} dropped, and who had the processor then was copied, because not all frames had been"
            );
        }
        told
    }

    /// Says how many looks there were in so long a time. Of several processes it is how often all of them were looked at: what is said of the
    /// average look is of that.
    fn title(&self, length: Duration) -> String {
        let length = length.as_secs_f64();
        let processes = self.processes.len();
        if processes > 1 {
            let rounds = plural(self.rounds, "round", "rounds");
            let count = grouped(self.rounds);
            return format!("{count} {rounds} of looks at {processes} processes in {length:.1} s");
        }
        let looks = plural(self.looks, "look", "looks");
        format!("{} {looks} in {length:.1} s", grouped(self.looks))
    }

    /// When the time of the round after the one of `due`, which has ended `now`, begins: they are `interval` apart, and a round is made at some
    /// moment of its own. Those that should have ended meanwhile do not take place; one that should only have begun is begun at once.
    fn next_due(&mut self, due: Instant, now: Instant, interval: Duration) -> Instant {
        let next = due + interval;
        let behind = now.saturating_duration_since(next);
        let late = behind.as_nanos() / interval.as_nanos().max(1);
        self.late += late as u64;
        next + Duration::from_nanos((late * interval.as_nanos()) as u64)
    }

    /// Says what was missed.
    fn tell(&self, losses: &mut Losses) {
        for pid in &self.missed {
            losses.say(some_missed(*pid));
        }
        for (pid, note) in &self.notes {
            losses.talk(without_table(*pid, note));
        }
        for (pid, why) in &self.unread {
            losses.say(unread(*pid, why));
        }
        for ((pid, _), what) in &self.not_read {
            losses.say(not_read(*pid, what));
        }
        if self.late != 0 {
            let text = format!(
                "{} {} did not take place, because others took longer than --every says: ask for fewer",
                grouped(self.late),
                plural(self.late, "look", "looks")
            );
            losses.say(Loss::new(None, What::Looks, Some(self.late), text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rounds are told as late when there is to be one each 10 ms and each takes so long.
    fn late(took: u64) -> (u64, u64) {
        let (start, interval) = (Instant::now(), Duration::from_millis(10));
        let end = start + Duration::from_secs(1);
        let mut sampling = Sampling::default();
        let (mut due, mut now, mut rounds) = (start, start, 0);
        while now < end {
            rounds += 1;
            now += Duration::from_millis(took);
            due = sampling.next_due(due, now, interval);
            now = now.max(due);
        }
        (rounds, sampling.late)
    }

    #[test]
    fn few_samples_say_what_they_are_worth() {
        assert_eq!(error(17), " (so few that a share may be 24 points off)");
        assert_eq!(error(500), "");
    }

    #[test]
    fn the_way_of_the_looks_is_told() {
        let mut sampling = Sampling {
            running: true,
            stood: Duration::from_millis(3),
            ..Sampling::default()
        };
        assert!(sampling.cost().starts_with("no thread was stopped"));
        sampling.by_stops.insert("BPF is not there".to_owned(), 2);
        assert_eq!(
            sampling.cost(),
            "stood still for 3.0 ms in all; 2 looks stopped threads that were awake: BPF is not there"
        );
    }

    #[test]
    fn looks_at_several_processes_are_told_by_rounds() {
        let mut sampling = Sampling {
            rounds: 3,
            looks: 3,
            processes: BTreeMap::from([(7, None)]),
            ..Sampling::default()
        };
        let title = |sampling: &Sampling| sampling.title(Duration::from_millis(100));
        assert_eq!(title(&sampling), "3 looks in 0.1 s");
        // The child came after the first round.
        sampling.looks = 5;
        sampling.processes.insert(8, None);
        let told = "3 rounds of looks at 2 processes in 0.1 s";
        assert_eq!(title(&sampling), told);
    }

    #[test]
    fn rounds_that_do_not_take_place_are_counted() {
        assert_eq!(late(4), (100, 0));
        assert_eq!(late(10), (100, 0));
        // 53 rounds of 19 ms take the time of 100.
        let (rounds, late) = late(19);
        assert_eq!(rounds, 53);
        assert!((46..=48).contains(&late), "{late}");
    }
}
