//! The code with which a stub counts or records a system call by itself, without the agent ("inline"). Used by `probe`,
//! and by `hooks::inline` and `hooks::change`.
//!
//! The probes around a system call (`stub.rs`) save every register and call the agent. Where only the registers of a call are wanted,
//! most of that work is not needed: the stub finds the thread's ring, notes there that the call is open, and adds to a few numbers or
//! writes a few words. A stub does this itself under these conditions:
//!
//! - The system call always has the same number, and no code reads the values that it leaves in rcx, r11 and the flags
//!   (`system_call::leavings`). Then these two registers suffice, and no byte of the guest's stack is used.
//! - The command has allowed it for this session ([`Hook::inline`]), and the gate and the ring hold that session's number.
//! - The ring is in the first place where it is searched for, and belongs to this thread by thread pointer and kernel id
//!   (as `agent::calls::ring::speaks` checks). No child of vfork runs as the thread.
//! - Before the call, no VM runs whose line would be wanted. Otherwise the agent reads the line and notes the call as open with it; the
//!   stub behind the call takes the line from there.
//!
//! If one of them does not hold, the stub goes on to the probe's routine with nothing changed yet, as a stub without inline code does.
//!
//! ```text
//!   before:   (stolen instructions)                  behind:   find the ring          ─► else routine
//!             find the ring    ─► else routine                 the newest open call is this one? ─► else routine
//!             depth += 1                                       (what is wanted: `count.rs`, `record.rs`)
//!             note the call in the ring                        depth -= 1; jmp done
//!             (what is wanted: `count.rs`, `record.rs`)
//!             jmp done
//!   routine:  lea -128(%rsp),%rsp; push %r11; …      the probe as it is everywhere (`stub.rs`)
//!   done:     nop; (stolen instructions); jmp back
//! ```
//!
//! A signal handler may run between any two instructions and make system calls that take the same way. So the slot for the open call is
//! taken before it is filled, each number is changed by one instruction, and saved registers lie in that slot, which a handler's calls
//! leave alone (`agent::calls::system_calls`). If the command is killed, nothing that this code reads changes.

mod count;
mod record;

use alloc::vec::Vec;
use core::mem::offset_of;

use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister64, CodeAssembler, CodeLabel, dword_ptr, ecx, ptr, qword_ptr, r11,
    r11d, rax, rcx, rdx, rsp,
};
use iced_x86::{FlowControl, IcedError, Instruction};
use wire::calls::record::Shape;
use wire::calls::{Calls, Hook, MOVED, OPEN, OpenSystemCall, RINGS, Ring, inline};

use crate::stub::Destination;

/// A system call's probe whose stub can do the agent's work by itself; the upper half of [`Hook::inline`] says which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline {
    /// Address of the `syscall` instruction.
    pub instruction: u64,
    /// Whether the probe is behind the instruction and not before it.
    pub behind: bool,
    /// The number of the place's hook, under which calls are counted.
    pub number: u32,
    /// How calls can be recorded; `None` = only counted.
    pub recorded: Option<Recorded>,
    /// Address of the agent's [`Calls`].
    pub calls: u64,
    /// Address of the gate in the agent's image.
    pub gate: u64,
}

/// How a stub records a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The number of the hook of the system call's number.
    pub number: u32,
    /// What is recorded: [plain](Shape::is_plain), and with room for the return.
    pub shape: Shape,
}

/// Limit of the bytes of the inline code before a system call.
pub(crate) const MOST_BEFORE: usize = 1024;

/// Limit of the bytes of the inline code behind a system call.
pub(crate) const MOST_BEHIND: usize = 2048;

// Layouts that the code below relies on.
const _: () = {
    assert!(offset_of!(Calls, rings) == 0 && RINGS == 4096 && MOVED == 1);
    assert!(size_of::<OpenSystemCall>() == 96 && OPEN.is_power_of_two());
    assert!(size_of::<Ring>() <= 4096);
};

