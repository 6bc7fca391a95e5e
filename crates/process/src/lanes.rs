//! The reader of a guest's lanes: `wire::calls` from outside.

mod figures;
mod place;
mod queue;
mod record;
mod told;

use crate::error::{Error, Result};
use crate::memory::GuestMemory;
use crate::pool::Pool;
use place::Place;
use queue::Queue;
use record::{behind, string, what};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use told::{Counted, Line, Losses, Told, What};
use wire::calls::{self, Calls, Lane, kind};

/// See the module's text.
#[derive(Debug)]
pub struct Lanes {
    place: Place,
    calls: u64,
    /// [`Calls::unlaned`] at the last look.
    unlaned: u64,
    /// [`Calls::made`] at the last look.
    made: Option<u64>,
    known: Vec<Known>,
    by_address: HashMap<u64, usize>,
    /// Script lines, each once.
    places: Vec<Line>,
    by_line: HashMap<Line, usize>,
    /// When the first record of each queue was written, and whose it is.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// A lane whose queue is empty has more to tell: nothing can be handed on before it is read again.
    blocked: bool,
    lost_before: Losses,
    session: u32,
    /// To read into.
    words: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Known {
    address: u64,
    ring: u64,
    words: u64,
    taken: u64,
    tid: u32,
    places: HashMap<u32, usize>,
    queue: Queue,
    /// More was written than was read.
    behind: bool,
    /// It is in this memory: one that a parent's thread made after the fork is not in the child's.
    there: bool,
    /// It was in the memory of a guest that is gone.
    went: bool,
    /// Losses of sessions before this.
    lost_before: u64,
    /// Since when the next record is unfinished while others follow it, and how far the lane was written then: what is
    /// unfinished before that is as old.
    stuck: Option<(Instant, u64)>,
    /// Records that were given up for that.
    abandoned: u64,
}

/// How long an unfinished record with more behind it is waited for: its writer is a signal handler's victim, and the
/// handler may have left by longjmp.
const STUCK: Duration = Duration::from_secs(1);
/// The same where so much follows that the ring fills up, and the thread would soon wait for us.
const STUCK_AND_FULL: Duration = Duration::from_millis(50);

impl Lanes {
    /// Begins with whatever is told from now on.
    pub fn open(
        memory: Arc<GuestMemory>,
        pool: Option<Pool>,
        calls: u64,
        session: u32,
    ) -> Result<Self> {
        let pool = pool.map(Arc::new);
        let mut lanes = Lanes {
            place: Place { memory, pool },
            calls,
            unlaned: 0,
            made: None,
            known: Vec::new(),
            by_address: HashMap::new(),
            places: Vec::new(),
            by_line: HashMap::new(),
            heads: BinaryHeap::new(),
            blocked: false,
            lost_before: Losses::default(),
            session,
            words: Vec::new(),
        };
        lanes.begin_here()?;
        Ok(lanes)
    }

    /// The lanes of a child that has a copy of this memory and stands still: as they are known here, from where the child
    /// begins to speak.
    pub fn adopt(&self, memory: Arc<GuestMemory>) -> Result<Self> {
        let mut lanes = Lanes {
            // It has left its parent's pool.
            place: Place { memory, pool: None },
            calls: self.calls,
            unlaned: 0,
            made: None,
            known: self.known.clone(),
            by_address: self.by_address.clone(),
            places: self.places.clone(),
            by_line: self.by_line.clone(),
            heads: BinaryHeap::new(),
            blocked: false,
            lost_before: Losses::default(),
            session: self.session,
            words: Vec::new(),
        };
        let there = lanes.addresses()?;
        for lane in &mut lanes.known {
            lane.there &= there.contains(&lane.address);
        }
        lanes
            .by_address
            .retain(|address, _| there.contains(address));
        lanes.begin_here()?;
        for at in 0..lanes.known.len() {
            // What waits is its parent's to tell; the lines among it are known to both.
            while lanes.known[at].queue.waiting() != 0 {
                lanes.find_head(at, false);
                lanes.known[at].queue.advance();
            }
        }
        lanes.heads.clear();
        for lane in lanes.known.iter().filter(|lane| lane.there) {
            let field = lane.address + offset_of!(Lane, counts) as u64;
            // Its parent's are counted there.
            lanes.place.set_word(field, 0)?;
        }
        Ok(lanes)
    }

    /// What was told and lost until now is nothing of ours.
    fn begin_here(&mut self) -> Result<()> {
        self.look()?;
        for at in 0..self.known.len() {
            if !self.known[at].there {
                continue;
            }
            let (reserved, lost) = self.written(at)?;
            let lane = &mut self.known[at];
            (lane.taken, lane.lost_before) = (reserved, lost);
            (lane.stuck, lane.abandoned) = (None, 0);
            self.give_back(at)?;
        }
        self.lost_before.unlaned = self.unlaned;
        Ok(())
    }

