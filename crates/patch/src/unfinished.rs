//! Unmaps what a killed lancet has mapped for a set that it did not complete. Used by `apply`, `settings` and `undo`.
//!
//! A set is made within one stop, and only one lancet at a time can have stopped a process. So an incomplete set that is seen in a stop was
//! made by a lancet that is dead. Its journal notes each mapping as soon as it is made, and removes the note before the mapping is
//! unmapped: so what is noted exists and belongs to the set. A mapping made in the instant before its note stays: one or two pages that are
//! never read.

use crate::error::Result;
use crate::guest::Guest;
use crate::journal::Set;
use inject::remote_call::RemoteThread;
use process::maps::Maps;

const PAGE: u64 = wire::PAGE as u64;

/// Unmaps what is left of those of a process's sets that are not whole, in the stopped guest.
pub(crate) fn remove(
    guest: &Guest,
    remote: &mut RemoteThread,
    maps: &Maps,
    sets: &[Set],
) -> Result<()> {
    for set in sets {
        if set.whole || !is_anonymous(maps, set.base, set.size) {
            continue;
        }
        for (left, (at, size)) in set.mapped.iter().enumerate().rev() {
            set.forget(&guest.memory, left)?;
            if *size == PAGE && at.is_multiple_of(PAGE) && is_anonymous(maps, *at, *size) {
                remote.unmap(*at, *size)?;
            }
        }
        remote.unmap(set.base, set.size)?;
    }
    Ok(())
}

/// Whether all of a range is private memory of no file, and neither heap nor stack.
fn is_anonymous(maps: &Maps, from: u64, size: u64) -> bool {
    let Some(end) = from.checked_add(size) else {
        return false;
    };
    let mut at = from;
    while at < end {
        match maps.find(at) {
            Some(mapping) if mapping.path.is_none() && !mapping.permissions.shared => {
                at = mapping.end;
            }
            _ => return false,
        }
    }
    true
}
