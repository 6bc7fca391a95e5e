//! Births that are counted until a process is copied, and the lines at which the copy's objects were made: what a heap snapshot knows of
//! births. The command hands [`COUNTING`] to crate `dump`; what is read of the copy is its memory, which does not change.
//! Used by `lancet::commands::heap::args`.

use super::{Options, opening};
use crate::ledger::Reader;
use crate::numbers::{Numbers, Slots};
use enter::{Counting, Lines, Sites};
use process::error::Result;
use process::memory::GuestMemory;
use wire::slots::site_of;

/// Counts births in a process of which a copy can be made.
pub static COUNTING: Counting = Counting {
    opening: opening(Options::NONE),
    books: |copy, ledger| Ok((sites(copy, ledger)?, lines(copy, ledger))),
};

/// Finds the sites of one copy's objects by the agent's ledger at the address `ledger`. The page of the last object is kept, so that
/// objects looked up in the order of their addresses cost one read for each page.
fn sites(memory: &GuestMemory, ledger: u64) -> Result<Sites<'_>> {
    let slots = Slots::of(memory, ledger)?;
    let mut last: Option<(u64, Numbers)> = None;
    Ok(Box::new(move |address| {
        let page = slots.page(address);
        if last.as_ref().is_none_or(|(last, _)| *last != page) {
            last = Some((page, slots.numbers(address)?));
        }
        let number = last.as_ref().map_or(0, |(_, page)| page.of(address));
        Ok(Some(site_of(number)).filter(|site| *site != 0))
    }))
}

/// Reads the lines of sites in that ledger.
fn lines(memory: &GuestMemory, ledger: u64) -> Lines<'_> {
    let mut reader = Reader::new(ledger, false);
    Box::new(move |site| {
        let place = reader.places(memory, &[site])?.pop().flatten();
        let line = place.and_then(|place| place.line);
        Ok(line.map(|line| (line.path.clone(), line.line)))
    })
}
