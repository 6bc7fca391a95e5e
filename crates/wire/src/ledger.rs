//! What the agent has counted, in the layout in which the command reads it. Used by most crates above.
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

use crate::accounts::{ACCOUNTS, Account};
use crate::slots::{EPOCHS, MOST_SITES};

/// Most pieces that [`Segments`] can have.
pub const PIECES: usize = 1024;

/// A table of records in pieces that never move.
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
    /// No record yet; each piece will hold `piece` records.
    pub const fn new(piece: u64) -> Self {
        Segments {
            length: 0,
            piece,
            pieces: [0; PIECES],
        }
    }
}

/// Most frames of a call path, without the one that says that there are more ([`CUT`]).
pub const DEEPEST: usize = 512;
/// The method of the outermost frame of a call path that had more frames than were kept; its path is empty.
pub const CUT: &str = "(more frames, cut by --stacks)";

/// Sites in one piece.
pub const SITES: u64 = 4096;
const _: () = assert!(SITES * PIECES as u64 <= MOST_SITES);
/// Frames in one piece.
pub const FRAMES: u64 = 4096;
/// Kinds in one piece.
pub const KINDS: u64 = 1024;
/// Stack words in one piece.
pub const STACKS: u64 = 65536;
/// Bytes of text in one piece; also the longest text.
pub const TEXT: u64 = 65536;

/// All tables of the agent. They are in guest memory and a fork does not wipe them: a child goes on with a copy.
#[derive(Debug)]
#[repr(C)]
pub struct Ledger {
    /// [`Site`] records; record 0 is "born before we came" and not used.
    pub sites: Segments,
    /// [`Frame`] records; record 0 is "no Ruby code".
    pub frames: Segments,
    /// [`Kind`] records; record 0 is not used.
    pub kinds: Segments,
    /// Call paths: see [`Stack`].
    pub stacks: Segments,
    /// Text: each is its length as a little-endian `u32`, then its bytes, within one piece.
    pub text: Segments,
    /// Address of the [`Entry`] records; record 0 is not used.
    pub entries: u64,
    /// How many entries there are.
    pub entry_count: u64,
    /// Address of the table of roots that leads to the number of each heap slot; see [`crate::slots`].
    pub slot_roots: u64,
    /// Binary logarithm of the bytes of a heap page.
    pub page_shift: u64,
    /// Address of one [`Counts`] for each site, made by a census.
    pub site_counts: u64,
    /// How many sites were counted; those made later are not among them.
    pub site_count: u64,
    /// Address of [`Counts`] per kind, of objects born before we came (`born` is 0).
    pub kind_counts: u64,
    /// How many kinds were counted.
    pub kind_count: u64,
    /// Nanoseconds that the garbage collector took before the census; 0 = it did not run.
    pub gc_nanos: u64,
    /// Nanoseconds that the walk over the heap took.
    pub walk_nanos: u64,
    /// An [`Uncollected`]: unless it is 0, the collector did not run before the walk, and dead objects may be counted as live.
    pub garbage: u64,
    /// Births that were not recorded, because no more memory may be mapped for them ([`ControlPage::most`](crate::ControlPage::most)), or
    /// none could be.
    pub lost_memory: u64,
    /// Births that came while a census walked the heap and were not recorded; the next census finds these objects with
    /// the site of the object that had the slot before.
    pub unbooked: u64,
    /// Births in other interpreters of a Python, which may have locks of their own.
    pub elsewhere: u64,
    /// Births and deaths of a Python's blocks on threads that did not have its lock.
    pub unlocked: u64,
    /// Births of a Python whose block, or the code of its line, is not at a multiple of 16 bytes.
    pub misplaced: u64,
    /// Births of a Python whose frame could not be read.
    pub unreadable: u64,
    /// The `vm::python::Form` by which a Python's threads are read at its births; 0 = each time all is asked anew, which is slower.
    pub form: u64,
    /// Objects of the last census whose own size function raised an exception; each counts with the size of its slot.
    pub unsized_objects: u64,
    /// Bytes that the agent has mapped for these tables.
    pub mapped: u64,
    /// Heap slots with a living object that the census has seen.
    pub slots: u64,
    /// Bytes of the heap slots without an object that the census has seen.
    pub empty_bytes: u64,
    /// Objects that a compaction of the heap has moved; their sites were moved with them.
    pub moved: u64,
    /// The epoch in which births happen now, shifted to its place in a number (see [`crate::slots`]). Written by
    /// the command, read by the agent at each birth. With [`OPEN`](crate::accounts::OPEN) if any thread has an account.
    pub epoch: u64,
    /// For each epoch the interval of the report that it belongs to, less than [`INTERVALS`]. Written by the command
    /// before it writes `epoch`.
    pub intervals: [u8; EPOCHS as usize],
    /// Address of [`KEPT`] [`Collection`] records, used as a ring.
    pub collections: u64,
    /// How many collections were recorded since the hook was set; written after the record itself.
    pub collected: u64,
    /// Births told apart by thread.
    pub accounts: [Account; ACCOUNTS],
    /// Changes whenever the command has given an account to a thread.
    pub accounts_given: u64,
    /// 1 = the hook may be removed while no thread wants its account. Written by the command, which keeps it at 0 while it counts
    /// births for any other purpose.
    pub may_rest: u64,
    /// 1 = the hook is out for that reason. The agent writes it before it reads `may_rest` once more, and the command reads it after
    /// it has written `may_rest`, so one of the two sees the other.
    pub rests: u64,
    /// The [`Large`] objects that the last census has seen, the largest [`LARGE`] of them in no order.
    pub large: [Large; LARGE],
    /// How many of `large` are in use.
    pub large_count: u64,
    /// 1 = the collector did not run because the program has switched it off (`GC.disable`).
    pub collector_off: u64,
}

