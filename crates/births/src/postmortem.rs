//! Counts the living objects of a guest that can no longer run code, from outside. Used by `session`.
//!
//! At the kernel's exit stop a process's memory is complete, but none of its threads will run again: no
//! collection is possible, and the VM's functions cannot be called. What can be read is every slot in
//! use with its number, garbage not yet swept included; sizes are those of the slots.

use crate::ledger::{Records, Tally};
use crate::numbers::Slots;
use inject::records::{ReadRecords, implausible};
use languages::objects::{Object, Objects};
use process::error::Result;
use process::memory::GuestMemory;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::ledger::SITES;
use wire::slots::site_of;
use wire::{Counts, Entry, Ledger, Site};

/// The result of a count from outside.
pub struct Seen {
    /// The tally without its rows of sites, which the ledger's reader makes of `sites`.
    pub tally: Tally,
    /// The counts of each site, by the agent's number of it.
    pub sites: Vec<Counts>,
}

/// Counts the objects in the heap of a guest, in at most 20 s.
///
/// # Errors
/// The heap or the agent's books cannot be read, or are damaged.
pub fn count(memory: &GuestMemory, heap: &dyn Objects, ledger: u64) -> Result<Seen> {
    let started = Instant::now();
    let mut sites = births(memory, ledger)?;
    let slots = Slots::of(memory, ledger)?;
    let mut before = Before::default();
    let mut objects = 0;
    let finished = heap.each_page(&mut |start, living| {
        // The list of pages comes from the process and may have no end, while its end waits for us.
        if started.elapsed() > PATIENCE {
            return Ok(false);
        }
        let numbers = slots.numbers(start)?;
        for object in living {
            objects += 1;
            let number = numbers.of(object.address);
            let counts = match site_of(number) {
                0 => before.of(heap, object),
                site => match sites.get_mut(site as usize) {
                    Some(counts) => counts,
                    None => continue,
                },
            };
            counts.live += 1;
            counts.bytes = counts.bytes.saturating_add(object.bytes);
        }
        Ok(true)
    })?;
    let field = |offset: usize| memory.word(ledger.wrapping_add(offset as u64));
    Ok(Seen {
        tally: Tally {
            walk: started.elapsed(),
            objects,
            before: before.types.into_values().collect(),
            unfinished: !finished,
            // Births that the agent could not book while the guest ran.
            lost_memory: field(offset_of!(Ledger, lost_memory))?,
            unbooked: field(offset_of!(Ledger, unbooked))?,
            moved: field(offset_of!(Ledger, moved))?,
            ..Tally::default()
        },
        sites,
    })
}

/// Time limit of the walk over the heap. Ten million objects take two seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limits of the types of objects that are told apart, and of the bytes of their names.
const MOST_TYPES: usize = 1 << 16;
const MOST_NAMES: usize = 16 << 20;
/// Limit of the agent's entries, and how many are read at once.
const MOST_ENTRIES: u64 = 1 << 24;
const ENTRIES: u64 = 1 << 16;

/// A type: whether it is the VM's own, and [`Objects::type_key`].
type Key = (bool, u64, u64);

/// Objects born before lancet came, by class (or by type without a class).
#[derive(Default)]
struct Before {
    types: HashMap<Key, (Arc<str>, bool, Counts)>,
    /// Sum of the bytes of their names.
    names: usize,
}

impl Before {
    fn of(&mut self, heap: &dyn Objects, object: Object) -> &mut Counts {
        let internal = heap.is_internal(&object);
        let (kind, class) = heap.type_key(&object);
        let mut key = (internal, kind, class);
        let full = self.types.len() >= MOST_TYPES || self.names >= MOST_NAMES;
        if full && !self.types.contains_key(&key) {
            key = (internal, 0, u64::MAX);
        }
        let names = &mut self.names;
        let (_, _, counts) = self.types.entry(key).or_insert_with(|| {
            let name = match full {
                true => Some("__other__".to_owned()),
                false => heap.type_name(&object),
            };
            let name = name.unwrap_or_else(|| "__unreadable__".to_owned());
            *names += name.len();
            (name.into(), internal, Counts::default())
        });
        counts
    }
}

/// Returns the births of each site: those added to the site, and those still in the agent's entries.
fn births(memory: &GuestMemory, ledger: u64) -> Result<Vec<Counts>> {
    let records = Records::at(memory, ledger + offset_of!(Ledger, sites) as u64, SITES)?;
    let counted = |site: Site| Counts {
        born: site.born,
        ..Counts::default()
    };
    let mut counts: Vec<Counts> = records.all(0)?.into_iter().map(counted).collect();
    let at = memory.word(ledger + offset_of!(Ledger, entries) as u64)?;
    let count = memory.word(ledger + offset_of!(Ledger, entry_count) as u64)?;
    if count > MOST_ENTRIES {
        let reason = "more births are noted than the agent can have counted";
        return Err(implausible(memory.pid(), at, reason));
    }
    let mut next = 0;
    while at != 0 && next < count {
        let here = at.wrapping_add(next * size_of::<Entry>() as u64);
        let some = memory.records::<Entry>(here, (count - next).min(ENTRIES) as usize)?;
        next += some.len() as u64;
        for entry in some {
            if let Some(counts) = counts
                .get_mut(entry.site as usize)
                .filter(|_| entry.born != 0)
            {
                counts.born = counts.born.wrapping_add(entry.born);
            }
        }
    }
    Ok(counts)
}
