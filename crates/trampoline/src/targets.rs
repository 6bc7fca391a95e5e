//! Finds where a module's code jumps to. Used by `plan`, `flow` and others here, and by crate `hooks`.
//!
//! A patch replaces several instructions by one. That is right only if no branch leads to the second or a later one of them; and a
//! loop back to the first would pass the hook at each turn. So the whole text of a module is decoded once, from its first to its
//! last byte, and every target of a direct branch is kept, together with the targets in jump tables. libruby's 2.4 MB take some 20
//! ms (`examples/sweep.rs`), long before anything is stopped.
//!
//! A linear decode may lose step in data within the text (hand-written assembly). It is right again at the next symbol, because it
//! starts anew at each of `starts`. A wrong target is harmless: at worst a function is refused.
//!
//! Jump tables: gcc and clang compile `switch` to `lea table(%rip), %b; movslq (%b,%i,4), %t; add %b, %t; jmp *%t`, with entries
//! relative to the table, and computed goto to `jmp *(%b,%i,8)` over addresses. A `lea` of a place outside of the text shortly
//! before an indirect jump counts as a table, and its entries count as targets as long as they name instructions of the text and no
//! other table begins. If no table is found, nothing is proven about the jump ([`Targets::blind`]). Indirect calls can only lead to
//! function entries, and returns only to return addresses.

use alloc::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

/// Reads memory of the module, such as `.rodata`; returns false if that fails.
pub type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// One jump or call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// Address that it leads to.
    pub target: u64,
    /// Address of the jump or call; for an entry of a jump table, of the jump that reads the table.
    pub source: u64,
    /// Whether it is a call: one of a function's first byte is no loop.
    pub call: bool,
}

/// Branches, sorted by target.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    sorted: Vec<Branch>,
    /// Jumps by tables: source and target.
    by_table: Vec<(u64, u64)>,
    /// Addresses in the text that code takes, sorted.
    taken: Vec<u64>,
    /// Ranges of the text that code reads or writes as data: address and length, sorted.
    data: Vec<(u64, u64)>,
    /// Number of jump tables with at least one entry. A table counts once for each jump that may read it and each base that its
    /// entries may be counted from.
    pub tables: usize,
    /// Addresses of indirect jumps whose table was not found, among them tail calls through a pointer.
    pub blind: Vec<u64>,
}

/// Bytes that are read of tables at a time: a page, because a guest's memory is there page by page.
const PAGE: u64 = 4096;
/// Limit of entries of a table that are read.
const LONGEST_TABLE: u64 = 4096;
/// Limit of the bytes of an operand in memory (`xsave` has more, but has no operand in text).
const LONGEST_OPERAND: u64 = 64;
/// How many instructions back from an indirect jump the load of its table is searched for.
const NEAR: usize = 16;

impl Targets {
    /// Decodes the text `code` at address `at`; `starts` are sorted addresses where instructions are known to begin. Without
    /// `read` no jump table is read.
    pub fn of(code: &[u8], at: u64, starts: &[u64], read: Option<Read<'_>>) -> Self {
        let mut sweep = Sweep {
            text: at..at + code.len() as u64,
            within: Vec::new(),
            outside: Vec::new(),
            boundaries: alloc::vec![0u64; code.len().div_ceil(64)],
            tables: Vec::new(),
            recent: [(Register::None, 0); NEAR],
            turn: 0,
            blind: Vec::new(),
            taken: Vec::new(),
            data: Vec::new(),
        };
        decode(code, at, starts, |instruction| sweep.look(instruction));
        let mut targets = Self {
            tables: 0,
            blind: core::mem::take(&mut sweep.blind),
            taken: core::mem::take(&mut sweep.taken),
            data: core::mem::take(&mut sweep.data),
            sorted: Vec::new(),
            by_table: Vec::new(),
        };
        targets.taken.sort_unstable();
        targets.taken.dedup();
        targets.data.sort_unstable();
        targets.data.dedup();
        if let Some(read) = read {
            let by_table = sweep.read_tables(read, &mut targets.tables);
            targets.by_table = by_table
                .iter()
                .map(|one| (one.source, one.target))
                .collect();
            by_table.into_iter().for_each(|branch| sweep.add(branch));
        }
        targets.sorted = sweep.sorted();
        targets
    }

