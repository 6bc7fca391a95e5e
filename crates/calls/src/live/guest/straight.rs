//! `--record` when nothing else is done with a call: its record goes from the ring into the file as it is, without becoming an
//! [`Event`](crate::event::Event). The meaning of a hook and a return address is looked up when they first occur. Used
//! by `recorded` and `guest`.
//!
//! Records are taken one ring after the other, because the file keeps rings apart. While a ring is read nothing can be looked up in the
//! guest. So a record that needs that, and all that follow it in its ring, are put aside until the ring has been read, and become events
//! then: a call from a new place, a fork, and everything that a child of `vfork` does, which writes to its parent's ring.

#[cfg(test)]
mod counted;

use super::super::lookup::Known;
use super::budget::Budget;
use super::record::{arguments, results};
use super::vforks::Vforks;
use crate::recorder::{Recording, Store};
use hooks::rings::{Events, RingEvent, RingEventKind, ShortCall};
use process::clock::{self, Clock};
use recording::{CallRecord, Copies, Place, ReturnRecord, ShortRecord, Site};
use std::collections::HashMap;
use std::io;

/// Where a call comes from, in the guest's numbers: hook, return address, number of its line plus 1, number of the library's line plus 1 (0
/// = there is no line).
pub type From = (u32, u64, usize, usize);

/// Number of sites that are found without a look into the table.
const NEAR: usize = 256;

/// The last state of a ring.
#[derive(Clone, Copy, Default)]
struct Ring {
    stream: u32,
    /// The page of the stack.
    page: u64,
    place: Place,
    is_known: bool,
}

/// The meaning of short calls of a ring with this identity.
#[derive(Clone, Copy, Default)]
struct Short {
    /// Number of the ring plus 1; 0 = this entry is unused.
    ring: u32,
    identity: [u64; 4],
    site: Site,
}

/// A record that was put aside; the words behind its fixed part are `words[from..from + length]`.
struct Aside {
    event: RingEvent,
    from: usize,
    length: usize,
}

/// Writes the records of one guest into a recording, and remembers what hooks and return addresses mean. [`Straight::forget`] must be
/// called when that may have changed; otherwise calls are recorded as calls of another function.
pub struct Straight {
    recording: Recording,
    /// How calls from each place are recorded; `None` = they are not shown, and so not recorded.
    sites: HashMap<From, Option<Site>>,
    near: Vec<(From, Option<Site>)>,
    shorts: Vec<Short>,
    rings: Vec<Ring>,
    aside: Vec<Aside>,
    words: Vec<u64>,
}

/// How time-stamp counters are converted to times.
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

/// What the calls of one look at the rings have in common.
pub struct Look<'g> {
    pid: i32,
    known: &'g mut Known,
    times: Times,
    /// The ring of which a record was put aside last; all that follow in it are put aside too.
    stalled: Option<u32>,
    vforks: &'g Vforks,
}

impl<'g> Look<'g> {
    /// Begins a look at the rings of process `pid`; records are dated by the clock as it is now.
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

/// Writes the records that the rings hold at one look into the file.
pub struct Taking<'a, 'g> {
    straight: &'a mut Straight,
    store: &'a mut Store,
    budget: &'a mut Budget,
    /// Begins the look at the first event; `None` = it has begun.
    begin: Option<Box<dyn FnOnce() -> Look<'g> + 'a>>,
    look: Option<Look<'g>>,
    /// The first error; nothing is written after it.
    pub written: io::Result<()>,
}

impl<'a, 'g> Taking<'a, 'g> {
    /// `begin` begins the look when there is a record.
    pub fn new(
        straight: &'a mut Straight,
        store: &'a mut Store,
        budget: &'a mut Budget,
        begin: impl FnOnce() -> Look<'g> + 'a,
    ) -> Self {
        Taking {
            straight,
            store,
            budget,
            begin: Some(Box::new(begin)),
            look: None,
            written: Ok(()),
        }
    }

    #[cold]
    fn begin(&mut self) {
        if let Some(begin) = self.begin.take() {
            self.look = Some(begin());
        }
    }
}

impl Events for Taking<'_, '_> {
    #[inline]
    fn event(&mut self, event: RingEvent, rest: &[u64]) {
        process::fault::point("reading");
        if let RingEventKind::Call { hook, .. } = event.kind {
            self.budget.note(hook);
        }
        if self.look.is_none() {
            self.begin();
        }
        if let (Some(look), Ok(())) = (&mut self.look, &self.written) {
            self.written = self.straight.take(self.store, look, &event, rest);
        }
    }

