//! The reader of the rings of a process: the other side of what `wire::calls` lays out and the agent writes. Used by
//! `open` and `tracing`, and by `calls::live::guest::straight::counted`.
//!
//! Each thread has a ring of its own. [`Rings::look`] finds new ones. There are two ways to read the records.
//! [`Rings::fill`] copies them and frees their room, and [`Rings::next`] returns the records of all rings in the order of
//! time. [`Rings::for_each_of_ring`] passes on what each ring holds, one ring after the other; it needs no queue and no
//! merging.

mod backing;
mod blocks;
#[cfg(test)]
mod counted;
mod event;
mod figures;
#[cfg(test)]
mod hostile;
mod lines;
mod queue;
mod read;
mod record;
mod short;
#[cfg(test)]
mod ways;

use crate::ids::Ids;
use crate::limits::{MOST_NUMBERS, MOST_RINGS, USER_END};
use crate::pool::Pool;
use backing::{Backing, is_plausible};
pub use blocks::{BlockCounts, BlockSite};
pub use event::{Counted, Line, Losses, RingEvent, RingEventKind};
use lines::Lines;
use process::error::Result;
use process::memory::GuestMemory;
use queue::Queue;
pub use read::Events;
use record::{Decoder, none_of, string};
pub use short::ShortCall;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Instant;
use wire::calls::{self, Calls, OF_LIBRARY, Ring, kind};

/// The rings of one process; see the module's documentation.
#[derive(Debug)]
pub struct Rings {
    ids: Ids,
    backing: Backing,
    calls: u64,
    /// [`Calls::without_ring`] as it was at the last [`Rings::look`].
    without_ring: u64,
    /// [`Calls::made`] as it was at the last [`Rings::look`]; `None` = there was none.
    made: Option<u64>,
    known: Vec<Known>,
    by_address: HashMap<u64, usize>,
    lines: Lines,
    /// Number of line numbers that all rings together have assigned.
    numbers: usize,
    /// Number of lines that were not kept, because there were too many.
    lines_lost: u64,
    /// Number of counted calls for whose rows there was no room.
    rows_lost: u64,
    /// For each non-empty queue but that of `first`: when its oldest record was written, and the index of its ring.
    heads: BinaryHeap<Head>,
    /// Index of the ring with the earliest record, if it is known; that ring is not in `heads`. While only one ring has
    /// records, the others need not be looked at.
    first: Option<usize>,
    /// The time-stamp counter when the earliest record of that ring was written.
    first_ticks: u64,
    /// Whether a ring has unread records and its queue is empty. These may be the oldest of all, so no record may be
    /// returned before they are read.
    blocked: bool,
    lost_before: Losses,
    session: u32,
    /// How many calls of a row of counts, by address of the ring and row, were open when we left.
    open: HashMap<(u64, u64), u64>,
    /// The words that were copied last from a ring; the buffer is kept because it is large.
    words: Vec<u64>,
    /// Words that are passed on and do not stand in the record in that form.
    spare: Vec<u64>,
    /// The time-stamp counter when rings were read last.
    now: u64,
    /// Whether a large part of some ring was unread when it was read last.
    busy: bool,
}

/// When the oldest record of a queue was written, and the index of its ring; the earliest is the greatest.
type Head = Reverse<(u64, usize)>;

#[derive(Clone, Debug)]
struct Known {
    address: u64,
    records: u64,
    words: u64,
    /// The position up to which the ring was read, in words ever written to it.
    taken: u64,
    /// The position up to which room was given back, likewise ([`Ring::taken`]).
    given: u64,
    tid: u32,
    decoder: Decoder,
    queue: Queue,
    /// Whether it has unread records.
    behind: bool,
    /// Whether it can be read. A ring that a thread of the parent made after the fork is not in the child's memory.
    there: bool,
    /// Whether it was lost with the memory of a process that is gone.
    went: bool,
    /// [`calls::Written::lost`] at the beginning of this session.
    lost_before: u64,
    /// Since when the next record is unfinished although others follow it, and how far the ring was written then.
    /// Unfinished records before that position are at least as old.
    stuck: Option<(Instant, u64)>,
    /// The number of unfinished records that were given up.
    abandoned: u64,
}

