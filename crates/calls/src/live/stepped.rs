//! A process that only its tracer sees: nothing in it is changed. Used by `hooked_later` and `process`.
//!
//! Each of its threads stops at the start and at the end of each system call (`PTRACE_SYSCALL`), and at each signal, as under strace. What
//! is reported of a call is what a hook would report ([`Traced`]), except script lines and native functions. Threads and children come as
//! ptrace events, traced from their first instruction on, so every call of a child of `vfork` is seen too.
//!
//! The threads are waited for here, and not by the `Tracee` of the process's lifecycle, which handles one thread; that is made when the
//! process is left, for the code that waits for the exit code of a started program.

mod by_kernel;
mod counts;
mod hooked_later;
mod left;
mod life;
mod reported;
mod tampering;

use super::bpf::programs::Seen;
use super::guest::{self, Shared};
use super::traced::{Begun, Table, Traced, signal_of};
use crate::Error;
use crate::event::{End, Event, EventKind, OfThread};
use crate::message::Messages;
use crate::source::Count;
use counts::Counts;
use hooked_later::Led;
pub use hooked_later::{CALLS, Stands};
use inject::lifecycle::{Turn, Watched};
use inject::tracee::{Tracee, next_event};
use process::clock::{Clock, Present};
use process::memory::GuestMemory;
use process::ptrace::{self, Bounded};
use process::stop::{self, Stop, Ties};
use process::tries::Tries;
use prototypes::show::Captures;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tampering::{Injections, Onward, Tampering};

/// The events that every thread reports: new threads are traced from their beginning.
const THREADS: i32 =
    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACECLONE;
/// The additional events if children are followed: they are traced from their beginning.
const CHILDREN: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

/// Limit of the time for the threads of one process, before others have their turn.
const ATTENTION: Duration = Duration::from_millis(20);
/// How often its next event is waited for in vain before others have their turn: a thread that was set going is soon at its next stop.
const IN_VAIN: u32 = 2;

/// A process all of whose threads we trace, until it has ended or is left. A thread that stops stands still until it is set going here, so
/// [`Stepped::poll`] must be called all the time.
pub struct Stepped {
    pid: i32,
    /// The threads of the process, by their ids.
    threads: BTreeMap<i32, Thread>,
    table: Rc<Table>,
    injections: Rc<Injections>,
    memory: Arc<GuestMemory>,
    clock: Present,
    /// The counts of its calls, if they are not reported one by one.
    counts: Option<Counts>,
    options: i32,
    /// Whether [`EventKind::Opened`] was reported.
    introduced: bool,
    /// The exec that has led to it, as it was when it began.
    exec: Option<(Begun, Captures)>,
    /// Set if it is left at its next exec, which is reported here.
    leaves_at_exec: Option<Messages>,
    end: Option<End>,
    /// Its main thread, once it is left.
    left: Option<Tracee>,
    /// Set if it is to be hooked later.
    led: Option<Led>,
    /// Set if BPF programs see, or have seen, its calls, or those of who has made it.
    kernel: Option<Rc<Seen>>,
    /// Whether they do, so that no thread stops at its calls.
    is_by_kernel: bool,
}

struct Thread {
    traced: Traced,
    tampering: Tampering,
    /// Set if it is held until a time, and goes on with this signal then.
    held: Option<(Instant, i32)>,
}

/// The result of polling a thread.
enum Look {
    Nothing,
    Something,
    /// It is no longer a thread of the process.
    Gone,
    /// It has made this thread or process; whether it waits until that has a program of its own (vfork).
    Made(i32, bool),
}

impl Thread {
    /// A thread that is in no system call.
    fn new(table: Rc<Table>) -> Self {
        Thread {
            traced: Traced::new(table),
            tampering: Tampering::default(),
            held: None,
        }
    }
}

impl Stepped {
    /// Traces a running process, with all its threads.
    pub fn open(pid: i32, shared: &Shared<'_>) -> Result<Self, Error> {
        let memory = process::guest::reach_to_look(pid)?;
        let mut stepped = Stepped::new(pid, memory, shared);
        let mut tries = Tries::begin();
        let stop = loop {
            match Stop::all(pid, Ties::None) {
                Err(error) if tries.again(&error) => {}
                stop => break stop?,
            }
        };
        for tid in stop.trace_on(stepped.options) {
            stepped.add(tid);
        }
        Ok(stepped)
    }

