//! All processes that are traced: those that were opened, a program that was started, their children and what they run next.
//! Used by `lancet::watching::run`.

use super::bpf::programs::Programs;
use super::guest::{Guest, Shared};
use super::kernel_count::CountingProgram;
use super::leads::{Due, Leads};
use super::process::Process;
use super::traced::FirstExec;
use super::unadopted::Unadopted;
use super::unreturned::Watched;
use crate::Error;
use crate::consumer::Consumer;
use crate::debug::{self, say};
use crate::descriptors::Held;
use crate::event::{End, Event};
use crate::message::Message;
use crate::options::Options;
use crate::signatures::Signatures;
use crate::source::{Count, Flow, Source};
use hooks::rings::Losses;
use inject::Embedded;
use inject::lifecycle::{NotStarted, Observer, Over, Processes};
use inject::tracee::{User, wait_for_any};
use std::collections::HashMap;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

/// Time between two looks at empty rings after one in which a large part was unread: a thread that calls without a pause fills a ring in
/// half a millisecond. It is used for some looks only, because the threads may only be waiting for a moment.
const SOON: Duration = Duration::from_micros(50);
const A_MOMENT: u32 = 20;
/// Time between two looks at other empty rings.
const LOOK: Duration = Duration::from_millis(1);
/// The same if there was nothing for `A_WHILE` looks. A thread that loads a library waits for a look.
const SELDOM: Duration = Duration::from_millis(4);
const A_WHILE: u32 = 100;
/// Threads and calls whose losses are said one by one.
const MOST_NOT_TOLD: usize = 20;

/// The processes of one run of `calls` or `syscalls`, as the [`Source`] of its events. Each event goes to the consumer that is passed to
/// [`Source::read`]; losses and counts of a process that is over are kept here until they are requested.
pub struct Family<'a> {
    shared: Shared<'a>,
    processes: Processes<Process>,
    /// Finds children that no hook has reported.
    unadopted: Unadopted,
    kept: Kept<'a>,
    /// Number of looks in a row at which there was nothing.
    idle: u32,
    /// Processes that were left, in which calls that have not returned are still to be looked for.
    unreturned: Vec<Watched>,
}

/// What is kept of processes that are over.
struct Kept<'a> {
    args: &'a Options,
    /// Processes that were left, and whose last events are still to be read.
    left: Vec<Process>,
    counts: Vec<Count>,
    losses: Vec<(i32, Losses)>,
    descriptors: Vec<(i32, Held)>,
    /// The signal that has killed a process, by the id of the process.
    killed: HashMap<i32, i32>,
}

/// Passes the events of the guests to a consumer, up to the first that it cannot take.
struct Hears<'h, 'a> {
    kept: &'h mut Kept<'a>,
    sink: Option<&'h mut dyn Consumer>,
    taken: Result<(), Error>,
}

impl<'h, 'a> Hears<'h, 'a> {
    fn new(kept: &'h mut Kept<'a>, sink: Option<&'h mut dyn Consumer>) -> Self {
        let taken = Ok(());
        Hears { kept, sink, taken }
    }
}

impl Observer<Process> for Hears<'_, '_> {
    fn event(&mut self, event: Event) {
        if let (Ok(()), Some(sink)) = (&self.taken, &mut self.sink) {
            self.taken = sink.take(event).map_err(Error::from);
        }
    }

    fn begins(&mut self, pid: i32) {
        say(
            self.kept.args,
            debug::PROCESS,
            format_args!("process {pid} runs another program: it is followed"),
        );
    }

    fn unwatched(&mut self, _: i32, error: process::Error) {
        let message = Message::NotOpened(error.into());
        self.kept.args.messages.say(message);
    }

    fn over(&mut self, mut guest: Process, why: Over) {
        match why {
            Over::Ended => {
                if let Some(End::Killed(signal)) = guest.ended() {
                    self.kept.killed.insert(guest.pid(), signal);
                }
                self.kept.retire(guest);
            }
            Over::Replaced => {
                guest.gives_way(&mut |event| self.event(event));
                self.kept.retire(guest);
            }
            Over::Left => {
                guest.note_descriptors();
                self.kept.left.push(guest);
            }
        }
    }

    /// The caller asks for the exit code of the started program, so nothing is done here.
    fn ended(&mut self, _: i32, _: Option<i32>) {}
}

