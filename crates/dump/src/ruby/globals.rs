//! Names of global variables by what they refer to.

use crate::frozen::Frozen;
use process::memory::GuestMemory;
use std::collections::HashMap;
use std::ops::Range;
use vm::Memory;
use vm::ruby::Ruby;

/// Most bytes of the VM's variables that are searched for the table.
const MOST: u64 = 4 << 20;

/// The ID of a global variable by the address that it refers to, or that of a word that does; empty where the table was not found.
pub fn names(ruby: &Ruby<Frozen>, memory: &GuestMemory, data: &[Range<u64>]) -> HashMap<u64, u64> {
    let mut names = HashMap::new();
    let Some(table) = table(ruby, memory, data) else {
        return names;
    };
    let mut note = |id, values: [u64; 2]| {
        for value in values {
            names.entry(value).or_insert(id);
        }
    };
    // As far as it can be read.
    let _ = ruby.globals(table, &mut note);
    names
}

fn table(ruby: &Ruby<Frozen>, memory: &GuestMemory, data: &[Range<u64>]) -> Option<u64> {
    for range in data {
        let length = range.end.saturating_sub(range.start).min(MOST);
        let mut bytes = vec![0; length as usize];
        if memory.read_bytes(range.start, &mut bytes).is_err() {
            continue;
        }
        let words = bytes.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        // Not through the blocks of `Frozen`: what most of these words lead to is never needed again.
        let likely = words.filter(|word| {
            let head = memory.u64(*word).unwrap_or(0);
            let (capacity, count) = (head as u32, (head >> 32) as u32);
            word % 8 == 0 && *word > 0xffff && capacity >= 16 && count <= capacity && count > 0
        });
        let mut tables = likely.filter(|word| ruby.may_be_globals(*word));
        if let Some(found) = tables.find(|word| ruby.are_globals(*word).unwrap_or(false)) {
            return Some(found);
        }
    }
    None
}
