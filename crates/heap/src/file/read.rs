//! Reads a snapshot from its file, in which every number is checked.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::block::{Block, Input};
use super::number::{at_distance, optional};
use super::{Error, LONGEST_TEXT, LastTargets, Section, cost};
use crate::about::{About, Allocated, Collector, Losses, MOST, Memory, MemoryRow};
use crate::column::Column;
use crate::edge_names::{EdgeNames, placed};
use crate::names::{EdgeName, Flags, Role, RootKind, RootName};
use crate::rising::Rising;
use crate::snapshot::{Kind, Root, Site, Snapshot};
use crate::text::TextId;
use varint::{Take, Wrong};

/// `O_NONBLOCK` (`asm-generic/fcntl.h`): a pipe is opened at once, and nothing changes for a regular file.
const O_NONBLOCK: i32 = 0o4000;

impl Snapshot {
    /// Reads a snapshot from a regular file, within so many bytes of memory.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, is not a snapshot, is damaged, or needs more memory.
    pub fn open(path: &Path, memory: u64) -> Result<Self, Error> {
        let refused = || io::Error::other("it is no regular file");
        // Opening a device may have effects, so it is looked at before.
        if !path.metadata()?.is_file() {
            return Err(refused().into());
        }
        // In a folder of somebody else it may be another one by now: a pipe would be waited for without end.
        let file = File::options()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(refused().into());
        }
        Self::read(&mut io::BufReader::new(file), memory)
    }

    /// Reads a snapshot, within so many bytes of memory.
    ///
    /// # Errors
    ///
    /// What comes is not a snapshot, is damaged, or needs more memory.
    pub fn read(input: &mut dyn Read, memory: u64) -> Result<Self, Error> {
        let mut input = Input::begin(input)?;
        let mut reading: Option<Reading> = None;
        let mut section = Section::Header;
        loop {
            let blocks = input.blocks;
            let (block, bytes) = input.next()?;
            if block.section < section {
                return Err(block.damaged("its section is in the wrong place"));
            }
            section = block.section;
            let mut take = Take(bytes);
            let wrong = |_: Wrong| block.damaged("a number in it cannot be true");
            match (&mut reading, section) {
                (None, Section::Header) => {
                    let mut begun = Reading::begin(&mut take).map_err(wrong)?;
                    begun.afford(memory)?;
                    begun.make_room();
                    reading = Some(begun);
                }
                (None, _) | (Some(_), Section::Header) => {
                    return Err(block.damaged("its section is in the wrong place"));
                }
                (Some(reading), Section::End) => {
                    if take.number().map_err(wrong)? != blocks {
                        return Err(block.damaged("blocks are missing before it"));
                    }
                    reading.is_whole(&block)?;
                }
                (Some(reading), _) => {
                    reading.begin_section(section);
                    reading.afford(memory)?;
                    reading.block(&block, &mut take).map_err(wrong)?;
                }
            }
            if !take.0.is_empty() {
                return Err(block.damaged("it has more bytes than its items"));
            }
            if section == Section::End {
                break;
            }
        }
        reading.map(Reading::finish).ok_or(Error::Cut(0))
    }
}

/// How many there are of each, as the header says.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    texts: usize,
    text_bytes: usize,
    kinds: usize,
    sites: usize,
    objects: usize,
    edges: usize,
    roots: usize,
}

/// A snapshot of which a part was read.
struct Reading {
    snapshot: Snapshot,
    counts: Counts,
    /// How many items the present section has had.
    section: Section,
    items: usize,
    /// How many sections with a number for each object have begun: those that no object has are not in the file.
    columns: u64,
    /// The sum of the numbers of edges so far.
    edges: u64,
    /// The packed names of edges: targets are read by them.
    names: Vec<u32>,
}

/// The words of a command line, which a NUL parts; no more than a written one can have.
fn words(text: &str) -> Vec<String> {
    match text {
        "" => Vec::new(),
        text => {
            let words = text.split('\0').take(LONGEST_TEXT);
            words.map(str::to_owned).collect()
        }
    }
}

