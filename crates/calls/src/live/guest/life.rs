//! The events of a traced process as a whole: a library comes, a child is made, another program begins, the process ends.
//! Used by `bpf`, `family`, `guest` and others.

mod children;
mod watched;

use super::super::lookup::Known;
use super::{Guest, options};
use crate::debug::{self, say};
use crate::event::{At, End, Event, EventKind, Opened};
use crate::live::bpf::programs::Programs;
use crate::live::kernel_count::CountingProgram;
use crate::live::leads::Leads;
use crate::live::traced::FirstExec;
use crate::message::Message;
use crate::options::Options;
use crate::signatures::Signatures;
use crate::source::Count;
use hooks::rings::{Counted, Losses};
use hooks::{Arrives, Notice, Says, Tracing};
use inject::Embedded;
use inject::lifecycle::{Execs, Turn, Watched};
use inject::tracee::Tracee;
use process::Error;
use process::stop::Ties;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// Limit of the time for the notices of one process, before others have their turn and the end of the session is checked. The
/// process can post notices without end.
const ATTENTION: Duration = Duration::from_millis(50);
/// How long we wait for the kernel to end a process whose memory is gone, before its end is reported without the cause.
const LONGEST_END: Duration = Duration::from_secs(30);

/// What all guests of one run have in common.
pub struct Shared<'a> {
    /// The options of the run.
    pub args: &'a Options,
    /// The prototypes of functions.
    pub signatures: &'a Rc<Signatures>,
    /// The agent's program file.
    pub agent: Embedded,
    /// The exec of the program that is started.
    pub exec: FirstExec,
    /// BPF programs, if they are used.
    pub programs: Programs,
    /// The one that counts beside hooks, while it is used.
    pub kernel: CountingProgram,
    /// What is known of processes that are seen by ptrace before they are hooked.
    pub leads: Leads,
}

/// The state of a guest's life.
#[derive(Default)]
pub(super) struct Life {
    /// Exit status from the guest's exit notice, before the exit itself was seen.
    says: Option<i32>,
    end: Option<End>,
    /// Whether the guest is in execve and its thread has been seized, so that watching continues in the new program.
    leaves: bool,
    /// Whether it must be left, because hooks would end it.
    pub(super) locked: bool,
    /// Counts as they were before its memory went.
    counts: Option<Vec<Count>>,
    losses: Option<Losses>,
    /// Whether lancet goes on tracing it to its end.
    pub(super) keep: bool,
    /// Whether its process still runs, but its control page or rings can no longer be read.
    unheard: bool,
    /// Since when its memory is gone while the kernel has still to end it.
    ending: Option<Instant>,
    /// Children that its notices have reported.
    met: HashSet<i32>,
    /// Children that cannot be opened yet, and since when they are known.
    children: Vec<(i32, Instant)>,
}

impl Guest {
    /// Opens a process that stands at its exec. With `keep` lancet goes on tracing it.
    pub fn begin(
        mut tracee: Tracee,
        keep: bool,
        shared: &Shared<'_>,
    ) -> Result<Self, (Tracee, Error)> {
        let (args, signatures) = (shared.args, shared.signatures);
        let image = match shared.agent.image() {
            Ok(image) => image,
            Err(error) => return Err((tracee, error)),
        };
        let mut guest = match Tracing::at_exec(&mut tracee, image, options(args)) {
            Ok(tracing) => Guest::new(tracing, args),
            Err(error) => return Err((tracee, error)),
        };
        if let Err(error) = guest.expect_first_picks(signatures) {
            return Err((tracee, error));
        }
        if keep {
            tracee.tell_signals();
        }
        if args.from_exec {
            guest.see_system_calls(signatures);
        }
        let led = guest.is_traced() || guest.tracing.arrives() == Arrives::AtThread;
        let needed = keep || led;
        let gone = if needed {
            tracee.go_on(led)
        } else {
            tracee.let_go()
        };
        if let Err(error) = gone {
            return Err((tracee, error));
        }
        if needed {
            guest.tracing.tie(Ties::Kept);
        }
        guest.life.keep = keep;
        guest.tracee = needed.then_some(tracee);
        Ok(guest)
    }

