//! Reads what hooks have counted of blocks (`wire::calls::blocks`): the rows of all threads, added up by site. Used by `blocks`, and by
//! crate `births`.

use super::Rings;
use super::record::none_of;
use inject::records::ReadRecords;
use process::error::Result;
use std::collections::{BTreeMap, HashSet};
use std::mem::offset_of;
use wire::calls::blocks::{Beside, Blocks, Book, IN_VAIN, Row, SITES, of_lined};
use wire::calls::{Calls, MOST_LINES, NO_APPLICATION, RINGS, Ring, event_line, library_line};

/// The most rows that are read at once, 128 MiB of them: all sites of 64 threads.
const MOST_ROWS: usize = 1 << 22;

/// What one site has done, which is known by the address that its calls return to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSite {
    /// The address that its calls return to.
    pub caller: u64,
    /// The script's line that was running, by its place in [`Rings::places`].
    pub line: Option<usize>,
    /// Blocks that were taken.
    pub born: u64,
    /// Bytes that were asked for.
    pub born_bytes: u64,
    /// Blocks that were given back.
    pub dead: u64,
    /// Bytes that had been asked for of these.
    pub dead_bytes: u64,
}

/// All that was counted of blocks in this session.
#[derive(Clone, Debug, Default)]
pub struct BlockCounts {
    /// The sites, by rising address and line.
    pub sites: Vec<BlockSite>,
    /// Blocks that were taken and have no site, because there was no memory or no number for one.
    pub unnoted: u64,
    /// Blocks whose death was not seen: another was taken at their address.
    pub replaced: u64,
    /// Rows that were not read, because there are too many.
    pub unread: u64,
    /// Blocks without the line of the script that ran, because there are too many places.
    pub unlined: u64,
    /// Threads that have no numbers for further lines.
    pub full: u64,
}

/// What was read of blocks, by number of their site.
pub(crate) struct BlockRows {
    deaths: Sums,
    births: Sums,
    /// [`Book::addresses`].
    addresses: Vec<u64>,
    /// [`Book::tellers`].
    tellers: Vec<u64>,
    unlined: u64,
    full: u64,
}

/// The rows of all threads, added up by number of their site.
struct Sums {
    rows: Vec<Row>,
    unnoted: u64,
    replaced: u64,
    unread: u64,
}

impl Rings {
    /// Reads the blocks that were counted in this session so far; `None` = none was.
    ///
    /// Threads go on meanwhile. Deaths are read first and births after that, so that no block is dead which was not born: what is given back
    /// while this reads still lives.
    pub(crate) fn block_rows(&mut self) -> Result<Option<BlockRows>> {
        let book = self.calls + (offset_of!(Calls, blocks) + offset_of!(Blocks, book)) as u64;
        let book = self.backing.memory.word(book)?;
        if book == 0 {
            return Ok(None);
        }
        let deaths = self.sums(book)?;
        let births = self.sums(book)?;
        let addresses = book.wrapping_add(offset_of!(Book, addresses) as u64);
        let addresses: Vec<u64> = self.backing.memory.records(addresses, births.rows.len())?;
        let tellers = book.wrapping_add(offset_of!(Book, tellers) as u64);
        let tellers: Vec<u64> = self.backing.memory.records(tellers, RINGS)?;
        let unlined = book.wrapping_add(offset_of!(Book, unlined) as u64);
        let has_lines = addresses.iter().any(|address| of_lined(*address).is_some());
        Ok(Some(BlockRows {
            deaths,
            births,
            addresses,
            tellers,
            unlined: self.backing.memory.word(unlined)?,
            full: if has_lines { self.full_of_lines()? } else { 0 },
        }))
    }

    /// How many threads have given all numbers of lines.
    fn full_of_lines(&self) -> Result<u64> {
        let mut full = 0;
        for ring in self.known.iter().filter(|ring| ring.there) {
            let last = ring.address + offset_of!(Ring, last_place) as u64;
            full += u64::from(self.backing.half(last)? >= MOST_LINES);
        }
        Ok(full)
    }

    /// Adds up what was read by function and line. The lines that rings have told are known by now.
    pub(crate) fn by_place(&self, rows: BlockRows) -> BlockCounts {
        let BlockRows {
            deaths,
            births,
            addresses,
            tellers,
            unlined,
            full,
        } = rows;
        let mut by_place: BTreeMap<(u64, Option<usize>), BlockSite> = BTreeMap::new();
        let none = std::iter::repeat(Row::default());
        let dead = deaths.rows.into_iter().chain(none);
        for ((born, dead), address) in births.rows.iter().zip(dead).zip(&addresses) {
            let (caller, line) = match of_lined(*address) {
                None => (*address, None),
                Some((site, teller, lines)) => {
                    let caller = addresses.get(site as usize).copied().unwrap_or(0);
                    (caller, self.line_of(tellers[teller], lines))
                }
            };
            // A number whose address is not written yet, or is none's.
            if caller == 0 || born.born == 0 && dead.dead == 0 {
                continue;
            }
            let site = by_place.entry((caller, line)).or_default();
            (site.caller, site.line) = (caller, line);
            site.born = site.born.saturating_add(born.born);
            site.born_bytes = site.born_bytes.saturating_add(born.born_bytes);
            site.dead = site.dead.saturating_add(dead.dead);
            site.dead_bytes = site.dead_bytes.saturating_add(dead.dead_bytes);
        }
        BlockCounts {
            sites: by_place.into_values().collect(),
            unnoted: births.unnoted,
            replaced: births.replaced,
            unread: births.unread,
            unlined,
            full,
        }
    }

    /// The script's line that a ring calls by these numbers.
    fn line_of(&self, ring: u64, lines: u32) -> Option<usize> {
        let number = match event_line(lines) {
            NO_APPLICATION => none_of(library_line(lines)),
            line => line,
        };
        let known = self.known.get(*self.by_address.get(&ring)?)?;
        known.decoder.places.get(&number).copied()
    }

    /// Adds up what all threads have counted.
    fn sums(&self, book: u64) -> Result<Sums> {
        let memory = &self.backing.memory;
        let field = |offset: usize| book.wrapping_add(offset as u64);
        let sites = memory.word(field(offset_of!(Book, sites)))?;
        let count = (sites as usize).min(SITES - 1) + 1;
        let tallies: Vec<u64> = memory.records(field(offset_of!(Book, tallies)), RINGS)?;
        let tallies: HashSet<u64> = tallies.into_iter().filter(|at| *at > IN_VAIN).collect();
        let mut sums = Sums {
            rows: vec![Row::default(); count],
            unnoted: 0,
            replaced: 0,
            unread: 0,
        };
        let mut left = MOST_ROWS;
        for tally in tallies {
            let beside: Vec<u64> = memory.records(tally, 2)?;
            sums.unnoted = sums.unnoted.saturating_add(beside[0]);
            sums.replaced = sums.replaced.saturating_add(beside[1]);
            let read = count.min(left);
            left -= read;
            sums.unread += (count - read) as u64;
            if read == 0 {
                continue;
            }
            let rows = tally.wrapping_add(size_of::<Beside>() as u64);
            let rows: Vec<Row> = memory.records(rows, read)?;
            for (sum, row) in sums.rows.iter_mut().zip(&rows) {
                sum.born = sum.born.saturating_add(row.born);
                sum.born_bytes = sum.born_bytes.saturating_add(row.born_bytes);
                sum.dead = sum.dead.saturating_add(row.dead);
                sum.dead_bytes = sum.dead_bytes.saturating_add(row.dead_bytes);
            }
        }
        Ok(sums)
    }
}
