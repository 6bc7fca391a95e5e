//! The reader of a guest's lanes: `wire::calls` from outside.

use crate::error::Result;
use crate::memory::GuestMemory;
use std::collections::HashMap;
use std::fmt;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::calls::{self, Calls, Lane, kind};

/// What a lane tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kernel's id of the thread.
    pub tid: u32,
    /// Which lane: one for each thread pointer.
    pub lane: u32,
    /// Time-stamp counter.
    pub ticks: u64,
    /// What.
    pub what: What,
}

/// See [`Told`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A function was called.
    Call {
        /// The number of its hook.
        hook: u32,
        /// The script line that called, as an index into [`Lanes::places`].
        place: Option<usize>,
        /// Names this call in its lane until it returns.
        frame: u64,
        /// The return address.
        caller: u64,
        /// rdi, rsi, rdx, rcx, r8, r9, rax.
        registers: [u64; 7],
        /// What follows the fixed part of the record: floating-point registers, stack, captures.
        rest: Vec<u64>,
    },
    /// It returned.
    Return {
        /// The number of its hook.
        hook: u32,
        /// See `Call`.
        frame: u64,
        /// rax, rdx.
        registers: [u64; 2],
        /// What follows.
        rest: Vec<u64>,
    },
    /// The thread has made a child, which has a copy of the calls that are open here.
    Forked {
        /// The child, as the guest numbers it.
        child: u32,
    },
}

/// A script line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The file as the VM has it.
    pub path: String,
    /// From 1; 0 = the VM has none.
    pub line: u32,
    /// The method or function.
    pub name: String,
}

/// `app.rb:12 in 'show'`.
impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { path, line, name } = self;
        out.write_str(path)?;
        // The empty frame in which the VM calls a library's `Init_` has none.
        if *line != 0 {
            write!(out, ":{line}")?;
            if !name.is_empty() {
                write!(out, " in '{name}'")?;
            }
        }
        Ok(())
    }
}

/// What was counted of one function and line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The number of its hook.
    pub hook: u32,
    /// The line, as for [`What::Call`].
    pub place: Option<usize>,
    /// Calls, cycles of all, of the longest, of the shortest.
    pub figures: [u64; 4],
    /// Calls by duration, see [`calls::bucket`].
    pub buckets: Vec<u32>,
}

/// What got lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that found no room in their lane.
    pub records: u64,
    /// Calls by threads that have no lane.
    pub unlaned: u64,
    /// Calls that found no room in a table of counts.
    pub uncounted: u64,
}

impl Losses {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.records + self.unlaned + self.uncounted
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Lanes {
    memory: Arc<GuestMemory>,
    calls: u64,
    known: Vec<Known>,
    by_address: HashMap<u64, usize>,
    /// Script lines, each once.
    places: Vec<Line>,
    by_line: HashMap<Line, usize>,
    lost_before: Losses,
    session: u32,
}

#[derive(Clone, Debug)]
struct Known {
    address: u64,
    ring: u64,
    words: u64,
    taken: u64,
    tid: u32,
    places: HashMap<u32, usize>,
    /// It is in this memory: one that a parent's thread made after the fork is not in the child's.
    there: bool,
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
    pub fn open(memory: Arc<GuestMemory>, calls: u64, session: u32) -> Result<Self> {
        let mut lanes = Lanes {
            memory,
            calls,
            known: Vec::new(),
            by_address: HashMap::new(),
            places: Vec::new(),
            by_line: HashMap::new(),
            lost_before: Losses::default(),
            session,
        };
        lanes.begin_here()?;
        Ok(lanes)
    }