fn at(base: AsmRegister64, offset: usize) -> AsmMemoryOperand {
    base + offset as i32
}

/// The operand of a ring's field; r11 holds the ring's address.
fn ring(offset: usize) -> AsmMemoryOperand {
    at(r11, offset)
}

/// The operand of an open call's field. `base` holds the address of the call's slot minus the offset of the first slot in the ring.
fn open(base: AsmRegister64, offset: usize) -> AsmMemoryOperand {
    at(base, offset_of!(Ring, system_calls) + offset)
}

impl Inline {
    /// Makes the probe's code between the instructions stolen before and behind it: the inline code, and the way to the routine.
    pub(crate) fn code(&self, to: Destination) -> Result<Vec<Instruction>, IcedError> {
        let mut code = CodeAssembler::new(64)?;
        let a = &mut code;
        let (mut routine, mut done) = (a.create_label(), a.create_label());
        self.find_ring(a, to.descriptor, routine)?;
        a.mov(rcx, to.descriptor)?;
        a.mov(ecx, dword_ptr(at(rcx, offset_of!(Hook, inline) + 4)))?;
        let mut counts = a.create_label();
        if let Some(recorded) = self.recorded {
            a.cmp(ecx, inline::RECORD as i32)?;
            a.jne(counts)?;
            let instruction = self.instruction;
            let call = record::Call {
                recorded,
                instruction,
            };
            if self.behind {
                self.is_newest(a, routine)?;
                call.fill(a, [routine, done])?;
            } else {
                call.write(a, to.descriptor, [routine, done])?;
            }
        }
        a.set_label(&mut counts)?;
        if self.behind {
            self.count(a, [routine, done])?;
        } else {
            self.note_counted(a, to.descriptor, [routine, done])?;
        }
        a.set_label(&mut routine)?;
        a.lea(rsp, rsp - 128)?;
        a.push(r11)?;
        a.mov(r11, to.descriptor)?;
        a.call(to.routine)?;
        a.pop(r11)?;
        a.lea(rsp, rsp + 128)?;
        a.set_label(&mut done)?;
        a.nop()?;
        Ok(standing_nowhere(a.instructions()))
    }

    /// Loads the ring of this thread into r11, or goes to the routine if this place may not count there. Changes rcx.
    fn find_ring(
        &self,
        a: &mut CodeAssembler,
        hook: u64,
        routine: CodeLabel,
    ) -> Result<(), IcedError> {
        let gate = self.gate.wrapping_sub(self.calls) as i32;
        // The gate is read first, as in every hook: in a child of fork the gate is 0, and other memory of the agent may be gone.
        a.mov(rcx, self.calls)?;
        a.mov(r11d, dword_ptr(rcx + gate))?;
        a.test(r11d, r11d)?;
        a.je(routine)?;
        a.mov(rcx, hook)?;
        a.cmp(r11d, dword_ptr(at(rcx, offset_of!(Hook, inline))))?;
        a.jne(routine)?;
        if !self.behind {
            a.mov(rcx, self.calls)?;
            a.cmp(qword_ptr(at(rcx, offset_of!(Calls, language))), 0)?;
            a.jne(routine)?;
        }
        // `routine::room::place`, times 8.
        a.rdfsbase(rcx)?;
        a.mov(r11, rcx)?;
        a.shr(r11, 14)?;
        a.xor(r11d, ecx)?;
        a.shr(r11d, 3)?;
        a.and(r11d, (RINGS as i32 - 1) * 8)?;
        // Plus the table's address, half by half: rcx keeps the thread pointer, because to read it again takes 3 ns on an Intel Xeon.
        let low = self.calls as i32;
        let high = self.calls.wrapping_sub(low as u64) >> 32;
        for half in [high as i32, low] {
            a.rol(r11, 32)?;
            a.add(r11, half)?;
        }
        a.mov(r11, ptr(r11))?;
        a.cmp(r11, MOVED as i32)?;
        a.jbe(routine)?;
        a.cmp(rcx, ptr(ring(offset_of!(Ring, thread))))?;
        a.jne(routine)?;
        a.mov(rcx, hook)?;
        a.mov(ecx, dword_ptr(at(rcx, offset_of!(Hook, inline))))?;
        a.cmp(ecx, dword_ptr(ring(offset_of!(Ring, session))))?;
        a.jne(routine)?;
        // Without its block, the thread's word with its kernel id may not be readable.
        a.cmp(qword_ptr(ring(offset_of!(Ring, has_block))), 0)?;
        a.je(routine)?;
        a.mov(rcx, self.calls)?;
        a.mov(rcx, ptr(at(rcx, offset_of!(Calls, tid_offset))))?;
        a.test(rcx, rcx)?;
        a.je(routine)?;
        a.mov(ecx, dword_ptr(rcx).fs())?;
        a.test(ecx, ecx)?;
        a.je(routine)?;
        a.cmp(ecx, dword_ptr(ring(offset_of!(Ring, tid))))?;
        a.jne(routine)?;
        a.cmp(qword_ptr(ring(offset_of!(Ring, lent))), 0)?;
        a.jne(routine)
    }

