//! A snapshot in a file: columns in blocks, each packed and with a checksum of its own. Used by `build`, and by
//! `lancet::commands::heap::run`.
//!
//! ```text
//!   file    89 'l' 'n' 'h' 'e' 'a' 'p' 0a   u32 VERSION   block   block   …   block of the section End
//!   block   u32 CRC-32 of the bytes 4..24     u32 CRC-32 of the bytes behind the head
//!           u32 how many these are            u32 how many they are unpacked
//!           u32 items                         u16 section, u16 1 = packed with LZ4 (block format)
//!           bytes
//!
//!   Header        which process, what its resident memory was used for, what was allocated beside slots, counts of
//!                 everything, what was lost        one item
//!   Texts         length, bytes
//!   Kinds         number of the name's text, role (one byte)
//!   Sites         number of the file's text, line
//!   Addresses     the distance from the one before; the first of a block as it is
//!   ObjectKinds   number of the kind
//!   Flags         one byte
//!   Bytes … Contents   the number plus one, 0 = none; left out where no object has one
//!   Fingerprints  distance of the object's number from the one before, 8 bytes
//!   EdgeCounts    how many edges each object has
//!   EdgeNames     number of the name (one byte); number of the text plus one, or for an index its distance from the
//!                 index after the one before
//!   EdgeTargets   the distance from the last target of an edge of the same name, signed
//!   Roots         kind (one byte), thread, number of the text plus one, distance of the target, signed
//!   End           the number of blocks before it
//! ```
//!
//! Numbers within blocks are LEB128, signed ones zigzag, those of heads little-endian. Sections come in this order. What a
//! number is the distance from begins anew with each block, so that each block can be read knowing the header and, for
//! targets, the names. A block holds some 256 KiB unpacked.
//!
//! A reader believes nothing: each number is held against what it names when it is read, the counts of the header
//! against what came, and all of it against a budget of memory before room is made.

mod block;
mod number;
mod read;
mod write;

use thiserror::Error;

use crate::names::{EdgeName, Form};

/// The first bytes of every snapshot.
pub(crate) const MAGIC: [u8; 8] = *b"\x89lnheap\n";

/// Version of the layout that is written.
pub const VERSION: u32 = 8;

/// The oldest version that is read. In 7 no object has the flag of memory of C libraries (`Flags::unsized_by_c`); all else is the same.
pub const OLDEST: u32 = 7;

/// Texts and words of the header are cut to so many bytes, so that a block can hold them.
pub(crate) const LONGEST_TEXT: usize = 64 << 10;

/// How many bytes of memory a reader needs for each.
pub(crate) mod cost {
    /// An object: its address, kind, flags, and the end of its edges.
    pub const OBJECT: u64 = 2 + 2 + 1 + 2;
    /// An object in a column of numbers, which a snapshot has only if one of its objects has a number there.
    pub const COLUMN: u64 = 4;
    /// A reference: its target, and its name as it is read and as it stays, with its part of the list of rare names.
    pub const EDGE: u64 = 4 + 4 + 2 + 2;
    pub const ROOT: u64 = 24;
    /// A number that needs more than 32 bits, in a tree.
    pub const WIDE: u64 = 48;
    /// A fingerprint with the number of its object.
    pub const FINGERPRINT: u64 = 8 + 2;
}

/// Why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It does not begin as snapshots do.
    #[error("it is no heap snapshot of lancet's")]
    Foreign,
    /// Its layout has this version, which is that of another lancet.
    #[error(
        "it is a heap snapshot of version {0}, and this lancet reads versions {OLDEST} to {VERSION}: read it with the lancet that has written it"
    )]
    Version(u32),
    /// It ends too early.
    #[error("the snapshot is cut off at byte {0}: the end of the file is missing")]
    Cut(u64),
    /// It is not what was written.
    #[error("the snapshot is damaged in the block at byte {at}: {what}")]
    Damaged {
        /// Distance of the block's head from the start of the file, in bytes.
        at: u64,
        /// What of the block is wrong, in words for the user.
        what: &'static str,
    },
    /// It needs more memory than it may have.
    #[error("the snapshot needs {needs} bytes of memory, and may have {may}")]
    TooLarge {
        /// Bytes of memory that the snapshot takes at most when it is read.
        needs: u64,
        /// Bytes of memory that the caller allows for it.
        may: u64,
    },
}

/// What a block holds. The numbers are those of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub(crate) enum Section {
    Header = 1,
    Texts,
    Kinds,
    Sites,
    Addresses,
    ObjectKinds,
    Flags,
    Bytes,
    Classes,
    ObjectSites,
    Births,
    Lengths,
    Capacities,
    Labels,
    Contents,
    Fingerprints,
    EdgeCounts,
    EdgeNames,
    EdgeTargets,
    Roots,
    End,
}

impl Section {
    const ALL: [Self; 21] = [
        Self::Header,
        Self::Texts,
        Self::Kinds,
        Self::Sites,
        Self::Addresses,
        Self::ObjectKinds,
        Self::Flags,
        Self::Bytes,
        Self::Classes,
        Self::ObjectSites,
        Self::Births,
        Self::Lengths,
        Self::Capacities,
        Self::Labels,
        Self::Contents,
        Self::Fingerprints,
        Self::EdgeCounts,
        Self::EdgeNames,
        Self::EdgeTargets,
        Self::Roots,
        Self::End,
    ];

    /// Whether it has one number for each object.
    fn is_column(self) -> bool {
        (Self::Bytes..=Self::Contents).contains(&self)
    }

    fn of(number: u16) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|section| *section as u16 == number)
    }
}

/// The last targets of edges by their names: references of one name often lead to neighbours, or to the same object.
/// All indices of arrays count as one name.
pub(crate) struct LastTargets {
    last: [u32; 1024],
    forms: [Form; EdgeName::NUMBERS],
}

impl LastTargets {
    pub fn new() -> Self {
        Self {
            last: [0; 1024],
            forms: EdgeName::forms(),
        }
    }

    /// Where the last target of an edge of this packed name is kept.
    #[inline]
    pub fn of(&mut self, name: u32) -> &mut u32 {
        let (number, _) = EdgeName::parts(name);
        let is_index = self.forms[usize::from(number)] == Form::Index;
        let name = if is_index { u32::MAX } else { name };
        &mut self.last[(name.wrapping_mul(0x9e37_79b1) >> 22) as usize]
    }
}

#[cfg(test)]
mod tests;
