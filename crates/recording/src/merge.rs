//! Merges the events of all streams by time. Used by `calls::replay` and `calls::live::guest::straight::counted`.
//!
//! Each stream keeps its own order, whatever its times say: an event comes no earlier than the one before it in its
//! stream. A call that was held back until its return was seen has an earlier time than what stands before it; its return
//! comes at once.
//!
//! Only the part of the index that overlaps in time with the next event is in memory: a block is read when one of its segments may be the
//! next ([`Block::least`](crate::index::Block)).
//!
//! If more segments overlap than fit into memory, the order between threads is lost, but no event: [`Merge::unordered`].

use crate::codec::MOST_SITES;
use crate::codec::decode::{Decoder, Step};
use crate::event::{At, Event, EventKind};
use crate::read::Recording;
use crate::segment::Segment;
use crate::source::{Error, Source};
use crate::wanted::{Scan, Wanted};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;
use varint::Wrong;

/// Limit of the memory for open segments. One segment of each thread overlaps in time, and its call sites need the most memory: 1,000
/// threads that call from 800 places each need this much. Beyond the limit, a segment is read completely when it is next.
const MOST_OPEN: u64 = 256 << 20;

/// Limit of the waiting segments: if more overlap in time (12 GB), they are read in the order of the file.
const MOST_WAITING: usize = 1 << 18;

/// Approximate bytes of a decoder for one site.
const SITE: u64 = 320;

/// Limit of the unused decoders that are kept; below, the limit of the bytes of one.
const MOST_SPARE: usize = 16;
const MOST_OF_SPARE: u64 = 1 << 20;

/// The rest of one stream.
#[derive(Default)]
struct Queue {
    stream: u32,
    /// Its segments that are not read yet.
    segments: VecDeque<Segment>,
    decoder: Option<Decoder>,
    ring: u32,
    /// Bytes that its open segment takes, which are a part of `Merge::open`.
    room: u64,
    /// The next event, and the return of its call if that is known already.
    head: Option<Event>,
    then: Option<Event>,
    /// Its call was held back until its return was seen: both are next together.
    at_once: bool,
    /// Its segment is read to the end before any other, because there is no memory to keep it open.
    alone: bool,
    last: u64,
    /// Offset in the file of the segment that is open.
    offset: u64,
}

/// Reads the events of one recording in their order, one at each [`Merge::next`]. All calls must be given the same recording: the places of
/// segments that were not read yet are kept here.
pub struct Merge {
    scan: Scan,
    queues: Vec<Queue>,
    /// The index in `queues` of each stream that has segments, or an event, left.
    numbers: HashMap<u32, usize>,
    /// Indexes of the queues that belong to no stream.
    free: Vec<usize>,
    /// Segments of all queues that are not open.
    waiting: usize,
    /// When the next event of each queue is due.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Decoders that are not in use.
    spare: Vec<Decoder>,
    open: u64,
    most_open: u64,
    /// Whether more segments overlap in time than may wait.
    crowded: bool,
    unordered: u64,
}

impl Merge {
    /// Merges the events of the segments that hold what is wanted.
    pub fn new(wanted: Wanted) -> Self {
        Merge {
            scan: Scan::new(wanted),
            queues: Vec::new(),
            numbers: HashMap::new(),
            free: Vec::new(),
            waiting: 0,
            heap: BinaryHeap::new(),
            spare: Vec::new(),
            open: 0,
            most_open: MOST_OPEN,
            crowded: false,
            unordered: 0,
        }
    }

    /// Returns the number of segments whose events may come earlier or later than those of other threads, because more
    /// overlap in time than are kept in memory.
    pub fn unordered(&self) -> u64 {
        self.unordered
    }

    /// Adds segments to the queues, block by block, until no unread one can contain an event earlier than the next one.
    fn supply<S: Source>(&mut self, recording: &Recording<S>) -> Result<(), Error> {
        while let Some(least) = self.scan.least(recording) {
            let next = self.heap.peek().map(|Reverse((due, _))| *due);
            let comes_first = next.is_some_and(|next| next < least);
            self.crowded = next.is_some() && !comes_first && self.waiting >= MOST_WAITING;
            if comes_first || self.crowded {
                return Ok(());
            }
            let segments: Vec<Segment> = self.scan.take_block(recording)?.collect();
            for segment in segments {
                self.give(segment);
            }
        }
        Ok(())
    }

