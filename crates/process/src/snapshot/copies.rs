//! Copied pieces of a process's memory, and how they are copied. Used by `snapshot`, and by the crates `frames` and
//! `languages`.
//!
//! Pages that were never touched are not copied: reading one would map a page of zeros there, by which the process would seem to use
//! more memory than before we came, and a stack can hold a megabyte of them (a thread of Ruby keeps its VM's stack on its own). What is
//! read of them is zeros.

use std::collections::BTreeMap;
use std::ops::Range;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::pagemap::Parts;

/// Limit of the bytes that one set of copies has; ranges beyond it are cut. The process itself says how long the stack of a coroutine or of a
/// VM is, and a false value must cost no more of lancet's memory and no more time in a stop than this.
const MOST_COPIED: usize = 1 << 29;

/// Copied pieces of memory. Reading memory that was not copied is a fault.
#[derive(Debug, Default)]
pub struct Copies {
    bytes: Vec<u8>,
    used: usize,
    /// By the address that a piece was copied from: the end of the piece, and its index in `bytes`.
    pieces: BTreeMap<u64, (u64, usize)>,
    longest: u64,
    /// The ends of ranges that were never touched, by their first addresses.
    untouched: BTreeMap<u64, u64>,
    /// What was copied before these, where these have nothing.
    earlier: Option<Box<Copies>>,
}

impl Copies {
    /// Returns copies for which there is room for so many bytes, which has been touched.
    pub(super) fn with_room(room: usize) -> Copies {
        Copies {
            // Not zeros, because the allocator would provide those as pages that do not exist yet.
            bytes: vec![1; room],
            ..Copies::default()
        }
    }

    /// Forgets what was copied, and keeps the room.
    pub(super) fn clear(&mut self) {
        *self = Copies {
            bytes: std::mem::take(&mut self.bytes),
            ..Copies::default()
        };
    }

    /// Reads from `earlier` what is not copied here.
    pub(super) fn over(self, earlier: Copies) -> Copies {
        Copies {
            earlier: Some(Box::new(earlier)),
            ..self
        }
    }

    /// Adds a piece that was read elsewhere, a core file for instance.
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        let start = self.used;
        self.bytes.truncate(start);
        self.bytes.extend_from_slice(bytes);
        self.used = self.bytes.len();
        self.note(at..at.saturating_add(bytes.len() as u64), start);
    }

    /// Adds a piece that was copied. Of two that begin at the same address the longer one is kept.
    fn note(&mut self, piece: Range<u64>, start: usize) {
        self.longest = self.longest.max(piece.end - piece.start);
        let known = self.pieces.entry(piece.start).or_insert((piece.end, start));
        if known.0 < piece.end {
            *known = (piece.end, start);
        }
    }

    /// Returns the copied bytes of `range` by rising address, in one or more parts, without those that were never touched and are zeros.
    /// `None` if some of it is neither.
    pub fn parts(&self, range: Range<u64>) -> Option<Vec<(u64, &[u8])>> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            match self.piece_at(at) {
                Some(piece) => {
                    let left = usize::try_from(range.end - at).ok()?;
                    let piece = &piece[..piece.len().min(left)];
                    parts.push((at, piece));
                    at += piece.len() as u64;
                }
                None => at = self.untouched_until(at)?,
            }
        }
        Some(parts)
    }

    /// Returns the copied bytes from an address to the end of a piece: of one that was copied in one go.
    fn piece_at(&self, at: u64) -> Option<&[u8]> {
        let near = self.pieces.range(..=at).rev();
        let found = near
            .take_while(|(start, _)| at - **start < self.longest)
            .find(|(_, (end, _))| at < *end);
        let own = found.and_then(|(start, (end, index))| {
            let from = index + usize::try_from(at - start).ok()?;
            self.bytes
                .get(from..index + usize::try_from(end - start).ok()?)
        });
        own.or_else(|| self.earlier.as_ref()?.piece_at(at))
    }

    /// Returns the end of the untouched range that an address lies in.
    fn untouched_until(&self, at: u64) -> Option<u64> {
        let near = self.untouched.range(..=at).next_back();
        let own = near.map(|(_, end)| *end).filter(|end| at < *end);
        own.or_else(|| self.earlier.as_ref()?.untouched_until(at))
    }

    /// The number of bytes that were copied.
    pub fn size(&self) -> u64 {
        let earlier = self.earlier.as_ref().map_or(0, |earlier| earlier.size());
        self.used as u64 + earlier
    }

    /// Copies the parts of a stack that were touched, and those of `ranges` that have not been copied. `shown_by` is the id of a living thread.
    pub(super) fn copy_new(&mut self, shown_by: i32, stack: Parts, ranges: &[Range<u64>]) {
        let untouched = stack.untouched.iter();
        self.untouched
            .extend(untouched.map(|range| (range.start, range.end)));
        let mut wanted = stack.touched;
        wanted.extend_from_slice(ranges);
        wanted.retain(|range| !self.has(range));
        self.copy_all(shown_by, &wanted);
    }

    /// Whether a range was copied in one piece.
    fn has(&self, range: &Range<u64>) -> bool {
        let piece = self.piece_at(range.start);
        piece.is_some_and(|piece| piece.len() as u64 >= range.end.saturating_sub(range.start))
    }

    /// Copies several ranges by one system call, or one by one if not all of them can be read.
    pub(super) fn copy_all(&mut self, shown_by: i32, ranges: &[Range<u64>]) {
        let ranges = within_room(ranges, MOST_COPIED.saturating_sub(self.used));
        let sizes = ranges
            .iter()
            .map(|range| (range.end - range.start) as usize);
        let size: usize = sizes.clone().sum();
        let start = self.used;
        if size == 0 {
            return;
        }
        if self.bytes.len() < start + size {
            self.bytes.resize(start + size, 0);
        }
        let from: Vec<RemoteIoVec> = ranges
            .iter()
            .zip(sizes.clone())
            .map(|(range, len)| RemoteIoVec {
                base: range.start as usize,
                len,
            })
            .collect();
        let mut into = [std::io::IoSliceMut::new(
            &mut self.bytes[start..start + size],
        )];
        if process_vm_readv(Pid::from_raw(shown_by), &mut into, &from) != Ok(size) {
            for range in ranges {
                self.copy(shown_by, range);
            }
            return;
        }
        for (range, size) in ranges.iter().zip(sizes) {
            self.note(range.clone(), self.used);
            self.used += size;
        }
    }

    /// Copies the readable part of `range`, from its start.
    fn copy(&mut self, shown_by: i32, range: Range<u64>) {
        let (Ok(base), Ok(size)) = (
            usize::try_from(range.start),
            usize::try_from(range.end.saturating_sub(range.start)),
        ) else {
            return;
        };
        if size == 0 {
            return;
        }
        let start = self.used;
        if self.bytes.len() < start + size {
            self.bytes.resize(start + size, 0);
        }
        let mut into = [std::io::IoSliceMut::new(
            &mut self.bytes[start..start + size],
        )];
        let from = [RemoteIoVec { base, len: size }];
        let done = process_vm_readv(Pid::from_raw(shown_by), &mut into, &from).unwrap_or(0);
        self.used = start + done;
        if done > 0 {
            self.note(range.start..range.start + done as u64, start);
        }
    }
}