    /// Opens the gate again if a hook has closed it because lancet was silent, and reports the gap.
    pub(super) fn end_silence(&mut self) {
        if let Ok(Some(ticks)) = self.tracing.end_silence() {
            let period = self.clock.period();
            let from = self.clock.wall(ticks, period);
            let pid = self.pid();
            self.messages.say(Message::Silent {
                pid,
                from,
                to: now(),
            });
        }
    }

    /// Hooks a program that was led from system call to system call, as soon as it can be hooked: its main thread stands
    /// still meanwhile, and hooks report its system calls from then on.
    fn arrive(&mut self, signatures: &Signatures) {
        let Some(mut tracee) = self.tracee.take() else {
            return;
        };
        let stood = tracee.stand_still();
        self.traced = None;
        self.tracing.tie(Ties::Standing);
        let followed = stood.and_then(|()| self.follow(signatures));
        self.tracing.tie(if self.life.keep {
            Ties::Kept
        } else {
            Ties::None
        });
        if let Err(error) = followed {
            self.report_error(error);
        }
        if self.life.keep {
            // A program of which not all is seen that must be is ended where it stands; it has not begun.
            if self.inexact.is_none() {
                let _ = tracee.go_on(false);
            }
            self.tracee = Some(tracee);
        } else {
            let _ = tracee.let_go();
        }
    }

    /// Handles the notices of its threads.
    fn handle_notices<P: Watched<Event = Event> + From<Guest>>(
        &mut self,
        shared: &Shared,
        turn: &mut Turn<P>,
    ) -> Result<bool, Error> {
        let (args, signatures) = (shared.args, shared.signatures);
        let notices = self.tracing.notices()?;
        let (since, mut is_read) = (Instant::now(), false);
        for notice in &notices {
            if since.elapsed() > ATTENTION {
                self.tracing.put_off_notices();
                break;
            }
            let ours = notice.pid == self.pid();
            say(
                args,
                debug::EVENT,
                format_args!(
                    "thread {} of process {} says: {:?}",
                    notice.tid, notice.pid, notice.says
                ),
            );
            // A thread that has posted its end waits, so one reading of the rings serves all such threads.
            let is_end =
                matches!(notice.says, Says::Ends(_)) || matches!(notice.says, Says::Exec) && ours;
            if is_end && !std::mem::replace(&mut is_read, true) {
                self.read_all(&mut |event| turn.tell(event));
            }
            match notice.says {
                Says::Ends(code) => self.life.says = Some(code),
                Says::Exec => self.exec(notice, ours, args, turn.execs),
                Says::ExecFailed => {
                    self.life.leaves &= !ours;
                    turn.execs.failed(notice.tid);
                }
                Says::Fork { child, number } => self.says_fork(child, number, args, turn),
                Says::Picked { place, target } => {
                    let which = (place, target);
                    let mut tell = |event| turn.tell(event);
                    if let Err(error) = self.picked(which, notice.tid, signatures, &mut tell) {
                        self.report_error(error);
                    }
                }
                // The thread waits until the process has been left.
                Says::Locks { program } if self.is_left_for_lock(notice, program) => {
                    return Ok(true);
                }
                Says::Locks { .. } => {}
                Says::Script => self.says_script(signatures),
            }
            self.tracing.handled_notice(notice)?;
        }
        Ok(!notices.is_empty())
    }

    /// Handles a fork: the child is followed from now on.
    fn says_fork<P: Watched<Event = Event> + From<Guest>>(
        &mut self,
        child: i32,
        number: i32,
        args: &Options,
        turn: &mut Turn<P>,
    ) {
        // It is no child of this process: it has ended meanwhile, or the notice was forged.
        if child == 0 {
            let (pid, parent, error) = (number, self.pid(), Error::NoSuchProcess(number));
            self.messages
                .say(Message::ChildNotFollowed { pid, parent, error });
            return;
        }
        self.life.met.insert(child);
        if self.life.children.iter().all(|(known, _)| *known != child) {
            self.life.children.push((child, Instant::now()));
        }
        self.poll_children(args, turn);
    }

