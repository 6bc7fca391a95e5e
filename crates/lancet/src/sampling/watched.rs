//! The processes that are looked at again and again: those that were named, their children, or a program that we start.
//! Used by `sampling`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::Context;
use frames::live::open::{Live, Look, Wanted};
use process::descriptors::with_first_limit;
use process::guest;
use process::ptrace::Event;
use process::refusals::{Program, Refusals};
use report::losses::{Loss, What};

use crate::exit::FAILED;
use crate::looks::{attach, is_passing, plain};
use crate::losses::Losses;
use crate::ui::interrupt;

/// How often children are looked for.
const NEW: Duration = Duration::from_millis(200);

/// How long another lancet may be in the way of all looks. One that attaches may write thousands of hooks in one stop.
const TRACED: Duration = Duration::from_secs(10);

/// Looks in a row that may fail until a process is given up: one that runs another program has new memory, and its loader
/// begins anew.
const FAILURES: u32 = 20;

/// The processes that one `lancet stack` looks at until it ends. One that cannot be looked at any more is left out; a program that was started
/// goes on when this value is dropped.
pub struct Watched {
    open: Vec<Process>,
    roots: Vec<i32>,
    children: bool,
    looked_for_new: Instant,
    /// Children that could not be opened.
    refused: Refusals<(i32, anyhow::Error)>,
    /// Those that will not be tried again, and why.
    unopened: Vec<(i32, anyhow::Error)>,
    program: Option<Child>,
}

struct Process {
    pid: i32,
    live: Live,
    failures: u32,
    /// Since when another lancet has traced it at each look.
    traced_since: Option<Instant>,
}

