//! Finds the functions of a file. Used by `scan`.
//!
//! Call frame information names almost all of them, stripped or not. Symbols add those that were compiled without it.
//! Code that neither covers is decoded, and cut where code is called, pointed to, or follows padding.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use process::symbols::{Kind, Symbols};

use crate::cfi::Described;
use crate::image::Image;

/// Bytes of the shortest gap between two functions that is decoded; a shorter one is padding or a stub.
const SHORTEST: u64 = 16;

/// The linker's stubs, which are no functions of the program.
const STUBS: [&str; 4] = [".plt", ".plt.got", ".plt.sec", ".iplt"];

/// A function, or a part of one that lies elsewhere in the text.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) range: Range<u64>,
    pub(crate) described: Option<Described>,
}

/// Finds all functions of a file, by rising address.
pub(crate) fn all(
    image: &Image,
    described: Vec<Described>,
    symbols: Option<&Symbols>,
) -> Vec<Function> {
    let stubs: Vec<Range<u64>> = STUBS
        .iter()
        .filter_map(|name| image.section(name))
        .map(|(address, bytes)| address..address.saturating_add(bytes.len() as u64))
        .collect();
    let is_stub = |at: u64| stubs.iter().any(|stub| stub.contains(&at));
    let mut covered = Covered::default();
    let mut functions = Vec::with_capacity(described.len());
    for entry in described {
        covered.add(&entry.range);
        if !is_stub(entry.range.start) {
            functions.push(Function {
                range: entry.range.clone(),
                described: Some(entry),
            });
        }
    }
    stubs.iter().for_each(|stub| covered.add(stub));
    covered.settle();
    let named = named(image, symbols, &covered);
    for range in named {
        covered.add(&range);
        functions.push(Function {
            range,
            described: None,
        });
    }
    covered.settle();
    for gap in covered.gaps(image) {
        functions.extend(found_in(image, &gap).into_iter().map(|range| Function {
            range,
            described: None,
        }));
    }
    functions.sort_by_key(|function| function.range.start);
    functions
}

/// Finds functions that have a symbol and no call frame information.
fn named(image: &Image, symbols: Option<&Symbols>, covered: &Covered) -> Vec<Range<u64>> {
    let Some(symbols) = symbols else {
        return Vec::new();
    };
    let mut starts: Vec<(u64, u64)> = symbols
        .all()
        .chain(symbols.exports())
        .map(|named| named.symbol)
        .filter(|symbol| matches!(symbol.kind, Kind::Function | Kind::Indirect))
        .filter(|symbol| image.is_code(symbol.address) && !covered.holds(symbol.address))
        .map(|symbol| (symbol.address, symbol.size))
        .collect();
    starts.sort_by_key(|&(start, size)| (start, std::cmp::Reverse(size)));
    starts.dedup_by_key(|(start, _)| *start);
    // A symbol in assembly has no size (`_fini` of crti.o), and data may follow its section in the same segment.
    let edges = image.edges();
    let section_end = |at: u64| {
        let after = edges.partition_point(|edge| *edge <= at);
        edges.get(after).copied().unwrap_or(u64::MAX)
    };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (at, &(start, size)) in starts.iter().enumerate() {
        let room = starts
            .get(at + 1)
            .map_or(u64::MAX, |next| next.0)
            .min(covered.next(start))
            .min(section_end(start));
        let rest = image.rest(start).map_or(0, |rest| rest.len() as u64);
        let end = match size {
            0 => room.min(start.saturating_add(rest)),
            size => start.saturating_add(size.min(rest)).min(room),
        };
        if end > start {
            ranges.push(start..end);
        }
    }
    ranges
}

