//! Reading what was written to the rings, and giving the room back. Used by `ways` and `hostile`, and by
//! `calls::live::guest::straight`.

use super::Rings;
use super::event::RingEvent;
use super::queue::Queue;
use super::record::{Decoded, behind};
use super::short::ShortCall;
use crate::limits::{MOST_POSITION, MOST_WAITING, MOST_WAITING_IN_ALL};
use process::error::Result;
use std::cmp::Reverse;
use std::mem::offset_of;
use std::time::{Duration, Instant};
use wire::calls::{self, Ring, kind};

/// How long an unfinished record that others follow is waited for. Its writer was interrupted by a signal handler,
/// which may have left by `longjmp`, so that the record is never finished.
const STUCK: Duration = Duration::from_secs(1);
/// The same if the ring is more than half full of later records, so that the thread would soon have to wait.
const STUCK_AND_FULL: Duration = Duration::from_millis(50);

/// The longest record, in words: what the length in its first word can say.
const LONGEST: usize = 0xffff;

/// Number of words that are copied and passed on at a time: they fit into the processor's first-level cache.
const BLOCK: u64 = 2048;

/// Room is freed when at least 1/[`STEP`] of a ring has been read, or when nothing more was written: a thread reads the freed
/// position only when it has used up the room that it knows of.
const STEP: u64 = 8;

/// Receives the events of rings, one ring after the other ([`Rings::for_each_of_ring`]).
pub trait Events {
    /// Receives an event, with the words after the fixed part of its record.
    fn event(&mut self, event: RingEvent, rest: &[u64]);

    /// Receives a short call. Returns false if it must be passed on as two events instead.
    fn short(&mut self, call: &ShortCall) -> bool;
}

/// What was copied from a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Copied {
    /// How many words of the copy are whole records.
    whole: u64,
    /// Whether there are more words in the ring than were to be read.
    more: bool,
}

/// The records in the words that were copied from a ring.
enum Found {
    /// Number of words that are complete records. Words behind them belong to an unfinished record.
    Whole(u64),
    /// Number of words that are complete records; behind them begins one that was copied in part.
    Cut(u64),
    /// Length in words of the first record, which was copied in part.
    Long(u64),
}

/// Reads the time-stamp counter.
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and lancet runs only where the kernel lets programs use it, as the
    // agent does too.
    unsafe { std::arch::x86_64::_rdtsc() }
}

impl Rings {
    /// Reads up to `most` words of each ring, in complete records. Returns whether there were any.
    pub fn fill(&mut self, most: u64) -> Result<bool> {
        // Another ring may have an earlier record now.
        let first = self.first.take();
        let first = first.map(|at| Reverse((self.first_ticks, at)));
        self.heads.extend(first);
        let waiting = self.known.iter().map(|ring| ring.queue.waiting() as u64);
        let waiting = waiting.sum();
        let any = self.each_ring(|rings, at| rings.fill_ring(at, most, waiting));
        let known = self.known.iter();
        self.blocked = any.is_ok()
            && known
                .filter(|ring| ring.queue.waiting() == 0)
                .any(|ring| ring.behind);
        any
    }

    /// Reads up to `most` words of each ring and passes on their events: those of one ring in the order they were written, then
    /// those of the next ring. With each come the words after the fixed part of its record. Returns whether there were any
    /// records. Records that [`fill`](Self::fill) has read and [`next`](Self::next) has not returned come first.
    pub fn for_each_of_ring(&mut self, most: u64, each: &mut impl Events) -> Result<bool> {
        (self.first, self.blocked) = (None, false);
        self.heads.clear();
        for at in 0..self.known.len() {
            let queue = std::mem::take(&mut self.known[at].queue);
            self.hand_on(at, queue.all(), each);
        }
        self.each_ring(|rings, at| {
            let (mut left, mut any) = (most, false);
            loop {
                let copied = rings.copy(at, left.min(BLOCK))?;
                let words = std::mem::take(&mut rings.words);
                rings.hand_on(at, &words[..copied.whole as usize], each);
                rings.words = words;
                any |= rings.took(at, copied)?;
                left = left.saturating_sub(copied.whole);
                if !copied.more || copied.whole == 0 || left == 0 {
                    return Ok(any);
                }
            }
        })
    }

