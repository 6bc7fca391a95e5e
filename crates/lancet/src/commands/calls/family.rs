//! Everybody who is traced: processes that were opened, a program that was started, their children and what they run
//! next.

use super::debug::{self, say};
use super::guest::{Guest, Step};
use super::signatures::Signatures;
use super::sink::Sink;
use super::source::{Count, Flow, Source};
use super::told::{End, Told};
use crate::cli::CallsArgs;
use crate::guests::AGENT;
use crate::ui::advice::explain;
use process::Image;
use process::lanes::Losses;
use process::seized::{Became, Seized};
use process::tracee::{Happening, Tracee, User, wait_for_any};
use std::thread::sleep;
use std::time::Duration;

/// Between two looks at lanes that were empty.
const LOOK: Duration = Duration::from_millis(1);
/// The same where there has been nothing for so many looks. Who loads a library waits for a look.
const SELDOM: Duration = Duration::from_millis(4);
const A_WHILE: u32 = 100;

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
    /// They were left; what they told is to be read.
    left: Vec<Guest>,
    /// What those counted, and what those lost, of whom nothing comes any more.
    counts: Vec<Count>,
    losses: Vec<(i32, Losses)>,
    /// Something was lost or refused.
    lost: bool,
    /// Looks since there was something.
    idle: u32,
}

/// A program that was started.
struct Program {
    pid: i32,
    /// Nobody traces what it calls: before its exec, or when we have left it.
    alone: Option<Tracee>,
    /// As a shell says it.
    code: Option<i32>,
}