impl<'a> Family<'a> {
    /// Opens the processes, and starts the program, that the options name.
    pub fn open(
        args: &'a Options,
        signatures: &'a Rc<Signatures>,
        agent: Embedded,
    ) -> Result<Self, Error> {
        let mut family = Family {
            shared: Shared {
                args,
                signatures,
                agent,
                exec: FirstExec::default(),
                programs: Programs::default(),
                kernel: CountingProgram::default(),
                leads: Leads {
                    due: Due::new(args.leads_by_bpf()),
                    ..Leads::default()
                },
            },
            processes: Processes::default(),
            unadopted: Unadopted::default(),
            kept: Kept {
                args,
                left: Vec::new(),
                counts: Vec::new(),
                losses: Vec::new(),
                descriptors: Vec::new(),
                killed: HashMap::new(),
            },
            idle: 0,
            unreturned: Vec::new(),
        };
        let starts = !args.program.is_empty();
        if starts {
            family.start(args)?;
        }
        for pid in &args.pids {
            match family.processes.open(*pid, &family.shared) {
                Ok(()) => {}
                Err(error) if args.pids.len() == 1 && !starts => return Err(error),
                Err(error) => {
                    args.messages.say(Message::NotOpened(error));
                }
            }
        }
        if family.processes.is_empty() {
            return Err(Error::NothingOpened);
        }
        Ok(family)
    }

    /// Starts the program, which is hooked before its own code runs. Its children are not traced: hooks report them.
    fn start(&mut self, args: &Options) -> Result<(), Error> {
        let user = match &args.user {
            None => None,
            Some(name) => Some(User::named(name).ok_or_else(|| Error::NoUser(name.clone()))?),
        };
        let how = (false, user.as_ref());
        let mut hears = Hears::new(&mut self.kept, None);
        let started = self
            .processes
            .start(&args.program, how, &self.shared, &mut hears);
        match started {
            Ok(_) => Ok(()),
            Err(NotStarted::Launch(error)) => Err(error.into()),
            Err(NotStarted::Watch(error)) => Err(Error::NotRun(error)),
        }
    }

    /// Ends the command if not all is seen that must be. A program that lancet has started has not begun then, and is not run.
    fn require_exact(&self) -> Result<(), Error> {
        let mut watched = self.processes.watched();
        let found = watched.find_map(|one| Some((one.pid(), one.inexact()?.to_vec())));
        let Some((pid, unseen)) = found else {
            return Ok(());
        };
        if self.processes.started() == Some(pid) {
            // SAFETY: kill(2) takes integers. `pid` is our own child that we have not waited for, so the id cannot belong to another
            // process.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        Err(Error::not_exact(pid, unseen))
    }

    /// Notes the processes that were opened as they ran, before they are left, if calls that have not returned are told.
    fn note_unreturned(&mut self) {
        let args = self.shared.args;
        if !args.count || args.presets.is_empty() {
            return;
        }
        let watched = self.processes.watched().filter_map(Process::hooked);
        let opened = watched.filter(|guest| args.pids.contains(&guest.pid()));
        self.unreturned = opened.filter_map(Guest::to_be_looked_at).collect();
    }

    /// Says which calls of presets have not returned. By now the processes have no hooks that could wait for us, and all that they have
    /// recorded was read.
    fn tell_unreturned(&mut self) {
        for watched in std::mem::take(&mut self.unreturned) {
            if let Some(told) = watched.look(&self.shared.args.presets) {
                self.shared.args.messages.say(told);
            }
        }
    }

    /// Says whose calls BPF programs could not tell, and returns what they have lost beside these: as of the first process, because of most
    /// nobody knows whose they are.
    fn lost_by_bpf(&self) -> Option<(i32, Losses)> {
        let programs = &self.shared.programs;
        let mut rest = programs.lost().into_iter().reduce(|one, other| Losses {
            records: one.records + other.records,
            without_ring: one.without_ring + other.without_ring,
            uncopied: one.uncopied + other.uncopied,
            ..one
        })?;
        // What is not said one by one is in the sum.
        let mut not_told = programs.not_told();
        not_told.sort_by_key(|of| (std::cmp::Reverse(of.records), of.pid, of.tid));
        for not_told in not_told.into_iter().take(MOST_NOT_TOLD) {
            rest.records = rest.records.saturating_sub(not_told.records);
            self.shared.args.messages.say(Message::NotTold(not_told));
        }
        let first = self
            .processes
            .started()
            .or(self.shared.args.pids.first().copied());
        Some((first.unwrap_or_default(), rest))
    }

    /// Opens children that no hook has reported, as any running process is opened.
    fn open_unadopted(&mut self) {
        let watched = self.processes.watched();
        let guests: Vec<&Guest> = watched.filter_map(Process::hooked).collect();
        for (parent, child) in self.unadopted.look(&guests) {
            let messages = &self.shared.args.messages;
            messages.say(Message::ClonedChild { pid: child, parent });
            if let Err(error) = self.processes.open(child, &self.shared) {
                messages.say(Message::NotFollowed { pid: child, error });
            }
        }
    }
}

impl Kept<'_> {
    /// Keeps what is needed of a guest that is over.
    fn retire(&mut self, mut guest: Process) {
        say(
            self.args,
            debug::GENERAL,
            format_args!("process {} is over: {:?}", guest.pid(), guest.ended()),
        );
        if self.args.counts_in_guest() {
            match guest.counted() {
                Ok(counts) => self.counts.extend(counts),
                Err(error) => {
                    let pid = guest.pid();
                    self.args.messages.say(Message::CountsLost { pid, error });
                }
            }
        }
        if let Some(held) = guest.held() {
            self.keep_descriptors(guest.pid(), held);
        }
        match guest.losses() {
            Ok(losses) => self.losses.push((guest.pid(), losses)),
            Err(error) => {
                let pid = guest.pid();
                self.args
                    .messages
                    .say(Message::LossesUnknown { pid, error });
            }
        }
    }
}