    /// Passes on the events in complete records of a ring.
    fn hand_on(&mut self, at: usize, records: &[u64], each: &mut impl Events) {
        let mut rest = records;
        let mut spare = std::mem::take(&mut self.spare);
        let now = self.now;
        while let Some(record) = Queue::first(rest) {
            rest = &rest[record.len()..];
            let ring = &mut self.known[at];
            let of = (ring.tid, at as u32);
            if let Some((call, behind)) = ring.decoder.short(of, record, rest, now)
                && each.short(&call)
            {
                rest = behind;
                continue;
            }
            match ring.decoder.decode(record, now, &mut spare) {
                Some(Decoded { kind, ticks, rest }) => each.event(
                    RingEvent {
                        tid: ring.tid,
                        ring: at as u32,
                        ticks,
                        kind,
                    },
                    rest,
                ),
                None => self.note(at, record),
            }
        }
        self.spare = spare;
    }

    /// Calls a function for each ring that can be read, and returns whether it returned true for any. A ring that was lost with
    /// its process is noted.
    fn each_ring(
        &mut self,
        mut read: impl FnMut(&mut Self, usize) -> Result<bool>,
    ) -> Result<bool> {
        self.now = now();
        let mut result = Ok(());
        let mut any = false;
        for at in 0..self.known.len() {
            if !self.known[at].there {
                continue;
            }
            match read(self, at) {
                Ok(some) => any |= some,
                // The ring was in the memory of the process, not in the pool.
                Err(error) if error.is_left() => {
                    let ring = &mut self.known[at];
                    (ring.there, ring.went, ring.behind) = (false, true, false);
                }
                Err(error) => result = Err(error),
            }
        }
        result.map(|()| any)
    }

    fn fill_ring(&mut self, at: usize, most: u64, waiting_in_all: u64) -> Result<bool> {
        let ring = &mut self.known[at];
        let waiting = ring.queue.waiting() as u64;
        if waiting > MOST_WAITING || waiting != 0 && waiting_in_all > MOST_WAITING_IN_ALL {
            let (reserved, _) = self.written(at)?;
            let ring = &mut self.known[at];
            ring.behind = reserved > ring.taken;
            return Ok(false);
        }
        let copied = self.copy(at, most)?;
        let ring = &mut self.known[at];
        ring.behind = copied.more;
        let was_empty = ring.queue.waiting() == 0;
        ring.queue.add(&self.words[..copied.whole as usize]);
        if was_empty {
            let head = self.find_head(at, false);
            self.heads.extend(head);
        }
        self.took(at, copied)
    }

    /// Frees the room of what was copied, and returns whether there was anything.
    fn took(&mut self, at: usize, copied: Copied) -> Result<bool> {
        if copied.whole == 0 {
            return Ok(false);
        }
        let ring = &mut self.known[at];
        ring.taken += copied.whole;
        if ring.stuck.is_some_and(|(_, written)| ring.taken >= written) {
            ring.stuck = None;
        }
        if ring.taken.wrapping_sub(ring.given) >= ring.words / STEP {
            self.give_back(at)?;
        }
        Ok(true)
    }

    /// Frees the room of all words that were taken, if that was not done yet.
    pub(super) fn give_back(&mut self, at: usize) -> Result<()> {
        let ring = &mut self.known[at];
        if ring.given == ring.taken {
            return Ok(());
        }
        ring.given = ring.taken;
        let field = ring.address + offset_of!(Ring, taken) as u64;
        self.backing.set_word(field, ring.taken)
    }