impl Reading {
    fn begin(take: &mut Take) -> Result<Self, Wrong> {
        let mut about = About {
            language: take.text()?,
            version: take.text()?,
            pid: take.number()? as u32 as i32,
            taken_at: take.number()?,
            rss: take.number()?,
            command_line: words(&take.text()?),
            host: take.text()?,
            boot: take.text()?,
            started: take.number()?,
            collector: match take.byte()? {
                0 => Collector::Unknown,
                1 => Collector::On,
                2 => Collector::Off,
                3 => Collector::None,
                _ => return Err(Wrong),
            },
            contents: take.byte()? != 0,
            notes: Vec::new(),
            memory: Memory::default(),
            allocated: Vec::new(),
        };
        for _ in 0..take.number()? {
            about.notes.push(take.text()?);
        }
        for _ in 0..take.number()? {
            about.memory.findings.push(take.text()?);
        }
        for _ in 0..take.number()? {
            about.memory.rows.push(MemoryRow {
                text: take.text()?,
                rss: take.number()?,
                pss: take.number()?,
                swap: take.number()?,
            });
        }
        about.memory.malloc = take.number()?.checked_sub(1);
        for _ in 0..take.number()? {
            about.allocated.push(Allocated {
                kind: take.text()?,
                objects: take.number()?,
                bytes: take.number()?,
                in_malloc: take.number()?,
            });
        }
        let losses = Losses {
            objects: take.number()?,
            edges: take.number()?,
            roots: take.number()?,
            texts: take.number()?,
            dangling_edges: take.number()?,
            dangling_roots: take.number()?,
            repeated_objects: take.number()?,
        };
        let most = MOST as usize;
        let mut counts = Counts {
            texts: take.below(crate::names::MOST_TEXTS as usize)? as usize,
            text_bytes: take.below(most)? as usize,
            kinds: take.below(usize::from(u16::MAX) + 1)? as usize,
            sites: take.below(most)? as usize,
            objects: take.below(most)? as usize,
            edges: take.below(most)? as usize,
            roots: 0,
        };
        counts.roots = take.below(most - counts.edges)? as usize;
        Ok(Self {
            snapshot: Snapshot {
                about,
                losses,
                ..Snapshot::default()
            },
            counts,
            section: Section::Header,
            items: 0,
            columns: 0,
            edges: 0,
            names: Vec::new(),
        })
    }

    /// The snapshot, of which all has come.
    fn finish(mut self) -> Snapshot {
        let placed = placed(&self.snapshot.ends);
        let placed = placed.map(|(edge, place)| (self.names[edge as usize], place));
        let short = EdgeNames::short(placed, self.names.len());
        // Not a second time: there is memory for them once.
        self.snapshot.names = short.unwrap_or(EdgeNames::Plain(self.names));
        self.snapshot
    }

    /// Notes that a block of this section comes.
    fn begin_section(&mut self, section: Section) {
        if section != self.section {
            (self.section, self.items) = (section, 0);
            self.columns += u64::from(section.is_column());
        }
    }

    /// Whether there may be so much memory as the header's counts, the columns that have begun and what came of numbers and texts
    /// need.
    fn afford(&self, may: u64) -> Result<(), Error> {
        let Counts {
            objects,
            edges,
            roots,
            ..
        } = self.counts;
        let columns = &self.snapshot.columns;
        let object = cost::OBJECT + cost::COLUMN * self.columns;
        let rising = [
            &columns.addresses,
            &columns.fingerprints.objects,
            &self.snapshot.ends,
        ];
        let pages: usize = rising.iter().map(|one| one.page_room()).sum();
        let parts = [
            (objects as u64, object),
            (edges as u64, cost::EDGE),
            (roots as u64, cost::ROOT),
            (columns.wide() as u64, cost::WIDE),
            (
                columns.fingerprints.values.capacity() as u64,
                cost::FINGERPRINT,
            ),
            (pages as u64, Rising::PAGE),
            (self.counts.texts as u64, 4),
            (self.counts.text_bytes as u64, 1),
            (self.counts.sites as u64, 8),
        ];
        let parts = parts.map(|(count, each)| count.saturating_mul(each));
        let needs = parts.into_iter().fold(0_u64, u64::saturating_add);
        if needs > may {
            return Err(Error::TooLarge { needs, may });
        }
        Ok(())
    }

