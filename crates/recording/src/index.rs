//! The index: for each segment of events its head, and which call edges and lines occur in it. Used by `find`, `read`
//! and `write`.
//!
//! ```text
//!   entry     head (64 bytes)   u64 its offset   edges   lines
//!   list      how many + 1, 0 = not known   each, from the one before
//!   trailer   u64 offset of the last segment of the index   u64 offset of the last segment of definitions
//!             u32 CRC-32 of these 16 bytes   u32 0x58444e49
//! ```
//!
//! A segment of the index lists the segments of events between the previous one and itself, in the order of the file.
//! It is written whenever enough entries exist, not at the end of the file, so that a recorder's memory does not grow
//! with the recording. A reader keeps the offsets of these segments ([`Block`]), and reads the entries of one when its
//! events are next.

use crate::segment::{HEAD, Kind, Segment};
use varint::{Take, Wrong, put};

/// Bytes of the trailer.
pub const TRAILER: usize = 24;
const ENDS: u32 = 0x5844_4e49;

/// Limit of the listed edges, and of the listed lines: a segment with more is always read.
const MOST_LISTED: usize = 1024;

/// Numbers in ascending order; `None` = unknown, so any number may occur.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed(Option<Vec<u32>>);

impl Listed {
    fn of(numbers: Option<Vec<u32>>) -> Self {
        Listed(numbers.filter(|all| all.len() <= MOST_LISTED))
    }

    fn any(&self, wanted: impl Fn(u32) -> bool) -> bool {
        let listed = self.0.as_ref();
        listed.is_none_or(|all| all.iter().any(|number| wanted(*number)))
    }

    fn put(&self, out: &mut Vec<u8>) {
        let Some(numbers) = &self.0 else {
            return out.push(0);
        };
        put(out, numbers.len() as u64 + 1);
        let mut before = 0;
        for number in numbers {
            put(out, u64::from(number - before));
            before = *number;
        }
    }

    fn take(take: &mut Take) -> Result<Self, Wrong> {
        let count = take.number()?;
        if count > MOST_LISTED as u64 + 1 {
            return Err(Wrong);
        }
        let mut before = 0_u32;
        let mut numbers = Vec::new();
        for _ in 1..count {
            before = before.checked_add(take.small()?).ok_or(Wrong)?;
            numbers.push(before);
        }
        Ok(Listed((count != 0).then_some(numbers)))
    }
}

/// The call edges and lines that occur in a segment of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    edges: Listed,
    lines: Listed,
}

impl Holds {
    /// These call edges and lines, in ascending order; `None` = unknown.
    pub fn new(edges: Option<Vec<u32>>, lines: Option<Vec<u32>>) -> Self {
        Holds {
            edges: Listed::of(edges),
            lines: Listed::of(lines),
        }
    }

    /// Whether a wanted call edge may occur.
    pub fn any_edge(&self, wanted: impl Fn(u32) -> bool) -> bool {
        self.edges.any(wanted)
    }

    /// Whether a wanted line may occur.
    pub fn any_line(&self, wanted: impl Fn(u32) -> bool) -> bool {
        self.lines.any(wanted)
    }
}

/// Writes the entry of a segment of events.
pub fn put_entry(out: &mut Vec<u8>, segment: &Segment, holds: &Holds) {
    out.extend_from_slice(&segment.encode());
    out.extend_from_slice(&segment.offset.to_le_bytes());
    holds.edges.put(out);
    holds.lines.put(out);
}

/// Reads the entry of a segment of events.
pub fn take_entry(take: &mut Take) -> Result<(Segment, Holds), Wrong> {
    let head: &[u8; HEAD] = take.exactly(HEAD)?.try_into().map_err(|_| Wrong)?;
    let offset = u64::from_le_bytes(take.exactly(8)?.try_into().map_err(|_| Wrong)?);
    let segment = Segment::decode(head, offset).ok_or(Wrong)?;
    let holds = Holds {
        edges: Listed::take(take)?,
        lines: Listed::take(take)?,
    };
    Ok((segment, holds))
}

/// The last segments of the two chains; 0 = there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Offset of the last segment of the index.
    pub index: u64,
    /// Offset of the last segment of definitions.
    pub definitions: u64,
}

impl Trailer {
    /// The bytes that end the file.
    pub fn encode(&self) -> [u8; TRAILER] {
        let mut bytes = [0; TRAILER];
        bytes[..8].copy_from_slice(&self.index.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.definitions.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..16]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        bytes[20..].copy_from_slice(&ENDS.to_le_bytes());
        bytes
    }

    /// Reads the bytes that end a file; `None` = they are no trailer.
    pub fn decode(bytes: &[u8; TRAILER]) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let trailer = Trailer {
            index: word(0),
            definitions: word(8),
        };
        (trailer.encode() == *bytes).then_some(trailer)
    }
}

/// A part of the file that holds segments of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The offset at which it begins.
    pub from: u64,
    /// Where it ends, and where the segment of the index is that lists it, if one does.
    pub to: u64,
    /// Whether a segment of the index lists it.
    pub is_listed: bool,
    /// There is a `Forked` among its events.
    pub forks: bool,
    /// The earliest time of its events, in nanoseconds since 1970.
    pub earliest: u64,
    /// The latest time of its events.
    pub latest: u64,
    /// The earliest time of an event from here to the end of the file.
    pub least: u64,
}

impl Block {
    /// Returns a block that begins at this offset, with nothing in it.
    pub fn begin(from: u64) -> Self {
        Block {
            from,
            to: from,
            is_listed: false,
            forks: false,
            earliest: u64::MAX,
            latest: 0,
            least: u64::MAX,
        }
    }

    /// What a segment of the index lists that stands behind `from`.
    pub fn listed(from: u64, index: &Segment) -> Self {
        let mut block = Block::begin(from);
        block.add(index);
        (block.to, block.is_listed) = (index.offset, true);
        block
    }

    /// Includes the times of a segment.
    pub fn add(&mut self, segment: &Segment) {
        self.earliest = self.earliest.min(segment.earliest);
        self.latest = self.latest.max(segment.latest);
        self.forks |= segment.forks;
        self.to = segment.end();
    }

    /// Whether a segment of events may lie at this place of the block, after one that ends at `behind`.
    pub fn may_hold(&self, segment: &Segment, behind: u64) -> bool {
        segment.kind == Kind::Events && segment.offset >= behind && segment.end() <= self.to
    }
}