    #[inline(always)]
    fn short(&mut self, call: &ShortCall) -> bool {
        process::fault::point("reading");
        let (Some(look), Ok(())) = (&mut self.look, &self.written) else {
            return false;
        };
        match self.straight.take_short(self.store, look, call) {
            Ok(taken) => {
                if taken {
                    self.budget.note(call.hook());
                }
                taken
            }
            Err(error) => {
                self.written = Err(error);
                true
            }
        }
    }
}

impl Straight {
    /// Writes into this recording.
    pub fn new(recording: Recording) -> Self {
        Straight {
            recording,
            sites: HashMap::new(),
            near: vec![(From::default(), None); NEAR],
            shorts: vec![Short::default(); NEAR],
            rings: Vec::new(),
            aside: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Forgets the sites, because hooks may have other meanings from now on.
    pub fn forget(&mut self) {
        self.sites.clear();
        self.near.fill((From::default(), None));
        self.shorts.fill(Short::default());
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Notes what calls from this place are.
    pub fn learn(&mut self, from: From, site: Option<Site>) {
        self.sites.insert(from, site);
    }

    /// Writes one record of a ring, or puts it aside.
    #[inline]
    pub fn take(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        event: &RingEvent,
        rest: &[u64],
    ) -> io::Result<()> {
        let is_stalled =
            look.stalled == Some(event.ring) || look.vforks.concerns(event.ring, event.tid);
        if is_stalled || !self.record(store, look, event, rest)? {
            look.stalled = Some(event.ring);
            let from = self.words.len();
            self.words.extend_from_slice(rest);
            let length = rest.len();
            self.aside.push(Aside {
                event: *event,
                from,
                length,
            });
        }
        Ok(())
    }

    /// Writes a call with its return. Returns false if they must be passed one by one to [`take`](Self::take).
    #[inline(always)]
    pub fn take_short(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        call: &ShortCall,
    ) -> io::Result<bool> {
        if look.stalled == Some(call.ring) || !look.vforks.is_none() {
            return Ok(false);
        }
        let Some(site) = self.site_of_short(call) else {
            return Ok(false);
        };
        let frame = call.frame();
        let Some(at) = self.place(store, look, (call.ring, call.tid), frame)? else {
            return Ok(false);
        };
        let Ring { stream, place, .. } = self.rings[at];
        let short = ShortRecord {
            site,
            place,
            frame,
            times: [look.times.at(call.began), look.times.at(call.ended)],
            arguments: call.arguments,
            results: call.results,
        };
        store.record_short(stream, &short)
    }

    /// Takes the records that were put aside, each with the words behind its fixed part.
    pub fn aside(&mut self) -> impl Iterator<Item = (RingEvent, Vec<u64>)> + use<> {
        let words = std::mem::take(&mut self.words);
        let aside = std::mem::take(&mut self.aside).into_iter();
        aside.map(move |one| (one.event, words[one.from..one.from + one.length].to_vec()))
    }

    /// Writes a record. Returns false if something must be looked up for it.
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
                let Some(at) = self.place(store, look, (event.ring, event.tid), frame)? else {
                    return Ok(false);
                };
                let Ring { stream, place, .. } = self.rings[at];
                let (registers, copies) = arguments(registers, frame, rest);
                let call = CallRecord {
                    site,
                    place,
                    frame,
                    time: look.times.at(event.ticks),
                    registers: &registers,
                    copies: Copies::Words(copies),
                    callers: &[],
                };
                store.record_call(stream, &call)?;
            }
            RingEventKind::Return {
                frame,
                registers,
                x87,
                ..
            } => {
                if !store.has_room(look.pid)? {
                    return Ok(true);
                }
                let Some(at) = self.place(store, look, (event.ring, event.tid), frame)? else {
                    return Ok(false);
                };
                let Ring { stream, place, .. } = self.rings[at];
                let (returned, copies) = results(registers, x87, rest);
                let back = ReturnRecord {
                    place,
                    frame,
                    time: look.times.at(event.ticks),
                    returned: &returned,
                    copies: Copies::Words(copies),
                };
                store.record_return(stream, &back)?;
            }
            RingEventKind::Forked { .. } => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the site of a short call; `None` = it is not known yet, or the call is not recorded.
    #[inline(always)]
    fn site_of_short(&mut self, call: &ShortCall) -> Option<Site> {
        let [_, hook, stack, caller] = call.identity;
        let hash = (stack >> 3 ^ caller ^ caller >> 9 ^ hook << 3) as usize % NEAR;
        let near = &self.shorts[hash];
        if near.ring == call.ring + 1 && near.identity == call.identity {
            return Some(near.site);
        }
        self.look_up_short(call, hash)
    }

    #[inline(never)]
    fn look_up_short(&mut self, call: &ShortCall, hash: usize) -> Option<Site> {
        let [place, library] = call.lines().map(|line| line.map_or(0, |line| line + 1));
        let site = self.site((call.hook(), call.caller(), place, library))??;
        self.shorts[hash] = Short {
            ring: call.ring + 1,
            identity: call.identity,
            site,
        };
        Some(site)
    }

    /// Returns the site of calls from this place; `None` = it is not known yet.
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

    /// Makes sure that [`Ring`] has the thread that writes to a ring, and the stack that holds a frame; `None` = the guest was not reported
    /// yet.
    #[inline(always)]
    fn place(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        of: (u32, u32),
        frame: u64,
    ) -> io::Result<Option<usize>> {
        let at = of.0 as usize;
        if let Some(ring) = self.rings.get(at)
            && (ring.page, ring.place.tid, ring.is_known) == (frame >> 12, of.1, true)
        {
            return Ok(Some(at));
        }
        self.look_up_place(store, look, of, frame)
    }

    #[inline(never)]
    fn look_up_place(
        &mut self,
        store: &mut Store,
        look: &mut Look,
        (ring, tid): (u32, u32),
        frame: u64,
    ) -> io::Result<Option<usize>> {
        let at = ring as usize;
        let Some(guest) = store.guest(look.pid) else {
            return Ok(None);
        };
        if self.rings.len() <= at {
            self.rings.resize(at + 1, Ring::default());
        }
        self.rings[at] = Ring {
            stream: store.stream(guest, ring)?,
            page: frame >> 12,
            place: Place {
                guest,
                tid,
                stack: look.known.stack(look.pid, frame),
            },
            is_known: true,
        };
        Ok(Some(at))
    }
}
