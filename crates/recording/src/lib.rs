//! Calls in a file, to be looked at later and again: [`Writer`] takes what a tracer sees, [`Reader`] gives it back.
//!
//! ```text
//!   file      head   segment  segment  …                  whatever is whole can be read; a tail that is not is left out
//!
//!   head      89 'l' 'a' 'n' 'c' 'e' 't' 0a   u32 VERSION
//!   segment   u32 bytes here   u32 bytes unpacked   u32 CRC-32 of the bytes here   the bytes: LZ4 (block format) of items
//!   item      a byte with its kind and flags, and then numbers as LEB128, texts with their length before them
//! ```
//!
//! All numbers of the frame are little-endian. LZ4's block format: `lz4_Block_format.md` of lz4 1.9. A call refers to
//! its call edge, line and thread by number; an item that defines a number comes before the first that uses it. Calls
//! are written as what differs from the call before ([`codec`](self)): time since then, the distance of the stack
//! pointer, the registers that changed. What differs is counted anew in each segment.
//!
//! A reader believes nothing: lengths are held against what is there, numbers against what was defined, and a
//! segment against its checksum. A damaged file is an [`Error`] that says at which byte.

#![forbid(unsafe_code)]

mod bytes;
mod codec;
mod event;
mod item;
mod read;
mod write;

pub use event::{At, Call, End, Event, EventKind, Numbers, Opened, Return};
pub use item::{CallEdge, Caller, Function, Guest, Head, Item, Line, Losses, Module};
pub use read::{Error, Reader};
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

/// Of the layout that is written. Version 1, which had no callers, is read too.
pub const VERSION: u32 = 2;

/// A segment is written when it holds so many bytes.
const SEGMENT: usize = 256 << 10;

/// What one segment may hold at most: a reader makes room for it before it can be checked.
const MOST: usize = 16 << 20;
