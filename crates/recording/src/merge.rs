//! The events of all streams in the order of time.
//!
//! Each stream keeps its own order, whatever its times say: an event comes no earlier than the one before it in its
//! stream. A call that was held back until its return was seen has an earlier time than what stands before it; its return
//! comes at once.

use crate::bytes::Wrong;
use crate::codec::decode::{Decoder, Step};
use crate::event::{At, Event, EventKind};
use crate::read::{Error, Recording, Source};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

/// Bytes of segments that are read at the same time, at most. A writer holds far less back.
const MOST_OPEN: u64 = 256 << 20;

/// Bytes that a decoder takes for a site, about.
const SITE: u64 = 320;

/// Which events are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// By number of the call edge.
    pub edges: Vec<bool>,
    /// Events before that are not, in nanoseconds since 1970.
    pub since: u64,
    /// Events from then on are not.
    pub until: u64,
}

impl Wanted {
    /// Whether an edge is wanted.
    #[inline]
    pub fn edge(&self, edge: u32) -> bool {
        self.edges.get(edge as usize).is_none_or(|wanted| *wanted)
    }

    /// Whether a time is.
    #[inline]
    pub fn time(&self, time: u64) -> bool {
        (self.since..self.until).contains(&time)
    }

    /// The segments that may hold such events, in the order of the file.
    pub fn segments<S: Source>(&self, recording: &Recording<S>) -> Vec<u32> {
        let numbers = (0_u32..).zip(recording.segments());
        let wanted = numbers.filter(|(_, (segment, edges))| {
            segment.latest >= self.since
                && segment.earliest < self.until
                && edges.any(|edge| self.edge(edge))
        });
        wanted.map(|(number, _)| number).collect()
    }
}

/// A stream that is read.
#[derive(Default)]
struct Lane {
    /// Its segments that are not read yet.
    segments: VecDeque<u32>,
    decoder: Option<Decoder>,
    ring: u32,
    /// What was taken off the most that may be open.
    room: u64,
    /// The next event, and the return of its call if that is known already.
    head: Option<Event>,
    then: Option<Event>,
    /// Its call was held back until its return was seen: both come at once.
    at_once: bool,
    last: u64,
    /// Where the segment lies that is open.
    offset: u64,
}

/// See the module's text.
pub struct Merge {
    wanted: Wanted,
    lanes: Vec<Lane>,
    /// When the next event of each lane is due.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Decoders that are not in use.
    spare: Vec<Decoder>,
    open: u64,
}

impl Merge {
    /// Of the segments that hold what is wanted.
    pub fn new<S: Source>(recording: &Recording<S>, wanted: Wanted) -> Self {
        let mut merge = Merge {
            lanes: Vec::new(),
            heap: BinaryHeap::new(),
            spare: Vec::new(),
            open: 0,
            wanted,
        };
        let mut numbers = HashMap::new();
        for segment in merge.wanted.segments(recording) {
            let stream = recording.segments()[segment as usize].0.stream;
            let lane = *numbers.entry(stream).or_insert(merge.lanes.len());
            if lane == merge.lanes.len() {
                merge.lanes.push(Lane::default());
            }
            merge.lanes[lane].segments.push_back(segment);
        }
        for lane in 0..merge.lanes.len() {
            merge.due(recording, lane);
        }
        merge
    }

    /// Notes when a lane's next event is due.
    fn due<S: Source>(&mut self, recording: &Recording<S>, at: usize) {
        let lane = &mut self.lanes[at];
        let next = match (&lane.head, lane.segments.front()) {
            (Some(event), _) => event.at.nanos(),
            (None, Some(segment)) => recording.segments()[*segment as usize].0.earliest,
            (None, None) => return,
        };
        lane.last = lane.last.max(next);
        // A call that was held back is the earliest of all, and then its return is.
        let due = if lane.at_once { 0 } else { lane.last };
        self.heap.push(Reverse((due, at as u32)));
    }

