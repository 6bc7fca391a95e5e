//! Reads the agent's books from outside. Used by `postmortem`, `session` and others here, and by crate `lancet`.
//!
//! Texts, frames and call paths are written once and never change, so they are kept here between two readings; sites and
//! kinds are read anew.

mod large;
#[cfg(test)]
mod tests;
mod texts;

pub use large::Holder;

use crate::analysis::Frame;
use inject::records::{ReadRecords, Record, implausible};
use process::error::{Error, Result};
use process::memory::GuestMemory;
use process::rss::Rss;
use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;
use wire::ledger::{FRAMES, INTERNAL, KINDS, PIECES, SITES, STACKS, Uncollected};
use wire::{Counts, Kind, Ledger, Segments, Site};

/// The births of one type at one place.
#[derive(Clone, Debug)]
pub struct SiteTally {
    /// The number that the agent has given the site.
    pub number: u32,
    /// The call path, innermost line first; empty = no Ruby code ran.
    pub path: Vec<Arc<Frame>>,
    /// The name of the type.
    pub kind: Arc<str>,
    /// Whether the objects are the VM's own, which Ruby code never sees.
    pub internal: bool,
    /// How many were born, how many of these live, and the bytes that the living use.
    pub counts: Counts,
    /// Estimate of the bytes that all objects born here used: see the function `allocated`.
    pub allocated: u64,
}

/// A line and a type, which make up a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line; `None`: no Ruby code ran.
    pub line: Option<Arc<Frame>>,
    /// The name of the type.
    pub kind: Arc<str>,
    /// Whether the objects are the VM's own, which Ruby code never sees.
    pub internal: bool,
}

/// Estimates the bytes that the births of a site used: by the mean of those that were measured, otherwise by the mean of the
/// living, otherwise as slots of the smallest size.
fn allocated(site: &Site, counts: &Counts) -> u64 {
    let (bytes, of) = match (site.measured, counts.live) {
        (0, 0) => (SMALLEST_SLOT, 1),
        (0, live) => (counts.bytes, live),
        (measured, _) => (site.measured_bytes, measured.into()),
    };
    let all = u128::from(counts.born) * u128::from(bytes) / u128::from(of);
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The bytes of the smallest slot of a Ruby heap.
const SMALLEST_SLOT: u64 = 40;

/// The result of a census.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Objects born since we came, by site.
    pub sites: Vec<SiteTally>,
    /// Objects born before we came, by type: its name, whether it is the VM's own, and the counts.
    pub before: Vec<(Arc<str>, bool, Counts)>,
    /// How long the garbage collector took; `None` = it did not run.
    pub gc: Option<Duration>,
    /// Why it did not; what [`Uncollected::Ran`] says only `gc` does.
    pub uncollected: Uncollected,
    /// How long the walk took.
    pub walk: Duration,
    /// The types of which living objects are threads.
    pub threads: BTreeSet<Arc<str>>,
    /// Births the agent had no memory to book.
    pub lost_memory: u64,
    /// Births during a census.
    pub unbooked: u64,
    /// Births in interpreters that are not counted.
    pub elsewhere: u64,
    /// Births: without the VM's lock (and deaths), at addresses that are not known here, and whose frame could not be read.
    pub not_counted: [u64; 3],
    /// Objects whose own size function raised.
    pub unsized_objects: u64,
    /// Bytes the agent has mapped.
    pub mapped: u64,
    /// Bytes of heap slots without an object.
    pub empty: u64,
    /// What the process's memory is used for; `None` if that could not be read.
    pub rss: Option<Rss>,
    /// Heap slots with a living object that the census has seen.
    pub objects: u64,
    /// Objects a compaction moved.
    pub moved: u64,
    /// Number of sites whose row has no path, or no line, because there are more than are kept of one process.
    pub cut: u64,
    /// Whether the walk was given up before the end of the heap, so that counts are too low.
    pub unfinished: bool,
    /// Whether no collection came before the count because the program has switched the collector off.
    pub collector_off: bool,
    /// The largest objects, in no order; none of a count from outside.
    pub large: Vec<Holder>,
}

