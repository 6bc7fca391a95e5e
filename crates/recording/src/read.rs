//! Reading a recording: which segments there are, what is defined, and the bytes of a segment.

use crate::bytes::Take;
use crate::codec::decode::{Decoder, Defined};
use crate::define::take_definition;
use crate::index::{Edges, TRAILER, index_of, take_entry};
use crate::item::{CallEdge, Caller, Definition, Function, Guest, Head, Line, Losses, Module};
use crate::segment::{HEAD, Kind, Segment};
use crate::{MAGIC, VERSION};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

/// The most bytes of definitions, and the most definitions, that are kept of one file.
const MOST_DEFINED: u64 = 128 << 20;
const MOST_DEFINITIONS: usize = 1 << 21;

/// Why a recording cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin with the magic bytes of a recording.
    #[error("it is no recording of lancet's")]
    NotOne,
    /// Its version is none that this lancet reads.
    #[error(
        "it is of version {0} and this lancet reads version {VERSION}: record again, or read it with the lancet that wrote it"
    )]
    Version(u32),
    /// It ends in the middle of a segment, or before its index: its writer was killed, or the disk was full.
    #[error("it ends at byte {0} without its end: what was recorded last is missing")]
    Cut(u64),
    /// A segment's checksum or contents are wrong.
    #[error("it is damaged at byte {0}: what was recorded from there on cannot be read")]
    Damaged(u64),
}

/// A file, or bytes in memory.
pub trait Source: Sync {
    /// Reads from an offset, as `pread` does.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// How many bytes there are.
    fn length(&self) -> io::Result<u64>;
}

impl Source for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|of| of.len())
    }
}