    /// Loads the newest open call of the ring in r11 into rcx. Goes to the routine unless it is this call, by its instruction and the
    /// stack pointer.
    fn is_newest(&self, a: &mut CodeAssembler, routine: CodeLabel) -> Result<(), IcedError> {
        a.mov(rcx, ptr(ring(offset_of!(Ring, depth))))?;
        a.test(rcx, rcx)?;
        a.je(routine)?;
        newest(a)?;
        a.cmp(rsp, ptr(open(rcx, offset_of!(OpenSystemCall, stack))))?;
        a.jne(routine)?;
        for (half, part) in [self.instruction as i32, (self.instruction >> 32) as i32]
            .into_iter()
            .enumerate()
        {
            let offset = offset_of!(OpenSystemCall, instruction) + half * 4;
            a.cmp(dword_ptr(open(rcx, offset)), part)?;
            a.jne(routine)?;
        }
        Ok(())
    }
}

/// Takes a new open call in the ring in r11 and loads it into rcx. The slot is taken before it is filled, because of signal handlers.
fn open_another(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rcx, ptr(ring(offset_of!(Ring, depth))))?;
    a.add(qword_ptr(ring(offset_of!(Ring, depth))), 1)?;
    slot(a)
}

/// Turns the depth in rcx into the address of the newest open call of the ring in r11, minus the offset of the first slot in the ring.
fn newest(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.sub(ecx, 1)?;
    slot(a)
}

/// Turns the number of an open call in rcx into the address of its slot in the ring in r11, minus the offset of the first slot in the ring.
fn slot(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.and(ecx, OPEN as i32 - 1)?;
    a.lea(rcx, rcx + rcx * 2)?;
    a.shl(ecx, 5)?;
    a.add(rcx, r11)
}

/// Loads the time-stamp counter into rax. Changes rdx.
fn ticks(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)
}

/// Gives the instructions addresses that no instruction of the guest has, so that branches among them are resolved wherever they are
/// encoded (`relocate.rs`).
fn standing_nowhere(made: &[Instruction]) -> Vec<Instruction> {
    const NOWHERE: u64 = 1 << 61;
    let address = |index: usize| NOWHERE + index as u64;
    let label = |target: u64| {
        made.iter()
            .position(|one| one.ip() != 0 && one.ip() == target)
    };
    let led = made.iter().enumerate().map(|(index, one)| {
        let mut moved = *one;
        moved.set_ip(address(index));
        let branches = matches!(
            one.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        if branches && let Some(target) = label(one.near_branch_target()) {
            moved.set_near_branch64(address(target));
        }
        moved
    });
    led.collect()
}