    /// Whether code in `range` has a jump to unknown targets.
    pub fn is_blind(&self, range: core::ops::Range<u64>) -> bool {
        let from = self.blind.partition_point(|at| *at < range.start);
        self.blind.get(from).is_some_and(|at| *at < range.end)
    }

    /// Whether code takes an address in `range`.
    pub fn is_taken(&self, range: core::ops::Range<u64>) -> bool {
        let from = self.taken.partition_point(|at| *at < range.start);
        self.taken.get(from).is_some_and(|at| *at < range.end)
    }

    /// Whether code reads or writes a byte of `range` by an address that the instruction holds.
    pub fn is_data(&self, range: core::ops::Range<u64>) -> bool {
        let first = range.start.saturating_sub(LONGEST_OPERAND);
        let from = self.data.partition_point(|(at, _)| *at < first);
        let near = self.data[from..].iter();
        near.take_while(|(at, _)| *at < range.end)
            .any(|(at, length)| at + length > range.start)
    }

    /// Where indirect jumps lead by their tables: addresses of the jump and of its target, sorted.
    pub fn by_indirect_jumps(&self) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = self.by_table.clone();
        found.sort_unstable();
        found
    }

    /// The branches with targets in `range`, sorted by target.
    pub fn within(&self, range: core::ops::Range<u64>) -> &[Branch] {
        let from = self.sorted.partition_point(|to| to.target < range.start);
        let to = self.sorted.partition_point(|to| to.target < range.end);
        &self.sorted[from..to.max(from)]
    }
}

/// Decodes a text from end to end, anew at each of `starts`.
pub(crate) fn decode(code: &[u8], at: u64, starts: &[u64], mut each: impl FnMut(&Instruction)) {
    let end = at + code.len() as u64;
    let mut instruction = Instruction::default();
    let mut from = at;
    let mut next = starts.partition_point(|start| *start <= at);
    while from < end {
        let to = starts.get(next).map_or(end, |start| (*start).min(end));
        next += 1;
        if to <= from {
            continue;
        }
        let piece = &code[(from - at) as usize..(to - at) as usize];
        let mut decoder = Decoder::with_ip(64, piece, from, DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if !instruction.is_invalid() {
                each(&instruction);
            }
        }
        from = to;
    }
}

/// A place that may be a jump table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Table {
    at: u64,
    /// Bytes of an entry.
    size: u64,
    /// Address of the indirect jump that reads it.
    source: u64,
    /// Address that entries of four bytes are added to: the table itself, or code (`&&label - &&first` of GNU C).
    base: u64,
}

struct Sweep {
    text: core::ops::Range<u64>,
    /// Branches within a text, packed; see [`packed`].
    within: Vec<u64>,
    /// The others.
    outside: Vec<Branch>,
    /// One bit per byte of the text: whether an instruction begins there.
    boundaries: Vec<u64>,
    tables: Vec<Table>,
    /// The last addresses loaded by `lea`, as a ring buffer.
    recent: [(Register, u64); NEAR],
    turn: usize,
    blind: Vec<u64>,
    taken: Vec<u64>,
    data: Vec<(u64, u64)>,
}

