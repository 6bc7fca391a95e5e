//! Commands that are run for the guest: `calls`, `syscalls`, `mem`, `stack` and `heap` with `--json`, as they are from outside.
//!
//! Each is a lancet of its own that we start, so nothing of what they do is written twice. Where Yama lets a process be traced
//! by those it has named, it has named us, and that holds for our children too (`task_is_descendant`, security/yama/yama_lsm.c).

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use process::control_group;
use serde_json::{Value, json};

use super::counters::{self, Counters, Lacking, Lacks};
use super::protocol::{Answer, Refusal};
use crate::itself::{self, ends_within};
use crate::watching::{LACKS, LOST_UNTIL_NOW, READY};

/// How long a command may take to open the guest, or to leave it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same of one that tells no calls any more, for which others wait.
const LEAVES_SOON: Duration = Duration::from_secs(5);
/// How often the guest is told that a command goes on, which may take as long as it needs. It gives up a companion of which it has heard nothing for 150 s.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// The most bytes of records that are kept of one watch; what comes later is counted.
const MOST_KEPT: usize = 512 << 20;
/// After so many bytes of records it is asked again how much memory is left.
const ASKED_AFTER: usize = 4 << 20;

/// How often what is to be done meanwhile is done while a command is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// What is done while a command is waited for: a guest that waits for us is let go.
pub type Meanwhile<'a> = &'a mut dyn FnMut();

/// The commands that are watches, and those that end by themselves.
const WATCHES: [&str; 3] = ["calls", "syscalls", "mem"];
const RUNS: [&str; 2] = ["stack", "heap"];

/// The watches of a guest that are open.
pub struct Watches {
    pid: i32,
    /// What has this before its path is the asking library's own.
    hidden: Option<String>,
    last: u64,
    open: BTreeMap<u64, Watch>,
}

struct Watch {
    child: Child,
    records: JoinHandle<Kept>,
    said: JoinHandle<Vec<String>>,
    /// Calls are not kept as records, but counted.
    counters: Option<Counters>,
    /// The groups of functions whose calls are counted.
    groups: Vec<String>,
}

/// The records of a watch.
#[derive(Default)]
struct Kept {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// How many records came after the most bytes were kept.
    lost: u64,
}

impl Watches {
    /// Makes the list, with no watch in it. `hidden` is the folder of the asking library, with a slash at its end.
    pub fn new(pid: i32, hidden: Option<String>) -> Self {
        Watches {
            pid,
            hidden,
            last: 0,
            open: BTreeMap::new(),
        }
    }

    /// Begins a watch, waits until the guest is open, and returns the watch's number.
    pub fn begin(
        &mut self,
        command: &str,
        words: &[String],
        meanwhile: Meanwhile,
    ) -> Result<u64, Refusal> {
        allow(command, &WATCHES)?;
        self.open(command, words, None, meanwhile)
    }

    /// Begins to count calls of these groups of functions, and returns the number of that watch. Where they are counted already that is the number of the watch that
    /// does it: each hooks its functions once more, so that calls would take longer with each, and a process bears only so many.
    pub fn begin_counters(
        &mut self,
        groups: &[String],
        meanwhile: Meanwhile,
    ) -> Result<u64, Refusal> {
        let counts = |watch: &Watch| {
            let counters = watch.counters.as_ref();
            counters
                .filter(|_| watch.groups == groups)
                .map(Counters::is_there)
        };
        let mut open = self.open.iter();
        let known = open.find_map(|(number, watch)| Some((*number, counts(watch)?)));
        match known {
            Some((number, true)) => return Ok(number),
            Some((number, false)) => self.give_up(number, meanwhile),
            None => {}
        }
        let words = counters::words(groups).ok_or_else(|| {
            let known = counters::GROUPS.join(", ");
            Refusal::Refused(format!(
                "calls are counted in the groups {known}, memory, waits, and no other"
            ))
        })?;
        let number = self.open("calls", &words, Some(Counters::of(self.pid)), meanwhile)?;
        if let Some(watch) = self.open.get_mut(&number) {
            watch.groups = groups.to_vec();
        }
        Ok(number)
    }

    /// Tells what a thread has called in these stretches between two marks, with `in_detail` also what that was about and when it was. A watch
    /// that tells no calls any more is ended.
    pub fn between(
        &mut self,
        (watch, in_detail): (u64, bool),
        stretches: &[(u64, u64)],
        answer: &mut Answer,
        meanwhile: Meanwhile,
    ) -> io::Result<Result<Vec<String>, Refusal>> {
        let counters = self
            .open
            .get(&watch)
            .and_then(|watch| watch.counters.as_ref());
        let Some(counters) = counters else {
            return Ok(Err(Refusal::Gone(format!("watch {watch} counts no calls"))));
        };
        let between = match counters.between(stretches, meanwhile) {
            Ok(between) => between,
            Err(Lacks::Calls) => {
                self.give_up(watch, meanwhile);
                let why = "calls are not told any more: they are not counted";
                return Ok(Err(Refusal::Gone(why.into())));
            }
            Err(Lacks::End) => {
                let why = "calls came faster than they could be read, and what ends the stretch was lost: they are not counted";
                return Ok(Err(Refusal::Refused(why.into())));
            }
            Err(Lacks::Beginning) => {
                let why = "more calls were made since than are kept: they are not counted";
                return Ok(Err(Refusal::Refused(why.into())));
            }
        };
        for sum in between.sums {
            answer.record(&sum)?;
        }
        if in_detail {
            answer.record(&json!({"details": between.details}))?;
        }
        Ok(Ok(between.lost))
    }

