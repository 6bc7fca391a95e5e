//! Reads a recording: its segments, its definitions, and the bytes of a segment. Used by `merge` and `wanted`, and by
//! crate `calls`.

use crate::codec::decode::{Decoder, Defined};
use crate::define::take_definition;
use crate::find::{BEGIN, find, head};
use crate::index::{Block, Holds, take_entry};
use crate::item::{CallEdge, Caller, Definition, Function, Guest, Head, Line, Losses, Module};
use crate::segment::{HEAD, Kind, Segment};
use crate::source::{Error, Source, fill};
use crate::{MAGIC, VERSION};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use varint::Take;

/// Limit of the bytes of definitions, and of their number, that are kept of one file.
const MOST_DEFINED: u64 = 128 << 20;
const MOST_DEFINITIONS: usize = 1 << 21;
/// The definitions, each kind in the order of its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// Which command made the recording.
    pub head: Head,
    /// Processes whose events were recorded.
    pub guests: Vec<Guest>,
    /// Files that were mapped in them.
    pub modules: Vec<Module>,
    /// Functions that were hooked.
    pub functions: Vec<Function>,
    /// From which module to which function calls went.
    pub edges: Vec<CallEdge>,
    /// Lines of scripts that calls were made from.
    pub lines: Vec<Line>,
    /// Native frames around calls (`-w`).
    pub callers: Vec<Caller>,
    /// What was lost of each guest.
    pub losses: Vec<Losses>,
}

impl Definitions {
    /// Takes a definition; false if it names something that is not defined.
    fn add(&mut self, definition: Definition) -> bool {
        let below = |number: u32, length: usize| (number as usize) < length;
        match definition {
            Definition::Head(head) => self.head = head,
            Definition::Guest(guest) => self.guests.push(guest),
            Definition::Module(module) => self.modules.push(module),
            Definition::Function(function) => {
                if !below(function.module, self.modules.len()) {
                    return false;
                }
                self.functions.push(function);
            }
            Definition::CallEdge(edge) => {
                let from = edge.from.is_none_or(|from| below(from, self.modules.len()));
                if !from || !below(edge.function, self.functions.len()) {
                    return false;
                }
                self.edges.push(edge);
            }
            Definition::Line(line) => self.lines.push(line),
            Definition::Caller(caller) => self.callers.push(caller),
            Definition::Losses(losses) => {
                if !below(losses.guest, self.guests.len()) {
                    return false;
                }
                self.losses.push(losses);
            }
        }
        true
    }

    fn count(&self) -> usize {
        self.guests.len()
            + self.modules.len()
            + self.functions.len()
            + self.edges.len()
            + self.lines.len()
            + self.callers.len()
            + self.losses.len()
    }

    fn defined(&self) -> Defined {
        Defined {
            guests: self.guests.len() as u32,
            edges: self.edges.len() as u32,
            lines: self.lines.len() as u32,
            callers: self.callers.len() as u32,
        }
    }
}

/// A recording that is open: its definitions are known, its events can be read segment by segment.
pub struct Recording<S = File> {
    source: S,
    /// Where segments of events are, in the order of the file.
    blocks: Vec<Block>,
    /// Nothing is read from this offset on.
    end: u64,
    definitions: Definitions,
    defined: Defined,
    /// Why it ends where it does, if it was not finished.
    flaw: Option<Error>,
    /// The end of the segment read furthest into the file.
    reached: AtomicU64,
}

impl<S: Source> Recording<S> {
    /// Reads where the segments of the index are, or the heads of all segments if the file was not finished, and the
    /// definitions.
    pub fn open(source: S) -> Result<Self, Error> {
        let mut first = [0; BEGIN as usize];
        let is_whole = fill(&source, &mut first, 0)?;
        let (magic, version) = first.split_at(MAGIC.len());
        if !is_whole || magic != MAGIC {
            return Err(Error::NotOne);
        }
        match u32::from_le_bytes(version.try_into().expect("four bytes")) {
            VERSION => {}
            other => return Err(Error::Version(other)),
        }
        let found = find(&source)?;
        let mut recording = Recording {
            source,
            blocks: found.blocks,
            end: u64::MAX,
            definitions: Definitions::default(),
            defined: Defined::default(),
            flaw: found.flaw,
            reached: AtomicU64::new(0),
        };
        recording.define(&found.definitions)?;
        recording.defined = recording.definitions.defined();
        Ok(recording)
    }

    /// Reads the definitions, up to the first one that cannot be read.
    fn define(&mut self, offsets: &[u64]) -> Result<(), Error> {
        let (mut decoder, mut bytes) = (Decoder::default(), 0);
        for &offset in offsets {
            if self.add_definitions(offset, &mut decoder, &mut bytes)? {
                continue;
            }
            self.end = offset;
            self.flaw = Some(Error::Damaged(offset));
            return Ok(());
        }
        Ok(())
    }

