//! Reads and exchanges the bytes at the entries of patched functions. Used by `undo`, `apply`, `finder` and others.

use crate::error::Error;
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

/// Whether an address is in private code, as every replaced function is.
pub(crate) fn is_code(maps: &Maps, at: u64) -> bool {
    maps.find(at)
        .is_some_and(|mapping| mapping.permissions.execute && !mapping.permissions.shared)
}

/// The direction of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jumps {
    /// The jumps replace the functions' own bytes.
    In,
    /// The functions' own bytes replace the jumps.
    Out,
}

/// Exchanges the five bytes of each record by `write`, and reads them back by `read`. If one cannot be exchanged, those before it are put back as they were; the error has
/// its number, and what the write said, if that failed.
pub(crate) fn exchange(
    records: &[Record],
    jumps: Jumps,
    write: impl Fn(u64, &[u8; 5]) -> Result<(), Error>,
    read: impl Fn(u64) -> Option<[u8; 5]>,
) -> Result<(), (usize, Option<Error>)> {
    let bytes = |record: &Record| match jumps {
        Jumps::In => (record.old, record.new),
        Jumps::Out => (record.new, record.old),
    };
    for (number, record) in records.iter().enumerate() {
        let written = write(record.place, &bytes(record).1);
        if written.is_ok() && read(record.place) == Some(bytes(record).1) {
            continue;
        }
        for earlier in records[..=number].iter().rev() {
            let (before, after) = bytes(earlier);
            if read(earlier.place) == Some(after) {
                // The list of patches shows the state of a jump that cannot be restored.
                let _ = write(earlier.place, &before);
            }
        }
        return Err((number, written.err()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// All or none, in both directions.
    #[test]
    fn what_was_exchanged_before_a_failure_is_put_back() {
        let one = |place| Record {
            place,
            old: [1; 5],
            new: [2; 5],
            ..Record::default()
        };
        let records = [one(10), one(20), one(30)];
        for (jumps, before) in [(Jumps::In, [1; 5]), (Jumps::Out, [2; 5])] {
            let all = [10, 20, 30].map(|place| (place, before));
            let code = RefCell::new(HashMap::from(all));
            let write = |deaf: u64| {
                let code = &code;
                move |at: u64, bytes: &[u8; 5]| {
                    if at != deaf {
                        code.borrow_mut().insert(at, *bytes);
                    }
                    Ok(())
                }
            };
            let read = |at: u64| code.borrow().get(&at).copied();
            let failed = exchange(&records, jumps, write(30), read);
            assert!(matches!(failed, Err((2, None))), "{jumps:?}: {failed:?}");
            assert_eq!(*code.borrow(), HashMap::from(all), "{jumps:?}");
            assert!(exchange(&records, jumps, write(0), read).is_ok());
            assert!(code.borrow().values().all(|bytes| *bytes != before));
        }
    }
}
