//! What stands in the guest's code where patches are.

use crate::guest::Guest;
use crate::journal::Record;
use process::maps::Maps;

/// Whether the jump of a patch is in the code.
pub(crate) fn is_in_force(guest: &Guest, record: &Record) -> bool {
    bytes_at(guest, record.place) == Some(record.new)
}

/// The five bytes at an address.
pub(crate) fn bytes_at(guest: &Guest, at: u64) -> Option<[u8; 5]> {
    let mut bytes = [0; 5];
    guest.memory.read_bytes(at, &mut bytes).ok()?;
    Some(bytes)
}

/// Whether an address is in private code, as each function that was replaced is.
pub(crate) fn is_code(maps: &Maps, at: u64) -> bool {
    maps.find(at)
        .is_some_and(|mapping| mapping.permissions.execute && !mapping.permissions.shared)
}
