//! Where births happen, as text: lines, call paths, and the bytes of their names. Each is written once
//! and never changes.

use super::records::{stack_words, text_bytes};
use super::{Books, CUT_HERE, DEEPEST, Desk};
use crate::births::texts::Texts;
use crate::memory::store::{self, mix};
use wire::{Frame, Ledger};

impl Books {
    pub(super) fn place(
        &mut self,
        desk: &mut Desk<impl Texts>,
        frames: &[(u64, u64)],
        paths: bool,
    ) -> Option<u32> {
        if !paths {
            return match frames.first() {
                Some((code, pc)) => self.frame(desk, *code, *pc),
                None => Some(0),
            };
        }
        let count = frames.len().min(DEEPEST);
        for (at, (code, pc)) in frames[..count].iter().enumerate() {
            self.path[at] = self.frame(desk, *code, *pc)?;
        }
        self.stack(desk.ledger, count)
    }

    fn frame(&mut self, desk: &mut Desk<impl Texts>, code: u64, pc: u64) -> Option<u32> {
        let (line, path, method);
        if (code, pc) == CUT_HERE {
            line = 0;
            path = self.text(desk.ledger, b"")?;
            method = self.text(desk.ledger, wire::ledger::CUT.as_bytes())?;
        } else {
            line = desk.names.line(code, pc);
            path = {
                let text = desk.names.path(code);
                self.text(desk.ledger, text)?
            };
            method = {
                let text = desk.names.method(code);
                self.text(desk.ledger, text)?
            };
        }
        let frame = Frame {
            path,
            method,
            line,
            reserved: 0,
        };
        let hash = |frame: &Frame| {
            mix(
                mix(u64::from(frame.path), u64::from(frame.line)),
                u64::from(frame.method),
            )
        };
        let frames = &mut desk.ledger.frames;
        // SAFETY: the index holds numbers that were appended to `frames`, so their piece is mapped;
        // the record is copied.
        let at = |frames: &wire::Segments, number: u32| unsafe {
            *store::record::<Frame>(frames, u64::from(number))
        };
        if let Some(found) = self
            .by_frame
            .find(hash(&frame), |number| at(frames, number) == frame)
        {
            return Some(found);
        }
        let number = store::append(frames, frame)?;
        self.by_frame
            .insert(number, |number| hash(&at(frames, number)))?;
        Some(number)
    }

    /// Returns the number of the path in `self.path[..count]`, which is added if it is new.
    fn stack(&mut self, ledger: &mut Ledger, count: usize) -> Option<u32> {
        let hash = |words: &[u32]| {
            words
                .iter()
                .fold(1, |hash, word| mix(hash, u64::from(*word)))
        };
        let stacks = &mut ledger.stacks;
        let path = &self.path[..count];
        if let Some(found) = self
            .by_stack
            .find(hash(path), |number| stack_words(stacks, number) == path)
        {
            return Some(found);
        }
        let number = store::reserve::<u32>(stacks, count as u64 + 1)?;
        let at = store::record::<u32>(stacks, number);
        // SAFETY: `reserve` has mapped room for the length and `count` words behind each other at
        // `at`, and no record names it yet.
        unsafe {
            at.write(count as u32);
            core::ptr::copy_nonoverlapping(path.as_ptr(), at.add(1), count);
        }
        let number = u32::try_from(number).ok()?;
        self.by_stack
            .insert(number, |number| hash(stack_words(stacks, number)))?;
        Some(number)
    }

    pub(super) fn text(&mut self, ledger: &mut Ledger, bytes: &[u8]) -> Option<u32> {
        let segments = &mut ledger.text;
        if let Some(found) = self.by_text.find(store::hash_bytes(bytes), |number| {
            text_bytes(segments, number) == bytes
        }) {
            return Some(found - 1);
        }
        let number = store::reserve::<u8>(segments, bytes.len() as u64 + 4)?;
        let at = store::record::<u8>(segments, number);
        // SAFETY: `reserve` has mapped room for four bytes of length and the text behind each other at
        // `at`, and no record names it yet.
        unsafe {
            at.cast::<u32>().write_unaligned(bytes.len() as u32);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(4), bytes.len());
        }
        // The index cannot hold 0, hence the offset plus one.
        let number = u32::try_from(number).ok()?.checked_add(1)?;
        self.by_text.insert(number, |number| {
            store::hash_bytes(text_bytes(segments, number))
        })?;
        Some(number - 1)
    }
}
