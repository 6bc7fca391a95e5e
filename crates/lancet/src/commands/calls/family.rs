//! Everybody who is traced: processes that were opened, a program that was started, their children and what they run
//! next.

use super::debug::{self, say};
use super::guest::{Guest, Step};
use super::signatures::Signatures;
use super::sink::Sink;
use super::source::{Count, Flow, Source};
use super::told::Ended;
use crate::cli::CallsArgs;
use crate::guests::AGENT;
use crate::ui::advice::explain;
use crate::ui::interrupt;
use process::Image;
use process::lanes::Losses;
use process::seized::{Became, Seized};
use process::tracee::{Happening, Tracee, User, wait_for_any};
use std::time::Duration;

/// Longest wait for the end of a program that goes on alone, before we look whether we are to end.
const LOOK: Duration = Duration::from_millis(50);
/// As shells say "ended by SIGINT".
const INTERRUPTED: u8 = 130;

/// See the module's text.
pub struct Family<'a> {
    args: &'a CallsArgs,
    signatures: &'a Signatures,
    image: Image,
    guests: Vec<Guest>,
    /// On their way to another program.
    seized: Vec<Seized>,
    /// The program that was started.
    program: Option<Program>,
    /// What those had counted and lost of whom nothing comes any more.
    counted: Vec<Count>,
    losses: Vec<(i32, Losses)>,
    /// Something was refused or not seen.
    missed: bool,
    /// They go on alone.
    left: bool,
}

/// A program that was started.
struct Program {
    pid: i32,
    /// Nobody traces what it calls any more.
    alone: Option<Tracee>,
    /// As a shell says it.
    code: Option<i32>,
}

impl<'a> Family<'a> {
    /// Starts the program, and opens and hooks the processes.
    pub fn open(args: &'a CallsArgs, signatures: &'a Signatures) -> anyhow::Result<Self> {
        let mut family = Family {
            args,
            signatures,
            image: Image::parse(AGENT)?,
            guests: Vec::new(),
            seized: Vec::new(),
            program: None,
            counted: Vec::new(),
            losses: Vec::new(),
            missed: false,
            left: false,
        };
        let starts = !args.program().is_empty();
        if starts {
            family.start()?;
        }
        for pid in &args.pids {
            match Guest::open(*pid, args, &family.image, signatures) {
                Ok(guest) => family.guests.push(guest),
                Err(error) if args.pids.len() == 1 && !starts => return Err(error),
                Err(error) => {
                    eprintln!("lancet: {error:#}");
                    family.missed = true;
                }
            }
        }
        if args.pids.is_empty() && !starts {
            anyhow::bail!("there is nothing to watch: name a PROGRAM, or a process with -p PID");
        }
        if family.guests.is_empty() {
            anyhow::bail!("none of the processes could be opened");
        }
        Ok(family)
    }

    /// Starts the program; it stands at its first instruction, with what is needed to hook it before its own code runs.
    fn start(&mut self) -> anyhow::Result<()> {
        let user = match &self.args.user {
            None => None,
            Some(name) => {
                Some(User::named(name).ok_or_else(|| anyhow::anyhow!("there is no user {name}"))?)
            }
        };
        let mut tracee =
            Tracee::launch(self.args.program(), false, user.as_ref()).map_err(explain)?;
        let pid = tracee.pid();
        loop {
            match tracee.wait().map_err(explain)? {
                Happening::Exec => break,
                Happening::Ended(_) => anyhow::bail!("the program ended before it began"),
                _ => tracee.go_on(false).map_err(explain)?,
            }
        }
        match Guest::begin(tracee, true, self.args, &self.image) {
            Ok(guest) => self.guests.push(guest),
            Err((_, error)) => {
                // None of it has run.
                // SAFETY: our own child, which we have not waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                return Err(explain(error).context("the program was not run"));
            }
        }
        self.program = Some(Program {
            pid,
            alone: None,
            code: None,
        });
        Ok(())
    }

    fn tend(&mut self, at: usize, sink: &mut dyn Sink) -> anyhow::Result<bool> {
        let mut steps = Vec::new();
        let guest = &mut self.guests[at];
        let pid = guest.pid();
        let any = guest.tend(self.args, self.signatures, sink, &mut steps);
        for step in steps {
            self.step(pid, step);
        }
        Ok(any?)
    }

    /// What process `pid` did concerns others.
    fn step(&mut self, pid: i32, step: Step) {
        let debug = |text| say(self.args.debug, debug::PROCESS, text);
        match step {
            Step::Seized(seized) => {
                debug(format_args!(
                    "thread {} is seized for its exec",
                    seized.tid()
                ));
                self.seized.push(seized);
            }
            Step::NoExec(tid) => {
                if let Some(at) = self.seized.iter().position(|one| one.tid() == tid) {
                    self.seized.swap_remove(at).let_go();
                }
            }
            Step::Child(child) => {
                debug(format_args!(
                    "process {}, a child of {pid}, is opened",
                    child.pid()
                ));
                self.guests.push(*child);
            }
            Step::Exec(tracee) => self.begin(tracee),
        }
    }

