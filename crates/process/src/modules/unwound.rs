//! Finds where a function without a symbol begins and ends: by its unwinding rules, which nearly every program and library has,
//! stripped or not, because exceptions and backtraces need them.
//!
//! The rules themselves are in `.eh_frame`. Mostly there is a table of them, `.eh_frame_hdr`, which is found by the program header and
//! searched without reading the rules. A static program may be linked without that table; then the section header of its file says
//! where the rules are, and they are read one by one ([`Module::listed_rules`]).
//!
//! ```text
//!   .eh_frame_hdr   version 1, three encodings, pointer (4), count (4), then sorted pairs of signed 32-bit distances
//!                   from the section's start: function, FDE      (LSB Core, "Exception Frames")
//!   FDE             length (4), CIE (4), function's distance from here (4), function's length (4)
//! ```

use super::Module;
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::elf;
use std::ops::Range;
use vm::Memory;

/// Version 1; pointer as signed 32 bits relative to itself, count as 32 bits, table as signed 32 bits from the
/// section's start (`DW_EH_PE_…`): what every linker for x86-64 writes.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const TABLE: u64 = 12;
const FDE_START: u64 = 8;

/// Limit of the functions of one library; those of browsers have a million.
const MOST: u32 = 1 << 22;

/// Limit of the bytes of rules that are read one by one: twice those of the largest known programs.
const MOST_RULES: u64 = 64 << 20;

impl Module {
    /// Returns the ranges of all functions that the rules at these addresses describe, sorted; the process has to have them mapped
    /// there. Rules that are damaged end the list.
    pub fn listed_rules(&self, at: Range<u64>, memory: &impl Memory) -> Vec<Range<u64>> {
        let size = at.end.saturating_sub(at.start);
        let mut bytes = vec![0; size.min(MOST_RULES) as usize];
        if size > MOST_RULES || memory.read(at.start, &mut bytes).is_err() {
            return Vec::new();
        }
        let rules = EhFrame::new(&bytes, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(at.start);
        let mut entries = rules.entries(&bases);
        let mut found = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            // One of an unknown form says nothing of the others.
            let Ok(rule) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            let (start, length) = (rule.initial_address(), rule.len());
            let end = start.checked_add(length).filter(|end| *end > start);
            found.extend(end.filter(|_| self.contains(start)).map(|end| start..end));
        }
        found.sort_unstable_by_key(|range| (range.start, range.end));
        found
    }

    /// Whether it has a table of its unwinding rules that [`Module::function_at`] can search.
    pub fn has_table_of_rules(&self, memory: &impl Memory) -> bool {
        let mut segments = self.headers.segments.iter();
        let header = segments.find(|segment| segment.kind == elf::PT_GNU_EH_FRAME);
        let mut begin = [0; 4];
        header.is_some_and(|header| {
            let at = header.address.wrapping_add(self.bias);
            memory.read(at, &mut begin).is_ok() && begin == HEADER
        })
    }

    /// Returns where functions begin, sorted as the table is.
    pub fn functions(&self, memory: &impl Memory) -> Vec<u64> {
        let mut segments = self.headers.segments.iter();
        let header = segments.find(|segment| segment.kind == elf::PT_GNU_EH_FRAME);
        let Some(header) = header.map(|of| of.address.wrapping_add(self.bias)) else {
            return Vec::new();
        };
        let mut begin = [0; 4];
        let read = memory.read(header, &mut begin).is_ok();
        let count = memory.u32(header.wrapping_add(8)).unwrap_or(0);
        if !read || begin != HEADER || count > MOST {
            return Vec::new();
        }
        let mut table = vec![0; count as usize * 8];
        if memory.read(header.wrapping_add(TABLE), &mut table).is_err() {
            return Vec::new();
        }
        let (entries, _) = table.as_chunks::<8>();
        let starts = entries.iter().map(|entry| {
            let [a, b, c, d, ..] = *entry;
            let distance = i32::from_le_bytes([a, b, c, d]);
            header.wrapping_add_signed(distance.into())
        });
        starts.collect()
    }

    /// Returns the range of the function that an address is in.
    pub fn function_at(&self, address: u64, memory: &impl Memory) -> Option<Range<u64>> {
        let mut segments = self.headers.segments.iter();
        let header = segments.find(|segment| segment.kind == elf::PT_GNU_EH_FRAME)?;
        let header = header.address.wrapping_add(self.bias);
        let mut begin = [0; 4];
        memory.read(header, &mut begin).ok()?;
        let count = memory.u32(header.checked_add(8)?).ok()?;
        let end = header.checked_add(TABLE + u64::from(count) * 8);
        if begin != HEADER || count > MOST || end.is_none() {
            return None;
        }
        let from = |at: u64, base: u64| {
            let distance = memory.u32(at).ok()?.cast_signed();
            Some(base.wrapping_add_signed(distance.into()))
        };
        let entry = |index: u32| header + TABLE + u64::from(index) * 8;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if from(entry(middle), header)? <= address {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let found = entry(low.checked_sub(1)?);
        let (start, rules) = (from(found, header)?, from(found + 4, header)?);
        let at = rules.checked_add(FDE_START)?;
        let length = u64::from(memory.u32(at.checked_add(4)?).ok()?);
        let range = start..start.checked_add(length)?;
        (from(at, at)? == start && range.contains(&address)).then_some(range)
    }
}
