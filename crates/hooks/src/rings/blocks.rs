//! Reads what hooks have counted of blocks (`wire::calls::blocks`): the rows of all threads, added up by site. Used by `blocks`, and by
//! crate `births`.

use super::Rings;
use process::error::Result;
use std::collections::{BTreeMap, HashSet};
use std::mem::offset_of;
use wire::calls::blocks::{Beside, Book, Row, SITES};
use wire::calls::{Calls, Ring};

/// The most rows that are read at once, 128 MiB of them: all sites of 64 threads. Rows that are too many count as one lost call each.
const MOST_ROWS: usize = 1 << 22;

/// What one site has done, which is known by the address that its calls return to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSite {
    /// The address that its calls return to.
    pub caller: u64,
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
    /// The sites, by rising address.
    pub sites: Vec<BlockSite>,
    /// Blocks that were taken and have no site, because there was no memory or no number for one; and rows that were too many.
    pub unnoted: u64,
    /// Blocks that were given back and had not been seen when they were taken.
    pub unknown: u64,
    /// Blocks whose death was not seen: another was taken at their address.
    pub replaced: u64,
}

impl BlockSite {
    fn add(&mut self, row: &Row) {
        self.born = self.born.saturating_add(row.born);
        self.born_bytes = self.born_bytes.saturating_add(row.born_bytes);
        self.dead = self.dead.saturating_add(row.dead);
        self.dead_bytes = self.dead_bytes.saturating_add(row.dead_bytes);
    }
}

impl Rings {
    /// Returns the blocks that were counted in this session so far, by site. Threads go on meanwhile, so a death may be counted whose birth
    /// is not.
    pub fn blocks(&mut self) -> Result<BlockCounts> {
        self.look()?;
        let mut counts = BlockCounts::default();
        let book = self.calls
            + (offset_of!(Calls, blocks) + offset_of!(wire::calls::blocks::Blocks, book)) as u64;
        let book = self.backing.word(book)?;
        if book == 0 {
            return Ok(counts);
        }
        let mut tallies = HashSet::new();
        let (mut rows, mut left) = (Vec::new(), MOST_ROWS);
        // Rows are read before the number of sites, so that each has its address.
        let sites = self.sites_of(book)?;
        for ring in self.known.iter().filter(|ring| ring.there) {
            let field = |offset: usize| ring.address + offset as u64;
            let tally = self.backing.word(field(offset_of!(Ring, tally)))?;
            let session = self.backing.half(field(offset_of!(Ring, session)))?;
            if tally == 0 || session != self.session || !tallies.insert(tally) {
                continue;
            }
            let read = (sites + 1).min(left);
            left -= read;
            counts.unnoted = counts.unnoted.saturating_add((sites + 1 - read) as u64);
            if read == 0 {
                continue;
            }
            let mut of_thread: Vec<Row> = self.backing.records(tally, read)?;
            of_thread[0] = Row::default();
            counts.add_beside(&self.backing.records::<Beside>(tally, 1)?[0]);
            rows.push(of_thread);
        }
        let addresses = book.wrapping_add(offset_of!(Book, addresses) as u64);
        let addresses: Vec<u64> = self.backing.records(addresses, sites + 1)?;
        let mut by_address: BTreeMap<u64, BlockSite> = BTreeMap::new();
        for row in rows.iter().flat_map(|rows| rows.iter().zip(&addresses)) {
            let (row, caller) = (row.0, *row.1);
            if row.born != 0 || row.dead != 0 {
                let site = by_address.entry(caller).or_default();
                site.caller = caller;
                site.add(row);
            }
        }
        counts.sites = by_address.into_values().collect();
        Ok(counts)
    }

    /// The greatest number of a site.
    fn sites_of(&self, book: u64) -> Result<usize> {
        let sites = book.wrapping_add(offset_of!(Book, sites) as u64);
        Ok((self.backing.word(sites)? as usize).min(SITES - 1))
    }
}

impl BlockCounts {
    fn add_beside(&mut self, beside: &Beside) {
        self.unnoted = self.unnoted.saturating_add(beside.unnoted);
        self.unknown = self.unknown.saturating_add(beside.unknown);
        self.replaced = self.replaced.saturating_add(beside.replaced);
    }
}
