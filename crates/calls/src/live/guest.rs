//! One traced process: hooked as the selection says, read, left.

mod announced;
mod life;
mod line_policy;
mod picks;
mod plan;
mod record;
mod straight;
mod vforks;

pub use life::Shared;

use super::callers::{self, Callers};
use super::known::Known;
use super::names::Names;
use super::pace::{self, Pace};
use crate::event::{At, Call, End, Event, EventKind, Opened, Return};
use crate::options::Options;
use crate::preset::Preset;
use crate::recorder::Recording;
use crate::select::Selection;
use crate::signatures::Signatures;
use crate::{Error, Message, Messages};
use hooks::rings::{RingEvent, RingEventKind};
use hooks::{Arrives, Refused, Tracing, Wanted};
use inject::Image;
use inject::tracee::Tracee;
use plan::Plan;
use process::clock::Clock;
use prototypes::Filter;
use record::{arguments, copied, results};
use std::time::Instant;
use straight::{Look, Straight};
use vforks::{Turn, Vforks};

/// Bytes of a thread's ring.
const RING: u64 = 1 << 20;
/// Words of a record for copies, at least, and for each character that is wanted of a string.
const LEAST_ROOM: u64 = 512;

/// See the module's text.
pub struct Guest {
    tracing: Tracing,
    clock: Clock,
    selection: Selection,
    names: Names,
    plan: Plan,
    known: Known,
    pace: Pace,
    /// What follows a record's fixed part.
    rest: Vec<u64>,
    /// It was said what it is.
    introduced: bool,
    /// We stay its tracer.
    tracee: Option<Tracee>,
    life: life::Life,
    /// Its rings are no more.
    gone: bool,
    /// A good part of one of them was unread when something was read last: its thread may soon wait for room.
    pub is_busy: bool,
    /// Says nothing but what went wrong, as ltrace does.
    quiet: bool,
    messages: Messages,
    callers: Callers,
    vforks: Vforks,
    /// Records go into a file as they are.
    straight: Option<Straight>,
}

impl Guest {
    /// Opens and hooks a process; says on standard error how that went.
    pub fn open(
        pid: i32,
        args: &Options,
        image: &Image,
        signatures: &Signatures,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let tracing = Tracing::open(pid, image, options(args))?;
        let mut guest = Guest::new(tracing, args);
        guest.say_unknown();
        let wanted = guest.wanted(signatures);
        let asked = wanted.iter().map(|one| one.names.len().max(1)).sum();
        if asked == 0 && guest.selection.is_a_presets() && !guest.quiet {
            args.messages.say(Message::NothingOfPreset { pid });
        }
        if asked == 0 && guest.names.were_refused() && !guest.names.are_awaited() {
            return Err(Error::NothingHooked(pid));
        }
        if guest.names.are_awaited() {
            guest.tracing.expect_definitions()?;
        }
        let mut refused = guest.tracing.set(wanted)?;
        refused.extend(guest.set_system_calls(signatures)?);
        if !guest.quiet {
            guest.announce(asked, &refused, began.elapsed());
        }
        Ok(guest)
    }

    fn new(tracing: Tracing, args: &Options) -> Self {
        let presets: Vec<Filter> = args.presets.iter().flat_map(Preset::filters).collect();
        let names = Names::of(&args.x, &presets, args.messages.clone());
        let selection = Selection::new(args.x.clone(), presets, args.callers(), args.l.clone())
            .with_system_calls(args.system_calls);
        Guest {
            tracing,
            clock: Clock::start(),
            plan: Plan::new(args, &selection),
            selection,
            names,
            known: Known::default(),
            pace: Pace::new(RING / 8),
            rest: Vec::new(),
            introduced: false,
            tracee: None,
            life: life::Life::default(),
            gone: false,
            is_busy: false,
            quiet: args.ltrace,
            messages: args.messages.clone(),
            callers: Callers::new(args.frames),
            vforks: Vforks::new(args.follow),
            // Frames are found while the guest is there.
            straight: (args.recording.clone().filter(|_| args.frames == 0)).map(Straight::new),
        }
    }

    /// Hooks system calls, if they are asked for, where it makes them now and, from then on, in libraries that come.
    fn set_system_calls(
        &mut self,
        signatures: &Signatures,
    ) -> Result<Vec<Refused>, process::Error> {
        let wanted = self.plan.system_calls(signatures, &self.selection);
        self.tracing.set_system_calls(wanted)
    }

    /// What is wanted of it as it is now.
    fn wanted(&mut self, signatures: &Signatures) -> Vec<Wanted> {
        let (plan, tracing, selection) = (&self.plan, &self.tracing, &self.selection);
        plan.wanted(tracing, signatures, selection, &mut self.names)
    }

