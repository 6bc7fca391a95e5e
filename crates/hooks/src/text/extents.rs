//! Which bytes of a text are proven to belong to one function. Used by `text`.
//!
//! A function's beginning alone does not say where it ends, and "up to the next known beginning" is no answer: between two functions
//! that a stripped library exports lie others that nobody knows. What stands there would be taken for code of a function that it is
//! not part of, and with it what that function is called with. The rules, in this order:
//!
//! 1. An entry of the unwinding rules says where a function begins and ends. It may cover several functions, so it is cut at each
//!    symbol.
//! 2. A symbol with a size says the same.
//! 3. Control flow from a place where execution is known to begin ([`Flow`]). It is followed only where the first two say nothing of
//!    bytes that are asked about, because most modules need it for nothing.
//!
//! Nothing else counts.

use super::Text;
use process::functions::ModuleSymbols;
use process::memory::GuestMemory;
use std::ops::Range;
use trampoline::Flow;
use trampoline::system_call::runs_into_data;
use vm::Memory;

/// Limit of the bytes of data that are searched for addresses of functions.
const MOST_DATA: u64 = 32 << 20;

/// What is known of the extent of functions of a text.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// Functions by symbols that have a size, sorted; the address of each and its end.
    pub sized: Vec<(u64, u64)>,
    /// Functions by unwinding rules, sorted, where the module has no table of the rules that can be searched.
    pub listed: Vec<Range<u64>>,
    /// Whether unwinding rules describe the module's functions, and not only a few of them: what is in none of them and reached by no
    /// control flow is data then.
    pub described: bool,
    /// What control flow reaches, once it was followed.
    flow: Option<Flow>,
}

impl Extents {
    /// Reads the rules that no table leads to, and takes the symbols with a size.
    pub fn of(place: &ModuleSymbols, memory: &GuestMemory, mut sized: Vec<(u64, u64)>) -> Self {
        sized.sort_unstable();
        let section = || place.symbols.mapped_section(".eh_frame");
        let listed = match place.module.has_table_of_rules(memory) {
            true => Vec::new(),
            false => section().map_or_else(Vec::new, |at| place.module.listed_rules(at, memory)),
        };
        Extents {
            sized,
            listed,
            described: false,
            flow: None,
        }
    }

    /// Returns the addresses at which functions begin by rules that no table leads to.
    pub fn begins(&self) -> impl Iterator<Item = u64> {
        self.listed.iter().map(|range| range.start)
    }

    fn by_list(&self, address: u64) -> Option<Range<u64>> {
        let next = self.listed.partition_point(|range| range.start <= address);
        let before = self.listed.get(next.checked_sub(1)?)?;
        before.contains(&address).then(|| before.clone())
    }

    fn by_symbol(&self, address: u64) -> Option<Range<u64>> {
        let next = self.sized.partition_point(|(start, _)| *start <= address);
        let &(start, end) = self.sized.get(next.checked_sub(1)?)?;
        (start..end).contains(&address).then_some(start..end)
    }
}

impl Text {
    /// Returns the range of the function that is proven to contain an address.
    pub(super) fn function_around(
        &mut self,
        place: &ModuleSymbols,
        memory: &GuestMemory,
        address: u64,
    ) -> Option<Range<u64>> {
        let text = self.at..self.at + self.code.len() as u64;
        let is_here = |range: &Range<u64>| range.start >= text.start && range.end <= text.end;
        let by_rule = place.module.function_at(address, memory);
        let by_rule = by_rule.or_else(|| self.extents.by_list(address));
        if let Some(range) = by_rule.filter(is_here) {
            let next = self.starts.partition_point(|start| *start <= address);
            let symbol = next.checked_sub(1).map(|at| self.starts[at]);
            let start = symbol.map_or(range.start, |at| at.max(range.start));
            return Some(start..range.end);
        }
        let by_symbol = self.extents.by_symbol(address).filter(is_here);
        // Tables of numbers within a text hold such bytes by chance. Large texts are not followed for these.
        let from = address.checked_sub(self.at)? as usize;
        let is_data = runs_into_data(self.code.get(from..)?);
        by_symbol.or_else(|| match is_data {
            true => None,
            false => self.by_flow(place, memory, address),
        })
    }

    fn by_flow(
        &mut self,
        place: &ModuleSymbols,
        memory: &GuestMemory,
        address: u64,
    ) -> Option<Range<u64>> {
        if self.extents.flow.is_none() {
            self.extents.flow = Some(self.followed(place, memory));
        }
        let flow = self.extents.flow.as_ref()?;
        flow.function_around(&self.code, address)
    }

    /// Follows the code from everywhere that execution is known to begin.
    fn followed(&self, place: &ModuleSymbols, memory: &GuestMemory) -> Flow {
        let text = self.at..self.at + self.code.len() as u64;
        let module = &place.module;
        let mut begins = self.begins.clone();
        begins.push(module.headers.entry.wrapping_add(module.bias));
        // Where a file's headers are part of its code, its constants are too.
        let mut code = module.mappings.iter();
        let mixed = code.any(|part| part.permissions.execute && part.offset == 0);
        if !mixed && module.headers.relocatable {
            begins.extend(pointers(place, memory, &text));
        }
        let by_symbol = self.extents.sized.iter().map(|(_, end)| *end);
        let by_rule = self.extents.listed.iter().map(|range| range.end);
        let ends: Vec<u64> = by_symbol.chain(by_rule).collect();
        let code = (&self.code[..], self.at);
        Flow::of(code, [&begins, &ends], &self.targets, !mixed)
    }
}

/// Returns the addresses in the text that words of the module's data hold, which the loader has put there: tables of functions. In a
/// program that is linked for low addresses such a word may be a number, so none is looked for there.
fn pointers(place: &ModuleSymbols, memory: &GuestMemory, text: &Range<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    let mut room = MOST_DATA;
    let parts = place.module.mappings.iter();
    for part in parts.filter(|part| !part.permissions.execute && part.permissions.read) {
        let size = (part.end - part.start).min(room);
        room -= size;
        let mut bytes = vec![0; size as usize];
        if memory.read(part.start, &mut bytes).is_err() {
            continue;
        }
        let words = bytes.as_chunks::<8>().0.iter();
        let words = words.map(|word| u64::from_le_bytes(*word));
        found.extend(words.filter(|word| text.contains(word)));
    }
    found
}