    /// Adds a segment to the queue of its stream.
    fn give(&mut self, segment: Segment) {
        self.waiting += 1;
        if let Some(queue) = self.numbers.get(&segment.stream) {
            self.queues[*queue].segments.push_back(segment);
            return;
        }
        let queue = self.free.pop().unwrap_or_else(|| {
            self.queues.push(Queue::default());
            self.queues.len() - 1
        });
        self.numbers.insert(segment.stream, queue);
        self.queues[queue] = Queue {
            stream: segment.stream,
            segments: VecDeque::from([segment]),
            ..Queue::default()
        };
        self.due(queue);
    }

    /// Notes when a queue's next event is due. A queue without one is freed.
    fn due(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        let next = match (&queue.head, queue.segments.front()) {
            (Some(event), _) => event.at.nanos(),
            (None, Some(segment)) => segment.earliest,
            (None, None) => {
                self.numbers.remove(&queue.stream);
                self.free.push(at);
                return;
            }
        };
        queue.last = queue.last.max(next);
        // The earliest of all times, so that this queue is read next.
        let due = if queue.at_once || queue.alone {
            0
        } else {
            queue.last
        };
        self.heap.push(Reverse((due, at as u32)));
    }

    /// The next event; `None` = there are no more.
    pub fn next<S: Source>(&mut self, recording: &Recording<S>) -> Result<Option<Event>, Error> {
        loop {
            self.supply(recording)?;
            let Some(Reverse((_, at))) = self.heap.pop() else {
                return Ok(None);
            };
            let at = at as usize;
            let event = self.queues[at].head.take();
            self.advance(recording, at)?;
            self.due(at);
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Reads a queue's next event that is wanted, from its next segment if the one that is open is over. A queue without
    /// an open segment waits until its next one is due.
    fn advance<S: Source>(&mut self, recording: &Recording<S>, at: usize) -> Result<(), Error> {
        let queue = &mut self.queues[at];
        if let Some(event) = queue.then.take() {
            queue.head = Some(event);
            return Ok(());
        }
        queue.at_once = false;
        if queue.decoder.is_none()
            && let Some(segment) = queue.segments.pop_front()
        {
            self.waiting -= 1;
            self.open(recording, at, segment)?;
        }
        let queue = &mut self.queues[at];
        let damaged = Error::Damaged(queue.offset);
        while let Some(decoder) = &mut queue.decoder {
            let Ok(step) = decoder.step() else {
                return Err(damaged);
            };
            if step == Step::Over {
                self.open -= queue.room;
                let decoder = queue.decoder.take();
                queue.alone = false;
                if queue.room <= MOST_OF_SPARE && self.spare.len() < MOST_SPARE {
                    self.spare.extend(decoder);
                }
                return Ok(());
            }
            match queue.take(step, self.scan.wanted()) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Wrong) => return Err(damaged),
            }
        }
        Ok(())
    }

    /// Opens a queue's next segment.
    fn open<S: Source>(
        &mut self,
        recording: &Recording<S>,
        at: usize,
        segment: Segment,
    ) -> Result<(), Error> {
        let mut decoder = self.spare.pop().unwrap_or_default();
        recording.read(&segment, &mut decoder)?;
        let sites = (segment.sites as usize).min(MOST_SITES);
        let queue = &mut self.queues[at];
        queue.room = u64::from(segment.whole) + u64::from(segment.here) + sites as u64 * SITE;
        queue.alone = self.open != 0 && self.open + queue.room > self.most_open;
        self.unordered += u64::from(queue.alone || self.crowded);
        self.open += queue.room;
        (queue.decoder, queue.ring) = (Some(decoder), segment.ring);
        queue.offset = segment.offset;
        Ok(())
    }
}

impl Queue {
    /// Makes an event of the decoder's item. Returns whether it is wanted.
    fn take(&mut self, step: Step, wanted: &Wanted) -> Result<bool, Wrong> {
        let Some(decoder) = &self.decoder else {
            return Ok(false);
        };
        let (began, ended) = (decoder.began(), decoder.ended());
        if step != Step::Other && !wanted.site(&decoder.site()) {
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
                        EventKind::Signal(signal) => EventKind::Signal(signal),
                        EventKind::Ended(end) => EventKind::Ended(end),
                        EventKind::Opened(_)
                        | EventKind::Call(())
                        | EventKind::Return(_)
                        | EventKind::Thread(_) => {
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

#[cfg(test)]
mod tests;
