//! What the agent has counted, as the command reads it.
//!
//! ```text
//!   births                                   Ledger
//!   slot of the object ── site id ──► Site ──► place: Frame (or Stack of Frames) ──► text
//!                                       └───► kind:  Kind ──► text
//! ```
//!
//! A *site* is one row of the finest report: the text of a place and the text of a type. Its number
//! is what the agent stores per heap slot, and 0 means "born before we came". Records live in
//! *segments*, pieces of equal length that never move, so that the command can read them while the
//! guest goes on; text once written never changes.

/// Most pieces a [`Segments`] can have.
pub const PIECES: usize = 1024;

/// Records in pieces that never move.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Segments {
    /// Records (for text: bytes) in use; written after the records themselves.
    pub length: u64,
    /// Records (for text: bytes) in one piece.
    pub piece: u64,
    /// Addresses of the pieces; 0 = not mapped yet.
    pub pieces: [u64; PIECES],
}

impl Segments {
    /// No record yet; pieces of `piece` records.
    pub const fn new(piece: u64) -> Self {
        Segments {
            length: 0,
            piece,
            pieces: [0; PIECES],
        }
    }
}

/// Sites in one piece.
pub const SITES: u64 = 4096;
/// Frames in one piece.
pub const FRAMES: u64 = 4096;
/// Kinds in one piece.
pub const KINDS: u64 = 1024;
/// Stack words in one piece.
pub const STACKS: u64 = 65536;
/// Bytes of text in one piece; also the longest text.
pub const TEXT: u64 = 65536;

/// The agent's books. In the guest, not wiped by a fork: a child goes on with a copy.
#[derive(Debug)]
#[repr(C)]
pub struct Ledger {
    /// [`Site`] records; record 0 is "born before we came" and not used.
    pub sites: Segments,
    /// [`Frame`] records; record 0 is "no Ruby code".
    pub frames: Segments,
    /// [`Kind`] records; record 0 is not used.
    pub kinds: Segments,
    /// Words of call paths: see [`Stack`].
    pub stacks: Segments,
    /// Text: each is its length as a little-endian `u32`, then its bytes, within one piece.
    pub text: Segments,
    /// Address of the [`Entry`] records; record 0 is not used.
    pub entries: u64,
    /// How many there are.
    pub entry_count: u64,
    /// Address of the table of roots that leads to the number of each heap slot; see [`crate::slots`].
    pub slot_roots: u64,
    /// A heap page has 2 to this power bytes.
    pub page_shift: u64,
    /// Address of [`Counts`] per site, made by a census.
    pub site_counts: u64,
    /// How many: sites made later are not among them.
    pub site_count: u64,
    /// Address of [`Counts`] per kind, of objects born before we came (`born` is 0).
    pub kind_counts: u64,
    /// How many.
    pub kind_count: u64,
    /// Nanoseconds the garbage collector took before the census; 0 = it was not run or is disabled.
    pub gc_nanos: u64,
    /// Nanoseconds the walk took.
    pub walk_nanos: u64,
    /// 1 = the collector did not run before the walk: dead objects may be counted as live.
    pub garbage: u64,
    /// Births the agent saw but could not book, because memory could not be mapped.
    pub lost_memory: u64,
    /// Births while a census walked the heap; the next one finds their objects with old numbers.
    pub unbooked: u64,
    /// Objects of the last census whose own size function raised; they count with the size of their slot.
    pub unsized_objects: u64,
    /// Bytes the agent has mapped for all this.
    pub mapped: u64,
    /// Heap slots of live objects the census saw.
    pub slots: u64,
    /// Objects that a heap compaction moved, and their numbers with them.
    pub moved: u64,
    /// Address of [`KEPT`] [`Collection`] records, a ring.
    pub collections: u64,
    /// How many were written since the hook was set; written after the record itself.
    pub collected: u64,
}

/// Collections that are kept for the command to read.
pub const KEPT: usize = 256;

/// One collection of the VM's garbage that was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Collection {
    /// Nanoseconds its marking took, all its steps together.
    pub nanos: u64,
    /// 1 = of all objects, 0 = of the young ones.
    pub full: u64,
}

/// One row of the finest report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Site {
    /// A [`Frame`]'s number, or with call paths the index of a [`Stack`] in [`Ledger::stacks`].
    pub place: u32,
    /// A [`Kind`]'s number; 0 = this record is free.
    pub kind: u32,
    /// Births booked here, without those in entries; the sum of both is the number of births, each
    /// alone may have wrapped below zero.
    pub born: u64,
    /// Next site of the same kind, for the agent.
    pub next_of_kind: u32,
    /// Fills up.
    pub reserved: u32,
}

/// A line of Ruby code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Offset of the path in [`Ledger::text`].
    pub path: u32,
    /// Offset of the method's name in [`Ledger::text`].
    pub method: u32,
    /// Line in the file; 0 = the VM has none for it.
    pub line: u32,
    /// Fills up.
    pub reserved: u32,
}

/// A call path: `length` words follow the length in [`Ledger::stacks`], each a [`Frame`]'s number,
/// the innermost first. A path never crosses a piece.
pub type Stack = u32;

/// A type, as it is named in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Kind {
    /// Offset of the name in [`Ledger::text`].
    pub name: u32,
    /// Bit 0: the VM's own (`ObjectSpace.each_object` does not show it).
    pub flags: u32,
    /// First [`Site`] of this kind, for the agent.
    pub first_site: u32,
    /// Fills up.
    pub reserved: u32,
    /// Address of a class without a name; 0 for others.
    pub address: u64,
}

/// What the agent keeps per (code, pc, class): births not yet booked at their site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// The iseq, or half of a call path's hash.
    pub code: u64,
    /// The pc in it, or the other half.
    pub pc: u64,
    /// The class, or a small number for a type without one.
    pub class: u64,
    /// Births.
    pub born: u64,
    /// Their [`Site`]; in a free entry the next free one.
    pub site: u32,
    /// Changes when the entry is used for something else.
    pub age: u32,
}

/// [`Kind::flags`]: the VM's own.
pub const INTERNAL: u32 = 1;
/// [`Kind::flags`]: the class has no name yet, its text is its address.
pub const ANONYMOUS: u32 = 2;

/// What a census found, per site and per kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Births up to the census.
    pub born: u64,
    /// Of these alive.
    pub live: u64,
    /// Bytes the living use, as `ObjectSpace.memsize_of` counts them.
    pub bytes: u64,
}
