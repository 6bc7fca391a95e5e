//! Which functions an object calls that another may define: the relocations of its call slots.
//!
//! A call that goes through the procedure linkage table ends at an address in a slot, for which there is a
//! relocation `R_X86_64_JUMP_SLOT` with the function's name (psABI x86-64, "Relocation Types"). Code built with `-fno-plt` calls through a
//! slot of the global offset table (`R_X86_64_GLOB_DAT`); functions whose address is taken have one of these, too.
//! Linkers put the relative relocations, which name nobody, before all others and count them (`DT_RELACOUNT`).

use object::LittleEndian as LE;
use object::elf;
use object::pod;

use super::dynamic::Image;

/// What the dynamic section says about relocations; addresses and sizes in bytes.
#[derive(Debug, Default, Clone, Copy)]
pub struct Relocations {
    /// `DT_JMPREL`
    pub slots: Option<u64>,
    /// `DT_PLTRELSZ`
    pub slots_size: u64,
    /// `DT_RELA`
    pub others: Option<u64>,
    /// `DT_RELASZ`
    pub others_size: u64,
    /// `DT_RELACOUNT`
    pub relative: u64,
}

const ENTRY: u64 = size_of::<elf::Rela64<LE>>() as u64;

impl Relocations {
    /// Indices of the symbols whose slots are called through. What cannot be read has none.
    pub fn called(&self, image: &impl Image) -> Vec<u32> {
        let table = |at: Option<u64>, skip: u64, size: u64| {
            let size = size.checked_sub(skip)?;
            image.read(image.link_address(at?)?.checked_add(skip)?, size)
        };
        let skip = self.relative.saturating_mul(ENTRY).min(self.others_size);
        let tables = [
            table(self.slots, 0, self.slots_size),
            table(self.others, skip, self.others_size),
        ];
        let mut called = Vec::new();
        for bytes in tables.into_iter().flatten() {
            let mut rest = &bytes[..];
            while let Ok((entry, after)) = pod::from_bytes::<elf::Rela64<LE>>(rest) {
                rest = after;
                let (symbol, kind) = (entry.r_sym(LE, false), entry.r_type(LE, false));
                if symbol != 0 && [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT].contains(&kind)
                {
                    called.push(symbol);
                }
            }
        }
        called.sort_unstable();
        called.dedup();
        called
    }
}