impl vm::Memory for Copies {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        let fault = vm::Fault { at };
        if let Some(piece) = self.piece_at(at).and_then(|piece| piece.get(..into.len())) {
            into.copy_from_slice(piece);
            return Ok(());
        }
        let end = at.checked_add(into.len() as u64).ok_or(fault)?;
        let parts = self.parts(at..end).ok_or(fault)?;
        into.fill(0);
        for (from, bytes) in parts {
            let from = (from - at) as usize;
            into[from..from + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// Memory that is read from copies, and where there is no copy, from another memory.
pub struct Overlay<'a> {
    /// The copied pieces, which are read first.
    pub copies: &'a Copies,
    /// The memory that is read where there is no copy.
    pub rest: &'a dyn vm::Memory,
}

impl vm::Memory for Overlay<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        self.copies
            .read(at, into)
            .or_else(|_| self.rest.read(at, into))
    }
}

/// Shortens the list of ranges, and the last range in it, so that together they have at most `room` bytes.
fn within_room(ranges: &[Range<u64>], mut room: usize) -> Vec<Range<u64>> {
    let cut = ranges.iter().map(|range| {
        let size = range.end.saturating_sub(range.start).min(room as u64);
        room -= size as usize;
        range.start..range.start + size
    });
    cut.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm::Memory;

    #[test]
    fn what_a_process_says_of_its_stacks_is_cut_to_what_there_is_room_for() {
        // As a process can have written it.
        let (start, end) = (0x9000, 0x8000);
        let ranges = [0x1000..0x1800, start..end, 0x2000..u64::MAX, 0x3000..0x3010];
        let cut = within_room(&ranges, 0x1000);
        let expected = [
            0x1000..0x1800,
            0x9000..0x9000,
            0x2000..0x2800,
            0x3000..0x3000,
        ];
        assert_eq!(cut, expected);
    }

    #[test]
    fn what_was_never_touched_is_zeros_and_what_was_not_copied_is_a_fault() {
        let mut copies = Copies::default();
        copies.add(0x1000, &[1; 0x1000]);
        copies.untouched.insert(0x2000, 0x4000);
        copies.add(0x4000, &[4; 0x1000]);
        let read = |copies: &Copies, range: Range<u64>| {
            let mut bytes = vec![9; (range.end - range.start) as usize];
            copies.read(range.start, &mut bytes).ok().map(|()| bytes)
        };
        assert_eq!(read(&copies, 0x1ffe..0x2002), Some(vec![1, 1, 0, 0]));
        assert_eq!(read(&copies, 0x3ffe..0x4002), Some(vec![0, 0, 4, 4]));
        assert_eq!(read(&copies, 0x4ffe..0x5002), None);
        let parts = copies.parts(0x1800..0x4800).expect("all of it is known");
        let parts: Vec<_> = parts.iter().map(|(at, part)| (*at, part.len())).collect();
        assert_eq!(parts, [(0x1800, 0x800), (0x4000, 0x800)]);
        // What was copied later is read first.
        let mut later = Copies::default();
        later.add(0x2000, &[2; 0x10]);
        let both = later.over(copies);
        assert_eq!(
            read(&both, 0x1ffe..0x2012).map(|bytes| bytes[..4].to_vec()),
            Some(vec![1, 1, 2, 2])
        );
        assert_eq!(read(&both, 0x200f..0x2011), Some(vec![2, 0]));
        assert_eq!(both.size(), 0x2010);
    }
}
