//! Reads all that this crate reads of the agent's memory, from an image of a guest's memory: for the fuzz target
//! `guest`.

use crate::areas::Areas;
use crate::layers::Layers;
use crate::notices;
use crate::pool;
use crate::rings::Rings;
use crate::table::{HookTable, Known, stands_whole};
use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use std::sync::Arc;

/// How often the rings are read after a change.
const LOOKS: usize = 8;

/// Reads everything. Before each read of the rings, `change` may write anything to the memory; an error counts as an
/// answer. Returns the number of events that were read.
pub fn read(memory: &Arc<GuestMemory>, resident: &Resident, change: impl FnMut()) -> usize {
    let _ = hooks(memory, resident);
    let _ = notices::whole(resident, memory);
    if let Ok(range) = pool::range(memory, resident) {
        assert!(range.start <= range.end);
    }
    let _ = pool::headers(memory, resident).map(drop);
    rings(memory, resident, change).unwrap_or(0)
}

fn hooks(memory: &GuestMemory, resident: &Resident) -> Result<()> {
    let mut table = HookTable::default();
    let layers = Layers::of(memory)?;
    for (at, hook) in Areas::read(memory, resident.header.calls)?.hooks(memory)? {
        let set = stands_whole(memory, &layers, &hook);
        table.insert_earlier(Known {
            at,
            hook,
            set,
            function: None,
        });
    }
    let _ = table.is_around_a_system_call(0x1000, 5);
    let _ = (table.new_number(), table.system_call_addresses());
    Ok(())
}

fn rings(
    memory: &Arc<GuestMemory>,
    resident: &Resident,
    mut change: impl FnMut(),
) -> Result<usize> {
    let mut rings = Rings::open(memory.clone(), None, resident.header.calls, 1)?;
    let mut rest = Vec::new();
    let mut events = 0;
    for _ in 0..LOOKS {
        change();
        let _ = rings.look();
        let _ = rings.fill(1 << 14);
        while rings.next(&mut rest).is_some() {
            events += 1;
        }
    }
    let _ = rings.counted().map(drop);
    let _ = rings.losses().map(|losses| losses.sum());
    let _ = rings.ranges();
    Ok(events)
}
