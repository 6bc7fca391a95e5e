//! `lancet mem -- PROGRAM`: a program we start, watched to its end: the objects of its VM from its first line on, or with `--native` its blocks.
//! Used by `run`.

mod blocks;
mod objects;
mod program;

use std::time::{Duration, Instant};

use births::analysis::Census;
use inject::lifecycle::{INTERRUPTED, Interruption, await_end};
use report::losses::{Loss, What};
use report::mem::Reporter;

use super::MemArgs;
use super::run::finish;
use crate::failure;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use program::{Heard, Started};

/// Longest wait for a process to stand at something.
const LOOK: Duration = Duration::from_millis(50);

/// Starts the program and reports; its exit code, or one of ours if it is 0.
pub fn run(args: &MemArgs) -> anyhow::Result<u8> {
    let sink = Sink::open(args.output.as_deref(), args.stream())?;
    let sink = sink.in_form(args.chosen().records());
    let program: Box<dyn Started> = match args.native {
        true => Box::new(blocks::Blocks::start(args)?),
        false => Box::new(objects::Objects::start(args)?),
    };
    let mut run = Run {
        program,
        reporter: args.reporter(sink),
        started: Instant::now(),
        heard: Heard::default(),
    };
    let watched = failure::catch(|| run.watch(args));
    if watched.is_err() {
        run.leave();
    }
    let (exceeded, code) = watched?;
    finish(args, &mut run.reporter, &run.heard.losses)?;
    Ok(run.heard.losses.exit_code(match (code, exceeded) {
        (0, true) => crate::exit::EXCEEDED,
        (code, _) => code,
    }))
}

struct Run {
    program: Box<dyn Started>,
    reporter: Reporter,
    started: Instant,
    heard: Heard,
}

impl Run {
    /// Until the program ends: whether a limit was exceeded, and the program's exit code.
    fn watch(&mut self, args: &MemArgs) -> anyhow::Result<(bool, u8)> {
        let mut exceeded = false;
        let mut due = args.every.map(|every| self.started + every);
        let end = args.watch_for.map(|length| self.started + length);
        let mut interruption = Interruption::default();
        loop {
            let (any, code) = self.program.poll(&mut self.heard);
            if let Some(code) = code {
                // Children that outlive the program are counted as they are.
                let living = self.census();
                self.heard.last.extend(living);
                self.leave();
                exceeded |= self.report_last()?;
                return Ok((exceeded, code as u8));
            }
            if !any {
                self.program.wait(LOOK);
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

    /// The report of processes that have ended.
    fn report_last(&mut self) -> anyhow::Result<bool> {
        if let Some(why) = self.program.why_nothing() {
            let loss = Loss::new(None, What::Process, None, why);
            self.heard.losses.say(loss);
        }
        match std::mem::take(&mut self.heard.last) {
            last if last.is_empty() => Ok(false),
            last => Ok(self.reporter.report(last)?),
        }
    }

    /// Reports what is known now, and leaves; the program goes on alone.
    fn part(&mut self) -> anyhow::Result<bool> {
        let mut censuses = self.census();
        censuses.append(&mut self.heard.last);
        self.leave();
        if censuses.is_empty() {
            Ok(false)
        } else {
            Ok(self.reporter.report(censuses)?)
        }
    }

    fn census(&mut self) -> Vec<Census> {
        self.program.census(&mut self.heard.losses)
    }

    fn leave(&mut self) {
        for error in self.program.leave() {
            self.heard.losses.leaving(error);
        }
    }
}