/// Reads one agent's books.
#[derive(Debug)]
pub struct Reader {
    at: u64,
    text: HashMap<u32, Arc<str>>,
    frames: Vec<Arc<Frame>>,
    stacks: HashMap<u32, Vec<Arc<Frame>>>,
    anonymous: HashMap<u64, Arc<str>>,
    /// The name of each kind at the last census, by its number, and whether it is the VM's own.
    kinds: Vec<(Arc<str>, bool)>,
    paths: bool,
    /// Bytes of texts and call paths that are kept.
    kept: usize,
}

/// Limit of the bytes of texts, lines and call paths that are kept of one process. All text that an agent can have is 64
/// MiB.
const MOST_KEPT: usize = 192 << 20;
/// Estimate of the bytes that an entry of a table takes besides its text.
const ENTRY: usize = 64;
/// Limit of the bytes of one table of the agent's: 2.8 million sites. Large programs have some 100,000.
const MOST_TABLE: u64 = 64 << 20;
/// Limit of the rows of one census.
const MOST_ROWS: usize = 1 << 19;
/// Limit of the frames of all their paths together.
const MOST_STEPS: usize = 1 << 22;
/// Limit of the frames of a path: what `--stacks` may request, and the mark that it is cut.
const MOST_DEPTH: u32 = wire::ledger::DEEPEST as u32 + 1;

const DAMAGED: &str = "the agent's books are damaged";

/// The rows of one census, within limits: many sites may share one long path, so that the books are small and the rows
/// large.
#[derive(Default)]
struct Rows {
    /// Frames of all paths so far.
    steps: usize,
    /// For each kind, the row to which the sites beyond the limit are added.
    others: HashMap<u32, usize>,
}

impl Rows {
    /// Adds a row: only with its innermost line if paths take too much, and without a line if there are too many rows. No
    /// count is lost.
    fn add(&mut self, tally: &mut Tally, kind: u32, mut row: SiteTally) {
        if tally.sites.len() >= MOST_ROWS {
            tally.cut += 1;
            if let Some(row_of_kind) = self.others.get(&kind) {
                let SiteTally {
                    counts, allocated, ..
                } = &mut tally.sites[*row_of_kind];
                *allocated = allocated.saturating_add(row.allocated);
                counts.born = counts.born.saturating_add(row.counts.born);
                counts.live = counts.live.saturating_add(row.counts.live);
                counts.bytes = counts.bytes.saturating_add(row.counts.bytes);
                for (sum, more) in counts.alive.iter_mut().zip(row.counts.alive) {
                    *sum = sum.saturating_add(more);
                }
                return;
            }
            self.others.insert(kind, tally.sites.len());
            row.path = Vec::new();
        } else if row.path.len() > 1 && self.steps + row.path.len() > MOST_STEPS {
            tally.cut += 1;
            row.path = vec![row.path.swap_remove(0)];
        }
        self.steps += row.path.len();
        tally.sites.push(row);
    }
}

/// One of [`Ledger`]'s segments at this moment, with checked values: it is read from the memory of a process that can write
/// anything there.
pub(crate) struct Records<'a> {
    memory: &'a GuestMemory,
    segments: Segments,
}

impl<'a> Records<'a> {
    /// Reads the [`Segments`] at an address, whose pieces the agent makes of `piece` records each.
    pub(crate) fn at(memory: &'a GuestMemory, at: u64, piece: u64) -> Result<Self> {
        let segments: Segments = memory.record(at)?;
        if segments.piece != piece || segments.length > piece * PIECES as u64 {
            return Err(implausible(memory.pid(), at, DAMAGED));
        }
        Ok(Records { memory, segments })
    }

    /// All records from number `from` on.
    pub(crate) fn all<T: Record>(&self, from: u64) -> Result<Vec<T>> {
        let bytes = self.segments.length.checked_mul(size_of::<T>() as u64);
        if bytes.is_none_or(|bytes| bytes > MOST_TABLE) {
            return Err(self.damaged(self.segments.length));
        }
        let mut found = Vec::new();
        let mut next = from;
        while next < self.segments.length {
            let within = next % self.segments.piece;
            let count = (self.segments.piece - within).min(self.segments.length - next);
            let at = self.address(next, size_of::<T>() as u64)?;
            found.extend(self.memory.records::<T>(at, count as usize)?);
            next += count;
        }
        Ok(found)
    }