    /// Ends a watch that tells no calls any more.
    fn give_up(&mut self, watch: u64, meanwhile: Meanwhile) {
        if let Some(watch) = self.open.remove(&watch) {
            drop(watch.end(LEAVES_SOON, meanwhile));
        }
    }

    /// Starts a watch, waits until the guest is open, and returns the watch's number.
    fn open(
        &mut self,
        command: &str,
        words: &[String],
        counters: Option<Counters>,
        meanwhile: Meanwhile,
    ) -> Result<u64, Refusal> {
        let own = ["--companion".to_owned(), std::process::id().to_string()];
        let started = self.start(command, [&own[..], words].concat(), counters);
        let (mut watch, opened) = started.map_err(not_started)?;
        let deadline = Instant::now() + PATIENCE;
        let ready = loop {
            let heard = opened.recv_timeout(LOOK);
            if heard != Err(RecvTimeoutError::Timeout) || Instant::now() >= deadline {
                break heard;
            }
            meanwhile();
        };
        match ready {
            Ok(()) => {
                self.last += 1;
                self.open.insert(self.last, watch);
                Ok(self.last)
            }
            // It has ended, and has said why.
            Err(RecvTimeoutError::Disconnected) => {
                let _ = watch.child.wait();
                let said = watch.said.join().unwrap_or_default();
                Err(Refusal::Refused(said.join("; ")))
            }
            Err(RecvTimeoutError::Timeout) => {
                drop(watch.end(PATIENCE, meanwhile));
                Err(Refusal::Refused(format!(
                    "lancet {command} did not open the process within 60 s"
                )))
            }
        }
    }

    /// Ends a watch, and tells its records and how it ended.
    pub fn finish(
        &mut self,
        watch: u64,
        answer: &mut Answer,
        meanwhile: Meanwhile,
    ) -> io::Result<Result<Value, Refusal>> {
        match self.open.remove(&watch) {
            Some(watch) => watch.end(PATIENCE, meanwhile)?.tell(answer).map(Ok),
            None => Ok(Err(Refusal::Gone(format!("watch {watch} is not open")))),
        }
    }

    /// Runs a command to its end.
    pub fn run(
        &self,
        command: &str,
        words: &[String],
        answer: &mut Answer,
        meanwhile: Meanwhile,
    ) -> io::Result<Result<Value, Refusal>> {
        if let Err(why) = allow(command, &RUNS) {
            return Ok(Err(why));
        }
        let (watch, _) = match self.start(command, words.to_vec(), None) {
            Ok(started) => started,
            Err(error) => return Ok(Err(not_started(error))),
        };
        while !ends_within(&watch.child, SIGN_OF_LIFE, meanwhile)? {
            if let Err(error) = answer.wait() {
                // Nobody wants to know any more.
                drop(watch.end(PATIENCE, meanwhile));
                return Err(error);
            }
        }
        let ended = watch.ended()?;
        // One that writes a file has nothing else to tell (4: it is done, and something is missing).
        if ended.kept.lines.is_empty() && !matches!(ended.status.code(), Some(0 | 4)) {
            return Ok(Err(Refusal::Refused(ended.why(command))));
        }
        ended.tell(answer).map(Ok)
    }

    /// Starts a command. The receiver hears when it says that it is ready.
    fn start(
        &self,
        command: &str,
        words: Vec<String>,
        counters: Option<Counters>,
    ) -> io::Result<(Watch, Receiver<()>)> {
        let mut child = itself::command()
            .args([command, "--json", "-p", &self.pid.to_string()])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (opens, opened) = channel();
        let (counts, lacks, hidden) = (counters.clone(), counters.clone(), self.hidden.clone());
        let records = thread::spawn(move || match (stdout, counts) {
            (Some(stdout), Some(counters)) => {
                counters.read(stdout, hidden.as_deref());
                Kept::default()
            }
            (Some(stdout), None) => Kept::read(stdout),
            (None, _) => Kept::default(),
        });
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            for line in stderr.into_iter().flat_map(lines) {
                if line == READY {
                    // Nobody waits for it any more: then it is told to leave.
                    let _ = opens.send(());
                } else if let (Some(counters), Some(lacking)) = (&lacks, lacking(&line)) {
                    counters.hear(lacking);
                } else if !line.starts_with(LOST_UNTIL_NOW) {
                    said.push(line.strip_prefix(LACKS).unwrap_or(&line).to_owned());
                }
            }
            said
        });
        let watch = Watch {
            child,
            records,
            said,
            counters,
            groups: Vec::new(),
        };
        Ok((watch, opened))
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        for watch in std::mem::take(&mut self.open).into_values() {
            drop(watch.end(PATIENCE, &mut || {}));
        }
    }
}

