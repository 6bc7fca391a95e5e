//! Finds the line at which each object of a copy of a guest was made, in the copy's memory, which does not change.

use enter::{Lines, Sites};
use process::error::Result;
use process::memory::GuestMemory;
use wire::slots::site_of;

use crate::ledger::Reader;
use crate::numbers::{Numbers, Slots};

/// Finds the sites of one copy's objects by the agent's ledger at the address `ledger`. The page of the last object is kept, so that
/// objects looked up in the order of their addresses cost one read for each page.
pub(crate) fn sites(memory: &GuestMemory, ledger: u64) -> Result<Sites<'_>> {
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
pub(crate) fn lines(memory: &GuestMemory, ledger: u64) -> Lines<'_> {
    let mut reader = Reader::new(ledger, false);
    Box::new(move |site| {
        let place = reader.places(memory, &[site])?.pop().flatten();
        let line = place.and_then(|place| place.line);
        Ok(line.map(|line| (line.path.clone(), line.line)))
    })
}
