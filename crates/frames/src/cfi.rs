//! Reads what the call frame information says about the frame of each function. Used by `scan`, `decode` and
//! `functions`.
//!
//! `.eh_frame` (x86-64 psABI §4.2.4, LSB Core "Exception Frames") and `.debug_frame` (DWARF 5 §6.4) give
//! for each address the *canonical frame address*, CFA: the value of rsp before the call pushed the
//! return address.
//!
//! ```text
//!   CFA ──────►┌────────────────┐  the caller's frame
//!   CFA - 8    │ return address │ ┐
//!              │ saved rbp, …   │ │
//!              │ locals         │ │ frame: CFA - rsp
//!   rsp ──────►└────────────────┘ ┘
//! ```
//!
//! While the CFA is given as `rsp + n`, n is the size of the frame there, exactly, and the largest n over the function
//! is the size of its frame. Where it is given by another register (rbp, or r10 after a realignment) CFI does not know
//! how far rsp lies below, and the code must be decoded.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian,
    UnwindContext, UnwindSection, X86_64,
};

use crate::image::Image;

/// One row of a function's table, from which decoding starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The first address for which the row holds.
    pub start: u64,
    /// What the CFA is computed from.
    pub base: Base,
    /// What is added to that register, in bytes; it means nothing for an expression.
    pub offset: i64,
}

/// What the CFA is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// rsp, the stack pointer.
    Stack,
    /// rbp, the frame pointer.
    Frame,
    /// A register other than rsp and rbp.
    Other,
    /// A DWARF expression, which is not evaluated.
    Expression,
}

/// What one entry (FDE) of the call frame information describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The addresses of the code it covers.
    pub range: Range<u64>,
    /// The largest offset of the CFA from rsp, in bytes.
    pub deepest: u64,
    /// The address where `deepest` is first reached.
    pub deepest_at: u64,
    /// Whether some rows give the CFA otherwise than by rsp: `deepest` is then only a lower bound.
    pub partial: bool,
    /// Its rows by rising address; there is at least one. At the entry of a function the first row is offset 8 from
    /// rsp; where it is another, this is a part that the compiler moved elsewhere (`.cold`), or hand-written code.
    pub rows: Vec<Row>,
}

impl Described {
    /// Whether the code is entered by a call, and not by a jump.
    pub fn is_entry(&self) -> bool {
        self.rows
            .first()
            .is_some_and(|first| first.base == Base::Stack && first.offset == 8)
    }

    /// Returns the row that holds at an address.
    pub fn row(&self, at: u64) -> Option<Row> {
        let after = self.rows.partition_point(|row| row.start <= at);
        self.rows.get(after.checked_sub(1)?).copied()
    }
}

/// Reads the file's call frame information and returns its entries by rising address, with the number of damaged
/// entries, which are left out.
pub fn read(image: &Image) -> (Vec<Described>, usize) {
    let mut found = Vec::new();
    let mut damaged = 0;
    if let Some((address, bytes)) = image.eh_frame() {
        let bases = BaseAddresses::default().set_eh_frame(address);
        let mut section = EhFrame::new(&bytes, LittleEndian);
        section.set_address_size(8);
        entries(&section, &bases, &mut found, &mut damaged);
    }
    let debug_frame = image.section(".debug_frame");
    if debug_frame.is_none() && image.has_section(".debug_frame") {
        // It cannot be read or unpacked: nothing is known of what it describes.
        damaged += 1;
    }
    if let Some((_, bytes)) = debug_frame {
        let known: std::collections::HashSet<u64> =
            found.iter().map(|entry| entry.range.start).collect();
        let mut more = Vec::new();
        let mut section = DebugFrame::new(&bytes, LittleEndian);
        section.set_address_size(8);
        entries(&section, &BaseAddresses::default(), &mut more, &mut damaged);
        found.extend(
            more.into_iter()
                .filter(|entry| !known.contains(&entry.range.start)),
        );
    }
    found.retain(|entry| image.is_code(entry.range.start) && entry.range.end > entry.range.start);
    found.sort_by_key(|entry| (entry.range.start, std::cmp::Reverse(entry.range.end)));
    found.dedup_by_key(|entry| entry.range.start);
    (found, damaged)
}

fn entries<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    found: &mut Vec<Described>,
    damaged: &mut usize,
) where
    S: UnwindSection<EndianSlice<'a, LittleEndian>>,
    S::Offset: std::hash::Hash + Eq + Copy,
{
    let mut context = UnwindContext::new();
    let mut cies = HashMap::new();
    let mut entries = section.entries(bases);
    loop {
        let partial = match entries.next() {
            Ok(None) => return,
            Ok(Some(CieOrFde::Cie(_))) => continue,
            Ok(Some(CieOrFde::Fde(partial))) => partial,
            // Without a valid length the next entry cannot be found.
            Err(_) => {
                *damaged += 1;
                return;
            }
        };
        let fde = partial.parse(|section, bases, at| {
            let cie = cies
                .entry(at)
                .or_insert_with(|| section.cie_from_offset(bases, at));
            cie.clone()
        });
        let described = fde.and_then(|fde| describe(&fde, section, bases, &mut context));
        match described {
            Ok(described) => found.push(described),
            Err(_) => *damaged += 1,
        }
    }
}

fn describe<'a, S>(
    fde: &gimli::FrameDescriptionEntry<EndianSlice<'a, LittleEndian>>,
    section: &S,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
) -> gimli::Result<Described>
where
    S: UnwindSection<EndianSlice<'a, LittleEndian>>,
{
    let start = fde.initial_address();
    let mut described = Described {
        range: start..start.saturating_add(fde.len()),
        deepest: 0,
        deepest_at: start,
        partial: false,
        rows: Vec::new(),
    };
    let mut table = fde.rows(section, bases, context)?;
    while let Some(row) = table.next_row()? {
        // The row before one that starts at the same address holds for no instruction.
        if row.start_address() >= row.end_address() {
            continue;
        }
        let row = row_of(row);
        described.rows.push(row);
        match (row.base, u64::try_from(row.offset)) {
            (Base::Stack, Ok(offset)) if offset > described.deepest => {
                described.deepest = offset;
                described.deepest_at = row.start;
            }
            (Base::Stack, _) => {}
            _ => described.partial = true,
        }
    }
    Ok(described)
}

fn row_of(row: &gimli::UnwindTableRow<usize>) -> Row {
    let (base, offset) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            let base = match *register {
                X86_64::RSP => Base::Stack,
                X86_64::RBP => Base::Frame,
                _ => Base::Other,
            };
            (base, *offset)
        }
        CfaRule::Expression(_) => (Base::Expression, 0),
    };
    Row {
        start: row.start_address(),
        base,
        offset,
    }
}
