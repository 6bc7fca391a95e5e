//! `--record` where nothing else is to be done with a call: its record goes from the ring into the file as it is, without
//! becoming an [`Event`](crate::Event). What a hook and a return address mean is looked up when they are met first.
//!
//! Records are taken one ring after the other, because the file keeps rings apart. While a ring is read nothing can be
//! looked up in the guest. So a record that needs that, and what follows it in its ring, is put aside until the ring
//! was read, and becomes an event then: a call from a new place, a fork, and whatever a child of `vfork` does, which
//! speaks in its parent's ring.

use super::super::known::Known;
use super::Guest;
use super::record::{halves, x87_registers};
use super::vforks::Vforks;
use crate::Event;
use crate::recorder::{Recording, Store};
use hooks::rings::{RingEvent, RingEventKind};
use process::clock::{self, Clock};
use prototypes::capture::{Registers, Returned};
use recording::{CallRecord, Copies, Place, ReturnRecord, Site};
use std::collections::HashMap;
use std::io;

/// Where a call comes from, in the guest's numbers: hook, return address, line and library's line, each and 1.
pub type From = (u32, u64, usize, usize);

/// Sites that are found without a look into the table.
const NEAR: usize = 256;

/// What was seen last in a ring.
#[derive(Clone, Copy, Default)]
struct Ring {
    stream: u32,
    /// The page of the stack.
    page: u64,
    place: Place,
    is_known: bool,
}

/// A record that was put aside; the words behind its fixed part are `words[from..from + length]`.
struct Aside {
    event: RingEvent,
    from: usize,
    length: usize,
}

/// See the module's text.
pub struct Straight {
    recording: Recording,
    /// `None` = such calls are not shown, and so they are not recorded.
    sites: HashMap<From, Option<Site>>,
    near: Vec<(From, Option<Site>)>,
    rings: Vec<Ring>,
    aside: Vec<Aside>,
    words: Vec<u64>,
}

/// How the time-stamp counter is told as time.
struct Times {
    ticks: u64,
    nanos: u64,
    period: f64,
}

impl Times {
    fn at(&self, ticks: u64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks) as i64;
        self.nanos
            .wrapping_add((since as f64 * self.period) as i64 as u64)
    }
}

/// What calls of one look at the rings have in common.
pub struct Look<'g> {
    pid: i32,
    known: &'g mut Known,
    times: Times,
    /// A ring of which a record was put aside.
    stalled: Option<u32>,
    vforks: &'g Vforks,
}

impl<'g> Look<'g> {
    /// Begins a look.
    pub fn new(pid: i32, known: &'g mut Known, vforks: &'g Vforks, clock: &Clock) -> Self {
        let (period, ticks) = (clock.period(), clock::now());
        let nanos = clock.wall(ticks, period).as_nanos() as u64;
        Look {
            pid,
            known,
            times: Times {
                ticks,
                nanos,
                period,
            },
            stalled: None,
            vforks,
        }
    }
}