/// Finds functions in code that neither symbols nor call frame information describe.
fn found_in(image: &Image, gap: &Range<u64>) -> Vec<Range<u64>> {
    let Some(code) = image.code_of(gap) else {
        return Vec::new();
    };
    let mut starts = BTreeSet::new();
    let mut branched_to = BTreeSet::new();
    let entry = image.headers().entry;
    if gap.contains(&entry) {
        starts.insert(entry);
    }
    let mut ended = true;
    let mut after_end = Vec::new();
    for instruction in Decoder::with_ip(64, code, gap.start, DecoderOptions::NONE) {
        if ended && !is_filler(&instruction) {
            after_end.push(instruction.ip());
            ended = false;
        }
        match instruction.flow_control() {
            FlowControl::Call => {
                starts.insert(instruction.near_branch_target());
            }
            FlowControl::ConditionalBranch => {
                branched_to.insert(instruction.near_branch_target());
            }
            FlowControl::UnconditionalBranch => {
                branched_to.insert(instruction.near_branch_target());
                ended = true;
            }
            FlowControl::Return | FlowControl::IndirectBranch => ended = true,
            _ if instruction.mnemonic() == Mnemonic::Lea
                && instruction.is_ip_rel_memory_operand() =>
            {
                starts.insert(instruction.ip_rel_memory_address());
            }
            _ => {}
        }
    }
    // Code behind an end that no code near it jumps to, at an address to which compilers align functions (except with
    // -O0), or that begins as functions do.
    let begins = |at: &u64| {
        *at == gap.start
            || !branched_to.contains(at)
                && (at.is_multiple_of(16) || opens(code, (at - gap.start) as usize))
    };
    starts.extend(after_end.into_iter().filter(begins));
    let starts: Vec<u64> = starts
        .into_iter()
        .filter(|start| gap.contains(start))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([gap.end]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .filter(|range| {
            image
                .code_of(range)
                .is_some_and(|code| reads_like_code(code, range))
        })
        .collect()
}

/// Returns whether these bytes begin as functions do: they save a callee-saved register, move rsp down, realign it, or
/// are `endbr64`.
fn opens(code: &[u8], at: usize) -> bool {
    let Some(code) = code.get(at..) else {
        return false;
    };
    const OPENINGS: [&[u8]; 7] = [
        b"\x55",
        b"\x53",
        b"\x48\x83\xec",
        b"\x48\x81\xec",
        b"\x4c\x8d\x54\x24\x08",
        b"\x4c\x8d\x9c\x24",
        b"\xf3\x0f\x1e\xfa",
    ];
    let pushes_high = code.first() == Some(&0x41) && matches!(code.get(1), Some(0x54..=0x57));
    pushes_high || OPENINGS.iter().any(|opening| code.starts_with(opening))
}

fn is_filler(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::INVALID
    ) || instruction.mnemonic() == Mnemonic::Xchg
        && instruction.op0_register() == instruction.op1_register()
}

/// Whether these bytes are code. Tables that assembly keeps between functions (libcrypto has whole pages of them) soon
/// contain an instruction that no program uses.
fn reads_like_code(code: &[u8], range: &Range<u64>) -> bool {
    let mut ends = false;
    for instruction in Decoder::with_ip(64, code, range.start, DecoderOptions::NONE) {
        let strange = instruction.is_invalid()
            || instruction.is_privileged()
            || matches!(
                instruction.mnemonic(),
                Mnemonic::In
                    | Mnemonic::Out
                    | Mnemonic::Retf
                    | Mnemonic::Enter
                    | Mnemonic::Int
                    | Mnemonic::Jrcxz
            );
        if strange && instruction.mnemonic() != Mnemonic::Hlt {
            // Zeros behind the last function fill the page.
            let rest = usize::try_from(instruction.ip() - range.start).unwrap_or(0);
            return ends && code[rest..].iter().all(|&byte| byte == 0);
        }
        ends |= !matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        ) || instruction.mnemonic() == Mnemonic::Hlt;
    }
    ends
}

/// Ranges of addresses that belong to known functions.
#[derive(Debug, Default)]
struct Covered {
    ranges: Vec<Range<u64>>,
}

impl Covered {
    fn add(&mut self, range: &Range<u64>) {
        self.ranges.push(range.clone());
    }

    /// Sorts and joins the ranges; must be called before they are read.
    fn settle(&mut self) {
        self.ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.ranges = joined;
    }

    fn holds(&self, at: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= at);
        after > 0 && self.ranges[after - 1].contains(&at)
    }

    /// Returns where the next range begins.
    fn next(&self, at: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.start <= at);
        self.ranges.get(after).map_or(u64::MAX, |range| range.start)
    }

    /// Returns the gaps in code between the ranges that are long enough for a function, cut where sections meet.
    fn gaps(&self, image: &Image) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let edges = image.edges();
        for code in image.code() {
            let (mut at, end) = (
                code.address,
                code.address.saturating_add(code.bytes.len() as u64),
            );
            for range in &self.ranges {
                if range.end <= at || range.start >= end {
                    continue;
                }
                cut(at..range.start.max(at), &edges, &mut gaps);
                at = range.end;
            }
            cut(at..end.max(at), &edges, &mut gaps);
        }
        gaps.retain(|gap| gap.end - gap.start >= SHORTEST);
        gaps
    }
}

/// Cuts a range at each of `edges`, which are sorted.
fn cut(range: Range<u64>, edges: &[u64], pieces: &mut Vec<Range<u64>>) {
    let mut at = range.start;
    let first = edges.partition_point(|edge| *edge <= range.start);
    for &edge in edges[first..].iter().take_while(|edge| **edge < range.end) {
        pieces.push(at..edge);
        at = edge;
    }
    pieces.push(at..range.end);
}
