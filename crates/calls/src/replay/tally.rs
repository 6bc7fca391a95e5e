//! Counts calls of a recording segment by segment, on all processors. Used by `replay`.
//!
//! A segment is counted without knowledge of those before it. A call that returns in its own segment, as nearly all do, is counted at once.
//! The rest is a list of what happens to calls of earlier segments, and of calls that stay open ([`Left`]); it is processed in the order of
//! the file, by the rules of [`crate::stacks`]: a call that begins removes those at its own or a lower frame; a return removes those inside
//! its call.

use super::names::Names;
use crate::event::At;
use crate::source::Count;
use crate::stacks::{Kept, OpenCalls};
use hooks::rings::Counted;
use recording::{Decoder, Error, EventKind, Place, Recording, Scan, Segment, Step, Wanted};
use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use wire::calls::{BUCKETS, bucket};

/// Number of segments that are counted between two checks whether to end; and limits of their sites, each of which has a row until the
/// segment has been processed, and of their bytes, each of which may be half of a call that stays open.
const AT_ONCE: usize = 64;
const SITES: u32 = 8192;
const BYTES: u32 = 4 << 20;

/// Number of a call edge, and number of a script line plus 1 (0 = there is none).
type Key = (u32, u32);

/// The counts of one key.
struct Row {
    returned: u64,
    left: u64,
    total: u64,
    longest: u64,
    buckets: Vec<u64>,
}

impl Default for Row {
    fn default() -> Self {
        Row {
            returned: 0,
            left: 0,
            total: 0,
            longest: 0,
            buckets: vec![0; BUCKETS],
        }
    }
}

impl Row {
    #[inline]
    fn add(&mut self, took: u64) {
        self.returned += 1;
        self.total = self.total.saturating_add(took);
        self.longest = self.longest.max(took);
        self.buckets[bucket(took)] += 1;
    }

    fn lay(&mut self, other: &Row) {
        self.returned += other.returned;
        self.left += other.left;
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += more;
        }
    }
}

#[derive(Default)]
struct Rows(BTreeMap<Key, Row>);

impl Rows {
    fn of(&mut self, key: Key) -> &mut Row {
        self.0.entry(key).or_default()
    }
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Open {
    frame: u64,
    began: u64,
    key: Key,
}

/// What is kept of an open call from segment to segment: when it began, in nanoseconds since 1970, and its key.
struct Waits(u64, Key);

impl Kept for Waits {
    fn beside(&self) -> usize {
        0
    }
}

/// What must be processed of a segment in the order of the file, on one stack.
enum Left {
    /// Calls began at frames up to this one.
    Unwound(u64),
    /// A call began and did not return before the next entry.
    Open(Open),
    /// A call of an earlier segment returned.
    Return { frame: u64, time: u64 },
}

/// A stack of a ring: guest and stack.
type StackOf = (u32, u64);

/// A stack within one segment.
struct Stack {
    of: StackOf,
    open: Vec<Open>,
    /// The highest frame at which a call began while none of this segment was open.
    unwound: u64,
}

/// The result of counting one segment.
#[derive(Default)]
struct Part {
    rows: Rows,
    left: Vec<(StackOf, Left)>,
    /// Guests that have ended.
    ended: Vec<u32>,
}

/// The working memory of one thread, kept from segment to segment.
#[derive(Default)]
struct Worker {
    decoder: Decoder,
    /// Calls of this segment that returned at once, by the number of their site.
    sites: Vec<Option<(Key, Box<Row>)>>,
    stacks: Vec<Stack>,
    /// The index of the stack of the last call.
    stack: usize,
}

/// What was counted of a recording so far. [`Tally::read`] counts some more segments at each call, until it returns false; [`Tally::counts`] then
/// takes the sums out.
pub struct Tally {
    scan: Scan,
    /// The segment that did not fit into the last batch.
    next: Option<Segment>,
    workers: Vec<Worker>,
    rows: Rows,
    /// The open calls; a guest stands for its process, a stream for its ring.
    open: OpenCalls<Waits>,
    ended: HashSet<u32>,
}

impl Tally {
    /// Counts the segments that hold what is wanted.
    pub fn new(wanted: Wanted) -> Self {
        let count = thread::available_parallelism().map_or(1, usize::from);
        Tally {
            scan: Scan::new(wanted),
            next: None,
            workers: (0..count).map(|_| Worker::default()).collect(),
            rows: Rows::default(),
            open: OpenCalls::default(),
            ended: HashSet::new(),
        }
    }

