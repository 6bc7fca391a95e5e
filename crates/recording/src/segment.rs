//! The head of a segment of a recording: what is in it, and how long it is. Used by `find`, `index` and others here,
//! and by crate `calls`.
//!
//! ```text
//!    0  u32 CRC-32 of the bytes 4..64     4  u32 CRC-32 of the bytes behind the head
//!    8  u32 how many these are           12  u32 how many they are unpacked
//!   16  u32 kind, FORKS, PACKED          20  u32 number of the stream     24  u32 how many events
//!   28  u32 number of the guest          32  u32 number of the ring       36  u32 how many sites and places
//!   40  u64 time of the first event      48  u64 the earliest time        56  u64 the latest time
//! ```
//!
//! Segments of definitions, and those of the index, form a chain each from the last to the first: at 40 they have the
//! offset of the one before, 0 = this is the first. One of the index has the earliest and the latest time of all that
//! it lists, how many segments these are at 24, and FORKS if one of them has it.

use crate::MOST;

/// Bytes of a head.
pub const HEAD: usize = 64;

/// The stream contains a `Forked`: the open calls of a process that forks are also open in its child.
const FORKS: u32 = 1 << 8;
/// The bytes are packed with LZ4 (block format).
const PACKED: u32 = 1 << 9;

/// What a segment holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Definitions of what events name by number.
    #[default]
    Definitions,
    /// Events of one ring.
    Events,
    /// The heads of the segments of events since the index before.
    Index,
}

/// A segment as described by its head. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Where its head lies in the file.
    pub offset: u64,
    /// CRC-32 of its bytes.
    pub sum: u32,
    /// Bytes in the file, without the head.
    pub here: u32,
    /// Bytes when they are unpacked.
    pub whole: u32,
    /// Whether these bytes are packed with LZ4.
    pub packed: bool,
    /// What the bytes are.
    pub kind: Kind,
    /// There is a `Forked` among the events.
    pub forks: bool,
    /// Number of the stream: segments of one stream follow each other.
    pub stream: u32,
    /// How many events; a call and its return are two. Of an index, how many segments it lists.
    pub events: u32,
    /// Number of the guest whose ring it is.
    pub guest: u32,
    /// Number of the ring among those of the guest.
    pub ring: u32,
    /// How many call sites and places the events have.
    pub sites: u32,
    /// Time of the first event; of definitions and of an index the offset of the segment of that kind before it, 0 =
    /// there is none.
    pub first: u64,
    /// The earliest time of an event.
    pub earliest: u64,
    /// The latest time of an event.
    pub latest: u64,
}

impl Segment {
    /// The head as bytes.
    pub fn encode(&self) -> [u8; HEAD] {
        let kind = match self.kind {
            Kind::Definitions => 1,
            Kind::Events => 2,
            Kind::Index => 3,
        };
        let flags = if self.forks { FORKS } else { 0 } | if self.packed { PACKED } else { 0 };
        let halves = [
            self.sum,
            self.here,
            self.whole,
            kind | flags,
            self.stream,
            self.events,
            self.guest,
            self.ring,
            self.sites,
        ];
        let words = [self.first, self.earliest, self.latest];
        let mut head = [0; HEAD];
        for (at, half) in halves.iter().enumerate() {
            head[4 + at * 4..][..4].copy_from_slice(&half.to_le_bytes());
        }
        for (at, word) in words.iter().enumerate() {
            head[40 + at * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32fast::hash(&head[4..]);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// The segment whose head lies at `offset`; `None` = these bytes are no head.
    pub fn decode(head: &[u8; HEAD], offset: u64) -> Option<Self> {
        let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        if half(0) != crc32fast::hash(&head[4..]) {
            return None;
        }
        let flags = half(16);
        let segment = Segment {
            offset,
            sum: half(4),
            here: half(8),
            whole: half(12),
            packed: flags & PACKED != 0,
            kind: match flags & !(FORKS | PACKED) {
                1 => Kind::Definitions,
                2 => Kind::Events,
                3 => Kind::Index,
                _ => return None,
            },
            forks: flags & FORKS != 0,
            stream: half(20),
            events: half(24),
            guest: half(28),
            ring: half(32),
            sites: half(36),
            first: word(40),
            earliest: word(48),
            latest: word(56),
        };
        segment.is_plausible().then_some(segment)
    }

    /// Whether its numbers are possible.
    fn is_plausible(&self) -> bool {
        let (here, whole) = (self.here as usize, self.whole as usize);
        let room = HEAD as u64 + here as u64;
        here <= MOST
            && self.offset.checked_add(room).is_some()
            && whole <= MOST
            && whole != 0
            && (self.packed || here == whole)
            && self.sites <= self.whole
            && self.events <= self.whole.saturating_mul(2)
    }

    /// Where the next segment begins.
    pub fn end(&self) -> u64 {
        self.offset + HEAD as u64 + u64::from(self.here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index can contain any offset under a correct checksum.
    #[test]
    fn a_segment_ends_within_what_can_be_counted() {
        let segment = Segment {
            offset: 0,
            sum: 0,
            here: 100,
            whole: 100,
            packed: false,
            kind: Kind::Events,
            forks: false,
            stream: 0,
            events: 1,
            guest: 0,
            ring: 0,
            sites: 0,
            first: 0,
            earliest: 0,
            latest: 0,
        };
        let head = segment.encode();
        let decoded = Segment::decode(&head, 4096).unwrap();
        assert_eq!(decoded.end(), 4096 + HEAD as u64 + 100);
        for offset in [
            u64::MAX,
            u64::MAX - HEAD as u64,
            u64::MAX - HEAD as u64 - 99,
        ] {
            assert_eq!(Segment::decode(&head, offset), None, "{offset}");
        }
    }
}
