//! Decodes the bytes of a segment into calls and returns. Used by `merge` and `read`, and by `calls::replay::tally`.

use super::parts::{take_copies, take_kind, take_numbers, which};
use super::{
    FRAME, GP, Last, MOST_SITES, OF_CALL, OF_RETURN, Place, RETURNED, SSE, Site, VALUES, WHOLE,
    control,
};
use crate::event::{Call, EventKind, Return};
use crate::segment::Segment;
use prototypes::capture::{Registers, Returned};
use std::ops::Range;
use varint::{Take, Wrong};

/// The kind of event at which the decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call began; its return, if there is one, comes later.
    Call,
    /// A call that began earlier returned.
    Return,
    /// A call began and returned.
    Both,
    /// A fork, a signal or an end: see [`Decoder::other`].
    Other,
    /// The segment has no further event.
    Over,
}

/// How many definitions of each kind exist: the numbers in events must be smaller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defined {
    /// Number of guests that are defined.
    pub guests: u32,
    /// Number of call edges.
    pub edges: u32,
    /// Number of lines of scripts.
    pub lines: u32,
    /// Number of native frames around calls (`-w`).
    pub callers: u32,
}

/// Reads the events of one segment, one after the other.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    packed: Vec<u8>,
    at: usize,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    segment: Segment,
    defined: Defined,
    sites: Vec<Last>,
    places: Vec<Place>,
    site: usize,
    place: usize,
    time: i64,
    began: i64,
    parts: Range<usize>,
    other: Option<EventKind<()>>,
}

impl Decoder {
    /// The bytes of the segment.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffers for the bytes of a segment, which must be filled before [`Decoder::begin`], and for the same bytes
    /// packed.
    pub(crate) fn bytes_and_packed(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.bytes, &mut self.packed)
    }

    /// Begins with a segment whose unpacked bytes are there.
    pub(crate) fn begin(&mut self, segment: Segment, defined: Defined) {
        self.at = 0;
        let state = &mut self.state;
        state.sites.clear();
        state.sites.push(Last::default());
        state.places.clear();
        (state.segment, state.defined) = (segment, defined);
        (state.site, state.place, state.time) = (0, usize::MAX, 0);
    }

    /// Reads on to the next event.
    #[inline]
    pub fn step(&mut self) -> Result<Step, Wrong> {
        let mut take = Take(&self.bytes[self.at..]);
        let whole = self.bytes.len();
        let step = self.state.step(&mut take, whole);
        self.at = whole - take.0.len();
        step
    }

    /// When the call began, in nanoseconds since 1970; of an event that is no call, when it happened.
    #[inline]
    pub fn began(&self) -> u64 {
        self.state
            .segment
            .first
            .wrapping_add(self.state.began as u64)
    }

    /// When the call returned; of a call that has not returned yet, when it began.
    #[inline]
    pub fn ended(&self) -> u64 {
        self.state
            .segment
            .first
            .wrapping_add(self.state.time as u64)
    }

    /// Where the call was made.
    #[inline]
    pub fn site(&self) -> Site {
        self.state.sites[self.state.site].site
    }

    /// The number of the site within the segment.
    #[inline]
    pub fn site_number(&self) -> usize {
        self.state.site
    }

    /// The thread that made it, and its stack.
    #[inline]
    pub fn place(&self) -> Place {
        self.state.places[self.state.place]
    }

    /// The stack pointer above its return address.
    #[inline]
    pub fn frame(&self) -> u64 {
        self.state.sites[self.state.site].values[FRAME]
    }

    /// The event that is neither call nor return.
    pub fn other(&self) -> Option<EventKind<()>> {
        self.state.other.clone()
    }

    /// The parts of the item: a bit for each, and their bytes, the parts of the call before those of the return.
    fn parts(&self) -> Result<(u8, Take<'_>), Wrong> {
        let mut take = Take(&self.bytes[self.state.parts.clone()]);
        if take.0.is_empty() {
            return Ok((0, take));
        }
        let those = take.byte()?;
        if those & !which::ALL == 0 {
            Ok((those, take))
        } else {
            Err(Wrong)
        }
    }

    /// The call and, if the item has one, its return.
    pub fn call(&self, returns: bool) -> Result<(Call, Option<Return>), Wrong> {
        let Last { site, values, .. } = &self.state.sites[self.state.site];
        let (those, mut take) = self.parts()?;
        let mut call = Call {
            edge: site.edge.checked_sub(1).ok_or(Wrong)?,
            caller: site.caller,
            line: site.line.checked_sub(1),
            library: site.library.checked_sub(1),
            registers: Registers {
                gp: GP.map(|at| values[at]),
                stack: values[FRAME],
                ..Registers::default()
            },
            ..Call::default()
        };
        call.registers.sse.copy_from_slice(&values[SSE..]);
        if those & which::CALLERS != 0 {
            call.callers = take_numbers(&mut take, self.state.defined.callers)?;
        }
        if those & which::COPIES != 0 {
            call.captures = take_copies(&mut take, &call.registers.gp)?;
        }
        let back = returns.then(|| back(values, those, take)).transpose()?;
        Ok((call, back))
    }

    /// The return of an item that has no call.
    pub fn back(&self) -> Result<Return, Wrong> {
        let (those, take) = self.parts()?;
        back(&self.state.sites[self.state.site].values, those, take)
    }
}

