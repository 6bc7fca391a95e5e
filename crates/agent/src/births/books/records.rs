//! Records of the ledger, by number.
//!
//! SAFETY for all of it: numbers come from `store::append` and `store::reserve` on the same segments, so
//! their piece is mapped; records are copied, and text and paths never change.

use crate::memory::store::{self, mix};
use wire::{Frame, Kind, Site};

pub fn site_at(sites: &wire::Segments, number: u32) -> Site {
    // SAFETY: see above.
    unsafe { *store::record::<Site>(sites, u64::from(number)) }
}

pub(super) fn set_site(sites: &mut wire::Segments, number: u32, site: Site) {
    // SAFETY: see above.
    unsafe { *store::record::<Site>(sites, u64::from(number)) = site };
}

pub fn kind_at(kinds: &wire::Segments, number: u32) -> Kind {
    // SAFETY: see above.
    unsafe { *store::record::<Kind>(kinds, u64::from(number)) }
}

pub fn frame_at(frames: &wire::Segments, number: u32) -> Frame {
    // SAFETY: see above.
    unsafe { *store::record::<Frame>(frames, u64::from(number)) }
}

/// The text at an offset that stands in a record.
pub fn text_at(text: &wire::Segments, offset: u32) -> &[u8] {
    text_bytes(text, offset + 1)
}

pub(super) fn set_kind(kinds: &mut wire::Segments, number: u32, kind: Kind) {
    // SAFETY: see above.
    unsafe { *store::record::<Kind>(kinds, u64::from(number)) = kind };
}

pub(super) fn kind_hash(kind: &Kind) -> u64 {
    mix(
        mix(kind.address, u64::from(kind.name)),
        u64::from(kind.flags),
    )
}

pub(super) fn same_kind(a: &Kind, b: &Kind) -> bool {
    a.name == b.name && a.flags == b.flags && a.address == b.address
}

pub(super) fn stack_words(stacks: &wire::Segments, number: u32) -> &[u32] {
    let at = store::record::<u32>(stacks, u64::from(number));
    // SAFETY: the number is of a path: its length, then its words, in one piece.
    unsafe { core::slice::from_raw_parts(at.add(1), *at as usize) }
}

/// The text of index number `number`, which is its offset plus one.
pub(super) fn text_bytes(text: &wire::Segments, number: u32) -> &[u8] {
    let at = store::record::<u8>(text, u64::from(number - 1));
    // SAFETY: the offset is of a text: its length, then its bytes, in one piece.
    unsafe { core::slice::from_raw_parts(at.add(4), at.cast::<u32>().read_unaligned() as usize) }
}
