//! Finds instructions by the memory that they work on, and so functions that have no symbol. Used by
//! `languages::ruby::functions` and `languages::python::functions`.
//!
//! The bytes of an address or a displacement are searched for, and only the instruction around a match is decoded, so
//! megabytes of code need no decoding. A match may be an instruction that begins within another one; callers must therefore
//! accept a result only if there is exactly one.

use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Limit of bytes of prefixes, opcode and ModRM/SIB before a displacement.
const BEFORE: usize = 6;

fn decoded(code: &[u8], from: usize, at: u64) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(
        64,
        code.get(from..)?,
        at + from as u64,
        DecoderOptions::NONE,
    );
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Returns the addresses of instructions that add one to the 64-bit word `displacement` bytes from a register.
pub fn increments(code: &[u8], at: u64, displacement: u32) -> Vec<u64> {
    let wanted = |instruction: &Instruction| {
        let one = match instruction.mnemonic() {
            Mnemonic::Inc => true,
            Mnemonic::Add => {
                instruction.op1_kind() == OpKind::Immediate8to64
                    && instruction.immediate8to64() == 1
            }
            _ => false,
        };
        one && instruction.op0_kind() == OpKind::Memory
            && instruction.memory_size().size() == 8
            && !matches!(
                instruction.memory_base(),
                Register::RIP | Register::RSP | Register::None
            )
            && instruction.memory_index() == Register::None
            && instruction.memory_displacement64() == u64::from(displacement)
    };
    let bytes = displacement.to_le_bytes();
    let places =
        (0..code.len().saturating_sub(3)).filter(|place| code[*place..].starts_with(&bytes));
    around(code, at, places, wanted)
}

/// Returns the addresses of instructions that compare the 16-bit word at `address` with 0, or take its address to do so: a compiler that
/// makes code for a shared library of it may load the address first (gcc, Debian's libpython). No other code takes it.
pub fn tests(code: &[u8], at: u64, address: u64) -> Vec<u64> {
    let compares = |instruction: &Instruction| {
        instruction.mnemonic() == Mnemonic::Cmp
            && instruction.op0_kind() == OpKind::Memory
            && instruction.is_ip_rel_memory_operand()
            && instruction.ip_rel_memory_address() == address
            && instruction.memory_size().size() == 2
    };
    let takes = |instruction: &Instruction| {
        instruction.mnemonic() == Mnemonic::Lea
            && instruction.is_ip_rel_memory_operand()
            && instruction.ip_rel_memory_address() == address
    };
    // The places of displacements behind which the instruction has so many more bytes: an immediate, or nothing.
    let places = |behind: u64| {
        (0..code.len().saturating_sub(3)).filter(move |place| {
            let bytes = code[*place..].first_chunk().copied().unwrap_or_default();
            let distance = i64::from(i32::from_le_bytes(bytes));
            let next = at + *place as u64 + 4 + behind;
            next.wrapping_add_signed(distance) == address
        })
    };
    let mut found = around(code, at, places(1), compares);
    found.extend(around(code, at, places(0), takes));
    found
}

fn around(
    code: &[u8],
    at: u64,
    places: impl Iterator<Item = usize>,
    wanted: impl Fn(&Instruction) -> bool,
) -> Vec<u64> {
    let mut found = Vec::new();
    for place in places {
        // The longest decoding is taken, because prefixes belong to the instruction.
        let starts = (1..=BEFORE)
            .rev()
            .filter_map(|before| place.checked_sub(before));
        let here = { starts }.find(|start| {
            decoded(code, *start, at).is_some_and(|instruction| {
                wanted(&instruction) && *start + instruction.len() > place
            })
        });
        found.extend(here.map(|start| at + start as u64));
    }
    found.dedup();
    found
}

/// Returns the displacement of the last load into rax before a short function returns: the offset of the member that a
/// getter reads.
pub fn getter(code: &[u8]) -> Option<u32> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut member = None;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        match instruction.mnemonic() {
            Mnemonic::Ret => return member,
            Mnemonic::Mov if instruction.op0_register() == Register::RAX => {
                let based = instruction.op1_kind() == OpKind::Memory
                    && !matches!(instruction.memory_base(), Register::RIP | Register::None);
                let at = u32::try_from(instruction.memory_displacement64()).ok();
                member = at.filter(|_| based);
            }
            Mnemonic::Jmp | Mnemonic::INVALID => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rb_gc_count` of Debian's libruby 3.1: mov rax,[rip+…]; mov rax,[rax]; mov rax,[rax+0x450]; mov rax,[rax+0x1b8]; ret.
    const COUNT: &[u8] = &[
        0x48, 0x8b, 0x05, 0x81, 0xe7, 0x2d, 0, 0x48, 0x8b, 0, 0x48, 0x8b, 0x80, 0x50, 4, 0, 0,
        0x48, 0x8b, 0x80, 0xb8, 1, 0, 0, 0xc3,
    ];

    #[test]
    fn a_getter_tells_its_member() {
        assert_eq!(getter(COUNT), Some(0x1b8));
        assert_eq!(getter(&COUNT[..7]), None);
    }

    #[test]
    fn what_counts_is_found() {
        // nop; add qword ptr [r14+0x1b8],1; inc qword ptr [r12+0x1b8]; mov rax,[rax+0x1b8]
        let code = [
            0x90, 0x49, 0x83, 0x86, 0xb8, 1, 0, 0, 1, 0x49, 0xff, 0x84, 0x24, 0xb8, 1, 0, 0, 0x48,
            0x8b, 0x80, 0xb8, 1, 0, 0,
        ];
        assert_eq!(increments(&code, 0x1000, 0x1b8), [0x1001, 0x1009]);
        assert_eq!(increments(&code, 0x1000, 0x1b0), []);
    }

    #[test]
    fn what_tests_is_found() {
        // cmp word ptr [rip+0x100],0; jne
        let code = [0x90, 0x66, 0x83, 0x3d, 0, 1, 0, 0, 0, 0x75, 0];
        assert_eq!(tests(&code, 0x1000, 0x1109), [0x1001]);
        assert_eq!(tests(&code, 0x1000, 0x110a), []);
        // lea rax,[rip+0x100]; cmp word ptr [rax],0; jne
        let code = [0x48, 0x8d, 0x05, 0, 1, 0, 0, 0x66, 0x83, 0x38, 0, 0x75, 0];
        assert_eq!(tests(&code, 0x1000, 0x1107), [0x1000]);
        assert_eq!(tests(&code, 0x1000, 0x1108), []);
    }
}
