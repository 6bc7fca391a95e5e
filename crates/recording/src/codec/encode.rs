//! Encodes calls and returns into the bytes of segments. Used by `write`.

use super::closed::{Closed, numbers};
use super::parts::{put_copies, put_kind, put_numbers, which};
use super::{
    CallRecord, Copies, FRAME, GP, Last, MOST_SITES, OF_CALL, OF_RETURN, Place, RETURNED,
    ReturnRecord, SSE, ShortRecord, Site, VALUES, WHOLE, control,
};
use crate::SEGMENT;
use crate::event::EventKind;
use crate::segment::{Kind, Segment};
use prototypes::capture::{Registers, Returned};
use std::collections::{HashMap, VecDeque};
use std::time::Instant;
use varint::{put, put_bytes, put_signed};

/// Size of the cache that finds sites without the hash table.
const NEAR: usize = 256;

/// Limit of the open calls whose frames are remembered for the site of their return; the latest ones are kept.
const MOST_OPEN: usize = 256;

/// A call that may be written together with its return.
struct Pending {
    site: usize,
    frame: u64,
    time: u64,
    /// Whether there is such a call; if not, the other fields have no meaning.
    is: bool,
}

/// The bytes of one stream since its last segment.
pub struct Encoder {
    out: Vec<u8>,
    sites: Vec<Last>,
    /// Places in `sites`, by a hash of the site.
    near: Box<[u32; NEAR]>,
    numbers: HashMap<Site, u32>,
    places: Vec<Place>,
    place: usize,
    /// The site of the item before.
    site: usize,
    /// The time at which the item before was over, in nanoseconds since 1970.
    time: u64,
    first: u64,
    earliest: u64,
    latest: u64,
    events: u32,
    pending: Pending,
    /// The values of the next item. Those that its kind does not have are left from another item.
    values: [u64; VALUES],
    call_parts: Vec<u8>,
    return_parts: Vec<u8>,
    which: u8,
    /// Frames of calls that have not returned, and their sites, from segment to segment.
    open: VecDeque<(u64, Site)>,
    forks: bool,
    /// Whether the segment contains anything other than calls of known sites.
    others: bool,
    /// Since when something waits to be written.
    since: Option<Instant>,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder {
            out: Vec::new(),
            sites: vec![Last::default()],
            near: Box::new([0; NEAR]),
            numbers: HashMap::new(),
            places: Vec::new(),
            place: usize::MAX,
            site: 0,
            time: 0,
            first: 0,
            earliest: 0,
            latest: 0,
            events: 0,
            pending: Pending {
                site: 0,
                frame: 0,
                time: 0,
                is: false,
            },
            values: [0; VALUES],
            call_parts: Vec::new(),
            return_parts: Vec::new(),
            which: 0,
            open: VecDeque::new(),
            forks: false,
            others: false,
            since: None,
        }
    }
}