fn back(values: &[u64; VALUES], those: u8, mut take: Take) -> Result<Return, Wrong> {
    let [rax, rdx, xmm0, xmm1] = RETURNED.map(|at| values[at]);
    let mut back = Return {
        returned: Returned {
            rax,
            rdx,
            sse: [xmm0, xmm1],
            ..Returned::default()
        },
        ..Return::default()
    };
    if those & which::RETURN_COPIES != 0 {
        back.captures = take_copies(&mut take, &[])?;
    }
    if those & which::X87 != 0 {
        for st in &mut back.returned.x87 {
            st.copy_from_slice(take.exactly(10)?);
        }
    }
    Ok(back)
}

impl State {
    #[inline]
    fn step(&mut self, take: &mut Take, whole: usize) -> Result<Step, Wrong> {
        loop {
            let Some((first, rest)) = take.0.split_first() else {
                return Ok(Step::Over);
            };
            take.0 = rest;
            return match first & control::BOTH {
                control::CALL => self.item(take, whole, *first, OF_CALL, Step::Call),
                control::RETURN => self.item(take, whole, *first, OF_RETURN, Step::Return),
                control::BOTH => self.item(take, whole, *first, OF_CALL | OF_RETURN, Step::Both),
                _ => match *first {
                    control::EVENT => self.event(take),
                    control::PLACE => {
                        self.set_place(take)?;
                        continue;
                    }
                    control::NEW_SITE => {
                        self.learn_site(take)?;
                        continue;
                    }
                    _ => Err(Wrong),
                },
            };
        }
    }

    #[inline]
    fn item(
        &mut self,
        take: &mut Take,
        whole: usize,
        first: u8,
        of: u32,
        step: Step,
    ) -> Result<Step, Wrong> {
        if first & control::SITE != 0 {
            self.site = take.small()? as usize;
        }
        let last = self.sites.get_mut(self.site).ok_or(Wrong)?;
        let unknown = last.site.edge == 0 && step != Step::Return;
        if unknown || self.place >= self.places.len() {
            return Err(Wrong);
        }
        let gap = &mut last.gaps[usize::from(step == Step::Return)];
        *gap = gap.wrapping_add(take.signed()?);
        self.began = self.time.wrapping_add(*gap);
        self.time = self.began;
        if step == Step::Both {
            last.took = last.took.wrapping_add(take.signed()?);
            self.time = self.time.wrapping_add(last.took);
        }
        let mut differ = u32::from(first >> control::VALUES & 7);
        if first & control::MORE != 0 {
            differ |= take.small()?.checked_mul(8).ok_or(Wrong)?;
        }
        if differ & !of != 0 {
            return Err(Wrong);
        }
        last.take(take, differ, of)?;
        self.parts = 0..0;
        if first & control::PARTS != 0 {
            let parts = take.bytes()?;
            let end = whole - take.0.len();
            self.parts = end - parts.len()..end;
        }
        Ok(step)
    }

    fn event(&mut self, take: &mut Take) -> Result<Step, Wrong> {
        if self.place >= self.places.len() {
            return Err(Wrong);
        }
        self.time = self.time.wrapping_add(take.signed()?);
        self.began = self.time;
        self.other = Some(take_kind(take)?);
        Ok(Step::Other)
    }

    fn set_place(&mut self, take: &mut Take) -> Result<(), Wrong> {
        let number = take.small()? as usize;
        if number > self.places.len() {
            return Err(Wrong);
        }
        if number == self.places.len() {
            let place = Place {
                guest: take.small()?,
                tid: take.small()?,
                stack: take.number()?,
            };
            if place.guest >= self.defined.guests || !self.has_room() {
                return Err(Wrong);
            }
            self.places.push(place);
        }
        self.place = number;
        Ok(())
    }

    fn learn_site(&mut self, take: &mut Take) -> Result<(), Wrong> {
        let before = self.sites.last().map_or(0, |last| last.site.caller);
        let site = Site {
            edge: take.small()?,
            caller: before.wrapping_add(take.signed()? as u64),
            line: take.small()?,
            library: take.small()?,
        };
        let defined = &self.defined;
        let is_known = (1..=defined.edges).contains(&site.edge)
            && site.line <= defined.lines
            && site.library <= defined.lines;
        if !is_known || !self.has_room() {
            return Err(Wrong);
        }
        self.sites.push(Last::of(site));
        Ok(())
    }

    /// Whether another site or place is allowed. No writer makes more, and each takes much more memory here than in
    /// the file.
    fn has_room(&self) -> bool {
        let there = self.sites.len() + self.places.len();
        there < (self.segment.sites as usize).min(MOST_SITES + 2)
    }
}

const _: () = assert!(VALUES <= u32::BITS as usize - 8 && WHOLE < VALUES);