    /// The lanes of a child that has a copy of this memory and stands still: as they are known here, from where the child
    /// begins to speak.
    pub fn adopt(&self, memory: Arc<GuestMemory>) -> Result<Self> {
        let mut lanes = Lanes {
            memory,
            calls: self.calls,
            known: self.known.clone(),
            by_address: self.by_address.clone(),
            places: self.places.clone(),
            by_line: self.by_line.clone(),
            lost_before: Losses::default(),
            session: self.session,
        };
        let there = lanes.addresses()?;
        for lane in &mut lanes.known {
            lane.there &= there.contains(&lane.address);
        }
        lanes
            .by_address
            .retain(|address, _| there.contains(address));
        lanes.begin_here()?;
        for lane in lanes.known.iter().filter(|lane| lane.there) {
            let field = lane.address + offset_of!(Lane, counts) as u64;
            // Its parent's are counted there.
            lanes.memory.write(field, &0u64.to_le_bytes())?;
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
        self.lost_before.unlaned = self.unlaned()?;
        Ok(())
    }

    /// The script lines so far.
    pub fn places(&self) -> &[Line] {
        &self.places
    }

    /// Where lanes are.
    fn addresses(&self) -> Result<Vec<u64>> {
        self.memory
            .records(self.calls + offset_of!(Calls, lanes) as u64, calls::LANES)
    }

    /// Finds lanes that were made since the last look.
    pub fn look(&mut self) -> Result<()> {
        for address in self.addresses()? {
            if address == 0 || self.by_address.contains_key(&address) {
                continue;
            }
            let field = |offset| self.memory.word(address + offset as u64);
            let (ring, size) = (
                field(offset_of!(Lane, ring))?,
                field(offset_of!(Lane, size))?,
            );
            if ring == 0 || !size.is_power_of_two() || size > MOST_RING {
                continue;
            }
            self.by_address.insert(address, self.known.len());
            self.known.push(Known {
                address,
                ring,
                words: size / 8,
                taken: self.memory.word(address + offset_of!(Lane, taken) as u64)?,
                tid: 0,
                places: HashMap::new(),
                there: true,
                lost_before: 0,
                stuck: None,
                abandoned: 0,
            });
        }
        Ok(())
    }

    /// Where lanes are in the guest's memory, tables of counts left out: what they hold are no frames.
    pub fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let lanes = self.known.iter();
        lanes
            .map(|lane| lane.address..lane.ring + lane.words * 8)
            .collect()
    }

    /// Words reserved and records lost.
    fn written(&self, at: usize) -> Result<(u64, u64)> {
        let field = |offset| self.memory.word(self.known[at].address + offset as u64);
        Ok((
            field(offset_of!(Lane, reserved))?,
            field(offset_of!(Lane, lost))?,
        ))
    }

    fn unlaned(&self) -> Result<u64> {
        self.memory
            .word(self.calls + offset_of!(Calls, unlaned) as u64)
    }

    fn give_back(&self, at: usize) -> Result<()> {
        let lane = &self.known[at];
        self.memory.write(
            lane.address + offset_of!(Lane, taken) as u64,
            &lane.taken.to_le_bytes(),
        )
    }

    /// Hands over everything that is whole; whether there was anything.
    pub fn drain(&mut self, mut tell: impl FnMut(Told)) -> Result<bool> {
        let mut any = false;
        for at in 0..self.known.len() {
            any |= self.drain_lane(at, &mut tell)?;
        }
        Ok(any)
    }

    fn drain_lane(&mut self, at: usize, tell: &mut impl FnMut(Told)) -> Result<bool> {
        if !self.known[at].there {
            return Ok(false);
        }
        let (reserved, _) = self.written(at)?;
        let lane = &self.known[at];
        let (from, ring) = (lane.taken, lane.words);
        if reserved == from || reserved.wrapping_sub(from) > ring {
            return Ok(false);
        }
        let words = self.words(lane, from, reserved)?;
        let mut position = from;
        while position < reserved {
            let rest = &words[(position - from) as usize..];
            let opened = calls::open(rest[0], position)
                .filter(|(length, what)| *length as usize <= rest.len() && *what != kind::BEGUN);
            let Some((length, what)) = opened else {
                // At the end it is merely being written.
                let Some(skipped) = behind(rest, position) else {
                    break;
                };
                let lane = &mut self.known[at];
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
                position += skipped;
                continue;
            };
            self.record(at, what, &rest[1..length as usize], tell);
            position += length;
        }
        if position == from {
            return Ok(false);
        }
        let lane = &mut self.known[at];
        lane.taken = position;
        if lane.stuck.is_some_and(|(_, written)| position >= written) {
            lane.stuck = None;
        }
        self.give_back(at)?;
        Ok(true)
    }

    /// The words of a lane from `from` to `to`, laps joined.
    fn words(&self, lane: &Known, from: u64, to: u64) -> Result<Vec<u64>> {
        let first = from % lane.words;
        let count = to - from;
        let before_end = count.min(lane.words - first);
        let mut words: Vec<u64> = self
            .memory
            .records(lane.ring + first * 8, before_end as usize)?;
        if before_end < count {
            let more: Vec<u64> = self
                .memory
                .records(lane.ring, (count - before_end) as usize)?;
            words.extend(more);
        }
        Ok(words)
    }