    /// Returns the next batch of segments.
    fn segments(&mut self, recording: &Recording) -> Result<Vec<Segment>, Error> {
        let (mut sites, mut bytes) = (SITES, BYTES);
        let mut segments = Vec::new();
        while segments.len() < AT_ONCE {
            let next = match self.next.take() {
                Some(segment) => Some(segment),
                None => self.scan.next(recording)?,
            };
            let Some(segment) = next else {
                break;
            };
            if !segments.is_empty() && (segment.sites > sites || segment.whole > bytes) {
                self.next = Some(segment);
                break;
            }
            sites = sites.saturating_sub(segment.sites);
            bytes = bytes.saturating_sub(segment.whole);
            segments.push(segment);
        }
        Ok(segments)
    }

    /// Counts a batch of segments. Returns false if all are counted.
    pub fn read(&mut self, recording: &Recording) -> Result<bool, Error> {
        let segments = self.segments(recording)?;
        let parts: Vec<Mutex<Option<Result<Part, Error>>>> =
            segments.iter().map(|_| Mutex::new(None)).collect();
        let claimed = AtomicUsize::new(0);
        let (wanted, segments) = (self.scan.wanted(), &segments);
        thread::scope(|scope| {
            for worker in &mut self.workers {
                scope.spawn(|| {
                    loop {
                        let at = claimed.fetch_add(1, Ordering::Relaxed);
                        let Some(segment) = segments.get(at) else {
                            return;
                        };
                        let part = worker.count(recording, segment, wanted);
                        if let Ok(mut place) = parts[at].lock() {
                            *place = Some(part);
                        }
                    }
                });
            }
        });
        for (segment, part) in segments.iter().zip(parts) {
            let part = part.into_inner().ok().flatten();
            let part = part.unwrap_or_else(|| Ok(Part::default()))?;
            for (key, row) in part.rows.0 {
                self.rows.of(key).lay(&row);
            }
            settle(&mut self.open, &mut self.rows, segment.stream, part.left);
            self.ended.extend(part.ended);
        }
        Ok(!segments.is_empty())
    }

    /// Returns how many open calls were forgotten, because too many were open at the same time. They are in no row.
    pub fn forgotten(&self) -> u64 {
        self.open.forgotten()
    }

    /// Returns the counts, by function and line.
    pub fn counts(&mut self, names: &Names) -> Vec<Count> {
        for guest in self.ended.drain() {
            for Waits(_, key) in self.open.drain(Some(guest as i32)) {
                self.rows.of(key).left += 1;
            }
        }
        let rows = std::mem::take(&mut self.rows.0).into_iter();
        let counts = rows.map(|((edge, line), row)| Count {
            function: names.edge(edge).function.clone(),
            inside: None,
            line: line.checked_sub(1).map(|line| names.line(line)),
            counted: Counted {
                hook: 0,
                place: None,
                returned: row.returned,
                left: row.left,
                total: row.total,
                longest: row.longest,
                // These are needed only in modes that report calls one by one.
                shortest: 0,
                errors: 0,
                bytes: 0,
                buckets: (0..).zip(row.buckets).filter(|one| one.1 != 0).collect(),
            },
            period: 1.0,
        });
        counts.collect()
    }
}

/// Processes what a segment has left.
fn settle(open: &mut OpenCalls<Waits>, rows: &mut Rows, stream: u32, left: Vec<(StackOf, Left)>) {
    for ((guest, stack), left) in left {
        let at = |frame| At {
            process: guest as i32,
            ring: stream,
            stack,
            frame,
            ..At::default()
        };
        let unwound = match left {
            Left::Unwound(frame) => open.unwind(at(frame)),
            Left::Open(Open { frame, began, key }) => open.enter(at(frame), Waits(began, key)).1,
            Left::Return { frame, time } => match open.leave(at(frame)) {
                Some((Waits(began, key), _, inside)) => {
                    rows.of(key).add(time.saturating_sub(began));
                    inside
                }
                None => Vec::new(),
            },
        };
        for left in unwound {
            rows.of(left.call.1).left += 1;
        }
    }
}

impl Worker {
    /// Counts the calls of one segment, without knowledge of what was open before it.
    fn count(
        &mut self,
        recording: &Recording,
        segment: &Segment,
        wanted: &Wanted,
    ) -> Result<Part, Error> {
        recording.read(segment, &mut self.decoder)?;
        self.sites.clear();
        self.stacks.clear();
        let mut part = Part::default();
        loop {
            let step = self.decoder.step();
            let damaged = |_| Error::Damaged(segment.offset);
            match step.map_err(damaged)? {
                Step::Over => break,
                Step::Other => {
                    if let Some(EventKind::Ended(_)) = self.decoder.other() {
                        part.ended.push(self.decoder.place().guest);
                    }
                }
                step => self.event(step, wanted, &mut part),
            }
        }
        for stack in &mut self.stacks {
            stack.give(&mut part.left);
        }
        for (key, row) in self.sites.drain(..).flatten() {
            part.rows.of(key).lay(&row);
        }
        Ok(part)
    }

