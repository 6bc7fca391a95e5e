//! What lancet has mapped in a process: agents, and what each of them has beside its image.
//!
//! ```text
//!   Header ── size ─────► the image
//!          ── calls ────► Calls ── areas ─► islands of stubs, tables of hooks, programs
//!                               ── pool ──► rings
//! ```
//!
//! All of it stays when a command leaves, because threads may return into it. Nothing of it is the program's: stubs are no code that a JIT has
//! made, and rings are nobody's unknown memory. What the process says here is believed as far as it goes: a false word moves bytes between the rows
//! of its own report.

use std::mem::offset_of;

use process::smaps::Area;
use vm::Memory;
use wire::Header;
use wire::calls::{self, AREAS, Calls, Pool};

use languages::resident::claims::{Claim, Layer, RowId, overlaid};
use process::resident_memory::ResidentMemory;

/// The largest image of an agent that is believed, and the largest of its other mappings.
const LARGEST_IMAGE: u64 = 16 << 20;
const LARGEST: u64 = 8 << 30;

/// Returns all of it, for one row.
pub fn mappings(areas: &[Area], seen: &ResidentMemory, row: RowId) -> Layer {
    let all = areas.iter().map(|area| &area.mapping);
    let headers = all.filter(|mapping| {
        let permissions = mapping.permissions;
        mapping.inode == 0 && permissions.read && !permissions.write && !permissions.execute
    });
    // The kernel may have joined the page of the header to a neighbour below.
    let pages = headers.flat_map(|mapping| (mapping.start..mapping.end).step_by(wire::PAGE));
    let mut found = Layer::default();
    for page in pages.take(wire::HEADER_PAGES) {
        let mut magic = [0; wire::MAGIC.len()];
        if seen.read(page, &mut magic).is_err() || magic != wire::MAGIC {
            continue;
        }
        let word = |field: usize| seen.u64(page.wrapping_add(field as u64)).unwrap_or(0);
        let mut claim = |at: u64, size: u64, most: u64| {
            if let Some(end) = at.checked_add(size.min(most)).filter(|end| *end > at) {
                found = overlaid(&found, &Layer::of(vec![Claim::new(at..end, row)]));
            }
        };
        claim(page, word(offset_of!(Header, size)), LARGEST_IMAGE);
        for (at, size) in beside(seen, word(offset_of!(Header, calls))) {
            claim(at, size, LARGEST);
        }
    }
    found
}

/// The mappings that an agent has beside its image, by its [`Calls`] at this address.
fn beside(seen: &ResidentMemory, at: u64) -> Vec<(u64, u64)> {
    let word = |field: usize| seen.u64(at.wrapping_add(field as u64)).unwrap_or(0);
    let pool = offset_of!(Calls, pool);
    let of_pool = |field: usize| word(pool + field);
    let slots = of_pool(offset_of!(Pool, slots));
    let size = slots.saturating_mul(of_pool(offset_of!(Pool, slot)));
    let mut found = vec![(of_pool(offset_of!(Pool, at)), size)];
    for number in 0..AREAS {
        let area = offset_of!(Calls, areas) + number * size_of::<calls::Area>();
        let at = word(area + offset_of!(calls::Area, at));
        if at != 0 {
            found.push((at, word(area + offset_of!(calls::Area, size))));
        }
    }
    found
}