impl Rings {
    /// Finds the rings of a process. Records that they hold now are skipped.
    pub fn open(
        memory: Arc<GuestMemory>,
        pool: Option<Pool>,
        calls: u64,
        session: u32,
    ) -> Result<Self> {
        let pool = pool.map(Arc::new);
        let mut rings = Rings {
            ids: Ids::of(memory.pid()),
            backing: Backing { memory, pool },
            calls,
            without_ring: 0,
            made: None,
            known: Vec::new(),
            by_address: HashMap::new(),
            lines: Lines::default(),
            numbers: 0,
            lines_lost: 0,
            rows_lost: 0,
            heads: BinaryHeap::new(),
            first: None,
            first_ticks: 0,
            blocked: false,
            lost_before: Losses::default(),
            session,
            open: HashMap::new(),
            words: Vec::new(),
            spare: Vec::new(),
            now: 0,
            busy: false,
        };
        rings.begin_here()?;
        Ok(rings)
    }

    /// Makes the reader for a child that has a copy of this memory and stands still. Script lines and threads are taken
    /// over from this one; the child's records begin with those that it writes itself.
    pub fn adopt(&self, memory: Arc<GuestMemory>) -> Result<Self> {
        let mut rings = Rings {
            ids: Ids::of(memory.pid()),
            // The child has replaced the shared pool by memory of its own.
            backing: Backing { memory, pool: None },
            calls: self.calls,
            without_ring: 0,
            made: None,
            known: self.known.clone(),
            by_address: self.by_address.clone(),
            lines: self.lines.clone(),
            numbers: self.numbers,
            lines_lost: 0,
            rows_lost: 0,
            heads: BinaryHeap::new(),
            first: None,
            first_ticks: 0,
            blocked: false,
            lost_before: Losses::default(),
            session: self.session,
            open: HashMap::new(),
            words: Vec::new(),
            spare: Vec::new(),
            now: 0,
            busy: false,
        };
        let there = rings.addresses()?;
        for ring in &mut rings.known {
            ring.there &= there.contains(&ring.address);
        }
        rings
            .by_address
            .retain(|address, _| there.contains(address));
        rings.begin_here()?;
        for at in 0..rings.known.len() {
            // The parent's reader returns the records that wait. The script lines among them are valid for both.
            while rings.known[at].queue.waiting() != 0 {
                let _ = rings.find_head(at, false);
                rings.known[at].queue.advance();
            }
        }
        rings.heads.clear();
        for ring in rings.known.iter().filter(|ring| ring.there) {
            // The counts so far are the parent's.
            rings.leave_counts(ring.address)?;
        }
        Ok(rings)
    }

    /// Returns the id in our namespace of the thread that has called itself `own_hooks` in a ring.
    pub(crate) fn child_here(&self, own: u32) -> Option<i32> {
        self.ids.last(own)
    }

    /// Skips all that was written and lost until now.
    fn begin_here(&mut self) -> Result<()> {
        self.look()?;
        for at in 0..self.known.len() {
            if !self.known[at].there {
                continue;
            }
            let (reserved, lost) = self.written(at)?;
            let ring = &mut self.known[at];
            (ring.taken, ring.lost_before) = (reserved, lost);
            // A value that differs in any case: the child of a fork has memory of its own, and `taken` must be written
            // there.
            ring.given = !reserved;
            (ring.stuck, ring.abandoned) = (None, 0);
            self.give_back(at)?;
        }
        self.lost_before.without_ring = self.without_ring;
        self.lost_before.panics = self.panics()?;
        self.lost_before.uncopied = self.uncopied()?;
        Ok(())
    }

    /// Whether a large part of some ring was unread since the last call, so that its thread would soon have to wait.
    pub fn was_busy(&mut self) -> bool {
        std::mem::take(&mut self.busy)
    }