    /// Makes room for what the header says, which was found to be affordable. The kernel gives memory only for what is
    /// then written to it.
    fn make_room(&mut self) {
        let (snapshot, counts) = (&mut self.snapshot, &self.counts);
        snapshot.texts.ends.reserve_exact(counts.texts);
        snapshot.texts.bytes.reserve_exact(counts.text_bytes);
        snapshot.columns.addresses.reserve_exact(counts.objects);
        snapshot.columns.kinds.reserve_exact(counts.objects);
        snapshot.columns.flags.reserve_exact(counts.objects);
        snapshot.ends.reserve_exact(counts.objects);
        snapshot.targets.reserve_exact(counts.edges);
        snapshot.roots.reserve_exact(counts.roots);
        self.names.reserve_exact(counts.edges);
    }

    /// How many items a section may have.
    fn expected(&self, section: Section) -> usize {
        match section {
            Section::Texts => self.counts.texts,
            Section::Kinds => self.counts.kinds,
            Section::Sites => self.counts.sites,
            Section::EdgeNames | Section::EdgeTargets => self.counts.edges,
            Section::Roots => self.counts.roots,
            _ => self.counts.objects,
        }
    }

    fn block(&mut self, block: &Block, take: &mut Take) -> Result<(), Wrong> {
        let items = block.items as usize;
        if items > self.expected(block.section) - self.items {
            return Err(Wrong);
        }
        match block.section {
            Section::Texts | Section::Kinds | Section::Sites => self.tables(block, take)?,
            Section::Addresses | Section::ObjectKinds | Section::Flags => {
                self.objects(block, take)?;
            }
            Section::Fingerprints => self.fingerprints(items, take)?,
            Section::EdgeCounts | Section::EdgeNames | Section::EdgeTargets => {
                self.edges(block, take)?;
            }
            Section::Roots => self.roots(items, take)?,
            section => self.column(section, items, take)?,
        }
        self.items += items;
        Ok(())
    }

    fn tables(&mut self, block: &Block, take: &mut Take) -> Result<(), Wrong> {
        let texts = &mut self.snapshot.texts;
        for _ in 0..block.items {
            match block.section {
                Section::Texts => {
                    let text = take.bytes()?;
                    let whole = texts.bytes.len() + text.len();
                    if text.len() > LONGEST_TEXT || whole > self.counts.text_bytes {
                        return Err(Wrong);
                    }
                    texts.bytes.extend_from_slice(text);
                    texts.ends.push(whole as u32);
                }
                Section::Kinds => self.snapshot.kinds.push(Kind {
                    name: TextId(take.below(texts.len())?),
                    role: Role::of(take.byte()?).ok_or(Wrong)?,
                }),
                _ => self.snapshot.sites.push(Site {
                    file: TextId(take.below(texts.len())?),
                    line: take.below(u32::MAX as usize + 1)?,
                }),
            }
        }
        Ok(())
    }

    fn objects(&mut self, block: &Block, take: &mut Take) -> Result<(), Wrong> {
        let columns = &mut self.snapshot.columns;
        for item in 0..block.items {
            match block.section {
                Section::Addresses => {
                    let number = take.number()?;
                    let last = columns.addresses.last();
                    let address = match last {
                        Some(last) if item > 0 => last.checked_add(number).ok_or(Wrong)?,
                        _ => number,
                    };
                    // Objects are found by a binary search.
                    if last.is_some_and(|last| last >= address) {
                        return Err(Wrong);
                    }
                    columns.addresses.push(address);
                }
                Section::ObjectKinds => {
                    let kind = take.below(self.counts.kinds)?;
                    columns.kinds.push(kind as u16);
                }
                _ => {
                    let flags = Flags::unpack(take.byte()?).ok_or(Wrong)?;
                    columns.flags.push(flags.pack());
                }
            }
        }
        Ok(())
    }