    /// The next event; `None` = there are no more.
    pub fn next<S: Source>(&mut self, recording: &Recording<S>) -> Result<Option<Event>, Error> {
        while let Some(Reverse((_, at))) = self.heap.pop() {
            let at = at as usize;
            let event = self.lanes[at].head.take();
            self.advance(recording, at)?;
            self.due(recording, at);
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Reads a lane's next event that is wanted, from its next segment if the one that is open is over. A lane without
    /// an open segment waits until its next one is due.
    fn advance<S: Source>(&mut self, recording: &Recording<S>, at: usize) -> Result<(), Error> {
        let lane = &mut self.lanes[at];
        if let Some(event) = lane.then.take() {
            lane.head = Some(event);
            return Ok(());
        }
        lane.at_once = false;
        if lane.decoder.is_none()
            && let Some(number) = lane.segments.pop_front()
        {
            let (segment, _) = &recording.segments()[number as usize];
            let mut decoder = self.spare.pop().unwrap_or_default();
            recording.read(number as usize, &mut decoder)?;
            lane.room = u64::from(segment.whole) + u64::from(segment.sites) * SITE;
            self.open += lane.room;
            if self.open > MOST_OPEN {
                return Err(Error::Damaged(segment.offset));
            }
            (lane.decoder, lane.ring) = (Some(decoder), segment.ring);
            lane.offset = segment.offset;
        }
        let damaged = Error::Damaged(lane.offset);
        while let Some(decoder) = &mut lane.decoder {
            let Ok(step) = decoder.step() else {
                return Err(damaged);
            };
            if step == Step::Over {
                self.open -= lane.room;
                self.spare.extend(lane.decoder.take());
                return Ok(());
            }
            match lane.take(step, &self.wanted) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Wrong) => return Err(damaged),
            }
        }
        Ok(())
    }
}

impl Lane {
    /// Makes an event of what the decoder has come to; whether it is wanted.
    fn take(&mut self, step: Step, wanted: &Wanted) -> Result<bool, Wrong> {
        let Some(decoder) = &self.decoder else {
            return Ok(false);
        };
        let (began, ended) = (decoder.began(), decoder.ended());
        let edge = decoder.site().edge;
        let is_wanted = edge.checked_sub(1).is_none_or(|edge| wanted.edge(edge));
        if step != Step::Other && !is_wanted {
            return Ok(false);
        }
        let place = decoder.place();
        let event = |time, kind| Event {
            at: At {
                process: place.guest,
                tid: place.tid,
                ring: self.ring,
                stack: place.stack,
                frame: if step == Step::Other {
                    0
                } else {
                    decoder.frame()
                },
                time: Duration::from_nanos(time),
            },
            kind,
        };
        let (mut head, mut then) = (None, None);
        match step {
            Step::Call | Step::Both => {
                let (call, back) = decoder.call(step == Step::Both)?;
                head = Some(event(began, EventKind::Call(call)));
                then = back.map(|back| event(ended, EventKind::Return(back)));
                self.at_once = then.is_some() && began < self.last;
            }
            Step::Return => head = Some(event(began, EventKind::Return(decoder.back()?))),
            Step::Other => {
                head = decoder.other().and_then(|kind| {
                    let kind = match kind {
                        EventKind::Forked(child) => EventKind::Forked(child),
                        EventKind::Signal(number) => EventKind::Signal(number),
                        EventKind::Ended(end) => EventKind::Ended(end),
                        EventKind::Opened(_) | EventKind::Call(()) | EventKind::Return(_) => {
                            return None;
                        }
                    };
                    Some(event(began, kind))
                });
            }
            Step::Over => {}
        }
        let in_time = |event: &Event| wanted.time(event.at.nanos());
        (self.head, self.then) = (head.filter(in_time), then.filter(in_time));
        if self.head.is_none() {
            self.head = self.then.take();
        }
        Ok(self.head.is_some())
    }
}
