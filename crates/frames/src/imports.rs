//! Finds the names of the functions that a file calls through the loader: those of other libraries, and its own where another
//! library may put one in their place. Used by `hints`, `live::loaded` and `scan`.
//!
//! A call to another library goes through a slot of the global offset table that the loader fills, and a
//! relocation says with what (`R_X86_64_JUMP_SLOT`, `R_X86_64_GLOB_DAT`; gABI "Relocation", "Dynamic
//! Section"). It reads the slot at once (`call *slot(%rip)`), or in a stub of the procedure linkage table:
//!
//! ```text
//!   call stub          stub: [endbr64] jmp *slot(%rip)
//! ```
//!
//! Of a function that the file defines itself the symbol also has the address. The loader puts that one into the slot unless a
//! library which was loaded before has one of the same name.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use object::elf;

use crate::image::Image;

/// Limit of the bytes of the dynamic section that are read.
const LONGEST_DYNAMIC: usize = 0x1_0000;
/// Bytes of `Elf64_Rela`, `Elf64_Sym` and `Elf64_Dyn` (gABI "Relocation", "Symbol Table", "Dynamic
/// Section").
const RELOCATION: usize = 24;
const SYMBOL: u64 = 24;
const ENTRY: usize = 16;

/// The function that the loader puts into a slot.
#[derive(Debug)]
struct Slot {
    name: String,
    /// Its address, if the file itself has it.
    own: Option<u64>,
}

/// Slots by address.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    slots: HashMap<u64, Slot>,
}

impl Imports {
    /// Reads the relocations of a file; one without a dynamic section has none.
    pub(crate) fn of(image: &Image) -> Imports {
        let mut imports = Imports::default();
        let _ = imports.read(image);
        imports
    }

    fn read(&mut self, image: &Image) -> Option<()> {
        let dynamic = image.headers().segment(elf::PT_DYNAMIC)?;
        let bytes = image.rest(dynamic.address)?;
        let bytes = &bytes[..bytes.len().min(LONGEST_DYNAMIC)];
        let value = |wanted: elf::DynamicTag| {
            bytes.chunks_exact(ENTRY).find_map(|entry| {
                (word(entry, 0)? == wanted.0.cast_unsigned()).then(|| word(entry, 8))?
            })
        };
        let symbols = value(elf::DT_SYMTAB)?;
        let strings = image.rest(value(elf::DT_STRTAB)?)?;
        for (table, size) in [
            (value(elf::DT_JMPREL), value(elf::DT_PLTRELSZ)),
            (value(elf::DT_RELA), value(elf::DT_RELASZ)),
        ] {
            let (Some(table), Some(size)) = (table, size) else {
                continue;
            };
            let Some(table) = image.rest(table) else {
                continue;
            };
            let size = usize::try_from(size).ok()?.min(table.len());
            for relocation in table[..size].chunks_exact(RELOCATION) {
                let (slot, info) = (word(relocation, 0)?, word(relocation, 8)?);
                let kind = elf::RelocationType((info & 0xffff_ffff) as u32);
                if kind != elf::R_X86_64_JUMP_SLOT && kind != elf::R_X86_64_GLOB_DAT {
                    continue;
                }
                let symbol = symbols.wrapping_add((info >> 32).wrapping_mul(SYMBOL));
                let Some(symbol) = image.rest(symbol) else {
                    continue;
                };
                let Some(name) = symbol.first_chunk().map(|name| u32::from_le_bytes(*name)) else {
                    continue;
                };
                if let Some(name) = process::elf::string(strings, name)
                    && !name.is_empty()
                {
                    let name = String::from_utf8_lossy(name).into_owned();
                    let own = defined(symbol);
                    self.slots.insert(slot, Slot { name, own });
                }
            }
        }
        Some(())
    }

    /// Returns the name of the function that a call or jump instruction reaches through a slot.
    pub(crate) fn reached_by(&self, image: &Image, instruction: &Instruction) -> Option<&str> {
        Some(self.slot_of(image, instruction)?.name.as_str())
    }

    /// Returns the address of the function that a call or jump instruction reaches through a slot, if the file itself has it.
    pub(crate) fn own(&self, image: &Image, instruction: &Instruction) -> Option<u64> {
        self.slot_of(image, instruction)?.own
    }

    fn slot_of(&self, image: &Image, instruction: &Instruction) -> Option<&Slot> {
        match instruction.op0_kind() {
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => self.slot(instruction),
            OpKind::NearBranch64 => self.stub(image, instruction.near_branch_target()),
            _ => None,
        }
    }

    fn slot(&self, instruction: &Instruction) -> Option<&Slot> {
        self.slots.get(&instruction.ip_rel_memory_address())
    }

    /// Returns the slot that a stub at `address` reads.
    fn stub(&self, image: &Image, address: u64) -> Option<&Slot> {
        let code = image.is_code(address).then(|| image.rest(address))??;
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut instruction = decoder.decode();
        if instruction.mnemonic() == Mnemonic::Endbr64 {
            instruction = decoder.decode();
        }
        (instruction.flow_control() == FlowControl::IndirectBranch
            && instruction.is_ip_rel_memory_operand())
        .then(|| self.slot(&instruction))?
    }
}

/// Returns the address of the function that a symbol (`Elf64_Sym`) defines. An IFUNC's is that of the function which chooses one.
fn defined(symbol: &[u8]) -> Option<u64> {
    let (info, section) = (*symbol.get(4)?, symbol.get(6..8)?);
    let is_function = info & 0xf == elf::STT_FUNC.0;
    let section = u16::from_le_bytes([section[0], section[1]]);
    let is_here = section != 0 && section < elf::SHN_LORESERVE;
    (is_function && is_here).then(|| word(symbol, 8))?
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
