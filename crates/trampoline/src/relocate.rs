//! Instructions that are encoded for another address and do there what they did at their own. Used by `plan`, `probe`
//! and `stub`.
//!
//! iced-x86's `BlockEncoder` does the encoding: it widens short branches, `loop` and `jrcxz`, and corrects operands relative to RIP.
//! Here calls are taken apart first (see `plan.rs`).
//!
//! # What follows the instructions, and what stays
//!
//! A *control transfer* between two stolen instructions (a loop) stays among the copies. The *address* of a stolen instruction that
//! code takes stays that of the original: a function's own entry is compared with pointers held elsewhere (CPython's
//! `subtype_traverse` looks for itself in `tp_traverse`), is stored in tables, and offsets in tables are counted from it.
//! `BlockEncoder` does not know the difference: it redirects every RIP-relative operand that names an instruction of the block to the
//! copy. So the copies get addresses of their own here ([`COPY`]), which no operand names, and only branches are redirected to them.
//! Calls are not redirected: a call of the function's own entry must pass the hook like any other. The return address of a stolen call
//! is the original's too, so `call next; pop` gets the address that it got before.

use alloc::vec::Vec;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Instruction, InstructionBlock, MemoryOperand,
    Mnemonic, OpKind, Register,
};

use crate::refusal::Refusal;

/// Added to the addresses of stolen instructions while they are encoded: no operand names these, because they are not canonical.
const COPY: u64 = 1 << 62;

/// Instructions that can be encoded for any address.
#[derive(Clone, Debug)]
pub(crate) struct Relocated {
    instructions: Vec<Instruction>,
    /// The address of each original instruction, with the index in `instructions` of what takes its place.
    origin: Vec<(u64, usize)>,
}

/// Instructions encoded for one address.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// For each original instruction, its address and that of its copy.
    pub(crate) moves: Vec<(u64, u64)>,
}

impl Relocated {
    /// Relocates the instructions `stolen`. With `back`, the last one does not end the function, and a jump to what follows it is
    /// added.
    pub(crate) fn of(stolen: &[Instruction], back: bool) -> Result<Self, Refusal> {
        let mut this = Self {
            instructions: Vec::new(),
            origin: Vec::new(),
        };
        let (mut called, mut next) = (false, 0);
        for instruction in stolen {
            this.origin
                .push((instruction.ip(), this.instructions.len()));
            next = instruction.next_ip();
            called = instruction.mnemonic() == Mnemonic::Call;
            if instruction.op0_kind() == OpKind::NearBranch64 && !called {
                // Where the encoder makes several instructions of one, it does not say where they begin; this `nop` marks the place.
                this.instructions.push(Instruction::with(Code::Nopd));
            }
            if called {
                this.call(instruction)?;
            } else {
                this.instructions.push(*instruction);
            }
        }
        if back && !called {
            // A thread that waits in a system call stands behind the instruction; to make the call again, the kernel sets it back by
            // the instruction's two bytes.
            if stolen
                .last()
                .is_some_and(|last| last.mnemonic() == Mnemonic::Syscall)
            {
                this.origin.push((next, this.instructions.len()));
            }
            this.jump(next)?;
        }
        Ok(this)
    }

    /// Only a jump to the address `to`.
    pub(crate) fn way_to(to: u64) -> Result<Self, Refusal> {
        let mut this = Self::of(&[], false)?;
        this.jump(to)?;
        Ok(this)
    }

    /// Replaces a call by a `push` of the return address that it would have left (in two halves, because no push takes eight bytes)
    /// and a jump to where it led. Flags and other registers stay as they are.
    fn call(&mut self, call: &Instruction) -> Result<(), Refusal> {
        let to = call.next_ip();
        let encodable = |made: Result<Instruction, _>| made.map_err(|_| Refusal::Immovable);
        let mut push = encodable(Instruction::with1(Code::Pushq_imm32, to as u32 as i32))?;
        // Branches to the call itself lead here.
        push.set_ip(call.ip());
        self.instructions.push(push);
        if to as i32 as u64 != to {
            let upper = MemoryOperand::with_base_displ(Register::RSP, 4);
            let high = (to >> 32) as u32;
            self.instructions.push(encodable(Instruction::with2(
                Code::Mov_rm32_imm32,
                upper,
                high,
            ))?);
        }
        if call.op0_kind() == OpKind::NearBranch64 {
            return self.jump(call.near_branch_target());
        }
        let mut jump = *call;
        if jump.code() != Code::Call_rm64 || jump.op0_register() == Register::RSP {
            return Err(Refusal::Immovable);
        }
        jump.set_code(Code::Jmp_rm64);
        jump.set_ip(0);
        if jump.memory_base() == Register::RSP {
            // The push has moved rsp by eight bytes.
            jump.set_memory_displacement64(jump.memory_displacement64().wrapping_add(8));
            jump.set_memory_displ_size(8);
        }
        self.instructions.push(jump);
        Ok(())
    }

    fn jump(&mut self, to: u64) -> Result<(), Refusal> {
        let jump = Instruction::with_branch(Code::Jmp_rel32_64, to);
        self.instructions
            .push(jump.map_err(|_| Refusal::Immovable)?);
        Ok(())
    }

    /// Appends the instructions of `other`.
    pub(crate) fn append(&mut self, other: &Self) {
        let shift = self.instructions.len();
        self.instructions.extend_from_slice(&other.instructions);
        let origin = other.origin.iter().map(|(ip, index)| (*ip, index + shift));
        self.origin.extend(origin);
    }

    /// Appends instructions that replace no original one, so that no thread is moved to them.
    pub(crate) fn push(&mut self, instructions: &[Instruction]) {
        self.instructions.extend_from_slice(instructions);
    }

    /// Returns an upper bound of the encoded size: iced's longest form of a branch is 6 + 2 bytes and a word of data.
    pub(crate) fn most(&self) -> usize {
        self.instructions.len() * 16
    }

    /// Returns the instructions with branches to one another redirected to the copies; other operands keep naming the originals.
    fn as_copies(&self) -> Vec<Instruction> {
        let stolen = |ip: u64| ip != 0 && self.instructions.iter().any(|known| known.ip() == ip);
        let copies = self.instructions.iter().map(|instruction| {
            let mut copy = *instruction;
            // Instructions of ours have no original address and lead back into the original code.
            if copy.ip() == 0 {
                return copy;
            }
            if copy.op0_kind() == OpKind::NearBranch64 && stolen(copy.near_branch_target()) {
                copy.set_near_branch64(copy.near_branch_target() | COPY);
            }
            copy.set_ip(copy.ip() | COPY);
            copy
        });
        copies.collect()
    }

    pub(crate) fn encode(&self, at: u64) -> Result<Encoded, Refusal> {
        let instructions = self.as_copies();
        let block = InstructionBlock::new(&instructions, at);
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let encoded = BlockEncoder::encode(64, block, options).map_err(|_| Refusal::OutOfReach)?;
        let moves = self
            .origin
            .iter()
            .filter_map(|&(from, index)| {
                let offset = *encoded.new_instruction_offsets.get(index)?;
                debug_assert_ne!(offset, u32::MAX, "a place that the encoder lost");
                Some((from, at + u64::from(offset)))
            })
            .collect();
        Ok(Encoded {
            bytes: encoded.code_buffer,
            moves,
        })
    }
}