    /// Threads that were on their way to another program.
    fn tend_seized(&mut self) -> bool {
        let mut any = false;
        let mut at = 0;
        while at < self.seized.len() {
            let became = self.seized[at].tend();
            if matches!(became, Became::Going) {
                at += 1;
                continue;
            }
            any = true;
            self.seized.swap_remove(at);
            if let Became::There(tracee) = became {
                self.begin(tracee);
            }
        }
        any
    }

    /// Another program stands at its first instruction.
    fn begin(&mut self, tracee: Tracee) {
        let pid = tracee.pid();
        let program = self.program.as_ref();
        let keep = program.is_some_and(|program| program.pid == pid);
        say(
            self.args.debug,
            debug::PROCESS,
            format_args!("process {pid} runs another program: it is followed"),
        );
        self.seized.retain(|seized| seized.pid() != pid);
        // What the last one held is read and over.
        while let Some(at) = self.guests.iter().position(|guest| guest.pid() == pid) {
            let guest = self.guests.remove(at);
            self.retire(guest);
        }
        match Guest::begin(tracee, keep, self.args, &self.image) {
            Ok(guest) => self.guests.push(guest),
            Err((mut tracee, error)) => {
                eprintln!("lancet: {:#}", explain(error));
                self.missed = true;
                match &mut self.program {
                    Some(program) if program.pid == pid => {
                        let _ = tracee.go_on(false);
                        program.alone = Some(tracee);
                    }
                    _ => drop(tracee.let_go()),
                }
            }
        }
    }

    /// Nothing comes of a guest any more: keeps what is needed of it.
    fn retire(&mut self, mut guest: Guest) {
        let pid = guest.pid();
        let text = format_args!("process {pid} is over: {:?}", guest.ended());
        say(self.args.debug, debug::GENERAL, text);
        if let Some(program) = &mut self.program
            && program.pid == pid
        {
            program.code = match guest.ended() {
                Some(Ended::Exited(code)) => Some(code),
                Some(Ended::Killed(signal)) => Some(128 + signal),
                _ => program.code,
            };
        }
        self.missed |= guest.has_missed();
        if self.args.counts_there() {
            match guest.counted() {
                Ok(counts) => self.counted.extend(counts),
                Err(error) => {
                    eprintln!("lancet: what process {pid} had counted is lost: {error}");
                    self.missed = true;
                }
            }
        }
        if let Ok(losses) = guest.losses()
            && losses.sum() != 0
        {
            self.losses.push((pid, losses));
        }
    }

    fn is_over(&self) -> bool {
        self.guests.is_empty() && self.seized.is_empty()
    }
}

impl Source for Family<'_> {
    fn read(&mut self, sink: &mut dyn Sink) -> anyhow::Result<Flow> {
        if self.left {
            for guest in &mut self.guests {
                guest.drain(sink)?;
            }
            return Ok(Flow::Over);
        }
        process::stop::tend_stragglers();
        let mut any = self.tend_seized();
        let mut at = 0;
        while at < self.guests.len() {
            any |= self.tend(at, sink)?;
            match self.guests[at].is_over() {
                true => {
                    let guest = self.guests.remove(at);
                    self.retire(guest);
                }
                false => at += 1,
            }
        }
        Ok(match any {
            _ if self.is_over() => Flow::Over,
            true => Flow::More,
            false => Flow::Idle,
        })
    }

    /// They go on alone. Of the program that was started the end is still waited for.
    fn leave(&mut self) -> bool {
        self.left = true;
        for seized in self.seized.drain(..) {
            seized.let_go();
        }
        for guest in &mut self.guests {
            if let Err(error) = guest.leave()
                && !matches!(error, process::Error::Gone(_))
            {
                eprintln!("lancet: {error}");
                self.missed = true;
            }
            if let (Some(program), Some(tracee)) = (&mut self.program, guest.take_tracee())
                && program.pid == tracee.pid()
            {
                program.alone = Some(tracee);
            }
        }
        !self.missed
    }

    fn counted(&mut self) -> Vec<Count> {
        for guest in std::mem::take(&mut self.guests) {
            self.retire(guest);
        }
        std::mem::take(&mut self.counted)
    }

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        for guest in std::mem::take(&mut self.guests) {
            self.retire(guest);
        }
        std::mem::take(&mut self.losses)
    }

    fn code(&mut self) -> Option<u8> {
        let program = self.program.as_mut()?;
        loop {
            if let (None, Some(tracee)) = (program.code, &mut program.alone) {
                match tracee.tend() {
                    Ok(None) => {}
                    Ok(Some(Happening::Ended(code))) => program.code = Some(code),
                    Ok(Some(_)) => drop(tracee.go_on(false)),
                    Err(_) => program.code = Some(1),
                }
            }
            match program.code {
                Some(code) => return Some(code as u8),
                None if interrupt::asked() || program.alone.is_none() => return Some(INTERRUPTED),
                None => wait_for_any(LOOK),
            }
        }
    }
}
