//! The index at the end of a file: the heads of all segments, each with the call edges that occur in it.
//!
//! ```text
//!   entry     head (64 bytes)   u64 its offset   how many edges + 1, 0 = not known   each, from the one before
//!   trailer   u64 offset of the first segment of the index   u32 CRC-32 of these 8 bytes   u32 0x58444e49
//! ```
//!
//! Segments of the index hold whole entries and follow each other up to the trailer.

use crate::bytes::{Take, Wrong, put};
use crate::segment::{HEAD, Segment};

/// Bytes of the trailer.
pub const TRAILER: usize = 16;
const ENDS: u32 = 0x5844_4e49;

/// More edges than that are not listed: such a segment is always read.
const MOST_LISTED: usize = 64;

/// Which call edges occur in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges(Option<Box<[u32]>>);

impl Edges {
    /// These, in ascending order; `None` = any may.
    pub fn listed(edges: Option<Vec<u32>>) -> Self {
        Edges(
            edges
                .filter(|all| all.len() <= MOST_LISTED)
                .map(Vec::into_boxed_slice),
        )
    }

    /// Whether an edge that is wanted may occur.
    pub fn any(&self, wanted: impl Fn(u32) -> bool) -> bool {
        self.0
            .as_ref()
            .is_none_or(|all| all.iter().any(|edge| wanted(*edge)))
    }
}

/// Writes an entry.
pub fn put_entry(out: &mut Vec<u8>, segment: &Segment, edges: &Edges) {
    out.extend_from_slice(&segment.encode());
    out.extend_from_slice(&segment.offset.to_le_bytes());
    match &edges.0 {
        None => out.push(0),
        Some(edges) => {
            put(out, edges.len() as u64 + 1);
            let mut before = 0;
            for edge in edges {
                put(out, u64::from(edge - before));
                before = *edge;
            }
        }
    }
}

/// Reads an entry.
pub fn take_entry(take: &mut Take) -> Result<(Segment, Edges), Wrong> {
    let head: &[u8; HEAD] = take.exactly(HEAD)?.try_into().map_err(|_| Wrong)?;
    let offset = u64::from_le_bytes(take.exactly(8)?.try_into().map_err(|_| Wrong)?);
    let segment = Segment::decode(head, offset).ok_or(Wrong)?;
    let count = take.number()?;
    if count as usize > MOST_LISTED + 1 {
        return Err(Wrong);
    }
    let mut before = 0_u32;
    let mut edges = Vec::new();
    for _ in 1..count {
        before = before.checked_add(take.small()?).ok_or(Wrong)?;
        edges.push(before);
    }
    let edges = (count != 0).then(|| edges.into_boxed_slice());
    Ok((segment, Edges(edges)))
}

/// The trailer of a file whose index begins there.
pub fn trailer(index: u64) -> [u8; TRAILER] {
    let mut bytes = [0; TRAILER];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..8]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    bytes[12..].copy_from_slice(&ENDS.to_le_bytes());
    bytes
}

/// Where the index begins; `None` = this is no trailer.
pub fn index_of(bytes: &[u8; TRAILER]) -> Option<u64> {
    let index = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    (trailer(index) == *bytes).then_some(index)
}