    fn column(&mut self, section: Section, items: usize, take: &mut Take) -> Result<(), Wrong> {
        let (texts, sites) = (self.counts.texts as u64, self.counts.sites as u64);
        let columns = &mut self.snapshot.columns;
        let (column, end): (&mut Column, u64) = match section {
            Section::Bytes => (&mut columns.bytes, u64::MAX),
            Section::Classes => (&mut columns.classes, texts),
            Section::ObjectSites => (&mut columns.sites, sites),
            Section::Births => (&mut columns.births, u64::MAX),
            Section::Lengths => (&mut columns.lengths, u64::MAX),
            Section::Capacities => (&mut columns.capacities, u64::MAX),
            Section::Labels => (&mut columns.labels, texts),
            Section::Contents => (&mut columns.contents, texts),
            _ => return Err(Wrong),
        };
        column.reserve(self.counts.objects);
        for object in self.items..self.items + items {
            let number = take.number()?.checked_sub(1);
            if number.is_some_and(|number| number >= end) {
                return Err(Wrong);
            }
            if let Some(time) = number.filter(|_| section == Section::Births) {
                column.begin(time);
            }
            column.set(object as u32, number);
        }
        Ok(())
    }

    fn fingerprints(&mut self, items: usize, take: &mut Take) -> Result<(), Wrong> {
        let all = &mut self.snapshot.columns.fingerprints;
        for item in 0..items {
            let last = all.objects.last().map(|last| last as u32);
            let from = if item == 0 { 0 } else { last.unwrap_or(0) };
            let object = at_distance(take, from, self.counts.objects)?;
            if last.is_some_and(|last| last >= object) {
                return Err(Wrong);
            }
            let bytes = take.exactly(8)?.try_into().map_err(|_| Wrong)?;
            all.push(object, u64::from_le_bytes(bytes));
        }
        Ok(())
    }

    fn edges(&mut self, block: &Block, take: &mut Take) -> Result<(), Wrong> {
        let snapshot = &mut self.snapshot;
        let mut next_index = 0;
        let mut last = LastTargets::new();
        for _ in 0..block.items {
            match block.section {
                Section::EdgeCounts => {
                    self.edges += u64::from(take.below(self.counts.edges + 1)?);
                    if self.edges > self.counts.edges as u64 {
                        return Err(Wrong);
                    }
                    snapshot.ends.push(self.edges);
                }
                Section::EdgeNames => {
                    let number = take.byte()?;
                    let payload = if EdgeName::is_index(number) {
                        let index =
                            at_distance(take, next_index, EdgeName::MOST_INDEX as usize + 1)?;
                        next_index = index + 1;
                        index
                    } else if EdgeName::has_text(EdgeName::packed(number, 0)) {
                        take.below(self.counts.texts + 1)?
                    } else {
                        0
                    };
                    let packed = EdgeName::packed(number, payload);
                    EdgeName::unpack(packed)
                        .filter(|_| number < 32)
                        .ok_or(Wrong)?;
                    self.names.push(packed);
                }
                _ => {
                    let name = *self.names.get(snapshot.targets.len()).ok_or(Wrong)?;
                    let before = last.of(name);
                    *before = at_distance(take, *before, self.counts.objects)?;
                    snapshot.targets.push(*before);
                }
            }
        }
        Ok(())
    }

    fn roots(&mut self, items: usize, take: &mut Take) -> Result<(), Wrong> {
        let mut last = 0;
        for _ in 0..items {
            let name = RootName {
                kind: RootKind::of(take.byte()?).ok_or(Wrong)?,
                thread: take.below(u32::MAX as usize + 1)?,
                text: optional(take, self.counts.texts)?.map(TextId),
            };
            last = at_distance(take, last, self.counts.objects)?;
            self.snapshot.roots.push(Root { target: last, name });
        }
        Ok(())
    }

    /// Whether all has come that the header says. Sections that may be missing are whole or missing, because a column
    /// that ends early has none for the rest.
    fn is_whole(&self, block: &Block) -> Result<(), Error> {
        let (snapshot, counts) = (&self.snapshot, &self.counts);
        let whole = snapshot.texts.len() == counts.texts
            && snapshot.texts.bytes.len() == counts.text_bytes
            && snapshot.kinds.len() == counts.kinds
            && snapshot.sites.len() == counts.sites
            && snapshot.columns.addresses.len() == counts.objects
            && snapshot.columns.kinds.len() == counts.objects
            && snapshot.columns.flags.len() == counts.objects
            && snapshot.ends.len() == counts.objects
            && self.edges == counts.edges as u64
            && self.names.len() == counts.edges
            && snapshot.targets.len() == counts.edges
            && snapshot.roots.len() == counts.roots;
        if whole {
            return Ok(());
        }
        Err(block.damaged("a section before it has fewer items than the header says"))
    }
}