impl Watch {
    /// Has it leave the guest, and waits for its end; one that has not left in time is killed.
    fn end(mut self, patience: Duration, meanwhile: Meanwhile) -> io::Result<Ended> {
        itself::ask_to_end(&self.child);
        if ends_within(&self.child, patience, meanwhile)? {
            return self.ended();
        }
        self.child.kill()?;
        let mut ended = self.ended()?;
        let seconds = patience.as_secs();
        let why = format!("it did not leave the process within {seconds} s, and was killed");
        ended.said.push(why);
        Ok(ended)
    }

    /// Waits for its end, which has come.
    fn ended(mut self) -> io::Result<Ended> {
        Ok(Ended {
            status: self.child.wait()?,
            kept: self.records.join().unwrap_or_default(),
            said: self.said.join().unwrap_or_default(),
        })
    }
}

/// A command that has ended.
struct Ended {
    status: ExitStatus,
    kept: Kept,
    said: Vec<String>,
}

impl Ended {
    /// Why it has done nothing: what it has said, or else how it ended.
    fn why(&self, command: &str) -> String {
        match self.said.join("; ") {
            nothing if nothing.is_empty() => format!(
                "lancet {command} has ended without a word ({})",
                self.status
            ),
            said => said,
        }
    }

    fn tell(self, answer: &mut Answer) -> io::Result<Value> {
        for line in &self.kept.lines {
            answer.raw_record(line)?;
        }
        Ok(json!({"exit": self.status.code(), "said": self.said, "lost": self.kept.lost}))
    }
}

impl Kept {
    fn read(from: ChildStdout) -> Self {
        let own = std::process::id() as i32;
        Self::read_within(BufReader::new(from), || control_group::memory_for(own))
    }

    /// Keeps at most a quarter of the memory that is `left` at each time: the program, whose control groups have this process, too, is to
    /// get the rest.
    fn read_within(mut from: impl BufRead, left: impl Fn() -> u64) -> Self {
        let mut kept = Kept::default();
        let mut room = 0;
        loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return kept,
                Ok(length) => {
                    if kept.lost == 0 && kept.bytes + length > room {
                        let more = usize::try_from(left() / 4).unwrap_or(usize::MAX);
                        room = MOST_KEPT.min(kept.bytes + more.min(ASKED_AFTER.max(length)));
                    }
                    if kept.bytes + length > room {
                        kept.lost += 1;
                        continue;
                    }
                    kept.bytes += length;
                    kept.lines.push(line);
                }
            }
        }
    }
}

fn allow(command: &str, which: &[&str]) -> Result<(), Refusal> {
    match which.contains(&command) {
        true => Ok(()),
        false => Err(Refusal::Refused(format!(
            "`{command}` is none of {}",
            which.join(", ")
        ))),
    }
}

fn not_started(error: io::Error) -> Refusal {
    Refusal::Refused(format!("lancet cannot be started: {error}"))
}

/// What a line says of calls that are not told.
fn lacking(line: &str) -> Option<Lacking> {
    let hooks = line.strip_prefix(LACKS);
    let calls = || line.strip_prefix(LOST_UNTIL_NOW)?.parse().ok();
    hooks
        .map(|text| Lacking::Hooks(text.to_owned()))
        .or_else(|| calls().map(Lacking::Calls))
}

/// What a command says, without the name that each line begins with.
fn lines(said: ChildStderr) -> impl Iterator<Item = String> {
    let lines = BufReader::new(said).split(b'\n').map_while(Result::ok);
    lines.map(|line| {
        let line = String::from_utf8_lossy(&line);
        line.strip_prefix("lancet: ").unwrap_or(&line).to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn records_take_no_more_than_a_part_of_the_memory_that_is_left() {
        let record = [b"x".repeat(999), b"\n".to_vec()].concat();
        let all = record.repeat(20_000);
        let plenty = Kept::read_within(&all[..], || 1 << 40);
        assert_eq!((plenty.lines.len(), plenty.lost), (20_000, 0));
        // As much as it takes is less left for others.
        let left = Cell::new(20 << 20);
        let little = Kept::read_within(&all[..], || {
            left.set(left.get() / 2);
            left.get() * 2
        });
        assert_eq!(little.lines.len() + little.lost as usize, 20_000);
        assert!(little.bytes <= 10 << 20, "{}", little.bytes);
        assert!(little.bytes >= 4 << 20, "{}", little.bytes);
        assert_eq!(Kept::read_within(&all[..], || 0).lost, 20_000);
    }
}