    /// Says which functions are not there; how many are, that are asked for.
    fn say_unknown(&self) -> usize {
        let pid = self.tracing.pid();
        let functions = self.selection.functions(self.tracing.functions());
        let probes = self.selection.probes(self.tracing.functions());
        let mut found = functions.clone();
        found.extend(probes.into_iter().map(|probe| probe.function));
        for (name, like) in self.selection.unknown(self.tracing.functions(), &found) {
            if !self.quiet {
                self.messages.say(Message::NoFunction { pid, name, like });
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
        if self.names.are_awaited() {
            self.tracing.expect_definitions()?;
        }
        if self.quiet {
            return Ok(());
        }
        if first {
            let asked = self.say_unknown() + self.names.found();
            self.announce(asked, &refused, began.elapsed());
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

    /// Hooks what has been defined of the names that are awaited.
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

    /// Reads what there is; whether there was anything. A guest that ended, or that runs another program now, takes its
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
        // What is shared with it outlives it.
        self.gone = there.is_err() && !any;
        if let (true, Err(error)) = (self.gone, there) {
            self.fail(error);
        }
        any
    }

    /// Reads everything that it has reported up to now.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Event)) {
        // A look takes at least so much of each ring; what comes meanwhile is not waited for.
        for _ in 0..RING / 8 / pace::LEAST {
            if !self.read(tell) {
                return;
            }
        }
    }

    /// Says what it is, once.
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
        let command = format!("/proc/{}/cmdline", self.pid());
        let command = std::fs::read(command).unwrap_or_default();
        let words = command.split(|byte| *byte == 0);
        let mut command: Vec<String> = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        // A NUL ends each.
        command.pop();
        Opened {
            command,
            vm: self.tracing.vm().to_owned(),
        }
    }

    /// Makes events of the records that were read, in the order of time.
    fn tell(&mut self, tell: &mut dyn FnMut(Event)) {
        let mut period = None;
        let mut rest = std::mem::take(&mut self.rest);
        // By reference: what was just written word by word would be copied before it has arrived.
        while let Some(one) = &self.tracing.rings().next(&mut rest) {
            let period = *period.get_or_insert_with(|| self.clock.period());
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
        let (frame, kind) = match &one.kind {
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
                let call = Call {
                    edge,
                    caller: *caller,
                    registers,
                    line: place.and_then(|place| known.line(&mut self.tracing, place)),
                    library: library.and_then(|place| known.line(&mut self.tracing, place)),
                    callers,
                    captures,
                };
                (*frame, EventKind::Call(call))
            }
            RingEventKind::Forked { child } => {
                let here = self.tracing.process_here(*child);
                self.vforks.forked(one.ring, *child, here);
                (0, EventKind::Forked(here))
            }
            RingEventKind::Return {
                frame,
                registers,
                x87,
                ..
            } => {
                let (returned, copies) = results(*registers, *x87, rest);
                let back = Return {
                    returned,
                    captures: copied(copies),
                };
                (*frame, EventKind::Return(back))
            }
        };
        let at = self.at(one, frame, period, tell);
        tell(Event { at, kind });
    }

    /// Where an event comes from; says first if a child of vfork begins or ceases to speak there.
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

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.tracing.pid()
    }
}

fn options(args: &Options) -> hooks::Options {
    let (line_tests, line_policy) = line_policy::of(args);
    hooks::Options {
        ring_size: RING,
        most_wait: args.most_wait,
        room: LEAST_ROOM
            + u64::from(args.kept_of_strings) / 8 * 2
            + if args.frames == 0 { 0 } else { callers::ROOM },
        follow: args.follow,
        line_tests,
        line_policy,
    }
}

impl Guest {
    /// Writes the records of all rings into the file; whether there were any.
    fn record(&mut self, most: u64, tell: &mut dyn FnMut(Event)) -> bool {
        let Some(mut straight) = self.straight.take() else {
            return false;
        };
        let (pid, clock) = (self.tracing.pid(), self.clock);
        let recording = straight.recording().clone();
        let mut written = Ok(());
        let (known, vforks) = (&mut self.known, &self.vforks);
        let any = {
            let mut store = recording.borrow_mut();
            let (mut known, mut look) = (Some(known), None);
            self.tracing.rings().for_each_of_ring(most, |event, rest| {
                process::fault::point("reading");
                if let Some(known) = known.take() {
                    look = Some(Look::new(pid, known, vforks, &clock));
                }
                if let (Some(look), Ok(())) = (&mut look, &written) {
                    written = straight.take(&mut store, look, &event, rest);
                }
            })
        };
        let period = clock.period();
        for (event, rest) in straight.aside() {
            self.tell_one(&event, &rest, period, tell);
            self.learn(&mut straight, &recording, &event.kind);
        }
        if let Err(error) = written {
            recording.borrow_mut().fail(error);
        }
        self.straight = Some(straight);
        matches!(any, Ok(true))
    }

    /// Notes what calls from where this one came are, so that the next one can be written at once.
    fn learn(&mut self, straight: &mut Straight, recording: &Recording, kind: &RingEventKind) {
        let RingEventKind::Call {
            hook,
            place,
            library,
            caller,
            ..
        } = *kind
        else {
            return;
        };
        let edge = self
            .known
            .edge(&self.tracing, &self.selection, hook, caller);
        let [line, other] =
            [place, library].map(|line| line.and_then(|at| self.known.line(&mut self.tracing, at)));
        let site = edge.map(|edge| {
            let lines = [line.as_ref(), other.as_ref()];
            recording.borrow_mut().site(&edge, caller, lines)
        });
        let number = |line: Option<usize>| line.map_or(0, |line| line + 1);
        // What cannot be written is told by the next event.
        if let Ok(site) = site.transpose() {
            straight.learn((hook, caller, number(place), number(library)), site);
        }
    }

    /// Hooks and return addresses may have other meanings from now on.
    fn forget_edges(&mut self) {
        self.known.forget_edges();
        if let Some(straight) = &mut self.straight {
            straight.forget();
        }
    }
}