    /// The script lines so far, by the indices that events have.
    pub fn places(&self) -> &[Line] {
        self.lines.all()
    }

    /// Addresses of the rings.
    fn addresses(&self) -> Result<Vec<u64>> {
        let table = self.calls + offset_of!(Calls, rings) as u64;
        self.backing.records(table, calls::RINGS)
    }

    /// Finds the rings that were made since the last call.
    ///
    /// # Errors
    /// The process is gone. Rings in the shared pool can still be read.
    pub fn look(&mut self) -> Result<()> {
        const _: () = assert!(offset_of!(Calls, without_ring) == offset_of!(Calls, made) + 8);
        let mut words = [0; 2];
        let at = self.calls + offset_of!(Calls, made) as u64;
        let there = self.backing.read_words(at, &mut words);
        if there.is_err() {
            for address in self.backing.rings_that_stay() {
                self.learn(address)?;
            }
            return there;
        }
        let [made, without_ring] = words;
        self.without_ring = without_ring;
        if self.made == Some(made) {
            return Ok(());
        }
        for address in self.addresses()? {
            if address > calls::MOVED {
                self.learn(address)?;
            }
        }
        self.made = Some(made);
        Ok(())
    }

    /// Notes the ring at an address, unless its header is implausible.
    fn learn(&mut self, address: u64) -> Result<()> {
        if self.by_address.contains_key(&address) || address >= USER_END {
            return Ok(());
        }
        let field = |offset| self.backing.word(address + offset as u64);
        let (records, size) = (
            field(offset_of!(Ring, records))?,
            field(offset_of!(Ring, size))?,
        );
        let taken = field(offset_of!(Ring, taken))?;
        if !is_plausible(address, records, size) || self.known.len() >= MOST_RINGS {
            return Ok(());
        }
        self.by_address.insert(address, self.known.len());
        self.known.push(Known {
            address,
            records,
            words: size / 8,
            taken,
            given: taken,
            tid: 0,
            decoder: Decoder::default(),
            queue: Queue::default(),
            behind: false,
            there: true,
            went: false,
            lost_before: 0,
            stuck: None,
            abandoned: 0,
        });
        Ok(())
    }

