//! Finds which functions an object calls that another may define: the relocations of its call slots. Used by `dynamic`
//! and `symbols`.
//!
//! A call through the procedure linkage table ends at an address in a slot, for which there is a relocation
//! `R_X86_64_JUMP_SLOT` with the function's name (psABI x86-64, "Relocation Types"). Code built with `-fno-plt` calls
//! through a slot of the global offset table (`R_X86_64_GLOB_DAT`); functions whose address is taken have one of
//! these, too. Linkers put the relative relocations, which name no symbol, before all others and count them
//! (`DT_RELACOUNT`).

use object::LittleEndian as LE;
use object::elf;
use object::pod;

use super::dynamic::Image;
use super::{Bytes, Headers, read_table};

/// What the dynamic section says about relocations; addresses and sizes in bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct Relocations {
    /// `DT_JMPREL`: address of the relocations of the procedure linkage table.
    pub slots: Option<u64>,
    /// `DT_PLTRELSZ`: bytes of those relocations.
    pub slots_size: u64,
    /// `DT_RELA`: address of the other relocations.
    pub others: Option<u64>,
    /// `DT_RELASZ`: bytes of those relocations.
    pub others_size: u64,
    /// `DT_RELACOUNT`: how many of these come first and are relative.
    pub relative: u64,
}

/// A word that the loader fills with the address of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Its address, before the load bias.
    pub at: u64,
    /// The function whose address it gets.
    pub of: Of,
}

/// The function of a [`Slot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// The dynamic symbol with this number.
    Symbol(u32),
    /// The one that the function at this address picks, before the load bias (`R_X86_64_IRELATIVE`).
    Picked(u64),
}

const ENTRY: u64 = size_of::<elf::Rela64<LE>>() as u64;

impl Relocations {
    /// Returns the slots that are called through; none where the relocations cannot be read.
    pub fn slots(&self, image: &impl Image) -> Vec<Slot> {
        let table = |at: Option<u64>, skip: u64, size: u64| {
            let size = size.checked_sub(skip)?;
            image.read(image.link_address(at?)?.checked_add(skip)?, size)
        };
        let skip = self.relative.saturating_mul(ENTRY).min(self.others_size);
        let tables = [
            table(self.slots, 0, self.slots_size),
            table(self.others, skip, self.others_size),
        ];
        let tables = tables.into_iter().flatten();
        tables.flat_map(|bytes| slots(&bytes)).collect()
    }
}

/// Returns the slots of a program without dynamic section, which fills them itself (glibc `csu/libc-start.c`,
/// `apply_irel`).
pub fn of_static(bytes: &(impl Bytes + ?Sized), headers: &Headers) -> Vec<Slot> {
    let sections = headers.sections(bytes);
    let loaded = sections
        .iter()
        .filter(|section| section.kind == elf::SHT_RELA && section.address != 0);
    let tables = loaded.filter_map(|section| read_table(bytes, section.offset, section.size));
    tables.flat_map(|bytes| slots(&bytes)).collect()
}

fn slots(bytes: &[u8]) -> Vec<Slot> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Ok((entry, after)) = pod::from_bytes::<elf::Rela64<LE>>(rest) {
        rest = after;
        let (symbol, kind) = (entry.r_sym(LE, false), entry.r_type(LE, false));
        let of = match kind {
            elf::R_X86_64_IRELATIVE => Of::Picked(entry.r_addend.get(LE) as u64),
            elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT if symbol != 0 => Of::Symbol(symbol),
            _ => continue,
        };
        found.push(Slot {
            at: entry.r_offset.get(LE),
            of,
        });
    }
    found
}