    /// Reads one record; `None` if there is none with this number.
    fn one<T: Record>(&self, number: u32) -> Result<Option<T>> {
        if u64::from(number) >= self.segments.length {
            return Ok(None);
        }
        let at = self.address(number.into(), size_of::<T>() as u64)?;
        self.memory.record(at).map(Some)
    }

    /// Returns the address of a record of `size` bytes.
    fn address(&self, index: u64, size: u64) -> Result<u64> {
        let piece = (index / self.segments.piece) as usize;
        let at = self.segments.pieces.get(piece).and_then(|piece| {
            let within = index % self.segments.piece * size;
            piece.checked_add(within).filter(|_| *piece != 0)
        });
        at.ok_or_else(|| self.damaged(index))
    }

    /// Fails if not all of `count` records from `index` on lie in one piece.
    fn within_piece(&self, index: u64, count: u64) -> Result<()> {
        if index % self.segments.piece + count <= self.segments.piece {
            Ok(())
        } else {
            Err(self.damaged(index))
        }
    }

    fn damaged(&self, index: u64) -> Error {
        implausible(self.memory.pid(), index, DAMAGED)
    }
}

impl Reader {
    /// Returns a reader of the ledger at the guest's address `at`; with `paths`, places are call paths and not single
    /// frames.
    pub fn new(at: u64, paths: bool) -> Self {
        Reader {
            at,
            text: HashMap::new(),
            frames: Vec::new(),
            stacks: HashMap::new(),
            anonymous: HashMap::new(),
            kinds: Vec::new(),
            paths,
            kept: 0,
        }
    }

