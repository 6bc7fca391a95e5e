//! Reads and writes records of the ledger, by number. Used by `rows`, `summary`, `owners` and others.
//!
//! All functions rely on this: a number comes from `store::append` or `store::reserve` on the same
//! segments, so the piece that holds its record is mapped. Pieces are unmapped only by `Books::free`,
//! which forgets all numbers too. Records are copied, and texts and paths never change.

use crate::memory::store::{self, mix};
use wire::{Frame, Kind, Site};

pub fn site_at(sites: &wire::Segments, number: u32) -> Site {
    // SAFETY: `number` was returned by `append` on these segments, so its piece is mapped and holds a
    // `Site`, which is copied.
    unsafe { *store::record::<Site>(sites, u64::from(number)) }
}

pub(super) fn set_site(sites: &mut wire::Segments, number: u32, site: Site) {
    // SAFETY: `number` was returned by `append` on these segments, so its piece is mapped; the mutable
    // borrow excludes other references.
    unsafe { *store::record::<Site>(sites, u64::from(number)) = site };
}

pub fn kind_at(kinds: &wire::Segments, number: u32) -> Kind {
    // SAFETY: `number` was returned by `append` on these segments, so its piece is mapped and holds a
    // `Kind`, which is copied.
    unsafe { *store::record::<Kind>(kinds, u64::from(number)) }
}

pub fn frame_at(frames: &wire::Segments, number: u32) -> Frame {
    // SAFETY: `number` was returned by `append` on these segments, so its piece is mapped and holds a
    // `Frame`, which is copied.
    unsafe { *store::record::<Frame>(frames, u64::from(number)) }
}

/// Returns the text at an offset that a record holds.
pub fn text_at(text: &wire::Segments, offset: u32) -> &[u8] {
    text_bytes(text, offset + 1)
}

pub(super) fn set_kind(kinds: &mut wire::Segments, number: u32, kind: Kind) {
    // SAFETY: `number` was returned by `append` on these segments, so its piece is mapped; the mutable
    // borrow excludes other references.
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
    // SAFETY: `number` is of a path: `reserve` gave it one piece of room for the length and that many
    // words, and all were written before the number was used.
    unsafe { core::slice::from_raw_parts(at.add(1), *at as usize) }
}

/// Returns the text whose number in the index is `number`: its offset plus one.
pub(super) fn text_bytes(text: &wire::Segments, number: u32) -> &[u8] {
    let at = store::record::<u8>(text, u64::from(number - 1));
    // SAFETY: `number - 1` is the offset of a text: `reserve` gave it one piece of room for the length
    // and that many bytes, and all were written before the offset was used.
    unsafe { core::slice::from_raw_parts(at.add(4), at.cast::<u32>().read_unaligned() as usize) }
}
