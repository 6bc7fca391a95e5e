//! Finds data of the VM that has no exported symbol, by searching the VM's variables: the names of global variables by what they
//! refer to, and shapes. Used by `core` and `snapshot`.

use crate::snapshot::frozen::Frozen;
use foldhash::HashMap;
use std::ops::Range;
use vm::Memory;
use vm::ruby::Ruby;

/// Limit of the bytes of the VM's variables that are searched for the table.
const MOST: u64 = 4 << 20;

/// The IDs of global variables by the addresses to which they refer, directly or through a word; empty where the table was not
/// found.
pub fn names(ruby: &Ruby<Frozen>, memory: &dyn Memory, data: &[Range<u64>]) -> HashMap<u64, u64> {
    let mut names = HashMap::default();
    let Some(table) = table(ruby, memory, data) else {
        return names;
    };
    let mut note = |id, values: [u64; 2]| {
        for value in values {
            names.entry(value).or_insert(id);
        }
    };
    // What cannot be read is left out.
    let _ = ruby.globals(table, &mut note);
    names
}

fn table(ruby: &Ruby<Frozen>, memory: &dyn Memory, data: &[Range<u64>]) -> Option<u64> {
    // Without the cache of `Frozen`: most of these addresses are never needed again.
    let likely = |word: u64| {
        let head = memory.u64(word).unwrap_or(0);
        let (capacity, count) = (head as u32, (head >> 32) as u32);
        capacity >= 16 && count <= capacity && count > 0
    };
    find_word(memory, data, |word| {
        let is_table =
            likely(word) && ruby.may_be_globals(word) && ruby.are_globals(word).unwrap_or(false);
        is_table.then_some(word)
    })
}

/// The address of the VM's list of shapes, which has no exported symbol since 3.3.
pub fn shapes(ruby: &Ruby<Frozen>, memory: &dyn Memory, data: &[Range<u64>]) -> Option<u64> {
    find_word(memory, data, |word| ruby.over(&memory).shapes_of_tree(word))
}

/// The first of the VM's variables that is an address for which `found` returns something.
fn find_word(
    memory: &dyn Memory,
    data: &[Range<u64>],
    mut found: impl FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    for range in data {
        let length = range.end.saturating_sub(range.start).min(MOST);
        let mut bytes = vec![0; length as usize];
        if memory.read(range.start, &mut bytes).is_err() {
            continue;
        }
        let words = bytes.chunks_exact(8);
        let mut words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        let is_address = |word: &u64| word.is_multiple_of(8) && *word > 0xffff;
        let result = words.by_ref().filter(is_address).find_map(&mut found);
        if result.is_some() {
            return result;
        }
    }
    None
}
