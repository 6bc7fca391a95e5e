//! One traced process: it is hooked as the selection says, its records are read, and it is left. Used by `bpf`,
//! `family`, `hooked_later` and others.

mod announced;
mod budget;
mod descriptors;
mod early;
mod ifuncs;
mod life;
mod line_policy;
mod open_descriptors;
mod opening;
mod peers;
mod plan;
mod record;
mod recorded;
mod straight;
mod too_hot;
mod tracing_options;
mod unhooked;
mod vforks;

pub use early::table;
pub use life::{Shared, now_of, opened};
pub use plan::Copying;

use super::callers::Callers;
use super::kernel_count::KernelCount;
use super::lookup::Known;
use super::names::Names;
use super::pace::{self, Pace};
use super::traced::Traced;
use super::unreturned::Watched;
use super::unseen;
use crate::descriptors::Held;
use crate::event::{At, Call, End, Event, EventKind, Opened, Return};
use crate::message::{Message, Messages};
use crate::options::Options;
use crate::preset::Preset;
use crate::select::Selection;
use crate::signatures::Signatures;
use budget::Budget;
use hooks::rings::{RingEvent, RingEventKind};
use hooks::{Arrives, Refused, Tracing, Wanted};
use inject::tracee::Tracee;
use peers::Peers;
use plan::Plan;
use process::clock::Clock;
use process::guest::Status;
use prototypes::filter::Filter;
use record::{arguments, copied, results};
use std::time::Instant;
use straight::Straight;
use tracing_options::{RING, options};
use vforks::{Turn, Vforks};

/// A hooked process, and what turns its records into events. It is kept until the process has ended, was left or runs another program, and
/// its last records were read.
pub struct Guest {
    tracing: Tracing,
    clock: Clock,
    selection: Selection,
    names: Names,
    plan: Plan,
    known: Known,
    pace: Pace,
    /// The words that follow the fixed part of the record that is being read; the buffer is reused.
    rest: Vec<u64>,
    /// Whether [`EventKind::Opened`] was reported.
    introduced: bool,
    /// The main thread of a program that lancet has started and goes on tracing.
    tracee: Option<Tracee>,
    life: life::Life,
    /// Whether its rings are gone, so that nothing can be read any more.
    gone: bool,
    /// Whether a large part of one of its rings was unread at the last reading: the ring's thread may soon have to wait.
    pub is_busy: bool,
    /// Whether only failures are reported, as ltrace does.
    quiet: bool,
    /// Whether each refused function is named.
    verbose: bool,
    /// Whether what is allocated is paired with what is freed, for which each function of the allocator must be hooked.
    pairs_allocations: bool,
    messages: Messages,
    callers: Callers,
    vforks: Vforks,
    /// The limit on what its hooks cost it.
    budget: Budget,
    /// Its descriptors, if requested.
    held: Option<Held>,
    /// Peers for which presets name functions.
    peers: Peers,
    /// Set if records go into a file as they are.
    straight: Option<Straight>,
    /// Set while its tracer sees its system calls, because it cannot be hooked yet.
    traced: Option<Traced>,
    /// Whether to report what its hooks do not see.
    says_unseen: bool,
    /// Set if all that is requested must be seen; `Some(true)`: of children too.
    exact: Option<bool>,
    /// What is not seen of it although all must be.
    inexact: Option<Vec<String>>,
    /// What hooks do not see of it and is counted, as it was when that was reported last.
    countable: unseen::Countable,
    /// What the kernel counts of its system calls, beside its hooks.
    beside: KernelCount,
}

impl Guest {
    /// Whether nothing is hooked, and nothing that comes later can change that.
    fn sees_nothing_ever(&self) -> bool {
        let hooked = self.tracing.hooked() != 0 || self.tracing.system_calls()[0] != 0;
        let awaits = self.names.are_awaited() || !self.tracing.awaited_picks().is_empty();
        !hooked && !awaits && !self.may_come()
    }

    /// Whether a library that is loaded later may bring what is requested.
    fn may_come(&self) -> bool {
        let is_static = self.tracing.functions().modules().len() == 1;
        !is_static && self.selection.may_come()
    }

    fn new(tracing: Tracing, args: &Options) -> Self {
        let presets: Vec<Filter> = args.presets.iter().flat_map(Preset::filters).collect();
        let names = Names::of(&args.x, &presets, args.messages.clone());
        let selection = Selection::of(args);
        let asks_descriptors = args.asks_descriptors();
        Guest {
            budget: Budget::new(tracing.pid(), args.budget),
            held: asks_descriptors.then(|| open_descriptors::before(tracing.pid())),
            clock: Clock::start(),
            plan: Plan::new(args, &selection),
            selection,
            names,
            known: Known::default().without_launchers(tracing.pid(), args),
            tracing,
            pace: Pace::new(RING / 8),
            rest: Vec::new(),
            introduced: false,
            tracee: None,
            life: life::Life::default(),
            gone: false,
            is_busy: false,
            quiet: args.ltrace,
            verbose: args.verbose,
            pairs_allocations: args.asks_allocations(),
            messages: args.messages.clone(),
            callers: Callers::new(args.frames),
            vforks: Vforks::new(args.follow),
            peers: Peers::of(args),
            // Frames can be found only while the guest exists.
            straight: (args.recording.clone().filter(|_| args.frames == 0)).map(Straight::new),
            traced: None,
            says_unseen: args.from_exec,
            exact: args.exact.then_some(args.follow),
            inexact: None,
            countable: unseen::Countable::default(),
            beside: KernelCount::default(),
        }
    }