    /// Reads a segment of definitions; false if it is damaged.
    fn add_definitions(
        &mut self,
        offset: u64,
        decoder: &mut Decoder,
        bytes: &mut u64,
    ) -> Result<bool, Error> {
        let Some(segment) = head(&self.source, offset)? else {
            return Ok(false);
        };
        *bytes += u64::from(segment.whole);
        match self.load(&segment, decoder) {
            Ok(()) if *bytes <= MOST_DEFINED => {}
            Err(Error::Io(error)) => return Err(error.into()),
            _ => return Ok(false),
        }
        let mut take = Take(decoder.bytes());
        while !take.0.is_empty() {
            let is_good = take_definition(&mut take).is_ok_and(|of| self.definitions.add(of));
            if !is_good || self.definitions.count() > MOST_DEFINITIONS {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a process forked.
    pub fn forks(&self) -> bool {
        self.blocks.iter().any(|block| block.forks)
    }

    /// Where segments of events are, in the order of the file.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The segments of events of a block: as its index lists them, or, if that is damaged or missing, as their heads
    /// say.
    pub(crate) fn entries(
        &self,
        block: &Block,
        mut each: impl FnMut(Segment, Holds),
    ) -> Result<(), Error> {
        let listed = if block.is_listed {
            self.listed(block)?
        } else {
            None
        };
        if let Some(entries) = listed {
            let good = entries
                .into_iter()
                .take_while(|(of, _)| of.offset < self.end);
            good.for_each(|(segment, holds)| each(segment, holds));
            return Ok(());
        }
        let mut at = block.from;
        while at < block.to.min(self.end) {
            let segment = head(&self.source, at)?.filter(|of| of.end() <= block.to);
            let segment = segment.ok_or(Error::Damaged(at))?;
            at = segment.end();
            if segment.kind == Kind::Events {
                each(segment, Holds::default());
            }
        }
        Ok(())
    }

    /// The entries of the segment of the index at the end of a block; `None` = they are impossible.
    fn listed(&self, block: &Block) -> Result<Option<Vec<(Segment, Holds)>>, Error> {
        let mut decoder = Decoder::default();
        let Some(index) = head(&self.source, block.to)? else {
            return Ok(None);
        };
        match self.load(&index, &mut decoder) {
            Ok(()) => {}
            Err(Error::Io(error)) => return Err(error.into()),
            Err(_) => return Ok(None),
        }
        let (mut take, mut behind) = (Take(decoder.bytes()), block.from);
        let mut entries = Vec::new();
        while !take.0.is_empty() {
            let entry = take_entry(&mut take).ok();
            let Some((segment, holds)) = entry.filter(|(of, _)| block.may_hold(of, behind)) else {
                return Ok(None);
            };
            behind = segment.end();
            entries.push((segment, holds));
        }
        Ok((entries.len() == index.events as usize).then_some(entries))
    }

    /// Hands out what events name by number.
    pub fn take_definitions(&mut self) -> Definitions {
        std::mem::take(&mut self.definitions)
    }

    /// Why it ends where it does; `None` = it was finished.
    pub fn flaw(&mut self) -> Option<Error> {
        self.flaw.take()
    }

    /// The position of the last read in the file, from 0 to 1.
    pub fn progress(&self) -> f64 {
        let end = self.blocks.last().map_or(0, |last| last.to.min(self.end));
        let reached = self.reached.load(Ordering::Relaxed);
        reached as f64 / end.max(reached).max(1) as f64
    }

    /// Reads a segment of events.
    ///
    /// # Errors
    /// It is damaged.
    pub fn read(&self, segment: &Segment, decoder: &mut Decoder) -> Result<(), Error> {
        self.load(segment, decoder)?;
        if segment.kind != Kind::Events || segment.guest >= self.defined.guests {
            return Err(Error::Damaged(segment.offset));
        }
        self.reached.fetch_max(segment.end(), Ordering::Relaxed);
        decoder.begin(*segment, self.defined);
        Ok(())
    }

    /// Reads the bytes of a segment and checks them against its checksum.
    fn load(&self, segment: &Segment, decoder: &mut Decoder) -> Result<(), Error> {
        let damaged = || Error::Damaged(segment.offset);
        let (bytes, packed) = decoder.bytes_and_packed();
        let into = if segment.packed {
            &mut *packed
        } else {
            &mut *bytes
        };
        into.resize(segment.here as usize, 0);
        let from = segment.offset + HEAD as u64;
        if !fill(&self.source, into, from)? || crc32fast::hash(into) != segment.sum {
            return Err(damaged());
        }
        if segment.packed {
            bytes.resize(segment.whole as usize, 0);
            let length = lz4_flex::block::decompress_into(packed, bytes);
            if length.is_err() || length.is_ok_and(|length| length != bytes.len()) {
                return Err(damaged());
            }
        }
        Ok(())
    }
}