    /// Opens a process that stands at its exec; with `keep` lancet has started it.
    pub fn begin(
        tracee: Tracee,
        keep: bool,
        shared: &Shared<'_>,
    ) -> Result<Self, (Tracee, process::Error)> {
        let pid = tracee.pid();
        let memory = match GuestMemory::open(pid) {
            Ok(memory) => Arc::new(memory),
            Err(error) => return Err((tracee, error)),
        };
        let mut stepped = Stepped::new(pid, memory, shared);
        let set = ptrace::set_options(pid, stepped.options);
        if let Err(errno) = set.and_then(|()| stepped.resume(pid, 0)) {
            return Err((tracee, ptrace::explain(pid, "tracing", errno)));
        }
        stepped.exec = shared.exec.take().filter(|_| keep);
        stepped.add(pid);
        Ok(stepped)
    }

    fn new(pid: i32, memory: Arc<GuestMemory>, shared: &Shared<'_>) -> Self {
        let args = shared.args;
        Stepped {
            pid,
            threads: BTreeMap::new(),
            table: guest::table(args, shared.signatures, true).into(),
            injections: Injections::new(args, shared.signatures).into(),
            memory,
            clock: Clock::start().into(),
            counts: args.counts_in_guest().then(Counts::default),
            options: THREADS | if args.follow { CHILDREN } else { 0 },
            introduced: false,
            exec: None,
            leaves_at_exec: args.leave_at_exec.then(|| args.messages.clone()),
            end: None,
            left: None,
            led: None,
            kernel: None,
            is_by_kernel: false,
        }
    }

    /// Opens a child that the kernel has put under our tracing when one of our threads made it.
    fn child(&self, pid: i32, led: Option<Led>) -> Result<Self, process::Error> {
        let mut child = Stepped {
            pid,
            threads: BTreeMap::new(),
            table: self.table.clone(),
            injections: self.injections.clone(),
            memory: GuestMemory::open(pid)?.into(),
            clock: self.clock.clone(),
            counts: self.counts.is_some().then(Counts::default),
            options: self.options,
            introduced: false,
            exec: None,
            leaves_at_exec: self.leaves_at_exec.clone(),
            end: None,
            left: None,
            led,
            kernel: self.kernel.clone(),
            is_by_kernel: false,
        };
        child.count_by_kernel();
        child.add(pid);
        Ok(child)
    }

    fn add(&mut self, tid: i32) {
        let table = self.table.clone();
        self.threads.entry(tid).or_insert(Thread::new(table));
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns how it has ended.
    pub fn ended(&self) -> Option<End> {
        self.end
    }

    /// Returns its main thread, once it is left.
    pub fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.left
    }

    /// Takes out what was counted instead of being reported call by call.
    pub fn counted(&mut self) -> Vec<Count> {
        let counts = self.counts.take();
        counts.map_or_else(Vec::new, |counts| counts.all(self.clock.period()))
    }