    /// Hooks the system calls that are requested, at their present places and, from then on, in libraries that are loaded.
    fn set_system_calls(
        &mut self,
        signatures: &Signatures,
    ) -> Result<Vec<Refused>, process::Error> {
        let wanted = self.plan.system_calls(signatures, &self.selection);
        self.tracing.set_system_calls(wanted)
    }

    /// Returns what is wanted of the process as it is now.
    fn wanted(&mut self, signatures: &Signatures) -> Vec<Wanted> {
        let (plan, tracing, selection) = (&self.plan, &self.tracing, &self.selection);
        plan.wanted(tracing, signatures, selection, &mut self.names)
    }

    /// Reports which requested functions do not exist, and returns how many do.
    fn say_unknown(&self) -> usize {
        let pid = self.tracing.pid();
        let functions = self.selection.functions(self.tracing.functions());
        let probes = self.selection.probes(self.tracing.functions());
        let mut found = functions.clone();
        found.extend(probes.into_iter().map(|probe| probe.function));
        for (name, like) in self.selection.unknown(self.tracing.functions(), &found) {
            if !self.quiet {
                let comes = self.may_come();
                self.messages.say(Message::NoFunction {
                    pid,
                    name,
                    like,
                    comes,
                });
            }
        }
        found.len()
    }

    /// Hooks what is wanted of a library that was loaded, while its loader waits for us.
    fn follow(&mut self, signatures: &Signatures) -> Result<(), process::Error> {
        let first = self.tracing.arrives() != Arrives::Now;
        let began = Instant::now();
        self.callers.forget();
        self.forget_edges();
        let before = self.tracing.ever_hooked();
        let (selection, plan, names) = (&self.selection, &self.plan, &mut self.names);
        let by_number = if first {
            plan.system_calls(signatures, selection)
        } else {
            Vec::new()
        };
        let refused = self.tracing.follow(
            |tracing| plan.wanted(tracing, signatures, selection, names),
            by_number,
        )?;
        self.note_hooked();
        if self.names.are_awaited() {
            self.tracing.expect_definitions()?;
        }
        if self.quiet {
            return Ok(());
        }
        self.require_exact(refused.len());
        if first {
            let asked = self.say_unknown() + self.names.found();
            self.announce(asked, &refused, began.elapsed());
            self.say_lacking(self.lacks_places(&refused));
            return Ok(());
        }
        let pid = self.tracing.pid();
        let more = self.tracing.ever_hooked() - before;
        if more != 0 {
            self.messages.say(Message::LibraryHooked { pid, more });
        }
        self.say_refused(&refused);
        Ok(())
    }

    /// Hooks functions whose names in the script's language have been defined meanwhile.
    fn look_for_names(&mut self, signatures: &Signatures) -> Result<(), process::Error> {
        let before = self.tracing.ever_hooked();
        if !self.names.look(&self.tracing) {
            return Ok(());
        }
        self.forget_edges();
        let wanted = self.wanted(signatures);
        let refused = self.tracing.add(wanted)?;
        if self.quiet {
            return Ok(());
        }
        let more = self.tracing.ever_hooked() - before;
        if more != 0 {
            let pid = self.pid();
            self.messages.say(Message::DefinedHooked { pid, more });
        }
        self.say_refused(&refused);
        Ok(())
    }

    /// Reads the available records, and returns whether there were any. A guest that ended, or that runs another program now, takes its
    /// rings with it.
    pub fn read(&mut self, tell: &mut dyn FnMut(Event)) -> bool {
        if self.gone {
            return false;
        }
        self.introduce(tell);
        let most = self.pace.next();
        let rings = self.tracing.rings();
        let there = rings.look();
        let any = if self.straight.is_some() {
            self.record(most, tell)
        } else {
            let any = rings.fill(most);
            self.tell(tell);
            matches!(any, Ok(true))
        };
        self.pace.read(any);
        if any {
            self.is_busy = self.tracing.rings().was_busy();
        }
        // The shared part of the memory outlives the guest.
        self.gone = there.is_err() && !any;
        if let (true, Err(error)) = (self.gone, there) {
            self.fail(error);
        }
        any
    }

