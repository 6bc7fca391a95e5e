//! The symbols of a module sorted by address, to find the name of an address. Used by `symbols`.

use std::cmp::Reverse;
use std::ops::Range;

use crate::elf::table::{Entry, Kind, Table};

/// How many symbols before an address are looked at for one that reaches over it. Symbols lie inside
/// each other only in hand-written assembly, a few deep.
const DEEPEST: usize = 32;

#[derive(Debug)]
struct Span {
    address: u64,
    size: u64,
    table: u8,
    name: u32,
}

/// All symbols of up to two tables, one per address.
#[derive(Debug, Default)]
pub(super) struct ByAddress {
    spans: Vec<Span>,
}

impl ByAddress {
    /// Sorts the symbols whose address lies in `extent`. Of several at one address the best name stays.
    pub(super) fn new(tables: [Option<&Table>; 2], extent: &Range<u64>) -> ByAddress {
        let mut ranked = Vec::new();
        for (number, table) in (0u8..).zip(tables) {
            let Some(table) = table else { continue };
            for (_, entry) in table.entries() {
                let Some(name) = table.name(entry.name) else {
                    continue;
                };
                if name.is_empty() || !extent.contains(&entry.address) {
                    continue;
                }
                let span = Span {
                    address: entry.address,
                    size: entry.size,
                    table: number,
                    name: entry.name,
                };
                ranked.push((span, rank(&entry, name)));
            }
        }
        ranked.sort_by(|(a, rank_a), (b, rank_b)| (a.address, rank_a).cmp(&(b.address, rank_b)));
        ranked.dedup_by_key(|(span, _)| span.address);
        ByAddress {
            spans: ranked.into_iter().map(|(span, _)| span).collect(),
        }
    }

    /// Returns table number, name and distance of the symbol that holds `address`.
    pub(super) fn find(&self, address: u64) -> Option<(u8, u32, u64)> {
        let before = self.spans.partition_point(|span| span.address <= address);
        let mut candidates = self.spans[..before].iter().rev().take(DEEPEST);
        let holds = |span: &&Span| address - span.address < span.size;
        // A label without a size reaches up to the next symbol.
        let nearest = self.spans[..before].last().filter(|span| span.size == 0);
        let span = candidates.find(holds).or(nearest)?;
        Some((span.table, span.name, address - span.address))
    }
}

/// Ranks names, the best for readers first: a function or variable, with a size, visible, and the plain one of
/// `write`, `__write` and `__libc_write`.
fn rank(entry: &Entry, name: &[u8]) -> impl Ord + use<> {
    let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
    let untyped = entry.kind == Kind::Untyped;
    (
        untyped,
        Reverse(entry.size > 0),
        entry.local,
        underscores,
        name.len(),
    )
}
