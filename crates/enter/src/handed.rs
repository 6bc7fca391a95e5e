//! What the agent is given of a VM: addresses of its functions, and what the VM's reader must know. Used by
//! `languages::php`, `languages::python::counted`, `languages::python` and others.

use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::control_page::{FUNCTIONS, padded};
use wire::{Script, Snapshot};

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Gives the agent the addresses of the VM's functions.
pub(crate) fn functions<const N: usize>(
    memory: &GuestMemory,
    resident: &Resident,
    all: [u64; N],
) -> Result<()> {
    let table: [u64; FUNCTIONS] = padded(all);
    let at = resident.header.script + offset_of!(Script, functions) as u64;
    memory.write(at, &bytes(&table))
}

/// Gives the agent what its reader needs.
pub(crate) fn facts<const N: usize>(
    memory: &GuestMemory,
    resident: &Resident,
    words: [u64; N],
) -> Result<()> {
    let words: [u64; wire::snapshot::FACTS] = padded(words);
    let at = resident.header.snapshot + offset_of!(Snapshot, facts) as u64;
    memory.write(at, &bytes(&words))
}