impl Kept<'_> {
    /// Keeps the descriptors of a process. One that runs another program keeps the list from before the first.
    fn keep_descriptors(&mut self, pid: i32, held: Held) {
        match self.descriptors.iter_mut().find(|(of, _)| *of == pid) {
            Some((_, known)) => {
                let before = std::mem::take(&mut known.before);
                *known = Held { before, ..held };
            }
            None => self.descriptors.push((pid, held)),
        }
    }
}

impl Source for Family<'_> {
    fn read(&mut self, sink: &mut dyn Consumer) -> Result<Flow, Error> {
        let left = std::mem::take(&mut self.kept.left);
        let mut hears = Hears::new(&mut self.kept, Some(sink));
        for mut guest in left {
            guest.drain(&mut |event| hears.event(event));
            hears.kept.retire(guest);
        }
        std::mem::replace(&mut hears.taken, Ok(()))?;
        self.tell_unreturned();
        let mut hears = Hears::new(&mut self.kept, Some(sink));
        let any = self.processes.poll(&self.shared, &mut hears);
        hears.taken?;
        if let Some(recording) = &self.shared.args.recording {
            recording.borrow_mut().flush()?;
        }
        if self.shared.args.follow {
            self.open_unadopted();
        }
        if any {
            self.idle = 0;
        }
        self.require_exact()?;
        Ok(if self.processes.is_empty() && self.kept.left.is_empty() {
            Flow::Over
        } else if any {
            Flow::More
        } else {
            Flow::Idle
        })
    }

    fn rest(&mut self) {
        self.idle += 1;
        let pause = if self.idle > A_WHILE {
            SELDOM
        } else if self.idle <= A_MOMENT && self.processes.watched().any(Process::is_busy) {
            SOON
        } else {
            LOOK
        };
        // A traced thread stands at its next system call at once, and waits there until the next look.
        let is_led = || self.processes.watched().any(Process::is_traced);
        match self.processes.started() {
            Some(_) => wait_for_any(pause),
            None if is_led() => sleep(SOON),
            None => sleep(pause),
        }
    }

    fn leave(&mut self) {
        self.note_unreturned();
        let mut hears = Hears::new(&mut self.kept, None);
        for error in self.processes.leave(&mut hears) {
            if !error.is_left() {
                self.shared.args.messages.say(Message::NotLeft(error));
            }
        }
    }

    fn counted(&mut self) -> Vec<Count> {
        let mut counts = std::mem::take(&mut self.kept.counts);
        counts.extend(self.shared.programs.counted());
        counts
    }

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        let mut all = std::mem::take(&mut self.kept.losses);
        all.extend(self.lost_by_bpf());
        all
    }

    fn lost_until_now(&mut self) -> u64 {
        let watched = self.processes.watched_mut();
        // A process that cannot be read has ended, and its losses are read then.
        let lost = watched.filter_map(|process| process.losses().ok());
        let by_bpf = self.shared.programs.lost().into_iter();
        lost.chain(by_bpf).map(|losses| losses.sum()).sum()
    }

    fn descriptors(&mut self) -> Vec<(i32, Held)> {
        std::mem::take(&mut self.kept.descriptors)
    }

    fn killed_by(&self) -> Option<i32> {
        self.kept.killed.get(&self.processes.started()?).copied()
    }

    fn code(&mut self) -> Option<i32> {
        self.processes.code()
    }
}