    /// Whether the process must be left because a thread is about to give up what hooks need. If so, that is reported.
    fn is_left_for_lock(&mut self, notice: &Notice, program: u64) -> bool {
        let Some(why) = self.tracing.is_locked_out(notice, program) else {
            return false;
        };
        let pid = self.pid();
        self.messages.say(Message::Locked { pid, why });
        self.life.locked = true;
        true
    }

    /// Handles that the VM is about to run the script: names of the script's language can be looked up now.
    fn says_script(&mut self, signatures: &Signatures) {
        let begun = self.tracing.script_begins();
        match begun.and_then(|()| self.look_for_names(signatures)) {
            Ok(()) if self.quiet => {}
            Ok(()) => self.say_no_lines(),
            Err(error) => self.report_error(error),
        }
    }

    /// Handles a thread that is about to run another program: seizes it.
    fn exec(&mut self, notice: &Notice, ours: bool, args: &Options, execs: &mut Execs) {
        if ours && self.tracee.is_some() && notice.tid == self.pid() {
            self.life.leaves = true;
            return;
        }
        match execs.follow(notice.tid, || self.tracing.seize_for_exec(notice)) {
            Ok(true) => {
                self.life.leaves |= ours;
                let tid = notice.tid;
                say(
                    args,
                    debug::PROCESS,
                    format_args!("thread {tid} is seized for its exec"),
                );
            }
            // It has ended meanwhile, or the notice was forged; the named process is not touched.
            Ok(false) => {
                let (pid, tid) = (self.pid(), notice.tid);
                self.messages.say(Message::ExecNotFollowed { pid, tid });
            }
            Err(error) => self.report_error(error),
        }
    }

    /// Reads all records and counts, because its memory will soon be gone.
    fn read_all(&mut self, tell: &mut dyn FnMut(Event)) {
        self.drain(tell);
        self.note_own_calls();
        if let (Ok(rows), Ok(losses)) = (self.count(), self.tracing.rings().losses()) {
            (self.life.counts, self.life.losses) = (Some(rows), Some(losses));
        }
    }

    /// Whether its memory is gone but how it ends is not known yet. The kernel tells that when all is taken away: a large process, or
    /// one whose core is written, takes a while.
    fn is_ending(&mut self) -> bool {
        if !self.gone || self.tracee.is_some() || self.life.end.is_some() {
            return false;
        }
        let known = self.life.leaves || self.life.unheard || self.life.says.is_some();
        if known || !self.tracing.is_ending() || self.tracing.is_replaced() {
            return false;
        }
        self.life.ending.get_or_insert_with(Instant::now).elapsed() < LONGEST_END
    }

    /// Handles that its memory is gone.
    fn is_gone(&mut self, tell: &mut dyn FnMut(Event)) {
        let took = self.tracing.rings().gone();
        if self.life.says.is_none() && !self.life.leaves && took != 0 {
            let pid = self.pid();
            self.messages
                .say(Message::RecordsLost { pid, threads: took });
        }
        let end = match (self.life.leaves, self.life.says, self.tracing.is_replaced()) {
            (true, ..) => End::Replaced,
            (_, Some(code), _) => End::Exited(code),
            (_, None, true) => {
                if !self.quiet {
                    let pid = self.pid();
                    self.messages.say(Message::Executed { pid });
                }
                End::Replaced
            }
            (_, None, false) => {
                // Otherwise it was reported already why it can no longer be read.
                if !self.life.unheard {
                    self.say_ended();
                }
                End::Unknown
            }
        };
        self.end(end, tell);
    }

