//! The agent's books, read from outside.
//!
//! Text, frames and call paths are written once and never change, so they are kept here between two
//! readings; sites and kinds are read anew.

use crate::error::Result;
use crate::memory::{GuestMemory, Record};
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::ledger::{ANONYMOUS, INTERNAL};
use wire::{Counts, Frame, Kind, Ledger, Segments, Site};

/// A line of Ruby code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file, as the VM names it.
    pub path: Arc<str>,
    /// The line; 0 = the VM has none.
    pub line: u32,
    /// The method.
    pub method: Arc<str>,
}

/// What was born at one place, of one type.
#[derive(Clone, Debug)]
pub struct SiteTally {
    /// Innermost first; empty = no Ruby code.
    pub path: Vec<Arc<Line>>,
    /// The type's name.
    pub kind: Arc<str>,
    /// The VM's own.
    pub internal: bool,
    /// Born, alive, bytes.
    pub counts: Counts,
}

/// What a census found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Objects born since we came.
    pub sites: Vec<SiteTally>,
    /// Objects born before, by type: name, the VM's own, counts.
    pub before: Vec<(Arc<str>, bool, Counts)>,
    /// How long the garbage collector took; `None` = it did not run.
    pub gc: Option<Duration>,
    /// How long the walk took.
    pub walk: Duration,
    /// Births the agent had no memory to book.
    pub lost_memory: u64,
    /// Births during a census.
    pub unbooked: u64,
    /// Objects whose own size function raised.
    pub unsized_objects: u64,
    /// Bytes the agent has mapped.
    pub mapped: u64,
    /// Live objects seen.
    pub objects: u64,
    /// Objects a compaction moved.
    pub moved: u64,
}

/// Reads one agent's books.
#[derive(Debug)]
pub struct Reader {
    at: u64,
    text: HashMap<u32, Arc<str>>,
    frames: Vec<Arc<Line>>,
    stacks: HashMap<u32, Vec<Arc<Line>>>,
    anonymous: HashMap<u64, Arc<str>>,
    paths: bool,
}

/// One of [`Ledger`]'s segments at this moment.
struct Records<'a> {
    memory: &'a GuestMemory,
    segments: Segments,
}

impl Records<'_> {
    fn all<T: Record>(&self, from: u64) -> Result<Vec<T>> {
        let mut found = Vec::new();
        let mut next = from;
        while next < self.segments.length {
            let within = next % self.segments.piece;
            let count = (self.segments.piece - within).min(self.segments.length - next);
            let piece = self.segments.pieces[(next / self.segments.piece) as usize];
            found.extend(
                self.memory
                    .records::<T>(piece + within * size_of::<T>() as u64, count as usize)?,
            );
            next += count;
        }
        Ok(found)
    }

    fn address(&self, index: u64, size: u64) -> u64 {
        let piece = self.segments.pieces[(index / self.segments.piece) as usize];
        piece + index % self.segments.piece * size
    }
}

impl Reader {
    /// For the ledger at `at`; `paths` = call paths are kept.
    pub fn new(at: u64, paths: bool) -> Self {
        Reader {
            at,
            text: HashMap::new(),
            frames: Vec::new(),
            stacks: HashMap::new(),
            anonymous: HashMap::new(),
            paths,
        }
    }

    /// Reads what the last census left.
    pub fn tally(&mut self, memory: &GuestMemory) -> Result<Tally> {
        let field = |offset: usize| memory.word(self.at + offset as u64);
        let counts = |at: usize, count: usize| {
            let count = field(count)? as usize;
            match count {
                0 => Ok(Vec::new()),
                count => memory.records::<Counts>(field(at)?, count),
            }
        };
        let site_counts = counts(
            offset_of!(Ledger, site_counts),
            offset_of!(Ledger, site_count),
        )?;
        let kind_counts = counts(
            offset_of!(Ledger, kind_counts),
            offset_of!(Ledger, kind_count),
        )?;
        let gc = field(offset_of!(Ledger, gc_nanos))?;
        let tally = Tally {
            gc: (gc != 0).then(|| Duration::from_nanos(gc)),
            walk: Duration::from_nanos(field(offset_of!(Ledger, walk_nanos))?),
            lost_memory: field(offset_of!(Ledger, lost_memory))?,
            unbooked: field(offset_of!(Ledger, unbooked))?,
            unsized_objects: field(offset_of!(Ledger, unsized_objects))?,
            mapped: field(offset_of!(Ledger, mapped))?,
            objects: field(offset_of!(Ledger, slots))?,
            moved: field(offset_of!(Ledger, moved))?,
            ..Tally::default()
        };
        self.with_rows(memory, tally, &site_counts, &kind_counts)
    }