impl Sweep {
    fn look(&mut self, instruction: &Instruction) {
        let offset = instruction.ip() - self.text.start;
        self.boundaries[offset as usize / 64] |= 1 << (offset % 64);
        self.turn = (self.turn + 1) % NEAR;
        self.recent[self.turn] = (Register::None, 0);
        self.note_use(instruction);
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::XbeginXabortXend
            | FlowControl::Call
                if instruction.op0_kind() == OpKind::NearBranch64 =>
            {
                self.add(Branch {
                    target: instruction.near_branch_target(),
                    source: instruction.ip(),
                    call: instruction.flow_control() == FlowControl::Call,
                });
            }
            FlowControl::IndirectBranch => self.table_of(instruction),
            _ if instruction.mnemonic() == iced_x86::Mnemonic::Lea
                && instruction.is_ip_rel_memory_operand() =>
            {
                let address = instruction.ip_rel_memory_address();
                self.recent[self.turn] = (instruction.op0_register(), address);
            }
            _ => {}
        }
    }

    fn add(&mut self, branch: Branch) {
        match packed(&branch, &self.text) {
            Some(word) => self.within.push(word),
            None => self.outside.push(branch),
        }
    }

    /// Returns all branches, sorted, each once.
    fn sorted(mut self) -> Vec<Branch> {
        self.within.sort_unstable();
        self.within.dedup();
        self.outside.sort_unstable();
        self.outside.dedup();
        let Sweep { text, within, .. } = self;
        // All that lead elsewhere lead below or above the text, unless it is too long for packed ones: then there are no others.
        let below = self
            .outside
            .partition_point(|branch| branch.target < text.start);
        let (below, above) = self.outside.split_at(below);
        let mut sorted = Vec::with_capacity(within.len() + self.outside.len());
        sorted.extend_from_slice(below);
        sorted.extend(within.iter().map(|word| unpacked(*word, text.start)));
        sorted.extend_from_slice(above);
        sorted
    }

    /// Notes addresses in the text that an instruction takes, reads or writes.
    fn note_use(&mut self, instruction: &Instruction) {
        if instruction.is_ip_rel_memory_operand() {
            let at = instruction.ip_rel_memory_address();
            if !self.text.contains(&at) {
                return;
            }
            match instruction.mnemonic() {
                iced_x86::Mnemonic::Lea => self.taken.push(at),
                iced_x86::Mnemonic::Nop => {}
                _ => {
                    let size = instruction.memory_size().size() as u64;
                    self.data.push((at, size.clamp(1, LONGEST_OPERAND)));
                }
            }
        } else if self.text.end <= u64::from(u32::MAX)
            && instruction.mnemonic() == iced_x86::Mnemonic::Mov
            && let Ok(value) = instruction.try_immediate(1)
            && self.text.contains(&value)
        {
            // A program that is not PIE holds addresses below 4 GiB as immediate operands.
            self.taken.push(value);
        }
    }

    fn table_of(&mut self, jump: &Instruction) {
        let by_memory = jump.op0_kind() == OpKind::Memory;
        if by_memory && jump.is_ip_rel_memory_operand() {
            return; // through one slot: a tail call by the GOT
        }
        if by_memory && jump.memory_base() == Register::None && jump.memory_index_scale() == 8 {
            let at = jump.memory_displacement64();
            self.tables.push(Table {
                at,
                size: 8,
                source: jump.ip(),
                base: at,
            });
            return;
        }
        let entry = if by_memory { 8 } else { 4 };
        let before = self.tables.len();
        let in_code = self.recent.map(|(register, at)| {
            let is_code = register != Register::None && self.text.contains(&at);
            is_code.then_some(at)
        });
        for &(register, address) in &self.recent {
            let wanted =
                !by_memory || register == jump.memory_base() || register == jump.memory_index();
            if register != Register::None && wanted && !self.text.contains(&address) {
                let code = in_code.iter().flatten().filter(|_| entry == 4);
                self.tables
                    .extend([address].iter().chain(code).map(|base| Table {
                        at: address,
                        size: entry,
                        source: jump.ip(),
                        base: *base,
                    }));
            }
        }
        if self.tables.len() == before {
            self.blind.push(jump.ip());
        }
    }

    fn begins(&self, address: u64) -> bool {
        let Some(offset) = address.checked_sub(self.text.start) else {
            return false;
        };
        self.boundaries
            .get(offset as usize / 64)
            .is_some_and(|bits| bits >> (offset % 64) & 1 == 1)
    }

    /// Returns the branches by tables, and counts the tables.
    fn read_tables(&mut self, read: Read<'_>, good: &mut usize) -> Vec<Branch> {
        let mut tables = core::mem::take(&mut self.tables);
        tables.sort_unstable();
        tables.dedup();
        let mut pages = Pages::new(read);
        let mut found = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let Table {
                at,
                size,
                source,
                base,
            } = *table;
            let end = tables[index + 1..]
                .iter()
                .map(|next| next.at)
                .find(|next| *next > at);
            let before = found.len();
            for entry in 0..LONGEST_TABLE {
                let place = at.wrapping_add(entry * size);
                if end.is_some_and(|end| place >= end) {
                    break;
                }
                let mut bytes = [0; 8];
                if !pages.read(place, &mut bytes[..size as usize]) {
                    break;
                }
                let target = match size {
                    4 => {
                        let offset = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                        base.wrapping_add_signed(i64::from(offset))
                    }
                    _ => u64::from_le_bytes(bytes),
                };
                if !self.begins(target) {
                    break;
                }
                found.push(Branch {
                    target,
                    source,
                    call: false,
                });
            }
            *good += usize::from(found.len() > before);
        }
        found
    }
}

/// Bits of an offset in a text in a packed branch.
const OFFSET: u32 = 31;