/// How many large objects are told one by one.
pub const LARGE: usize = 512;
/// From so many bytes on, as `ObjectSpace.memsize_of` counts them, an object is large.
pub const LARGE_BYTES: u64 = 16 << 10;

/// One large object, so that it can be seen whether it grows from one census to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Large {
    /// Address of its slot.
    pub object: u64,
    /// The number of its slot (see [`crate::slots`]); 0 = it was born before we came.
    pub number: u32,
    /// Number of its [`Kind`].
    pub kind: u32,
    /// Bytes of what it holds, without the room that it has for more: of a String its text, of an Array its elements, of a
    /// Hash its entries. The room is doubled now and then, and what is held grows with each call.
    pub used: u64,
}

impl Large {
    /// No object.
    pub const NONE: Large = Large {
        object: 0,
        number: 0,
        kind: 0,
        used: 0,
    };
}

/// Intervals into which the time of watching is divided at most: a census counts the living of each apart.
pub const INTERVALS: usize = 8;

/// Records in the ring of collections.
pub const KEPT: usize = 256;

/// Values of [`Ledger::garbage`]: why the collector did not run before a count. Of a Ruby it is never more than [`Unasked`](Self::Unasked).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Uncollected {
    /// It ran.
    Ran = 0,
    /// It was not to run, or the VM refused.
    #[default]
    Unasked = 1,
    /// The main thread waits in a call. The program may hold a lock around that call for which finalizers wait.
    Blocked = 2,
    /// The program has switched it off.
    Off = 3,
    /// Whether the program has switched it off is not known.
    Unknown = 4,
    /// It was running.
    UnderWay = 5,
    /// The VM counts references, and lancet does not have it look for cycles.
    Uncalled = 6,
}

impl Uncollected {
    /// Reads the word; one that is none of these is [`Unasked`](Self::Unasked).
    pub fn of(word: u64) -> Self {
        let all = [
            Self::Ran,
            Self::Blocked,
            Self::Off,
            Self::Unknown,
            Self::UnderWay,
            Self::Uncalled,
        ];
        let found = all.into_iter().find(|why| *why as u64 == word);
        found.unwrap_or_default()
    }
}

/// A garbage collection of the VM's that was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Collection {
    /// Nanoseconds that its marking took, all steps together.
    pub nanos: u64,
    /// 1 = it marked all objects, 0 = the young ones.
    pub full: u64,
}

/// A line and a type: one row of the finest report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Site {
    /// Number of a [`Frame`]; with call paths the index of a [`Stack`] in [`Ledger::stacks`].
    pub place: u32,
    /// Number of a [`Kind`]; 0 = this record is free.
    pub kind: u32,
    /// Births booked at this site. Those in [`Entry`] records are not yet among them. Only the sum of both is the
    /// number of births: each alone may have wrapped below zero.
    pub born: u64,
    /// Number of the next site of the same kind; only the agent uses it.
    pub next_of_kind: u32,
    /// Births whose size was taken, a few each [`MEASURE_EVERY`].
    pub measured: u32,
    /// The bytes that these used, slot and what they had allocated by then, together.
    pub measured_bytes: u64,
}

/// After the first [`MEASURE_FIRST`] births of one class at one point of the code, one of this many is measured.
pub const MEASURE_EVERY: u64 = 32;
/// How many births of one class at one point of the code are all measured, before [`MEASURE_EVERY`] applies.
pub const MEASURE_FIRST: u64 = 4;

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
    /// Fills the record up to a multiple of eight bytes; 0.
    pub reserved: u32,
}

/// A call path: its index in [`Ledger::stacks`]. The word there is the length; that many words follow, each the number of a
/// [`Frame`], the innermost first. A path lies within one piece.
pub type Stack = u32;

/// A type, as it is named in a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Kind {
    /// Offset of the name in [`Ledger::text`].
    pub name: u32,
    /// What is special about the type: the bits [`INTERNAL`] and [`ANONYMOUS`].
    pub flags: u32,
    /// Number of the first [`Site`] of this kind; only the agent uses it.
    pub first_site: u32,
    /// 1 = a census has seen that an object of it is a thread with a VM stack; else 0.
    pub threads: u32,
    /// Address of the class, if it has no name; else 0.
    pub address: u64,
}

/// Births of one class at one point of the code that are not yet booked at their site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// Address of the iseq, or one half of a call path's hash.
    pub code: u64,
    /// The pc within the iseq, or the other half of the hash.
    pub pc: u64,
    /// Address of the class, or a small number for a type without one.
    pub class: u64,
    /// Births since these were last booked at the site.
    pub born: u64,
    /// Number of their [`Site`]; in a free entry that of the next free one.
    pub site: u32,
    /// Changes when the entry is used for another class or point.
    pub age: u32,
}

/// In [`Kind::flags`]: an object of the VM's own, which `ObjectSpace.each_object` does not show.
pub const INTERNAL: u32 = 1;
/// In [`Kind::flags`]: the class has no name yet, and its text is its address.
pub const ANONYMOUS: u32 = 2;

/// What a census found, for each site and for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Births up to the census.
    pub born: u64,
    /// How many of these are alive.
    pub live: u64,
    /// Bytes that the living ones use, as `ObjectSpace.memsize_of` counts them.
    pub bytes: u64,
    /// The living, by the interval of their birth, the earliest first.
    pub alive: [u32; INTERVALS],
}