impl Source for Vec<u8> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let from = usize::try_from(at).map_or(self.len(), |at| at.min(self.len()));
        let length = into.len().min(self.len() - from);
        into[..length].copy_from_slice(&self[from..from + length]);
        Ok(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// Reads until the buffer is full or the source ends; whether it is full.
fn fill(source: &impl Source, into: &mut [u8], at: u64) -> io::Result<bool> {
    let mut done = 0;
    while done < into.len() {
        match source.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => return Ok(false),
            Ok(more) => done += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// What events name by number, each kind in the order of its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// Which command made the recording.
    pub head: Head,
    /// Processes.
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
    /// Segments of events, in the order of the file.
    segments: Vec<(Segment, Edges)>,
    definitions: Definitions,
    defined: Defined,
    /// Why it ends where it does, if it was not finished.
    flaw: Option<Error>,
}

impl<S: Source> Recording<S> {
    /// Reads the index, or the heads of all segments where there is none, and the definitions.
    pub fn open(source: S) -> Result<Self, Error> {
        let mut first = [0; MAGIC.len() + 4];
        let is_whole = fill(&source, &mut first, 0)?;
        let (magic, version) = first.split_at(MAGIC.len());
        if !is_whole || magic != MAGIC {
            return Err(Error::NotOne);
        }
        match u32::from_le_bytes(version.try_into().expect("four bytes")) {
            VERSION => {}
            other => return Err(Error::Version(other)),
        }
        let mut recording = Recording {
            source,
            segments: Vec::new(),
            definitions: Definitions::default(),
            defined: Defined::default(),
            flaw: None,
        };
        let length = recording.source.length()?;
        let segments = match recording.indexed(length)? {
            Some(segments) => segments,
            None => recording.scanned(first.len() as u64, length)?,
        };
        recording.define(segments)?;
        recording.defined = recording.definitions.defined();
        Ok(recording)
    }

    /// The segments by the index; `None` = there is none that is right.
    fn indexed(&self, length: u64) -> Result<Option<Vec<(Segment, Edges)>>, Error> {
        let mut trailer = [0; TRAILER];
        let Some(at) = length.checked_sub(TRAILER as u64) else {
            return Ok(None);
        };
        fill(&self.source, &mut trailer, at)?;
        let Some(mut next) = index_of(&trailer) else {
            return Ok(None);
        };
        let (mut segments, mut decoder) = (Vec::new(), Decoder::default());
        while next != at {
            let Some(segment) = self
                .head(next)?
                .filter(|of| of.kind == Kind::Index && !of.packed && of.end() <= at)
            else {
                return Ok(None);
            };
            if self.load(&segment, &mut decoder).is_err() {
                return Ok(None);
            }
            let mut take = Take(decoder.bytes());
            while !take.0.is_empty() {
                match take_entry(&mut take) {
                    Ok(entry) => segments.push(entry),
                    Err(_) => return Ok(None),
                }
            }
            next = segment.end();
        }
        Ok(Some(segments))
    }

    /// The head at an offset, if that is one.
    fn head(&self, offset: u64) -> Result<Option<Segment>, Error> {
        let mut head = [0; HEAD];
        let is_whole = fill(&self.source, &mut head, offset)?;
        Ok(Segment::decode(&head, offset).filter(|_| is_whole))
    }

    /// The segments as their heads tell, from the first to the last that is whole.
    fn scanned(&mut self, from: u64, length: u64) -> Result<Vec<(Segment, Edges)>, Error> {
        let (mut segments, mut at) = (Vec::new(), from);
        loop {
            if length - at < HEAD as u64 {
                self.flaw = Some(Error::Cut(at));
                return Ok(segments);
            }
            match self.head(at)? {
                None => self.flaw = Some(Error::Damaged(at)),
                Some(segment) if segment.end() > length => self.flaw = Some(Error::Cut(at)),
                // The file was cut within its index.
                Some(segment) if segment.kind == Kind::Index => self.flaw = Some(Error::Cut(at)),
                Some(segment) => {
                    at = segment.end();
                    segments.push((segment, Edges::default()));
                    continue;
                }
            }
            return Ok(segments);
        }
    }

    /// Reads the definitions, and keeps the segments up to the first that cannot be read.
    fn define(&mut self, segments: Vec<(Segment, Edges)>) -> Result<(), Error> {
        let (mut decoder, mut bytes) = (Decoder::default(), 0);
        for (segment, edges) in segments {
            if segment.kind != Kind::Definitions {
                self.segments.push((segment, edges));
                continue;
            }
            bytes += u64::from(segment.whole);
            let damaged = Error::Damaged(segment.offset);
            match self.load(&segment, &mut decoder) {
                Ok(()) if bytes <= MOST_DEFINED => {}
                Err(Error::Io(error)) => return Err(error.into()),
                _ => {
                    self.flaw = Some(damaged);
                    return Ok(());
                }
            }
            let mut take = Take(decoder.bytes());
            while !take.0.is_empty() {
                let is_good = take_definition(&mut take).is_ok_and(|of| self.definitions.add(of));
                if !is_good || self.definitions.count() > MOST_DEFINITIONS {
                    self.flaw = Some(damaged);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Hands out what events name by number.
    pub fn take_definitions(&mut self) -> Definitions {
        std::mem::take(&mut self.definitions)
    }

    /// Segments of events in the order of the file, each with the call edges that occur in it.
    pub fn segments(&self) -> &[(Segment, Edges)] {
        &self.segments
    }

    /// Why it ends where it does; `None` = it was finished.
    pub fn flaw(&mut self) -> Option<Error> {
        self.flaw.take()
    }

    /// Reads a segment of events.
    ///
    /// # Errors
    /// It is damaged.
    pub fn read(&self, number: usize, decoder: &mut Decoder) -> Result<(), Error> {
        let (segment, _) = &self.segments[number];
        self.load(segment, decoder)?;
        if segment.kind != Kind::Events || segment.guest >= self.defined.guests {
            return Err(Error::Damaged(segment.offset));
        }
        decoder.begin(*segment, self.defined);
        Ok(())
    }

    /// Reads the bytes of a segment and holds them against its checksum.
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