    /// Polls its threads until none of them has an event, or another process has one. Returns whether there was one.
    pub fn poll<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        turn: &mut Turn<'_, P>,
    ) -> bool {
        let (since, mut in_vain) = (Instant::now(), 0);
        // What a process is hooked with, or its BPF programs are loaded by, must not be interrupted: that is done between these turns.
        let waits = Bounded::begin();
        self.introduce(turn);
        let any = self.report(turn) | self.look(turn);
        while any && self.runs() && in_vain < IN_VAIN && since.elapsed() < ATTENTION {
            match next_event(&waits) {
                None => in_vain += 1,
                Some(of) if self.threads.contains_key(&of.tid) => {
                    if of.at_call {
                        self.stands_at_call(of.tid, turn);
                    } else {
                        self.look_once(of.tid, turn);
                    }
                    in_vain = 0;
                }
                Some(_) => break,
            }
        }
        any
    }

    /// Whether its threads are to be polled.
    fn runs(&self) -> bool {
        self.end.is_none() && self.stands().is_none()
    }

    /// Polls each thread once.
    fn look<P: Watched<Event = Event> + From<Stepped>>(&mut self, turn: &mut Turn<'_, P>) -> bool {
        let mut any = false;
        let ids: Vec<i32> = self.threads.keys().copied().collect();
        for tid in ids {
            any |= self.look_once(tid, turn);
            if !self.runs() {
                return true;
            }
        }
        any
    }

    /// Polls a thread once. Returns whether it had an event.
    fn look_once<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        tid: i32,
        turn: &mut Turn<'_, P>,
    ) -> bool {
        let look = self.look_at(tid, turn);
        let any = !matches!(look, Look::Nothing);
        match look {
            Look::Nothing | Look::Something => {}
            Look::Gone => self.gone(tid),
            Look::Made(made, waits) => self.made((made, waits), turn),
        }
        any
    }

    fn look_at<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        tid: i32,
        turn: &mut Turn<'_, P>,
    ) -> Look {
        use ptrace::Event as E;
        let event = match ptrace::poll(tid) {
            Ok((_, event)) => event,
            // Other code has seen its end.
            Err(_) => ptrace::end_of(tid).unwrap_or(E::Special(libc::PTRACE_EVENT_EXIT)),
        };
        let mut look = Look::Something;
        if event != E::Nothing {
            // What its threads have done before.
            self.report(turn);
        }
        let resumed = match event {
            E::Nothing => return self.look_at_held(tid),
            E::Exited(code) if tid != self.pid => {
                return self.thread_over(tid, OfThread::Exited(code), turn);
            }
            E::Killed(signal) if tid != self.pid => {
                return self.thread_over(tid, OfThread::Killed(signal), turn);
            }
            E::Exited(code) => return self.over(End::Exited(code), turn),
            E::Killed(signal) => return self.over(End::Killed(signal), turn),
            E::Syscall => {
                let onward = self.tell_call(tid, turn);
                self.go_on(tid, onward)
            }
            E::Signal(signal) => {
                turn.tell(self.of_thread(tid, EventKind::Signal(signal_of(tid, signal))));
                self.resume(tid, signal)
            }
            E::Interrupted(libc::SIGTRAP) if self.stands_to_change_over(tid) => return look,
            E::Interrupted(libc::SIGTRAP) => self.resume(tid, 0),
            // It is in a group stop: it stays stopped, and its end is still reported.
            E::Interrupted(signal) => {
                turn.tell(self.of_thread(tid, EventKind::Thread(OfThread::Stopped(signal))));
                ptrace::listen(tid)
            }
            E::Special(special) => {
                look = self.special(tid, special, turn);
                if matches!(look, Look::Gone) || self.end.is_some() || self.stands().is_some() {
                    return look;
                }
                self.resume(tid, 0)
            }
        };
        // A thread that was killed meanwhile cannot be set going; its end is reported next.
        let _ = resumed;
        look
    }

    /// Handles the stop of a thread at a system call, which was not taken.
    fn stands_at_call<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        tid: i32,
        turn: &mut Turn<'_, P>,
    ) {
        let onward = self.tell_call(tid, turn);
        if !onward.after.is_zero() {
            // It stands here for a while, and would be told again.
            ptrace::take_stop(tid);
        }
        // An error means that it was killed; its end is reported next.
        let _ = self.go_on(tid, onward);
    }

    /// Sets a thread going that stands at a system call, at once or later.
    fn go_on(&mut self, tid: i32, onward: Onward) -> nix::Result<()> {
        if onward.after.is_zero() {
            return self.resume(tid, onward.signal);
        }
        let until = Instant::now() + onward.after;
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.held = Some((until, onward.signal));
        }
        Ok(())
    }

    /// Sets a thread going whose time of being held is over.
    fn look_at_held(&mut self, tid: i32) -> Look {
        let thread = self.threads.get_mut(&tid);
        let due = |held: &mut (Instant, i32)| held.0 <= Instant::now();
        let held = thread.and_then(|thread| thread.held.take_if(due));
        let Some((_, signal)) = held else {
            return Look::Nothing;
        };
        // An error means that it was killed meanwhile; its end is reported next.
        let _ = self.resume(tid, signal);
        Look::Something
    }

    /// Handles a ptrace event of a thread.
    fn special<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        tid: i32,
        event: i32,
        turn: &mut Turn<'_, P>,
    ) -> Look {
        let message = || ptrace::event_message(tid).map_or(0, |message| message as i32);
        match event {
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
                self.stands_for_kernel();
                Look::Made(message(), event == libc::PTRACE_EVENT_VFORK)
            }
            libc::PTRACE_EVENT_EXEC => {
                self.replaced(message(), turn);
                // Where calls are counted, the exec was counted just now, and would be again.
                if self.counts.is_none() && self.stands().is_none() {
                    self.leaves_kernel_if_harmed(turn);
                    self.stands_for_kernel();
                }
                Look::Something
            }
            libc::PTRACE_EVENT_EXIT if stop::thread_is_gone(self.pid, tid) => {
                if tid == self.pid {
                    self.over(End::Unknown, turn)
                } else {
                    Look::Gone
                }
            }
            _ => Look::Something,
        }
    }
}
