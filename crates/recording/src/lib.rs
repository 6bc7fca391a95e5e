//! Recordings: files of calls. [`Writer`] writes what a tracer sees, [`Recording`] reads it.
//!
//! ```text
//!   file      89 'l' 'a' 'n' 'c' 'e' 't' 0a   u32 VERSION   segment   segment  …   [trailer]
//!   segment   head of 64 bytes (`segment`)   bytes
//!
//!     definitions   what events name by number: processes, modules, functions, call edges, lines, frames, losses
//!     events        of one ring, in its order: calls and returns, as what differs from the last of their kind
//!     index         the heads of the segments of events since the index before, each with the call edges and the lines
//!                   that occur there (`index`)
//!   trailer   where the last index and the last definitions are, each of which leads to the one before
//! ```
//!
//! All numbers of the frame are little-endian. Each ring has segments of its own, so a recorder writes what it reads of
//! a ring without merging it with others by time, and a reader takes them apart on as many processors as there are. A
//! segment of events can be read knowing the definitions and nothing else; a segment of definitions comes before the
//! first segment of events that uses it. A file without a trailer, whose writer was killed, is read up to its last whole
//! segment, by the heads of its segments. Neither writer nor reader keeps anything for a segment that it is done with,
//! but 48 bytes in the reader for each segment of the index, which are some 600 of events.
//!
//! A call that returns before anything else happens in its ring is one item with its return. What an item differs from
//! is the last item of the same call site: call edge, return address and script line ([`codec`](self)).
//!
//! A reader trusts nothing: lengths are checked against the file, numbers against the definitions, and segments against
//! their checksums. A damaged file is an [`Error`] with the position.

#![forbid(unsafe_code)]

mod codec;
mod define;
mod event;
mod find;
mod index;
mod item;
mod merge;
mod read;
mod segment;
mod source;
mod wanted;
mod write;

pub use codec::decode::{Decoder, Step};
pub use codec::{CallRecord, Copies, Place, ReturnRecord, ShortRecord, Site};
pub use event::{At, Call, End, Event, EventKind, OfThread, Opened, Return, Signal};
pub use item::{CallEdge, Caller, Definition, Function, Guest, Head, Line, Losses, Module};
pub use merge::Merge;
pub use read::{Definitions, Recording};
pub use segment::{Kind, Segment};
pub use source::{Error, Source};
pub use wanted::{Scan, Wanted};
pub use write::Writer;

/// The first bytes of every recording.
const MAGIC: [u8; 8] = *b"\x89lancet\n";

/// Whether this file begins as recordings do.
pub fn is_recording(path: &std::path::Path) -> bool {
    let mut first = [0; MAGIC.len()];
    let file = std::fs::File::open(path);
    file.and_then(|mut file| std::io::Read::read_exact(&mut file, &mut first))
        .is_ok()
        && first == MAGIC
}

/// The version of the layout that is written, and the only one that is read.
pub const VERSION: u32 = 6;

/// A segment is written when it holds this many bytes. A reader drops a segment that was cut short, as by a full disk; a
/// pipe (64 KiB) holds a segment.
const SEGMENT: usize = 48 << 10;

/// What one segment may hold at most: a reader makes room for it before it can be checked.
const MOST: usize = 2 << 20;