    /// The script lines so far.
    pub fn places(&self) -> &[Line] {
        &self.places
    }

    /// Where lanes are.
    fn addresses(&self) -> Result<Vec<u64>> {
        let table = self.calls + offset_of!(Calls, lanes) as u64;
        self.place.records(table, calls::LANES)
    }

    /// Finds lanes that were made since the last look. An error means that the guest is gone; what lanes hold that outlive it
    /// can still be read.
    pub fn look(&mut self) -> Result<()> {
        const _: () = assert!(offset_of!(Calls, unlaned) == offset_of!(Calls, made) + 8);
        let mut words = [0; 2];
        let at = self.calls + offset_of!(Calls, made) as u64;
        let there = self.place.read_words(at, &mut words);
        if there.is_err() {
            for address in self.place.lanes_that_stay() {
                self.learn(address)?;
            }
            return there;
        }
        let [made, unlaned] = words;
        self.unlaned = unlaned;
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

    /// Notes a lane.
    fn learn(&mut self, address: u64) -> Result<()> {
        if self.by_address.contains_key(&address) {
            return Ok(());
        }
        let field = |offset| self.place.word(address + offset as u64);
        let (ring, size) = (
            field(offset_of!(Lane, ring))?,
            field(offset_of!(Lane, size))?,
        );
        if ring == 0 || !size.is_power_of_two() || size > MOST_RING {
            return Ok(());
        }
        self.by_address.insert(address, self.known.len());
        self.known.push(Known {
            address,
            ring,
            words: size / 8,
            taken: field(offset_of!(Lane, taken))?,
            tid: 0,
            places: HashMap::new(),
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

    /// Where lanes are in the guest's memory, tables of counts left out: what they hold are no frames.
    pub fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let lanes = self.known.iter();
        lanes
            .map(|lane| lane.address..lane.ring + lane.words * 8)
            .chain(self.place.shared())
            .collect()
    }

    /// Lanes that went with the guest, and what they held unread.
    pub fn gone(&self) -> usize {
        self.known.iter().filter(|lane| lane.went).count()
    }

    /// Words reserved and records lost.
    fn written(&self, at: usize) -> Result<(u64, u64)> {
        let field = |offset| self.place.word(self.known[at].address + offset as u64);
        Ok((
            field(offset_of!(Lane, reserved))?,
            field(offset_of!(Lane, lost))?,
        ))
    }

    fn give_back(&self, at: usize) -> Result<()> {
        let lane = &self.known[at];
        self.place
            .set_word(lane.address + offset_of!(Lane, taken) as u64, lane.taken)
    }

    /// Reads at most `most` words of each lane, in whole records; whether there was anything.
    pub fn fill(&mut self, most: u64) -> Result<bool> {
        let mut any = false;
        let mut result = Ok(());
        for at in 0..self.known.len() {
            match self.fill_lane(at, most) {
                Ok(filled) => any |= filled,
                // It went with the guest.
                Err(Error::Gone(_)) => {
                    let lane = &mut self.known[at];
                    (lane.there, lane.went, lane.behind) = (false, true, false);
                }
                Err(error) => result = Err(error),
            }
        }
        let known = self.known.iter();
        self.blocked = result.is_ok()
            && known
                .filter(|lane| lane.queue.waiting() == 0)
                .any(|lane| lane.behind);
        result.map(|()| any)
    }

    fn fill_lane(&mut self, at: usize, most: u64) -> Result<bool> {
        if !self.known[at].there {
            return Ok(false);
        }
        let (reserved, _) = self.written(at)?;
        let lane = &mut self.known[at];
        let (from, ring) = (lane.taken, lane.words);
        lane.behind = false;
        if reserved == from || reserved.wrapping_sub(from) > ring {
            return Ok(false);
        }
        if lane.queue.waiting() as u64 > MOST_WAITING {
            lane.behind = true;
            return Ok(false);
        }
        let was_empty = lane.queue.waiting() == 0;
        let mut to = reserved.min(from + most);
        let mut words = std::mem::take(&mut self.words);
        self.read(at, from, to, &mut words)?;
        let mut position = from;
        let mut whole = 0;
        while position < to {
            let done = (position - from) as usize;
            let rest = &words[done..];
            let header = calls::open(rest[0], position);
            if let Some((length, _)) = header
                && to < reserved
                && length as usize > rest.len()
            {
                if position > from {
                    break;
                }
                // It alone is longer than what was to be read.
                to = reserved.min(from + length);
                self.read(at, from, to, &mut words)?;
                continue;
            }
            let opened = header
                .filter(|(length, what)| *length as usize <= rest.len() && *what != kind::BEGUN);
            let lane = &mut self.known[at];
            if let Some((length, _)) = opened {
                position += length;
                continue;
            }
            // At the end it is merely being written.
            let Some(skipped) = behind(rest, position) else {
                break;
            };
            let now = || (Instant::now(), reserved);
            let (since, written) = *lane.stuck.get_or_insert_with(now);
            if position >= written {
                lane.stuck = Some(now());
                break;
            }
            let full = reserved - position > ring / 2;
            let patience = if full { STUCK_AND_FULL } else { STUCK };
            if since.elapsed() < patience {
                break;
            }
            lane.abandoned += 1;
            lane.queue.add(&words[whole..done]);
            position += skipped;
            whole = (position - from) as usize;
        }
        let lane = &mut self.known[at];
        lane.behind = position == to && to < reserved;
        lane.queue.add(&words[whole..(position - from) as usize]);
        self.words = words;
        if was_empty {
            self.find_head(at, false);
        }
        let lane = &mut self.known[at];
        if position == from {
            return Ok(false);
        }
        lane.taken = position;
        if lane.stuck.is_some_and(|(_, written)| position >= written) {
            lane.stuck = None;
        }
        self.give_back(at)?;
        Ok(true)
    }

    /// The words of a lane from `from` to `to`, laps joined.
    fn read(&self, at: usize, from: u64, to: u64, words: &mut Vec<u64>) -> Result<()> {
        let lane = &self.known[at];
        let first = from % lane.words;
        let count = to - from;
        let before_end = count.min(lane.words - first);
        words.resize(count as usize, 0);
        let (front, back) = words.split_at_mut(before_end as usize);
        self.place.read_words(lane.ring + first * 8, front)?;
        match back.is_empty() {
            true => Ok(()),
            false => self.place.read_words(lane.ring, back),
        }
    }

    /// Takes in what a lane's queue begins with, up to a call or a return. What follows a call that was held comes at
    /// once: it is its return.
    fn find_head(&mut self, at: usize, held: bool) {
        let lane = &mut self.known[at];
        while let Some([header, body @ ..]) = lane.queue.front() {
            match (header >> 16 & 0xff, body) {
                (kind::ENTRY | kind::RETURN | kind::HELD | kind::FORK, [_, ticks, ..]) => {
                    let when = if held { 0 } else { *ticks };
                    self.heads.push(Reverse((when, at)));
                    return;
                }
                (kind::THREAD, [tid, ..]) => lane.tid = *tid as u32,
                (kind::PLACE, [number, lengths, text @ ..]) => {
                    let (path, name) =
                        ((*lengths & 0xffff_ffff) as usize, (lengths >> 32) as usize);
                    let (path_text, rest) = text.split_at(path.div_ceil(8).min(text.len()));
                    let line = Line {
                        path: string(path_text, path),
                        line: (number >> 32) as u32,
                        name: string(rest, name),
                    };
                    let places = &mut self.places;
                    let index = *self.by_line.entry(line).or_insert_with_key(|line| {
                        places.push(line.clone());
                        places.len() - 1
                    });
                    lane.places.insert(*number as u32, index);
                }
                _ => {}
            }
            lane.queue.advance();
        }
    }

    /// The next call or return in the order of time, what follows its fixed part in `rest`; `None` = the lanes are to be
    /// read again.
    pub fn next(&mut self, rest: &mut Vec<u64>) -> Option<Told> {
        while !self.blocked {
            let Reverse((_, at)) = self.heads.pop()?;
            let lane = &mut self.known[at];
            let told = lane.queue.front().and_then(|record| {
                let (what, ticks, follows) = what(record, &lane.places)?;
                rest.clear();
                rest.extend_from_slice(follows);
                Some(Told {
                    tid: lane.tid,
                    lane: at as u32,
                    ticks,
                    what,
                })
            });
            let held = lane.queue.front().map(|record| record[0] >> 16 & 0xff) == Some(kind::HELD);
            lane.queue.advance();
            self.find_head(at, held);
            let lane = &self.known[at];
            self.blocked = lane.behind && lane.queue.waiting() == 0;
            if told.is_some() {
                return told;
            }
        }
        None
    }
}

/// Words of a lane that wait to be handed on, at most.
const MOST_WAITING: u64 = 1 << 20;

/// A ring that is longer is none.
const MOST_RING: u64 = 1 << 30;