impl Encoder {
    /// Whether it is time to close the segment.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.out.len() >= SEGMENT || self.sites.len() + self.places.len() >= MOST_SITES
    }

    /// Since when something waits.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Number of bytes of the segment so far.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// The time of the last item.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Adds a call, which is held back until it is known whether its return comes next.
    #[inline]
    pub fn call(&mut self, call: &CallRecord) {
        self.flush_call();
        self.event(call.time);
        self.at(call.place);
        let site = self.site_of(call.site);
        let values = &mut self.values;
        for (at, value) in GP.iter().zip(&call.registers.gp) {
            values[*at] = *value;
        }
        values[FRAME] = call.frame;
        values[SSE..].copy_from_slice(&call.registers.sse);
        self.pending = Pending {
            site,
            frame: call.frame,
            time: call.time,
            is: true,
        };
        if !call.callers.is_empty() {
            put_numbers(&mut self.call_parts, call.callers);
            self.which |= which::CALLERS;
        }
        if put_copies(&mut self.call_parts, &call.registers.gp, call.copies) {
            self.which |= which::COPIES;
        }
    }

    /// Adds a return, in one item with its call if that is the item before.
    #[inline]
    pub fn back(&mut self, back: &ReturnRecord) {
        let pending = &self.pending;
        let is_its = pending.is
            && pending.frame == back.frame
            && pending.time <= back.time
            && self.places[self.place] == back.place;
        if !is_its {
            self.flush_call();
        }
        self.event(back.time);
        if put_copies(&mut self.return_parts, &[], back.copies) {
            self.which |= which::RETURN_COPIES;
        }
        let returned = back.returned;
        if returned.x87 != [[0; 10]; 2] {
            let st = returned.x87.as_flattened();
            self.return_parts.extend_from_slice(st);
            self.which |= which::X87;
        }
        let [xmm0, xmm1] = returned.sse;
        let results = [returned.rax, returned.rdx, xmm0, xmm1];
        for (at, value) in RETURNED.iter().zip(results) {
            self.values[*at] = value;
        }
        if is_its {
            self.pending.is = false;
            let (site, began) = (self.pending.site, self.pending.time);
            self.put(control::BOTH, site, [began, back.time]);
            return;
        }
        self.at(back.place);
        let site = self.returns(back.frame);
        let site = self.site_of(site);
        self.values[FRAME] = back.frame;
        self.put(control::RETURN, site, [back.time; 2]);
    }

    /// Adds a call with its return: writes what [`call`](Self::call) and [`back`](Self::back) would, in fewer steps.
    #[inline]
    pub fn short(&mut self, call: &ShortRecord) {
        self.flush_call();
        self.at(call.place);
        let site = self.site_of(call.site);
        if self.sites[site].floats {
            return self.both(call);
        }
        let [began, ended] = call.times;
        self.event(began);
        self.events += 1;
        self.latest = self.latest.max(ended);
        let [rdi, rsi, rdx, rcx, r8, r9] = call.arguments;
        let [rax, second] = call.results;
        let now: [u64; WHOLE] = [rdi, rsi, rax, rdx, rcx, second, call.frame, r8, r9];
        let (out, last) = (&mut self.out, &mut self.sites[site]);
        let differ = last.differ_whole(now);
        let other_site = site != self.site;
        let more = differ >> 3 != 0;
        out.push(
            control::BOTH
                | (differ as u8 & 7) << control::VALUES
                | if more { control::MORE } else { 0 }
                | if other_site { control::SITE } else { 0 },
        );
        if other_site {
            put(out, site as u64);
            self.site = site;
        }
        let gap = began.wrapping_sub(self.time) as i64;
        let took = ended.wrapping_sub(began) as i64;
        put_signed(out, gap.wrapping_sub(last.gaps[0]));
        put_signed(out, took.wrapping_sub(last.took));
        (last.gaps[0], last.took, self.time) = (gap, took, ended);
        if more {
            put(out, u64::from(differ >> 3));
        }
        last.put_whole(out, differ);
    }

    /// Adds a call and its return as two items, because the call before it at that site had floating-point registers.
    #[cold]
    fn both(&mut self, call: &ShortRecord) {
        let ShortRecord { place, frame, .. } = *call;
        let ([time, ended], [rax, rdx]) = (call.times, call.results);
        let registers = Registers {
            gp: call.arguments,
            stack: frame,
            ..Registers::default()
        };
        let returned = Returned {
            rax,
            rdx,
            ..Returned::default()
        };
        let copies = Copies::Words(&[]);
        self.call(&CallRecord {
            site: call.site,
            place,
            frame,
            time,
            registers: &registers,
            copies,
            callers: &[],
        });
        self.back(&ReturnRecord {
            place,
            frame,
            time: ended,
            returned: &returned,
            copies,
        });
    }

    /// Adds a fork, a signal or an end.
    pub fn other<C>(&mut self, place: Place, time: u64, kind: &EventKind<C>) {
        self.flush_call();
        self.event(time);
        self.at(place);
        self.forks |= matches!(kind, EventKind::Forked(_));
        self.others = true;
        self.out.push(control::EVENT);
        put_signed(&mut self.out, time.wrapping_sub(self.time) as i64);
        self.time = time;
        put_kind(&mut self.out, kind);
    }

    /// Notes the time of an event.
    #[inline]
    fn event(&mut self, time: u64) {
        if self.events == 0 {
            (self.first, self.time) = (time, time);
            (self.earliest, self.latest) = (time, time);
            self.since = Some(Instant::now());
        }
        self.events += 1;
        self.earliest = self.earliest.min(time);
        self.latest = self.latest.max(time);
    }

    /// The site of the call that returns from this frame.
    fn returns(&mut self, frame: u64) -> Site {
        let Some(at) = self.open.iter().rposition(|(open, _)| *open == frame) else {
            self.others = true;
            return Site::default();
        };
        self.open
            .remove(at)
            .map_or(Site::default(), |(_, site)| site)
    }

    /// Writes a call whose return does not follow at once.
    #[inline(always)]
    fn flush_call(&mut self) {
        if self.pending.is {
            self.put_pending();
        }
    }

    #[inline(never)]
    fn put_pending(&mut self) {
        self.pending.is = false;
        let Pending {
            site, frame, time, ..
        } = self.pending;
        if self.open.len() == MOST_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((frame, self.sites[site].site));
        self.put(control::CALL, site, [time; 2]);
    }

    /// Sets the place of the items that follow.
    #[inline(always)]
    fn at(&mut self, place: Place) {
        if self.places.get(self.place) != Some(&place) {
            self.put_place(place);
        }
    }

    #[inline(never)]
    fn put_place(&mut self, place: Place) {
        self.out.push(control::PLACE);
        let known = self.places.iter().position(|known| *known == place);
        self.place = known.unwrap_or(self.places.len());
        put(&mut self.out, self.place as u64);
        if known.is_none() {
            self.places.push(place);
            put(&mut self.out, place.guest.into());
            put(&mut self.out, place.tid.into());
            put(&mut self.out, place.stack);
        }
    }

    /// The number of a site. A new one is written before its first item.
    #[inline(always)]
    fn site_of(&mut self, site: Site) -> usize {
        let hash = site.caller ^ site.caller >> 7 ^ u64::from(site.edge ^ site.line) << 2;
        let at = hash as usize % NEAR;
        let near = self.near[at] as usize;
        if let Some(known) = self.sites.get(near)
            && known.site == site
        {
            return near;
        }
        self.look_up_site(site, at)
    }

    #[inline(never)]
    fn look_up_site(&mut self, site: Site, at: usize) -> usize {
        let near = &mut self.near[at];
        if site.edge == 0 {
            return 0;
        }
        let next = self.sites.len() as u32;
        let number = *self.numbers.entry(site).or_insert(next);
        *near = number;
        if number == next {
            let before = self.sites.last().map_or(0, |last| last.site.caller);
            self.sites.push(Last::of(site));
            self.out.push(control::NEW_SITE);
            put(&mut self.out, site.edge.into());
            put_signed(&mut self.out, site.caller.wrapping_sub(before) as i64);
            put(&mut self.out, site.line.into());
            put(&mut self.out, site.library.into());
        }
        number as usize
    }

    /// Writes the item whose values and parts have been gathered, as what differs from the last one of its site.
    #[inline]
    fn put(&mut self, kind: u8, site: usize, times: [u64; 2]) {
        let of = match kind {
            control::CALL => OF_CALL,
            control::RETURN => OF_RETURN,
            _ => OF_CALL | OF_RETURN,
        };
        let (out, values) = (&mut self.out, &self.values);
        let last = &mut self.sites[site];
        let differ = last.differ(values, of);
        let mut first = kind | (differ as u8 & 7) << control::VALUES;
        if differ >> 3 != 0 {
            first |= control::MORE;
        }
        if self.which != 0 {
            first |= control::PARTS;
        }
        if site != self.site {
            first |= control::SITE;
        }
        out.push(first);
        if site != self.site {
            put(out, site as u64);
            self.site = site;
        }
        let [began, ended] = times;
        let gap = began.wrapping_sub(self.time) as i64;
        let before = &mut last.gaps[usize::from(kind == control::RETURN)];
        put_signed(out, gap.wrapping_sub(*before));
        *before = gap;
        if kind == control::BOTH {
            let took = ended.wrapping_sub(began) as i64;
            put_signed(out, took.wrapping_sub(last.took));
            last.took = took;
        }
        self.time = ended;
        if first & control::MORE != 0 {
            put(out, u64::from(differ >> 3));
        }
        last.put(out, values, differ, of);
        if self.which != 0 {
            self.put_parts(kind);
        }
    }

    /// Writes the parts of the item: those of a call wait while its return is written.
    fn put_parts(&mut self, kind: u8) {
        let mut parts = Vec::new();
        let of_call = which::CALLERS | which::COPIES;
        let mut those = 0;
        if kind & control::CALL != 0 {
            those |= of_call;
        }
        if kind & control::RETURN != 0 {
            those |= which::ALL & !of_call;
        }
        parts.push(self.which & those);
        if kind & control::CALL != 0 {
            parts.append(&mut self.call_parts);
        }
        if kind & control::RETURN != 0 {
            parts.append(&mut self.return_parts);
        }
        self.which &= !those;
        put_bytes(&mut self.out, &parts);
    }

    /// Ends the segment; `None` = there is nothing in it. [`Encoder::clear`] begins the next one.
    pub fn close(&mut self) -> Option<Closed<'_>> {
        self.flush_call();
        if self.events == 0 {
            return None;
        }
        let sites = || self.sites[1..].iter().map(|of| of.site);
        let edges = (!self.others).then(|| numbers(sites().map(|site| site.edge)));
        let lines = (!self.others).then(|| numbers(sites().flat_map(|of| [of.line, of.library])));
        Some(Closed {
            head: Segment {
                whole: self.out.len() as u32,
                kind: Kind::Events,
                forks: self.forks,
                events: self.events,
                sites: (self.sites.len() + self.places.len()) as u32,
                first: self.first,
                earliest: self.earliest,
                latest: self.latest,
                ..Segment::default()
            },
            bytes: &self.out,
            edges,
            lines,
        })
    }

    /// Frees the buffer for items, which must be empty. Returns whether calls are open, whose returns must then be
    /// reported with their frames.
    pub fn rest(&mut self) -> bool {
        *self = Encoder {
            latest: self.latest,
            open: std::mem::take(&mut self.open),
            ..Encoder::default()
        };
        !self.open.is_empty()
    }

    /// Begins the next segment, which knows neither sites nor places.
    pub fn clear(&mut self) {
        self.out.clear();
        self.sites.truncate(1);
        self.sites[0] = Last::default();
        self.near.fill(0);
        self.numbers.clear();
        self.places.clear();
        (self.place, self.site) = (usize::MAX, 0);
        self.events = 0;
        (self.forks, self.others, self.since) = (false, false, None);
    }
}