    /// Reads everything that it has recorded until now.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Event)) {
        // A look takes at least that much of each ring; records that are written meanwhile are not waited for.
        for _ in 0..RING / 8 / pace::LEAST {
            if !self.read(tell) {
                return;
            }
        }
    }

    /// Reports the process itself, once.
    fn introduce(&mut self, tell: &mut dyn FnMut(Event)) {
        if std::mem::replace(&mut self.introduced, true) {
            return;
        }
        let pid = self.tracing.pid();
        let at = At {
            process: pid,
            tid: pid as u32,
            ..At::default()
        };
        tell(Event {
            at,
            kind: EventKind::Opened(self.opened()),
        });
    }

    fn opened(&self) -> Opened {
        opened(self.pid(), self.tracing.vm().to_owned())
    }

    /// Makes events of the records that were read, in the order of time.
    fn tell(&mut self, tell: &mut dyn FnMut(Event)) {
        let mut period = None;
        let mut rest = std::mem::take(&mut self.rest);
        // By reference: a copy of words that were just written one by one would wait for each store.
        while let Some(one) = &self.tracing.rings().next(&mut rest) {
            let period = *period.get_or_insert_with(|| self.clock.period());
            if let RingEventKind::Call { hook, .. } = one.kind {
                self.budget.note(hook);
            }
            self.tell_one(one, &rest, period, tell);
        }
        self.rest = rest;
    }

    /// Makes an event of a record; `rest` is what follows its fixed part.
    fn tell_one(
        &mut self,
        one: &RingEvent,
        rest: &[u64],
        period: f64,
        tell: &mut dyn FnMut(Event),
    ) {
        process::fault::point("reading");
        // Each event is made at the place where it is passed on: one that is made first and moved then is copied in pieces of another size
        // than those in which the processor has just written it, and each copy waits for the store before it.
        match &one.kind {
            RingEventKind::Call {
                hook,
                place,
                library,
                frame,
                caller,
                registers,
            } => {
                let known = &mut self.known;
                let edge = known.edge(&self.tracing, &self.selection, *hook, *caller);
                let Some(edge) = edge else {
                    return;
                };
                let (registers, copies) = arguments(*registers, *frame, rest);
                let mut captures = copied(copies);
                let callers = &mut self.callers;
                let callers = callers.of(&self.tracing, *caller, *frame, &mut captures);
                let line = place.and_then(|place| known.line(&mut self.tracing, place));
                let library = library.and_then(|place| known.line(&mut self.tracing, place));
                let at = self.at(one, *frame, period, tell);
                tell(Event {
                    at,
                    kind: EventKind::Call(Call {
                        edge,
                        caller: *caller,
                        registers,
                        line,
                        library,
                        callers,
                        captures,
                    }),
                });
            }
            RingEventKind::Forked { child } => {
                let here = self.tracing.process_here(*child);
                // If the child was not found here, its id in the ring is used.
                let speaker = if here == 0 { *child } else { here as u32 };
                self.vforks.forked(one.ring, speaker, here);
                let at = self.at(one, 0, period, tell);
                tell(Event {
                    at,
                    kind: EventKind::Forked(here),
                });
            }
            RingEventKind::Return {
                frame,
                registers,
                x87,
                ..
            } => {
                let (returned, copies) = results(*registers, *x87, rest);
                let at = self.at(one, *frame, period, tell);
                tell(Event {
                    at,
                    kind: EventKind::Return(Return {
                        returned,
                        captures: copied(copies),
                    }),
                });
            }
        }
    }

    fn at(&mut self, one: &RingEvent, frame: u64, period: f64, tell: &mut dyn FnMut(Event)) -> At {
        let pid = self.tracing.pid();
        let at = At {
            process: pid,
            tid: one.tid,
            ring: one.ring,
            stack: self.known.stack(pid, frame),
            frame,
            time: self.clock.wall(one.ticks, period),
        };
        if self.vforks.is_none() {
            return at;
        }
        let (at, turn) = self.vforks.speaks(at);
        match turn {
            None => {}
            Some(Turn::Begins) => tell(Event {
                at,
                kind: EventKind::Opened(self.opened()),
            }),
            Some(Turn::Over(child)) => tell(Event {
                at: At {
                    process: child,
                    ..at
                },
                kind: EventKind::Ended(End::Unknown),
            }),
        }
        at
    }

    pub fn pid(&self) -> i32 {
        self.tracing.pid()
    }

    /// Returns what a look for calls that have not returned needs to know of it when it is left; `None` if it has ended.
    pub fn to_be_looked_at(&self) -> Option<Watched> {
        let status = Status::read(self.pid()).ok()?;
        // If it lives now, the status is its own.
        let lives = self.tracing.is_alive() && !self.tracing.is_replaced();
        lives.then(|| Watched::new(status, self.tracing.framed()))
    }
}

impl Guest {
    /// Forgets call edges, because hooks and return addresses may have other meanings from now on.
    fn forget_edges(&mut self) {
        self.known.forget_edges();
        if let Some(straight) = &mut self.straight {
            straight.forget();
        }
    }
}