    fn record(&mut self, at: usize, what: u64, body: &[u64], tell: &mut impl FnMut(Told)) {
        let lane = &mut self.known[at];
        match (what, body) {
            (kind::THREAD, [tid, ..]) => {
                lane.tid = *tid as u32;
            }
            (kind::PLACE, [number, lengths, text @ ..]) => {
                let (path, name) = ((*lengths & 0xffff_ffff) as usize, (lengths >> 32) as usize);
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
            (kind::ENTRY, [hook, ticks, frame, caller, a, b, c, d, e, f, rax, rest @ ..]) => {
                tell(Told {
                    tid: lane.tid,
                    lane: at as u32,
                    ticks: *ticks,
                    what: What::Call {
                        hook: *hook as u32,
                        place: lane.places.get(&((hook >> 32) as u32)).copied(),
                        frame: *frame,
                        caller: *caller,
                        registers: [*a, *b, *c, *d, *e, *f, *rax],
                        rest: rest.to_vec(),
                    },
                })
            }
            (kind::RETURN, [hook, ticks, frame, rax, rdx, rest @ ..]) => tell(Told {
                tid: lane.tid,
                lane: at as u32,
                ticks: *ticks,
                what: What::Return {
                    hook: *hook as u32,
                    frame: *frame,
                    registers: [*rax, *rdx],
                    rest: rest.to_vec(),
                },
            }),
            (kind::FORK, [child, ticks, ..]) => tell(Told {
                tid: lane.tid,
                lane: at as u32,
                ticks: *ticks,
                what: What::Forked {
                    child: *child as u32,
                },
            }),
            _ => {}
        }
    }

    /// What has been counted so far.
    pub fn counted(&self) -> Result<Vec<Counted>> {
        let mut all = Vec::new();
        for lane in self.known.iter().filter(|lane| lane.there) {
            let table = self
                .memory
                .word(lane.address + offset_of!(Lane, counts) as u64)?;
            let session = self
                .memory
                .half(lane.address + offset_of!(Lane, session) as u64)?;
            if table == 0 || session != self.session {
                continue;
            }
            let counts: Vec<calls::Count> = self.memory.records(table, calls::COUNTS)?;
            all.extend(
                counts
                    .into_iter()
                    .filter(|count| count.key != 0)
                    .map(|count| Counted {
                        hook: (count.key as u32).wrapping_sub(1),
                        place: lane.places.get(&((count.key >> 32) as u32)).copied(),
                        figures: [count.calls, count.total, count.longest, count.shortest],
                        buckets: count.buckets.to_vec(),
                    }),
            );
        }
        Ok(all)
    }

    /// What got lost so far.
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = Losses {
            unlaned: self.unlaned()?.wrapping_sub(self.lost_before.unlaned),
            ..Losses::default()
        };
        for at in 0..self.known.len() {
            let lane = &self.known[at];
            if !lane.there {
                continue;
            }
            losses.records += self.written(at)?.1.wrapping_sub(lane.lost_before) + lane.abandoned;
            if self
                .memory
                .half(lane.address + offset_of!(Lane, session) as u64)?
                != self.session
            {
                continue;
            }
            losses.uncounted += u64::from(
                self.memory
                    .half(lane.address + offset_of!(Lane, uncounted) as u64)?,
            );
        }
        Ok(losses)
    }
}

/// How many words an unfinished record has, if others follow it. Where not even its first word was written, the next that
/// begins one is looked for: it tells where it stands, so it is not taken for one by chance.
fn behind(words: &[u64], position: u64) -> Option<u64> {
    let begins = |at: usize| {
        let (length, what) = calls::open(*words.get(at)?, position + at as u64)?;
        let known = matches!(what, kind::GAP..=kind::FORK | kind::BEGUN);
        (known && at + length as usize <= words.len()).then_some(length as usize)
    };
    match begins(0) {
        Some(length) => begins(length).map(|_| length as u64),
        None => (1..words.len())
            .find(|at| begins(*at).is_some())
            .map(|at| at as u64),
    }
}

/// A ring that is longer is none.
const MOST_RING: u64 = 1 << 30;

/// The first `length` bytes of some words.
fn string(words: &[u64], length: usize) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes[..length.min(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_behind_an_unfinished_one_is_found() {
        let header = |words, kind, at| calls::header(words, kind, at);
        let begun = [
            header(3, kind::BEGUN, 64),
            1,
            2,
            header(2, kind::THREAD, 67),
            9,
        ];
        assert_eq!(behind(&begun, 64), Some(3));
        // Nothing behind it: its writer is at work.
        assert_eq!(behind(&begun[..3], 64), None);
        // Left before its first word was written; what stands there is of the lap before.
        let left = [
            header(3, kind::ENTRY, 32),
            1,
            2,
            header(2, kind::THREAD, 67),
            9,
        ];
        assert_eq!(behind(&left, 64), Some(3));
        assert_eq!(behind(&left[..3], 64), None);
    }
}
