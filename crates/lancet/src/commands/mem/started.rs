//! `lancet mem -- PROGRAM`: a program we start, watched from its first Ruby line to its end. Used by `run`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use births::analysis::Census;
use births::census::{Source, census_of};
use births::earlier::Earlier;
use births::intervals::OfGuest;
use births::program::{News, Program};
use births::session::{Event, Shared};
use inject::Image;
use inject::lifecycle::{INTERRUPTED, Interruption, await_end};
use report::losses::What;
use report::mem::Reporter;
use vm::Language;

use super::MemArgs;
use super::run::finish;
use crate::agent::AGENT;
use crate::failure;
use crate::losses::Losses;
use crate::ui::advice::explain;
use crate::ui::interrupt;
use crate::ui::sink::Sink;

/// Longest wait for a process to stand at something.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the program and reports; its exit code, or one of ours if it is 0.
pub fn run(args: &MemArgs) -> anyhow::Result<u8> {
    let sink = Sink::open(args.output.as_deref(), args.stream())?;
    let sink = sink.in_form(args.chosen().records());
    let shared = Shared {
        image: Image::parse(AGENT)?,
        options: args.options(),
        collect_at_end: args.gc(),
    };
    let program = Program::start(&args.program, shared).map_err(explain)?;
    let mut run = Run {
        program,
        reporter: args.reporter(sink),
        earlier: Earlier::default(),
        started: Instant::now(),
        watches: HashMap::new(),
        collect: args.gc(),
        last: Vec::new(),
        watched: false,
        seeks_leaks: args.seeks_leaks(),
        losses: Losses::default(),
    };
    let watched = failure::catch(|| run.watch(args));
    if watched.is_err() {
        run.leave();
    }
    let (exceeded, code) = watched?;
    finish(args, &mut run.reporter, &run.losses)?;
    Ok(run.losses.exit_code(match (code, exceeded) {
        (0, true) => crate::exit::EXCEEDED,
        (code, _) => code,
    }))
}

struct Run {
    program: Program,
    reporter: Reporter,
    earlier: Earlier,
    started: Instant,
    /// How often each process was begun to be watched, which is the number of the watch: one that runs another program is
    /// watched anew, and so is one that gets an id again.
    watches: HashMap<i32, u64>,
    collect: bool,
    /// What processes that have ended held.
    last: Vec<Census>,
    watched: bool,
    /// A verdict on leaks is given.
    seeks_leaks: bool,
    losses: Losses,
}

impl Run {
    /// Until the program ends: whether a limit was exceeded, and the program's exit code.
    fn watch(&mut self, args: &MemArgs) -> anyhow::Result<(bool, u8)> {
        let mut exceeded = false;
        let mut due = args.every.map(|every| self.started + every);
        let end = args.watch_for.map(|length| self.started + length);
        let mut interruption = Interruption::default();
        loop {
            let news = self.program.poll();
            if news.is_empty() {
                self.program.wait(LOOK);
            }
            for news in news {
                if let Some(code) = self.handle_notices(news) {
                    // Children that outlive the program are counted as they are.
                    let living = self.census();
                    self.last.extend(living);
                    self.leave();
                    exceeded |= self.report_last()?;
                    return Ok((exceeded, code as u8));
                }
            }
            if interruption.is_over(interrupt::asked(), true) {
                exceeded |= self.part()?;
                return Ok((exceeded, INTERRUPTED));
            }
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                exceeded |= self.part()?;
                let code = await_end(interrupt::asked, || self.program.code());
                return Ok((exceeded, code));
            }
            if let (Some(at), Some(every)) = (due, args.every)
                && now >= at
            {
                due = Some(now + every);
                let censuses = self.census();
                if !censuses.is_empty() {
                    exceeded |= self.reporter.report(censuses)?;
                }
            }
        }
    }

    /// What one piece of news means; the exit code when the program has ended.
    fn handle_notices(&mut self, news: News) -> Option<i32> {
        match news {
            News::Event(Event::Watching(pid)) => {
                self.watched = true;
                *self.watches.entry(pid).or_default() += 1;
                self.earlier.forget(pid);
            }
            News::Event(Event::Final {
                pid,
                command,
                language,
                version,
                tally,
                how,
            }) => {
                let source = Source {
                    pid,
                    watch: self.watches.get(&pid).copied().unwrap_or(0),
                    command: &command,
                    root: process::guest::working_directory(pid).unwrap_or_default(),
                    language,
                    version: &version,
                    seconds: self.started.elapsed().as_secs_f64(),
                    intervals: self.intervals(),
                };
                let (intervals, now) = (source.intervals.clone(), Instant::now());
                let mut census = census_of(source, &tally);
                self.earlier.join(&mut census, &tally, &intervals, now);
                self.earlier.forget(pid);
                census.losses.extend(how.loss());
                self.losses.of_census(&census);
                self.last.push(census);
            }
            News::Replaced(pid) => {
                tell!(
                    "process {pid} runs another program now; what the last one held is not known"
                );
            }
            News::Unwatched(_, error) => {
                self.losses.process(error);
            }
            News::Ended(code) => return Some(code),
        }
        None
    }

    /// The report of processes that have ended.
    fn report_last(&mut self) -> anyhow::Result<bool> {
        if !self.watched {
            let counted = Language::those(enter::counts_births, " and no ");
            let text = format!(
                "the program started no {counted} of its own, and mem counts what these make; if its children run one, add --children"
            );
            let loss = report::losses::Loss::new(None, What::Process, None, text);
            self.losses.say(loss);
        }
        match std::mem::take(&mut self.last) {
            last if last.is_empty() => Ok(false),
            last => Ok(self.reporter.report(last)?),
        }
    }

    /// Reports what is known now, and leaves; the program goes on alone.
    fn part(&mut self) -> anyhow::Result<bool> {
        let mut censuses = self.census();
        censuses.append(&mut self.last);
        self.leave();
        if censuses.is_empty() {
            Ok(false)
        } else {
            Ok(self.reporter.report(censuses)?)
        }
    }

    /// None where no verdict on leaks is wanted.
    fn intervals(&self) -> OfGuest {
        if !self.seeks_leaks {
            return OfGuest::default();
        }
        let intervals = self.program.intervals();
        intervals.of_guest(self.started, Instant::now())
    }

    fn leave(&mut self) {
        for error in self.program.leave() {
            self.losses.leaving(error);
        }
    }

    fn census(&mut self) -> Vec<Census> {
        let mut found = Vec::new();
        let intervals = self.intervals();
        for session in self.program.sessions() {
            match session.census(self.collect) {
                Ok(tally) => {
                    let source = Source {
                        pid: session.pid(),
                        watch: self.watches.get(&session.pid()).copied().unwrap_or(0),
                        command: session.command(),
                        root: process::guest::working_directory(session.pid()).unwrap_or_default(),
                        language: session.language(),
                        version: &session.version(),
                        seconds: self.started.elapsed().as_secs_f64(),
                        intervals: intervals.clone(),
                    };
                    let (intervals, now) = (source.intervals.clone(), Instant::now());
                    let mut census = census_of(source, &tally);
                    self.earlier.join(&mut census, &tally, &intervals, now);
                    self.losses.of_census(&census);
                    found.push(census);
                }
                // It is ending, at an exec, or before a Ractor: the next look sees to that.
                Err(_) if matches!(session.awaits_last_count(), Ok(true)) => {}
                Err(process::Error::AtEvent { .. } | process::Error::Stopped(_)) => {}
                Err(error) if error.is_left() => {}
                Err(error) => self.losses.process(error),
            }
        }
        found
    }
}