impl Watched {
    /// Opens the processes; of several that were named all must be open.
    pub fn open(pids: &[i32], children: bool) -> anyhow::Result<Self> {
        let open = pids
            .iter()
            .map(|&pid| Ok(Process::of(pid, attach(pid)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut watched = Watched {
            open,
            roots: pids.to_vec(),
            children,
            looked_for_new: Instant::now(),
            refused: Refusals::default(),
            unopened: Vec::new(),
            program: None,
        };
        watched.take_in_children(&interrupt::asked);
        Ok(watched)
    }

    /// Starts a program. Its standard streams are ours.
    pub fn start(program: &[OsString], children: bool) -> anyhow::Result<Self> {
        let (name, arguments) = program.split_first().context("no program is named")?;
        let started = with_first_limit(Command::new(name).args(arguments)).spawn();
        let child = started.with_context(|| format!("starting {}", name.to_string_lossy()))?;
        let pid = child.id() as i32;
        let mut watched = match attach(pid) {
            Ok(live) => Watched {
                open: vec![Process::of(pid, live)],
                roots: vec![pid],
                children,
                looked_for_new: Instant::now(),
                refused: Refusals::default(),
                unopened: Vec::new(),
                program: None,
            },
            Err(error) => {
                // Not ours to end: it goes on alone.
                return Err(error.context("the program runs, but it cannot be looked at"));
            }
        };
        watched.program = Some(child);
        Ok(watched)
    }

    /// Whether no process is left to be looked at, or the program that was started has ended.
    pub fn is_empty(&mut self) -> bool {
        self.has_ended() || self.open.is_empty()
    }

    /// Whether we have started a program and it has ended.
    fn has_ended(&mut self) -> bool {
        self.code().is_some()
    }

    /// The exit code of the program that we started, once it has ended.
    pub fn code(&mut self) -> Option<u8> {
        let program = self.program.as_mut()?;
        let pid = program.id() as i32;
        let status = match program.try_wait() {
            Ok(status) => status?,
            // The kernel tells each end once, and a stop of ours was told of this one.
            Err(_) => return Some(end_of(pid)),
        };
        let signal = || 128 + status.signal().unwrap_or_default();
        Some(status.code().unwrap_or_else(signal) as u8)
    }

    /// Whether a program was started.
    pub fn starts(&self) -> bool {
        self.program.is_some()
    }

    /// Looks at each once, or at those that come before it is over; those that cannot be looked at any more are left out from now on, which is a loss.
    pub fn look(
        &mut self,
        wanted: Wanted,
        losses: &mut Losses,
        is_over: &dyn Fn() -> bool,
        mut seen: impl FnMut(i32, &Live, &Look),
    ) {
        if self.children && self.looked_for_new.elapsed() >= NEW {
            self.take_in_children(is_over);
        }
        let started = self.program.as_ref().map(|child| child.id() as i32);
        let (mut gone, named) = (Vec::new(), self.roots.clone());
        self.open.retain_mut(|process| {
            if is_over() {
                return true;
            }
            match process.live.look_again(wanted) {
                // It costs this look.
                Err(error) if is_passing(&error) && process.is_traced_for_a_moment() => true,
                Ok(()) => {
                    process.failures = 0;
                    process.traced_since = None;
                    if let Some(look) = process.live.seen() {
                        seen(process.pid, &process.live, look);
                    }
                    true
                }
                Err(error) => {
                    let again = process.is_there_again(started == Some(process.pid));
                    // A worker that ends is a server's everyday life.
                    if !again && started != Some(process.pid) && named.contains(&process.pid) {
                        gone.push((process.pid, plain(error)));
                    }
                    again
                }
            }
        });
        for (pid, error) in gone {
            say_lost(pid, &error, losses);
        }
    }

    /// Says which children that are there were never looked at.
    pub fn say_unopened(&mut self, losses: &mut Losses) {
        self.unopened.extend(self.refused.untold());
        for (pid, error) in std::mem::take(&mut self.unopened) {
            if Program::of(pid).is_some() {
                say_lost(pid, &error, losses);
            }
        }
    }

    fn take_in_children(&mut self, is_over: &dyn Fn() -> bool) {
        self.looked_for_new = Instant::now();
        if !self.children {
            return;
        }
        let family = guest::family(&self.roots, true);
        // A worker that ends is a server's everyday life.
        self.refused.look(&family, Instant::now(), Program::of);
        for pid in family {
            if is_over() {
                return;
            }
            let is_open = self.open.iter().any(|process| process.pid == pid);
            if is_open || !self.refused.is_due(pid, Instant::now()) {
                continue;
            }
            let program = Program::of(pid);
            match attach(pid) {
                Ok(live) => {
                    self.refused.forget(pid);
                    self.open.push(Process::of(pid, live));
                }
                Err(error) => {
                    let (error, now) = (Some((pid, error)), Instant::now());
                    self.unopened
                        .extend(self.refused.refuse(pid, error, now, program));
                }
            }
        }
    }
}

fn say_lost(pid: i32, error: &anyhow::Error, losses: &mut Losses) {
    let text = format!("process {pid}: {error:#}");
    losses.say(Loss::new(Some(pid), What::Process, None, text));
}

/// The exit code of a program of which a stop of ours was told that it has ended.
fn end_of(pid: i32) -> u8 {
    match process::ptrace::end_of(pid) {
        Some(Event::Exited(code)) => code as u8,
        Some(Event::Killed(signal)) => (128 + signal) as u8,
        _ => FAILED,
    }
}

impl Process {
    fn of(pid: i32, live: Live) -> Self {
        Process {
            pid,
            live,
            failures: 0,
            traced_since: None,
        }
    }

    /// After a look that another lancet was in the way of: whether that may still pass.
    fn is_traced_for_a_moment(&mut self) -> bool {
        let since = self.traced_since.get_or_insert_with(Instant::now);
        since.elapsed() < TRACED
    }

    /// After a failure: whether the process, which may have become another program, can be opened again. One that was not
    /// `started` by us has to be the program that it was.
    fn is_there_again(&mut self, started: bool) -> bool {
        self.failures += 1;
        if !started || self.failures > FAILURES {
            return false;
        }
        match attach(self.pid) {
            Ok(live) => {
                self.live = live;
                true
            }
            Err(_) => false,
        }
    }
}