    /// Counts a call or a return.
    #[inline]
    fn event(&mut self, step: Step, wanted: &Wanted, part: &mut Part) {
        let decoder = &self.decoder;
        let (site, began, ended) = (decoder.site(), decoder.began(), decoder.ended());
        let (begins, returns) = (wanted.time(began), wanted.time(ended));
        if !begins || !wanted.site(&site) {
            return;
        }
        let (frame, number) = (decoder.frame(), decoder.site_number());
        let Place { guest, stack, .. } = decoder.place();
        let of = (guest, stack);
        let at = match self.stacks.get(self.stack) {
            Some(stack) if stack.of == of => self.stack,
            _ => self.find(of),
        };
        self.stack = at;
        let key = (site.edge.wrapping_sub(1), site.shown(wanted.nearest));
        let stack = &mut self.stacks[at];
        if step == Step::Return {
            stack.returned(frame, ended, part);
            return;
        }
        stack.begun(frame, part);
        if step == Step::Call || !returns {
            stack.open.push(Open { frame, began, key });
            return;
        }
        if self.sites.len() <= number {
            self.sites.resize_with(number + 1, || None);
        }
        let (_, row) = self.sites[number].get_or_insert_with(|| (key, Box::default()));
        row.add(ended.saturating_sub(began));
    }

    fn find(&mut self, of: StackOf) -> usize {
        if let Some(at) = self.stacks.iter().position(|stack| stack.of == of) {
            return at;
        }
        self.stacks.push(Stack {
            of,
            open: Vec::new(),
            unwound: 0,
        });
        self.stacks.len() - 1
    }
}

impl Stack {
    /// Handles a call that begins at this frame: those at the same or a lower frame were left.
    #[inline]
    fn begun(&mut self, frame: u64, part: &mut Part) {
        while let Some(open) = self.open.pop_if(|open| open.frame <= frame) {
            part.rows.of(open.key).left += 1;
        }
        if self.open.is_empty() {
            self.unwound = self.unwound.max(frame);
        }
    }

    /// Handles a return: calls inside it were left. A return whose call is not of this segment is passed on.
    fn returned(&mut self, frame: u64, time: u64, part: &mut Part) {
        let Some(place) = self.open.iter().rposition(|open| open.frame == frame) else {
            self.give(&mut part.left);
            part.left.push((self.of, Left::Return { frame, time }));
            return;
        };
        for open in self.open.drain(place + 1..) {
            part.rows.of(open.key).left += 1;
        }
        if let Some(call) = self.open.pop() {
            part.rows.of(call.key).add(time.saturating_sub(call.began));
        }
    }

    /// Passes on what concerns calls of other segments.
    fn give(&mut self, left: &mut Vec<(StackOf, Left)>) {
        if self.unwound != 0 {
            left.push((self.of, Left::Unwound(self.unwound)));
            self.unwound = 0;
        }
        let open = self.open.drain(..).map(|open| (self.of, Left::Open(open)));
        left.extend(open);
    }
}