    /// Adds the rows that have these counts.
    pub fn with_rows(
        &mut self,
        memory: &GuestMemory,
        mut tally: Tally,
        site_counts: &[Counts],
        kind_counts: &[Counts],
    ) -> Result<Tally> {
        let sites: Vec<Site> = self.records(memory, offset_of!(Ledger, sites))?.all(0)?;
        let kinds: Vec<Kind> = self.records(memory, offset_of!(Ledger, kinds))?.all(0)?;
        let names = kinds
            .iter()
            .map(|kind| self.kind_name(memory, kind))
            .collect::<Result<Vec<_>>>()?;
        self.read_new_frames(memory)?;
        for (site, counts) in sites.iter().zip(site_counts) {
            let Some(kind) = kinds.get(site.kind as usize).filter(|_| site.kind != 0) else {
                continue;
            };
            if counts.born == 0 && counts.live == 0 {
                continue;
            }
            tally.sites.push(SiteTally {
                path: self.path(memory, site.place)?,
                kind: names[site.kind as usize].clone(),
                internal: kind.flags & INTERNAL != 0,
                counts: *counts,
            });
        }
        for ((kind, name), counts) in kinds.iter().zip(&names).zip(kind_counts) {
            if counts.live != 0 {
                tally
                    .before
                    .push((name.clone(), kind.flags & INTERNAL != 0, *counts));
            }
        }
        Ok(tally)
    }

    fn records<'a>(&self, memory: &'a GuestMemory, offset: usize) -> Result<Records<'a>> {
        Ok(Records {
            memory,
            segments: memory.record(self.at + offset as u64)?,
        })
    }

    fn read_new_frames(&mut self, memory: &GuestMemory) -> Result<()> {
        let records = self.records(memory, offset_of!(Ledger, frames))?;
        let new: Vec<Frame> = records.all(self.frames.len() as u64)?;
        for frame in new {
            let line = Line {
                path: self.text(memory, frame.path)?,
                line: frame.line,
                method: self.text(memory, frame.method)?,
            };
            self.frames.push(Arc::new(line));
        }
        Ok(())
    }

    fn path(&mut self, memory: &GuestMemory, place: u32) -> Result<Vec<Arc<Line>>> {
        if !self.paths {
            // Frame 0 is "no Ruby code".
            let frame = self.frames.get(place as usize).filter(|_| place != 0);
            return Ok(frame.cloned().into_iter().collect());
        }
        if let Some(known) = self.stacks.get(&place) {
            return Ok(known.clone());
        }
        let records = self.records(memory, offset_of!(Ledger, stacks))?;
        let at = records.address(u64::from(place), 4);
        let count = memory.half(at)?;
        let path: Vec<Arc<Line>> = memory
            .records::<u32>(at + 4, count as usize)?
            .into_iter()
            .filter_map(|frame| self.frames.get(frame as usize).cloned())
            .collect();
        self.stacks.insert(place, path.clone());
        Ok(path)
    }

    fn kind_name(&mut self, memory: &GuestMemory, kind: &Kind) -> Result<Arc<str>> {
        if kind.flags & ANONYMOUS == 0 {
            return self.text(memory, kind.name);
        }
        let name = self
            .anonymous
            .entry(kind.address)
            .or_insert_with(|| format!("#<Class:{:#018x}>", kind.address).into());
        Ok(name.clone())
    }

    fn text(&mut self, memory: &GuestMemory, offset: u32) -> Result<Arc<str>> {
        if let Some(known) = self.text.get(&offset) {
            return Ok(known.clone());
        }
        let at = self
            .records(memory, offset_of!(Ledger, text))?
            .address(u64::from(offset), 1);
        let mut bytes = vec![0; memory.half(at)? as usize];
        memory.read_bytes(at + 4, &mut bytes)?;
        let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
        self.text.insert(offset, text.clone());
        Ok(text)
    }
}
