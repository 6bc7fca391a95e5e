//! Everybody who is traced: processes that were opened, a program that was started, their children and what they run
//! next.

use super::debug::{self, say};
use super::guest::{End, Guest, Step, Told};
use super::printer::Printer;
use super::signatures::Signatures;
use super::summary::Summary;
use crate::cli::CallsArgs;
use crate::guests::AGENT;
use crate::ui::advice::explain;
use crate::ui::sink::Sink;
use process::Image;
use process::seized::{Became, Seized};
use process::tracee::{Happening, Tracee, User, wait_for_any};
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// Between two looks at lanes that were empty.
const LOOK: Duration = Duration::from_millis(1);

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
    printer: Printer<'a>,
    sink: Sink,
    summary: Summary,
    /// Nanoseconds of a cycle.
    period: f64,
    /// Something was lost or refused.
    lost: bool,
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
    /// Nobody is traced yet.
    pub fn new(
        args: &'a CallsArgs,
        signatures: &'a Signatures,
        sink: Sink,
    ) -> anyhow::Result<Self> {
        Ok(Family {
            args,
            signatures,
            image: Image::parse(AGENT)?,
            guests: Vec::new(),
            seized: Vec::new(),
            program: None,
            printer: Printer::new(args, signatures),
            sink,
            summary: Summary::default(),
            period: 1.0,
            lost: false,
        })
    }

    /// Starts the program; it stands at its first instruction, with what is needed to hook it before its own code runs.
    pub fn start(&mut self) -> anyhow::Result<()> {
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

    /// Opens a running process.
    pub fn open(&mut self, pid: i32) -> anyhow::Result<()> {
        let guest = Guest::open(pid, self.args, &self.image, self.signatures)?;
        self.guests.push(guest);
        if self.guests.len() > 1 {
            self.printer.say_threads();
        }
        Ok(())
    }

    /// Something was lost or refused.
    pub fn note_loss(&mut self) {
        self.lost = true;
    }

    /// Whether anybody is traced.
    pub fn is_empty(&self) -> bool {
        self.guests.is_empty() && self.seized.is_empty()
    }

    /// Sees to everybody once; rests for a moment if nobody had anything.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        process::stop::tend_stragglers();
        let mut any = self.tend_seized();
        let mut at = 0;
        while at < self.guests.len() {
            any |= self.tend(at)?;
            match self.guests[at].is_over() {
                true => {
                    let guest = self.guests.remove(at);
                    self.retire(guest);
                }
                false => at += 1,
            }
        }
        if !any {
            self.sink.out.flush()?;
            match self.program {
                Some(_) => wait_for_any(LOOK),
                None => sleep(LOOK),
            }
        }
        Ok(())
    }

    fn tend(&mut self, at: usize) -> anyhow::Result<bool> {
        let (mut steps, mut printed) = (Vec::new(), Ok(()));
        let (printer, sink) = (&mut self.printer, &mut self.sink);
        let guest = &mut self.guests[at];
        let pid = guest.pid();
        let mut tell = |told: Told| {
            if printed.is_ok() {
                printed = printer.print(&mut sink.out, told);
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
                    self.printer.say_threads();
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
        Ok(printed.map(|()| any)?)
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
        match Guest::begin(tracee, keep, self.args, &self.image) {
            Ok(guest) => {
                if !keep {
                    self.printer.say_threads();
                }
                self.guests.push(guest);
            }
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
        if self.args.count {
            match guest.counted() {
                Ok((rows, period)) => {
                    self.period = period;
                    for (function, line, counted) in rows {
                        self.summary.add(function, line, &counted);
                    }
                }
                Err(error) => {
                    eprintln!(
                        "lancet: what process {} had counted is lost: {error}",
                        guest.pid()
                    );
                    self.lost = true;
                }
            }
        }
        self.lost |= say_losses(&mut guest);
    }

    /// Leaves everybody; they go on alone. Then prints what is left to print.
    pub fn leave(&mut self) -> anyhow::Result<()> {
        for seized in self.seized.drain(..) {
            seized.let_go();
        }
        let mut printed: io::Result<()> = Ok(());
        for mut guest in std::mem::take(&mut self.guests) {
            if let Err(error) = guest.leave()
                && !matches!(error, process::Error::Gone(_))
            {
                eprintln!("lancet: {error}");
                self.lost = true;
            }
            // What was told while we left.
            let (printer, sink) = (&mut self.printer, &mut self.sink);
            guest.read(&mut |told| {
                if printed.is_ok() {
                    printed = printer.print(&mut sink.out, told);
                }
            });
            self.retire_left(guest);
        }
        printed?;
        self.printer.finish(&mut self.sink.out)?;
        if self.args.count {
            self.summary.print(&mut self.sink.out, self.period)?;
        }
        Ok(self.sink.out.flush()?)
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

    /// The exit code of the program that was started, if it has ended.
    pub fn code(&mut self) -> Option<i32> {
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

    /// Whether something was lost or refused.
    pub fn has_lost(&self) -> bool {
        self.lost
    }
}

/// Says what got lost; whether anything did.
fn say_losses(guest: &mut Guest) -> bool {
    let Ok(losses) = guest.losses() else {
        return false;
    };
    if losses.sum() == 0 {
        return false;
    }
    eprintln!(
        "lancet: process {}: lost: {} records that found no room in time, {} calls of threads without a lane, {} counts",
        guest.pid(),
        losses.records,
        losses.unlaned,
        losses.uncounted
    );
    true
}