impl<'a> Family<'a> {
    /// Opens the processes, and starts the program, that the command line names.
    pub fn open(args: &'a CallsArgs, signatures: &'a Signatures) -> anyhow::Result<Self> {
        let mut family = Family {
            args,
            signatures,
            image: Image::parse(AGENT)?,
            guests: Vec::new(),
            seized: Vec::new(),
            program: None,
            left: Vec::new(),
            counts: Vec::new(),
            losses: Vec::new(),
            lost: false,
            idle: 0,
        };
        let starts = !args.program.is_empty();
        if starts {
            family.start()?;
        }
        for pid in &args.pids {
            match Guest::open(*pid, args, &family.image, signatures) {
                Ok(guest) => family.guests.push(guest),
                Err(error) if args.pids.len() == 1 && !starts => return Err(error),
                Err(error) => {
                    eprintln!("lancet: {error:#}");
                    family.lost = true;
                }
            }
        }
        if args.pids.is_empty() && !starts {
            anyhow::bail!("there is nothing to watch: name a PROGRAM, or a process with -p PID");
        }
        if family.is_empty() {
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
            Tracee::launch(&self.args.program, false, user.as_ref()).map_err(explain)?;
        let pid = tracee.pid();
        loop {
            match tracee.wait().map_err(explain)? {
                Happening::Exec => break,
                Happening::Ended(_) => anyhow::bail!("the program ended before it began"),
                _ => tracee.go_on(false).map_err(explain)?,
            }
        }
        match Guest::begin(tracee, true, self.args, &self.image, self.signatures) {
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

    /// Whether anybody is traced.
    fn is_empty(&self) -> bool {
        self.guests.is_empty() && self.seized.is_empty()
    }

    fn tend(&mut self, at: usize, sink: &mut dyn Sink) -> anyhow::Result<bool> {
        let (mut steps, mut taken) = (Vec::new(), Ok(()));
        let guest = &mut self.guests[at];
        let pid = guest.pid();
        let mut tell = |told: Told| {
            if taken.is_ok() {
                taken = sink.take(told);
            }
        };
        let any = guest.tend(self.args, self.signatures, &mut tell, &mut steps);
        for step in steps {
            match step {
                Step::Seized(seized) => {
                    say(
                        self.args.debug,
                        debug::PROCESS,
                        format_args!("thread {} is seized for its exec", seized.tid()),
                    );
                    self.seized.push(seized);
                }
                Step::NoExec(tid) => {
                    if let Some(at) = self.seized.iter().position(|one| one.tid() == tid) {
                        self.seized.swap_remove(at).let_go();
                    }
                }
                Step::Child(child) => {
                    say(
                        self.args.debug,
                        debug::PROCESS,
                        format_args!("process {}, a child of {pid}, is opened", child.pid()),
                    );
                    self.guests.push(*child);
                }
                Step::Exec(tracee) => {
                    let keep = self
                        .program
                        .as_ref()
                        .is_some_and(|program| program.pid == pid);
                    self.begin(tracee, keep);
                }
            }
        }
        Ok(taken.map(|()| any)?)
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
                let keep = self
                    .program
                    .as_ref()
                    .is_some_and(|program| program.pid == tracee.pid());
                self.begin(tracee, keep);
            }
        }
        any
    }

    /// Another program stands at its first instruction.
    fn begin(&mut self, tracee: Tracee, keep: bool) {
        let pid = tracee.pid();
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
        match Guest::begin(tracee, keep, self.args, &self.image, self.signatures) {
            Ok(guest) => self.guests.push(guest),
            Err((mut tracee, error)) => {
                eprintln!("lancet: {:#}", explain(error));
                self.lost = true;
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
        say(
            self.args.debug,
            debug::GENERAL,
            format_args!("process {} is over: {:?}", guest.pid(), guest.ended()),
        );
        if let (Some(program), Some(end)) = (&mut self.program, guest.ended())
            && program.pid == guest.pid()
        {
            match end {
                End::Exited(code) => program.code = Some(code),
                End::Killed(signal) => program.code = Some(128 + signal),
                End::Unknown | End::Replaced => {}
            }
        }
        self.lost |= guest.has_missed();
        if self.args.counts_there() {
            match guest.counted() {
                Ok(counts) => self.counts.extend(counts),
                Err(error) => {
                    eprintln!(
                        "lancet: what process {} had counted is lost: {error}",
                        guest.pid()
                    );
                    self.lost = true;
                }
            }
        }
        if let Ok(losses) = guest.losses() {
            self.losses.push((guest.pid(), losses));
        }
    }

    fn retire_left(&mut self, mut guest: Guest) {
        let tracee = guest.take_tracee();
        if let (Some(program), Some(tracee)) = (&mut self.program, tracee)
            && program.pid == tracee.pid()
        {
            program.alone = Some(tracee);
        }
        self.retire(guest);
    }
}

impl Source for Family<'_> {
    fn read(&mut self, sink: &mut dyn Sink) -> anyhow::Result<Flow> {
        let mut taken = Ok(());
        for mut guest in std::mem::take(&mut self.left) {
            guest.drain(&mut |told| {
                if taken.is_ok() {
                    taken = sink.take(told);
                }
            });
            self.retire_left(guest);
        }
        taken?;
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
        if any {
            self.idle = 0;
        }
        Ok(match any {
            _ if self.is_empty() => Flow::Over,
            true => Flow::More,
            false => Flow::Idle,
        })
    }

    fn rest(&mut self) {
        self.idle += 1;
        let pause = if self.idle > A_WHILE { SELDOM } else { LOOK };
        match self.program {
            Some(_) => wait_for_any(pause),
            None => sleep(pause),
        }
    }

    fn leave(&mut self) -> bool {
        for seized in self.seized.drain(..) {
            seized.let_go();
        }
        let mut left = true;
        for mut guest in std::mem::take(&mut self.guests) {
            if let Err(error) = guest.leave()
                && !matches!(error, process::Error::Gone(_))
            {
                eprintln!("lancet: {error}");
                left = false;
            }
            self.left.push(guest);
        }
        left
    }

    fn counted(&mut self) -> Vec<Count> {
        std::mem::take(&mut self.counts)
    }

    fn has_missed(&self) -> bool {
        self.lost
    }

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        std::mem::take(&mut self.losses)
    }

    fn code(&mut self) -> Option<i32> {
        let program = self.program.as_mut()?;
        if let (None, Some(tracee)) = (program.code, &mut program.alone) {
            match tracee.tend() {
                Ok(None) => {}
                Ok(Some(Happening::Ended(code))) => program.code = Some(code),
                Ok(Some(_)) => drop(tracee.go_on(false)),
                Err(_) => program.code = Some(1),
            }
        }
        program.code
    }
}