    /// Returns the ranges of memory that rings take, without the tables of counts. `parked` skips them, because words in
    /// them may look like return addresses.
    pub fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let rings = self.known.iter();
        rings
            .map(|ring| ring.address..ring.records + ring.words * 8)
            .chain(self.backing.shared())
            .collect()
    }

    /// Returns how many rings were lost with the process, with their unread records.
    pub fn gone(&self) -> usize {
        self.known.iter().filter(|ring| ring.went).count()
    }

    /// Whether a thread writes a record at this moment: it stands in a hook. (A call that has not returned is a whole record, with room
    /// for its return behind it.)
    pub fn any_unfinished(&self) -> bool {
        (0..self.known.len())
            .any(|at| self.known[at].there && self.is_unfinished(at).unwrap_or(false))
    }

    fn is_unfinished(&self, at: usize) -> Result<bool> {
        let ring = &self.known[at];
        let (reserved, _) = self.written(at)?;
        let mut position = ring.taken;
        while position < reserved {
            let word = self
                .backing
                .word(ring.records + position % ring.words * 8)?;
            match calls::open(word, position) {
                Some((_, kind::BEGUN)) => return Ok(true),
                Some((length @ 1.., _)) => position += length,
                _ => break,
            }
        }
        Ok(false)
    }

    /// Returns how many words of a ring were ever reserved, and how many records it has lost.
    fn written(&self, at: usize) -> Result<(u64, u64)> {
        let field = |offset| self.backing.word(self.known[at].address + offset as u64);
        Ok((
            field(offset_of!(Ring, written.reserved))?,
            field(offset_of!(Ring, written.lost))?,
        ))
    }

    /// Handles the records at the head of a ring's queue that are no events (threads, script lines), and returns the time
    /// of the first event. With `held`, the call before was held back until its return was seen, so that return comes next.
    fn find_head(&mut self, at: usize, held: bool) -> Option<Head> {
        loop {
            let ring = &mut self.known[at];
            let record = ring.queue.front()?;
            if let Some(ticks) = ring.decoder.ticks(record, self.now) {
                return Some(Reverse((if held { 0 } else { ticks }, at)));
            }
            let mut queue = std::mem::take(&mut ring.queue);
            if let Some(record) = queue.front() {
                self.note(at, record);
            }
            queue.advance();
            self.known[at].queue = queue;
        }
    }

    /// Notes a record that is no event: the id of the writing thread, or the line that a number stands for.
    fn note(&mut self, at: usize, record: &[u64]) {
        match (record[0] >> 16 & 0xff, &record[1..]) {
            (kind::THREAD, [tid, ..]) => self.known[at].tid = self.ids.here(*tid as u32),
            (kind::PLACE, [number, lengths, text @ ..]) => {
                let (path, name) = ((*lengths & 0xffff_ffff) as usize, (lengths >> 32) as usize);
                let (path_text, rest) = text.split_at(path.div_ceil(8).min(text.len()));
                let line = Line {
                    path: string(path_text, path),
                    line: (number >> 32) as u32,
                    name: string(rest, name),
                };
                let number = *number as u32;
                if number & OF_LIBRARY != 0 {
                    // Used for calls that no line of the application has made.
                    let none = Line::of_no_application(&line);
                    self.learn_line(at, none_of(number & !OF_LIBRARY), none);
                }
                self.learn_line(at, number & !OF_LIBRARY, line);
            }
            _ => {}
        }
    }

    /// Notes the line that a ring calls by a number from now on. A line for which there is no room is counted as lost.
    fn learn_line(&mut self, at: usize, number: u32, line: Line) {
        let index = self.lines.index_of(line);
        let decoder = &mut self.known[at].decoder;
        decoder.learned = decoder.learned.wrapping_add(1);
        let numbered = &mut decoder.places;
        // The number's earlier line must not be reported for the new one.
        let before = numbered.remove(&number).is_some();
        self.numbers -= usize::from(before);
        match index.filter(|_| self.numbers < MOST_NUMBERS) {
            Some(index) => {
                numbered.insert(number, index);
                self.numbers += 1;
            }
            None => self.lines_lost += 1,
        }
    }

    /// Returns the next event in the order of time, and puts the words after the fixed part of its record into `rest`.
    /// `None` = the rings must be read again first.
    pub fn next(&mut self, rest: &mut Vec<u64>) -> Option<RingEvent> {
        while !self.blocked {
            let at = match self.first.take() {
                Some(at) => at,
                None => self.heads.pop()?.0.1,
            };
            let ring = &mut self.known[at];
            let (mut event, mut held) = (None, false);
            if let Some(record) = ring.queue.front() {
                held = record[0] >> 16 & 0xff == kind::HELD;
                let decoded = ring.decoder.decode(record, self.now, &mut self.spare);
                event = decoded.map(|decoded| {
                    rest.clear();
                    rest.extend_from_slice(decoded.rest);
                    RingEvent {
                        tid: ring.tid,
                        ring: at as u32,
                        ticks: decoded.ticks,
                        kind: decoded.kind,
                    }
                });
            }
            ring.queue.advance();
            if let Some(mut head) = self.find_head(at, held) {
                if let Some(mut earliest) = self.heads.peek_mut()
                    && head < *earliest
                {
                    // Another ring has an earlier record.
                    std::mem::swap(&mut *earliest, &mut head);
                }
                let Reverse((ticks, at)) = head;
                (self.first, self.first_ticks) = (Some(at), ticks);
            }
            let ring = &self.known[at];
            self.blocked = ring.behind && ring.queue.waiting() == 0;
            if event.is_some() {
                return event;
            }
        }
        None
    }
}
