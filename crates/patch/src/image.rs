//! Parsers of untrusted input for the fuzz target `patch`: the user's file, and the journal, which the guest may have written.

use crate::journal::{self, Set};
use crate::object::Object;
use process::memory::GuestMemory;
use std::path::Path;

/// Reads a file; an error is an answer. What is accepted lies within its own memory.
pub fn object(file: &[u8]) {
    let Ok(object) = Object::parse(Path::new("/fuzz.so"), file) else {
        return;
    };
    let size = object.size();
    assert_eq!(size % wire::PAGE as u64, 0);
    let mut end = 0;
    for part in &object.parts {
        assert!(
            part.range.start >= end && part.range.end <= size,
            "{part:?}"
        );
        end = part.range.end;
        let both = libc::PROT_WRITE | libc::PROT_EXEC;
        assert!(part.protection & both != both, "{part:?}");
    }
    for (slot, _) in &object.slots {
        assert!(
            slot.checked_add(8).is_some_and(|end| end <= size),
            "{slot:#x}"
        );
    }
    for symbol in object.symbols.values() {
        if let Some(at) = object.function(&symbol.name) {
            assert!(at < size);
        }
    }
    assert!(object.rules.is_none_or(|at| at < size));
}

/// Reads the set that begins at an address, if one does.
pub fn journal(memory: &GuestMemory, at: u64) {
    let Some(set) = journal::read(memory, at) else {
        return;
    };
    assert!(set.records.len() + set.settings.len() <= journal::MOST_RECORDS);
    for record in &set.records {
        assert_eq!(record.new[0], 0xe9);
        let again = record.to_bytes();
        assert_eq!(again.len(), 768);
    }
    let _ = Set::next_id(&[set]);
}
