//! Functions that take blocks for their callers: the C++ library's `operator new` calls `malloc`, and the block is its caller's. Used by `native`.
//!
//! They need no hook. Where a call of the allocator returns into one, its own return address is a known distance above on the stack, which
//! the call frame information tells:
//!
//! ```text
//!   by_new ─► operator new ─► malloc      malloc returns into operator new: the block is of what lies `depth` bytes above
//! ```

use super::family::is_new;
use frames::cfi::{self, Base, Described};
use frames::live::loaded::Modules;
use hooks::{Wanted, Wrapper};
use process::functions::{Function, Functions, ModuleSymbols};
use std::collections::{BTreeMap, HashMap};
use vm::Memory;
use wire::calls::blocks::{Effect, WRAPPERS};

/// Where a call is made, the stack pointer is a multiple of this (System V ABI, x86-64 supplement, 3.2.2).
const ALIGNED: i64 = 16;
/// Where a function begins, only its return address lies below the canonical frame address.
const AT_ENTRY: i64 = 8;

/// What is known of the functions in the form of `operator new`, by address.
#[derive(Default)]
pub(super) struct Wrappers {
    /// Those whose frames are known, in the order in which they were found; `None` = its library is unloaded.
    pub known: Vec<Option<Wrapper>>,
    /// Whether its callers are found without a hook.
    found: HashMap<u64, bool>,
}

impl Wrappers {
    /// Looks for such functions in libraries that have come since, and forgets those of libraries that have gone. Returns those whose frames are not known: they must be hooked.
    pub fn find(
        &mut self,
        functions: &Functions,
        memory: &dyn Memory,
        modules: impl FnOnce() -> Option<Modules>,
    ) -> Vec<Wanted> {
        let found = functions.find_in(is_library, false, |name, _| is_new(name));
        self.keep(|address| found.iter().any(|function| function.address == address));
        let is_new = |function: &&Function| !self.found.contains_key(&function.address);
        if found.iter().any(|function| is_new(&function)) {
            let modules = modules();
            let mut tables = BTreeMap::new();
            for function in &found {
                if self.found.contains_key(&function.address) {
                    continue;
                }
                let wrapper = modules
                    .as_ref()
                    .and_then(|modules| wrapper(function.address, memory, modules, &mut tables));
                // One that only jumps is nobody's caller.
                let jumps = wrapper.as_ref().is_some_and(|wrapper| wrapper.depth == 0);
                let told = wrapper.filter(|_| !jumps && self.known.len() < WRAPPERS);
                self.found.insert(function.address, jumps || told.is_some());
                if told.is_some() {
                    self.known.push(told);
                }
            }
        }
        let hooked = found
            .into_iter()
            .filter(|function| !self.found[&function.address]);
        hooked
            .map(|function| Wanted::blocks(function, Effect::takes(0).outermost()))
            .collect()
    }

    /// Forgets those that are not there any more: other code may come to lie where they were. Their places in `known` stay taken, because the
    /// process has the numbers.
    fn keep(&mut self, is_there: impl Fn(u64) -> bool) {
        self.found.retain(|address, _| is_there(*address));
        for place in &mut self.known {
            let gone = |wrapper: &Wrapper| !is_there(wrapper.returns.start - 1);
            if place.as_ref().is_some_and(gone) {
                *place = None;
            }
        }
    }
}

/// The C++ library. What a program or an allocator has in its place may take its memory elsewhere.
fn is_library(place: &ModuleSymbols) -> bool {
    ["libstdc++.", "libc++.", "libc++abi."]
        .iter()
        .any(|name| place.name.starts_with(name))
}

/// The function at an address, if its frame has one size wherever it may call another. `tables`: what is known of frames, by module.
fn wrapper(
    address: u64,
    memory: &dyn Memory,
    modules: &Modules,
    tables: &mut BTreeMap<usize, Vec<Described>>,
) -> Option<Wrapper> {
    let number = modules.number(address)?;
    let module = modules.get(number)?;
    let image = module.image(memory)?;
    let table = tables.entry(number).or_insert_with(|| cfi::read(image).0);
    let start = address.wrapping_sub(module.bias);
    let after = table.partition_point(|entry| entry.range.start <= start);
    let entry = table.get(after.checked_sub(1)?)?;
    let depth = depth(entry).filter(|_| entry.range.start == start)?;
    let end = entry.range.end.wrapping_add(module.bias);
    // An address that a call returns to is that of the next instruction.
    Some(Wrapper {
        returns: address + 1..end + 1,
        depth,
    })
}

/// How far the canonical frame address is above the stack pointer at each call; 0 = it makes none that returns into it (`operator new[]` jumps to
/// `operator new`).
fn depth(entry: &Described) -> Option<u64> {
    if entry.rows.iter().any(|row| row.base != Base::Stack) {
        return None;
    }
    if entry.rows.iter().all(|row| row.offset == AT_ENTRY) {
        return Some(0);
    }
    let at_calls = entry.rows.iter().map(|row| row.offset);
    let mut at_calls = at_calls.filter(|offset| offset % ALIGNED == 0);
    let depth = at_calls.next().filter(|depth| *depth > 0)?;
    at_calls.all(|other| other == depth).then_some(depth as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frames::cfi::Row;

    fn described(offsets: &[(u64, Base, i64)]) -> Described {
        Described {
            range: 0..100,
            deepest: 0,
            deepest_at: 0,
            partial: false,
            rows: offsets
                .iter()
                .map(|&(start, base, offset)| Row {
                    start,
                    base,
                    offset,
                })
                .collect(),
        }
    }

    /// Other code may come to lie where the library was; the numbers of others stay.
    #[test]
    fn those_of_a_library_that_is_unloaded_are_forgotten() {
        let wrapper = |at: u64| Wrapper {
            returns: at + 1..at + 50,
            depth: 16,
        };
        let mut wrappers = Wrappers {
            known: vec![Some(wrapper(1000)), Some(wrapper(2000))],
            found: [(1000, true), (2000, true), (3000, false)].into(),
        };
        wrappers.keep(|address| address != 1000);
        assert_eq!(wrappers.known, [None, Some(wrapper(2000))]);
        assert!(!wrappers.found.contains_key(&1000) && wrappers.found.len() == 2);
    }

    #[test]
    fn a_frame_is_known_where_all_calls_have_the_same() {
        let stack = Base::Stack;
        let pushed = [
            (0, stack, 8),
            (1, stack, 16),
            (50, stack, 8),
            (51, stack, 16),
        ];
        assert_eq!(depth(&described(&pushed)), Some(16));
        let two = [(0, stack, 8), (1, stack, 16), (5, stack, 32)];
        assert_eq!(depth(&described(&two)), None);
        let by_frame = [(0, stack, 8), (1, stack, 16), (4, Base::Frame, 16)];
        assert_eq!(depth(&described(&by_frame)), None);
        // It makes no call but its last jump.
        assert_eq!(depth(&described(&[(0, stack, 8)])), Some(0));
        assert_eq!(depth(&described(&[(0, stack, 8), (1, stack, 24)])), None);
    }
}