impl Straight {
    /// Into this file.
    pub fn new(recording: Recording) -> Self {
        Straight {
            recording,
            sites: HashMap::new(),
            near: vec![(From::default(), None); NEAR],
            rings: Vec::new(),
            aside: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Hooks may have other meanings from now on.
    pub fn forget(&mut self) {
        self.sites.clear();
        self.near.fill((From::default(), None));
    }

    /// The file.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Notes what calls from there are.
    pub fn learn(&mut self, from: From, site: Option<Site>) {
        self.sites.insert(from, site);
    }

    /// Takes one record of a ring, or puts it aside.
    #[inline]
    pub fn take(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        event: RingEvent,
        rest: &[u64],
    ) -> io::Result<()> {
        let is_stalled =
            look.stalled == Some(event.ring) || look.vforks.concerns(event.ring, event.tid);
        if is_stalled || !self.record(store, look, &event, rest)? {
            look.stalled = Some(event.ring);
            let from = self.words.len();
            self.words.extend_from_slice(rest);
            let length = rest.len();
            self.aside.push(Aside {
                event,
                from,
                length,
            });
        }
        Ok(())
    }

    /// Hands out what was put aside, each with the words behind its fixed part.
    pub fn aside(&mut self) -> impl Iterator<Item = (RingEvent, Vec<u64>)> + use<> {
        let words = std::mem::take(&mut self.words);
        let aside = std::mem::take(&mut self.aside).into_iter();
        aside.map(move |one| (one.event, words[one.from..one.from + one.length].to_vec()))
    }

    /// Writes a record; false if something must be looked up for it.
    #[inline]
    fn record(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        event: &RingEvent,
        rest: &[u64],
    ) -> io::Result<bool> {
        match event.kind {
            RingEventKind::Call {
                hook,
                place,
                library,
                frame,
                caller,
                registers,
            } => {
                let number = |line: Option<usize>| line.map_or(0, |line| line + 1);
                let from = (hook, caller, number(place), number(library));
                let Some(site) = self.site(from) else {
                    return Ok(false);
                };
                let (Some(site), true) = (site, store.has_room(look.pid)?) else {
                    return Ok(true);
                };
                let Some(Ring { stream, place, .. }) = self.place(store, look, event, frame)?
                else {
                    return Ok(false);
                };
                let (sse, copies) = halves::<8>(rest);
                let [rdi, rsi, rdx, rcx, r8, r9, _] = registers;
                let call = CallRecord {
                    site,
                    place,
                    frame,
                    time: look.times.at(event.ticks),
                    registers: &Registers {
                        gp: [rdi, rsi, rdx, rcx, r8, r9],
                        sse,
                        stack: frame,
                    },
                    copies: Copies::Words(copies),
                    callers: &[],
                };
                store.record_call(stream, &call)?;
            }
            RingEventKind::Return {
                frame,
                registers: [rax, rdx],
                x87,
                ..
            } => {
                if !store.has_room(look.pid)? {
                    return Ok(true);
                }
                let Some(Ring { stream, place, .. }) = self.place(store, look, event, frame)?
                else {
                    return Ok(false);
                };
                let (sse, rest) = halves::<2>(rest);
                let (st, copies) = rest.split_at(x87.min(rest.len()));
                let back = ReturnRecord {
                    place,
                    frame,
                    time: look.times.at(event.ticks),
                    returned: &Returned {
                        rax,
                        rdx,
                        sse,
                        x87: x87_registers(st),
                    },
                    copies: Copies::Words(copies),
                };
                store.record_return(stream, &back)?;
            }
            RingEventKind::Forked { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// What calls from there are; `None` = that is not known yet.
    #[inline]
    fn site(&mut self, from: From) -> Option<Option<Site>> {
        let hash = from.1 ^ from.1 >> 9 ^ (from.0 as u64) << 3 ^ (from.2 as u64) << 1;
        let near = &mut self.near[hash as usize % NEAR];
        if near.0 == from && from.1 != 0 {
            return Some(near.1);
        }
        let site = *self.sites.get(&from)?;
        *near = (from, site);
        Some(site)
    }

    /// Who speaks in a ring, on the stack that holds a frame; `None` = the guest was not told of yet.
    #[inline]
    fn place(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        event: &RingEvent,
        frame: u64,
    ) -> io::Result<Option<Ring>> {
        let at = event.ring as usize;
        if let Some(ring) = self.rings.get(at)
            && (ring.page, ring.place.tid, ring.is_known) == (frame >> 12, event.tid, true)
        {
            return Ok(Some(*ring));
        }
        let Some(guest) = store.guest(look.pid) else {
            return Ok(None);
        };
        if self.rings.len() <= at {
            self.rings.resize(at + 1, Ring::default());
        }
        self.rings[at] = Ring {
            stream: store.stream(guest, event.ring)?,
            page: frame >> 12,
            place: Place {
                guest,
                tid: event.tid,
                stack: look.known.stack(look.pid, frame),
            },
            is_known: true,
        };
        Ok(Some(self.rings[at]))
    }
}

impl Guest {
    /// Writes the records of all rings into the file; whether there were any.
    pub(super) fn record(&mut self, most: u64, tell: &mut dyn FnMut(Event)) -> bool {
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
                    written = straight.take(&mut store, look, event, rest);
                }
            })
        };
        let period = clock.period();
        for (event, rest) in straight.aside() {
            self.tell_one(event, &rest, period, tell);
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
    pub(super) fn forget_edges(&mut self) {
        self.known.forget_edges();
        if let Some(straight) = &mut self.straight {
            straight.forget();
        }
    }
}