/// A branch from and to places in a text of less than 2 GiB as one number that sorts as the branch does: a text of some megabytes has
/// hundreds of thousands of them, and to sort them as numbers takes a fifth of the time. `None` if it leads elsewhere.
fn packed(branch: &Branch, text: &core::ops::Range<u64>) -> Option<u64> {
    if !text.contains(&branch.target) || text.end - text.start >= 1 << OFFSET {
        return None;
    }
    let (target, source) = (branch.target - text.start, branch.source - text.start);
    Some(target << (OFFSET + 1) | source << 1 | u64::from(branch.call))
}

/// The branch of a packed one of a text that begins at `start`.
fn unpacked(word: u64, start: u64) -> Branch {
    Branch {
        target: start + (word >> (OFFSET + 1)),
        source: start + (word >> 1 & ((1 << OFFSET) - 1)),
        call: word & 1 != 0,
    }
}

/// Memory that is read page by page, the last page kept: a table has hundreds of entries, and each read of a guest's memory is a
/// system call.
struct Pages<'r> {
    source: Read<'r>,
    /// Address of the page that was read last.
    at: Option<u64>,
    /// Whether it could be read.
    is_there: bool,
    bytes: [u8; PAGE as usize],
}

impl<'r> Pages<'r> {
    fn new(source: Read<'r>) -> Self {
        Pages {
            source,
            at: None,
            is_there: false,
            bytes: [0; PAGE as usize],
        }
    }

    fn read(&mut self, place: u64, into: &mut [u8]) -> bool {
        let page = place & !(PAGE - 1);
        let from = (place - page) as usize;
        if self.at != Some(page) {
            self.at = Some(page);
            self.is_there = (self.source)(page, &mut self.bytes);
        }
        match self.bytes.get(from..from + into.len()) {
            Some(bytes) if self.is_there => {
                into.copy_from_slice(bytes);
                true
            }
            // It lies in two pages, or the reader knows only a part of this one.
            _ => (self.source)(place, into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    fn sweep(text: core::ops::Range<u64>) -> Sweep {
        Sweep {
            text,
            within: Vec::new(),
            outside: Vec::new(),
            boundaries: Vec::new(),
            tables: Vec::new(),
            recent: [(Register::None, 0); NEAR],
            turn: 0,
            blind: Vec::new(),
            taken: Vec::new(),
            data: Vec::new(),
        }
    }

    /// Wherever they lead, and however long the text is.
    #[test]
    fn branches_are_sorted_by_target_then_source_then_kind_and_are_there_once() {
        for end in [0x9000, 1 << 40] {
            let mut all = Vec::new();
            for target in [0x8fff, 0x1000, 0, 0x1000, 0x9000, u64::MAX, 0x4000, 0xfff] {
                for (source, call) in [(0x8000, true), (0x1000, false), (0x8000, false)] {
                    all.push(Branch {
                        target,
                        source,
                        call,
                    });
                }
            }
            let mut sweep = sweep(0x1000..end);
            all.iter().for_each(|branch| sweep.add(*branch));
            all.sort_unstable();
            all.dedup();
            assert_eq!(sweep.sorted(), all);
        }
    }

    #[test]
    fn a_page_is_read_once_and_what_lies_in_two_or_in_part_of_one_is_read_as_well() {
        // From the middle of the second page on there is nothing.
        let memory: Vec<u8> = (0..PAGE + PAGE / 2).map(|at| (at % 251) as u8).collect();
        let reads = Cell::new(0);
        let read = |at: u64, into: &mut [u8]| {
            reads.set(reads.get() + 1);
            let there = memory.get(at as usize..at as usize + into.len());
            there.map(|bytes| into.copy_from_slice(bytes)).is_some()
        };
        let mut pages = Pages::new(&read);
        let mut word = [0; 8];
        for at in (0..PAGE - 7).step_by(8) {
            assert!(pages.read(at, &mut word));
            assert_eq!(word, memory[at as usize..][..8]);
        }
        assert_eq!(reads.get(), 1);
        for at in [PAGE - 4, PAGE, PAGE + PAGE / 2 - 8] {
            assert!(pages.read(at, &mut word));
            assert_eq!(word, memory[at as usize..][..8]);
        }
        assert!(!pages.read(PAGE + PAGE / 2 - 7, &mut word));
        assert!(!pages.read(1 << 40, &mut word));
    }
}