    /// Copies up to `most` words of a ring to `self.words`, and finds how many of them are complete records. If the first record
    /// alone is longer, all of it is copied.
    fn copy(&mut self, at: usize, most: u64) -> Result<Copied> {
        let (reserved, _) = self.written(at)?;
        let ring = &self.known[at];
        let unread = reserved.saturating_sub(ring.taken);
        if unread == 0 {
            return self.give_back(at).map(|()| Copied::default());
        }
        if unread > ring.words || reserved > MOST_POSITION {
            return Ok(Copied::default());
        }
        self.busy |= unread >= ring.words / STEP;
        let mut words = std::mem::take(&mut self.words);
        let mut count = unread.min(most);
        let copied = loop {
            if let Err(error) = self.read(at, count, &mut words) {
                break Err(error);
            }
            match self.whole(at, reserved, &mut words) {
                Found::Long(length) => count = length.min(unread),
                Found::Whole(whole) => {
                    let more = whole == count && count < unread;
                    break Ok(Copied { whole, more });
                }
                Found::Cut(whole) => break Ok(Copied { whole, more: true }),
            }
        };
        self.words = words;
        copied
    }

    /// Copies the next `count` words of a ring; its memory wraps around at the end.
    fn read(&self, at: usize, count: u64, words: &mut Vec<u64>) -> Result<()> {
        let ring = &self.known[at];
        let first = ring.taken % ring.words;
        let before_end = count.min(ring.words - first);
        words.resize(count as usize, 0);
        let (front, back) = words.split_at_mut(before_end as usize);
        self.backing.read_words(ring.records + first * 8, front)?;
        if back.is_empty() {
            Ok(())
        } else {
            self.backing.read_words(ring.records, back)
        }
    }

    /// Finds how many of the words that were copied from [`Known::taken`](super::Known) on are complete records; the ring is
    /// written up to `reserved`. A record that is given up becomes a gap in the copy.
    fn whole(&mut self, at: usize, reserved: u64, words: &mut [u64]) -> Found {
        let ring = &mut self.known[at];
        let (from, size) = (ring.taken, ring.words);
        let mut done = known_whole(words, from);
        while let Some(first) = words.get(done) {
            let position = from + done as u64;
            let rest = words.len() - done;
            let opened = calls::open(*first, position);
            if let Some((length, _)) = opened
                && length as usize > rest
                && position + (rest as u64) < reserved
            {
                if done == 0 {
                    return Found::Long(length);
                }
                return Found::Cut(done as u64);
            }
            let opened =
                opened.filter(|(length, what)| *length as usize <= rest && *what != kind::BEGUN);
            if let Some((length, what)) = opened {
                let end = done + length as usize;
                if what == kind::ROOM && is_last(&words[end..], position + length, reserved) {
                    // The call has not returned and is the last record, so its return may still be filled in.
                    break;
                }
                done += length as usize;
                continue;
            }
            // If no record follows, its writer is still at work.
            let Some(skipped) = behind(&words[done..], position) else {
                break;
            };
            let now = || (Instant::now(), reserved);
            let (since, written) = *ring.stuck.get_or_insert_with(now);
            if position >= written {
                ring.stuck = Some(now());
                break;
            }
            let full = reserved - position > size / 2;
            let patience = if full { STUCK_AND_FULL } else { STUCK };
            if since.elapsed() < patience {
                break;
            }
            ring.abandoned += 1;
            let end = done + skipped as usize;
            while done < end {
                let length = (end - done).min(LONGEST);
                words[done] = calls::header(length as u64, kind::GAP, from + done as u64);
                done += length;
            }
        }
        Found::Whole(done as u64)
    }
}

/// Returns how many of the words belong to complete records of the common kinds, for which only the header is checked. A header
/// of the lap before contains another position and does not count.
fn known_whole(words: &[u64], from: u64) -> usize {
    let mut done = 0;
    while let Some(first) = words.get(done) {
        let length = match calls::open(*first, from.wrapping_add(done as u64)) {
            Some((length, kind::ENTRY | kind::RETURN | kind::RETURNED)) => length as usize,
            _ => break,
        };
        if length > words.len() - done {
            break;
        }
        done += length;
    }
    done
}

/// Whether no record follows yet behind the room that ends at `end`. A call that took less room than was reserved for it gives
/// the rest back, so the ring may end there although it was written up to `reserved` a moment ago. What counts is whether a
/// record begins in the words behind.
fn is_last(behind_it: &[u64], end: u64, reserved: u64) -> bool {
    let begins = behind_it.first().and_then(|first| calls::open(*first, end));
    end == reserved || begins.is_none() && behind(behind_it, end).is_none()
}