    /// Says that it has ended, by which signal, and whether that may have been our fault.
    fn say_ended(&mut self) {
        const FAULTS: [i32; 5] = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGSYS,
        ];
        let pid = self.pid();
        let signal = self.tracing.ended_by();
        let is_fault = signal.is_some_and(|signal| FAULTS.contains(&signal));
        let hook = is_fault && self.tracing.rings().any_unfinished();
        if !self.quiet || hook {
            self.messages.say(Message::Ended { pid, signal, hook });
        }
    }

    fn end(&mut self, end: End, tell: &mut dyn FnMut(Event)) {
        self.say_unhooked(end == End::Replaced && !self.life.leaves);
        self.gone = true;
        self.life.end = Some(end);
        tell(now_of(self.pid(), EventKind::Ended(end)));
    }

    /// Handles that another program runs in its place. Its rings outlive it: the call that has led there is their last
    /// record.
    pub fn gives_way(&mut self, tell: &mut dyn FnMut(Event)) {
        if self.life.end.is_none() {
            self.drain(tell);
            self.end(End::Replaced, tell);
        }
    }

    /// Handles an error that ends the reading of its rings.
    pub(super) fn fail(&mut self, error: Error) {
        self.life.unheard = !error.is_left();
        self.report_error(error);
    }

    /// Reports an error.
    fn report_error(&mut self, error: Error) {
        if !error.is_left() {
            let pid = self.pid();
            self.messages.say(Message::Failed { pid, error });
        }
    }

    /// Returns how it has ended.
    pub fn ended(&self) -> Option<End> {
        self.life.end
    }

    fn count(&mut self) -> Result<Vec<Count>, Error> {
        let (counted, others) = self.tracing.rings().counted()?;
        let period = self.clock.period();
        let places = self.tracing.system_call_places();
        let counts = counted.into_iter().filter_map(|counted| {
            let place = places.get(&counted.hook);
            let hook = place.map_or(counted.hook, |(call, _)| *call);
            Some(Count {
                function: self.known.function(&self.tracing, hook)?,
                inside: place.and_then(|(_, at)| Known::inside(&self.tracing, *at)),
                line: counted
                    .place
                    .and_then(|place| self.known.line(&mut self.tracing, place)),
                counted,
                period,
            })
        });
        let mut counts: Vec<Count> = counts.collect();
        counts.extend(others.map(|counted| Known::others(counted, period)));
        Ok(counts)
    }

    /// Returns what was counted, by function and line.
    pub fn counted(&mut self) -> Result<Vec<Count>, Error> {
        let counted = self.count();
        let before = self.went(&counted).then(|| self.life.counts.take());
        let mut counted = match before.flatten() {
            Some(before) => before,
            None => counted?,
        };
        counted.extend(self.exec_that_replaced_it());
        Ok(counted)
    }

    /// Returns the execve that has led to another program, which was made after the counts were read and never returned here.
    fn exec_that_replaced_it(&self) -> Option<Count> {
        let exec = self.selection.system_calls().into_iter();
        let mut exec = exec.filter(|call| call.name == "execve");
        let function = exec.next().filter(|_| self.life.end == Some(End::Replaced));
        Some(Count {
            function: function?.into(),
            inside: None,
            line: None,
            counted: Counted {
                returned: 1,
                ..Counted::default()
            },
            period: self.clock.period(),
        })
    }

    /// Returns what was lost of the guest's records; if its rings are gone, what was noted before.
    pub fn losses(&mut self) -> Result<Losses, Error> {
        let losses = self.tracing.rings().losses();
        match self.went(&losses).then_some(self.life.losses).flatten() {
            Some(before) => Ok(before),
            None => losses,
        }
    }

    /// Whether its rings are gone, so that the numbers that were noted before are used.
    fn went<T>(&mut self, looked: &Result<T, Error>) -> bool {
        looked.is_err() || self.tracing.rings().gone() != 0
    }
}

/// Returns the description of a process.
pub fn opened(pid: i32, vm: String) -> Opened {
    Opened {
        command: process::guest::command_words(pid),
        vm,
    }
}

/// Makes an event of a process as a whole, at the present time.
pub fn now_of(pid: i32, kind: EventKind) -> Event {
    let at = At {
        process: pid,
        tid: pid as u32,
        time: now(),
        ..At::default()
    };
    Event { at, kind }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