    /// Reads the counts that the agent's last census has left.
    pub fn tally(&mut self, memory: &GuestMemory) -> Result<Tally> {
        let field = |offset: usize| memory.word(self.at + offset as u64);
        let counts = |at: usize, count: usize| {
            let (at, count) = (field(at)?, field(count)?);
            if count > MOST_TABLE / size_of::<Counts>() as u64 {
                return Err(implausible(memory.pid(), at, DAMAGED));
            }
            match count {
                0 => Ok(Vec::new()),
                count => memory.records::<Counts>(at, count as usize),
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
            uncollected: Uncollected::of(field(offset_of!(Ledger, garbage))?),
            walk: Duration::from_nanos(field(offset_of!(Ledger, walk_nanos))?),
            lost_memory: field(offset_of!(Ledger, lost_memory))?,
            unbooked: field(offset_of!(Ledger, unbooked))?,
            elsewhere: field(offset_of!(Ledger, elsewhere))?,
            not_counted: [
                field(offset_of!(Ledger, unlocked))?,
                field(offset_of!(Ledger, misplaced))?,
                field(offset_of!(Ledger, unreadable))?,
            ],
            unsized_objects: field(offset_of!(Ledger, unsized_objects))?,
            mapped: field(offset_of!(Ledger, mapped))?,
            empty: field(offset_of!(Ledger, empty_bytes))?,
            objects: field(offset_of!(Ledger, slots))?,
            moved: field(offset_of!(Ledger, moved))?,
            collector_off: field(offset_of!(Ledger, collector_off))? != 0,
            ..Tally::default()
        };
        let mut tally = self.with_rows(memory, tally, &site_counts, &kind_counts)?;
        tally.large = self.large(memory)?;
        Ok(tally)
    }

    /// Adds to `tally` a row for each site and each kind that has counts. The two slices are indexed by the agent's numbers
    /// of sites and of kinds.
    pub fn with_rows(
        &mut self,
        memory: &GuestMemory,
        mut tally: Tally,
        site_counts: &[Counts],
        kind_counts: &[Counts],
    ) -> Result<Tally> {
        let sites: Vec<Site> = self
            .records(memory, offset_of!(Ledger, sites), SITES)?
            .all(0)?;
        let kinds: Vec<Kind> = self
            .records(memory, offset_of!(Ledger, kinds), KINDS)?
            .all(0)?;
        // Classes without a name come and go; those that are gone are forgotten here.
        let known = std::mem::take(&mut self.anonymous);
        let names = kinds
            .iter()
            .map(|kind| self.kind_name(memory, kind, &known))
            .collect::<Result<Vec<_>>>()?;
        let internal = kinds.iter().map(|kind| kind.flags & INTERNAL != 0);
        self.kinds = names.iter().cloned().zip(internal).collect();
        let threads = kinds.iter().zip(&names);
        let threads = threads.filter(|(kind, _)| kind.threads != 0);
        tally.threads = threads.map(|(_, name)| name.clone()).collect();
        self.read_new_frames(memory)?;
        let mut rows = Rows::default();
        for (number, (site, counts)) in (0..).zip(sites.iter().zip(site_counts)) {
            let Some(kind) = kinds.get(site.kind as usize).filter(|_| site.kind != 0) else {
                continue;
            };
            if counts.born == 0 && counts.live == 0 {
                continue;
            }
            let row = SiteTally {
                number,
                path: self.path(memory, site.place)?,
                kind: names[site.kind as usize].clone(),
                internal: kind.flags & INTERNAL != 0,
                counts: *counts,
                // What the living hold has been allocated, also what an object got later.
                allocated: allocated(site, counts).max(counts.bytes),
            };
            rows.add(&mut tally, site.kind, row);
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

    /// Returns the places of these sites; `None` for a number that is no site's.
    pub(crate) fn places(
        &mut self,
        memory: &GuestMemory,
        sites: &[u32],
    ) -> Result<Vec<Option<Place>>> {
        let all_sites = self.records(memory, offset_of!(Ledger, sites), SITES)?;
        let all_kinds = self.records(memory, offset_of!(Ledger, kinds), KINDS)?;
        let known = self.anonymous.clone();
        self.read_new_frames(memory)?;
        let mut found = Vec::with_capacity(sites.len());
        for number in sites {
            let site: Option<Site> = all_sites.one(*number)?;
            let Some(site) = site.filter(|site| site.kind != 0) else {
                found.push(None);
                continue;
            };
            let kind: Option<Kind> = all_kinds.one(site.kind)?;
            found.push(match kind {
                None => None,
                Some(kind) => Some(Place {
                    line: self.path(memory, site.place)?.into_iter().next(),
                    kind: self.kind_name(memory, &kind, &known)?,
                    internal: kind.flags & INTERNAL != 0,
                }),
            });
        }
        Ok(found)
    }

    fn records<'a>(
        &self,
        memory: &'a GuestMemory,
        offset: usize,
        piece: u64,
    ) -> Result<Records<'a>> {
        Records::at(memory, self.at + offset as u64, piece)
    }

    /// Notes that `bytes` more bytes are kept. Fails if they exceed the limit.
    fn keep(&mut self, memory: &GuestMemory, bytes: usize) -> Result<()> {
        self.kept += bytes;
        if self.kept > MOST_KEPT {
            return Err(implausible(
                memory.pid(),
                self.at,
                "more text is noted than the agent can have written",
            ));
        }
        Ok(())
    }

    fn read_new_frames(&mut self, memory: &GuestMemory) -> Result<()> {
        let records = self.records(memory, offset_of!(Ledger, frames), FRAMES)?;
        let new: Vec<wire::Frame> = records.all(self.frames.len() as u64)?;
        for frame in new {
            let line = Frame {
                path: self.text(memory, frame.path)?,
                line: frame.line,
                method: self.text(memory, frame.method)?,
            };
            self.keep(memory, ENTRY)?;
            self.frames.push(Arc::new(line));
        }
        Ok(())
    }

    fn path(&mut self, memory: &GuestMemory, place: u32) -> Result<Vec<Arc<Frame>>> {
        if !self.paths {
            // Frame 0 is "no Ruby code".
            let frame = self.frames.get(place as usize).filter(|_| place != 0);
            return Ok(frame.cloned().into_iter().collect());
        }
        if let Some(known) = self.stacks.get(&place) {
            return Ok(known.clone());
        }
        let records = self.records(memory, offset_of!(Ledger, stacks), STACKS)?;
        let at = records.address(u64::from(place), 4)?;
        let count = memory.half(at)?;
        if count > MOST_DEPTH {
            return Err(records.damaged(place.into()));
        }
        records.within_piece(u64::from(place), 1 + u64::from(count))?;
        self.keep(memory, ENTRY + count as usize * size_of::<Arc<Frame>>())?;
        let path: Vec<Arc<Frame>> = memory
            .records::<u32>(at + 4, count as usize)?
            .into_iter()
            .filter_map(|frame| self.frames.get(frame as usize).cloned())
            .collect();
        self.stacks.insert(place, path.clone());
        Ok(path)
    }
}
