//! The code with which a stub counts a system call by itself.
//!
//! The probes around a system call (`stub.rs`) keep every register and ask the agent. Where a call is only counted, most of that
//! is in vain: what must be done is to find the thread's ring, to note there that the call is open, and behind it to add to a few
//! numbers. So the stub of such a place does it itself, where
//!
//! - the system call always has the same number, and nobody reads the rcx, the r11 and the flags that it leaves
//!   (`system_call::leavings`): with these two registers and no byte of the guest's stack all of this can be done;
//! - the command has said so for this session ([`Hook::counts`]), the gate has that session's number, and so has the ring;
//! - the ring is found where it is looked for first, and is this thread's, by its thread pointer and by its kernel id
//!   (as `agent::calls::ring::speaks`); no child of vfork runs as the thread; no VM runs whose line would be wanted.
//!
//! Whatever is not so goes to the probe's routine, as every call does without this code, and nothing has been changed by then. So
//! does every 1,024th call of a row, where the agent looks whether the command lives (`agent::calls::pulse`), and the first, where it
//! makes the row. A row that does not stand where it is looked for first is left to the agent, too.
//!
//! ```text
//!   before:   (stolen instructions)                  behind:   find the ring          ─► else routine
//!             find the ring    ─► else routine                 the newest open call is this one? ─► else routine
//!             depth += 1                                       its row is there?      ─► else routine
//!             note the call in the ring                        begun, returned, errors += 1
//!             the clock, unless want::BARE                     the clock, unless want::BARE, and what is told of times
//!             jmp done                                         depth -= 1; jmp done
//!   routine:  lea -128(%rsp),%rsp; push %r11; …      the probe as it is everywhere (`stub.rs`)
//!   done:     nop; (stolen instructions); jmp back
//! ```
//!
//! A signal handler may come in between any two instructions, and make system calls that are counted in the same rows. So room for the
//! open call is taken before it is filled, each number is changed by one instruction, and what is kept of registers stands in the
//! room, which a handler's calls leave alone (`agent::calls::system_calls`). A kill of the command changes nothing that this code reads.
//! rax and rdx, which `rdtsc` changes, are kept there too, and restored before the room is given back.

use alloc::vec::Vec;
use core::mem::offset_of;

use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister64, CodeAssembler, CodeLabel, cl, dword_ptr, eax, ecx, edx, ptr,
    qword_ptr, r11, r11d, rax, rcx, rdx, rsp,
};
use iced_x86::{FlowControl, IcedError, Instruction};
use wire::calls::{
    BUCKETS, COUNTS, Calls, Count, Hook, MOVED, OPEN, OpenSystemCall, RINGS, Ring, first_row,
    row_key, want,
};

use crate::stub::Destination;

/// A probe of a system call whose stub counts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// The number of its hook.
    pub number: u32,
    /// Address of the `syscall` instruction.
    pub instruction: u64,
    /// Whether the probe stands behind the instruction, not before it.
    pub behind: bool,
    /// Whether calls are counted without their times, so that no clock is read ([`want::BARE`]).
    pub bare: bool,
    /// Address of the agent's [`Calls`].
    pub calls: u64,
    /// Address of the gate in the agent's image.
    pub gate: u64,
}

/// The code that counts never has more bytes.
pub(crate) const MOST: usize = 768;

/// In the upper half of [`Hook::counts`].
const BARE: i32 = (wire::calls::COUNTS_BARE >> 32) as i32;

/// Calls of a row between two that go to the agent.
const LOOK: u32 = 1 << 10;

/// Results above it, as unsigned numbers, are errors: the kernel's lie from -4095 to -1 (include/linux/err.h, `MAX_ERRNO`).
const LAST_RESULT: i32 = -4096;

// What the code below counts on.
const _: () = {
    assert!(offset_of!(Calls, rings) == 0 && RINGS == 4096 && MOVED == 1);
    assert!(size_of::<OpenSystemCall>() == 96 && OPEN.is_power_of_two());
    assert!(size_of::<Ring>() <= 4096);
    assert!(COUNTS * size_of::<Count>() < i32::MAX as usize);
};

/// Offset in the call's `OpenSystemCall` at which rax, rdx and rcx are kept: in words that a counted call does not need.
const KEPT: usize = offset_of!(OpenSystemCall, arguments);

fn at(base: AsmRegister64, offset: usize) -> AsmMemoryOperand {
    base + offset as i32
}

/// A field of the ring in r11.
fn ring(offset: usize) -> AsmMemoryOperand {
    at(r11, offset)
}

/// A field of an open call, by the register that has the address of its slot less the distance of the first slot.
fn open(base: AsmRegister64, offset: usize) -> AsmMemoryOperand {
    at(base, offset_of!(Ring, system_calls) + offset)
}

/// A field of the row in rcx.
fn row(offset: usize) -> AsmMemoryOperand {
    at(rcx, offset)
}

impl Counting {
    /// The probe's code between what is stolen before and behind it: this one's, and the way to the routine.
    pub(crate) fn code(&self, to: Destination) -> Result<Vec<Instruction>, IcedError> {
        let mut code = CodeAssembler::new(64)?;
        let a = &mut code;
        let (mut routine, mut done) = (a.create_label(), a.create_label());
        self.find_ring(a, to.descriptor, routine)?;
        if self.behind {
            self.count(a, routine, done)?;
        } else {
            self.note(a, to.descriptor, done)?;
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

    /// r11 = the ring of this thread, in which this place may count; rcx is changed.
    fn find_ring(
        &self,
        a: &mut CodeAssembler,
        hook: u64,
        routine: CodeLabel,
    ) -> Result<(), IcedError> {
        let gate = self.gate.wrapping_sub(self.calls) as i32;
        // First, as in every hook: in a child of fork, whose gate is closed, nothing else may be there.
        a.mov(rcx, self.calls)?;
        a.mov(r11d, dword_ptr(rcx + gate))?;
        a.test(r11d, r11d)?;
        a.je(routine)?;
        a.mov(rcx, hook)?;
        a.cmp(r11d, dword_ptr(at(rcx, offset_of!(Hook, counts))))?;
        a.jne(routine)?;
        a.cmp(
            dword_ptr(at(rcx, offset_of!(Hook, counts) + 4)),
            if self.bare { BARE } else { 0 },
        )?;
        a.jne(routine)?;
        // `routine::room::place`, times 8.
        a.rdfsbase(rcx)?;
        a.mov(r11, rcx)?;
        a.shr(r11, 14)?;
        a.xor(r11d, ecx)?;
        a.shr(r11d, 3)?;
        a.and(r11d, (RINGS as i32 - 1) * 8)?;
        a.mov(rcx, self.calls)?;
        a.mov(r11, ptr(rcx + r11))?;
        a.cmp(r11, MOVED as i32)?;
        a.jbe(routine)?;
        a.cmp(qword_ptr(at(rcx, offset_of!(Calls, language))), 0)?;
        a.jne(routine)?;
        a.mov(rcx, hook)?;
        a.mov(ecx, dword_ptr(at(rcx, offset_of!(Hook, counts))))?;
        a.cmp(ecx, dword_ptr(ring(offset_of!(Ring, session))))?;
        a.jne(routine)?;
        a.rdfsbase(rcx)?;
        a.cmp(rcx, ptr(ring(offset_of!(Ring, thread))))?;
        a.jne(routine)?;
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

    /// Before the system call: it is open from here on.
    fn note(&self, a: &mut CodeAssembler, hook: u64, done: CodeLabel) -> Result<(), IcedError> {
        a.mov(rcx, ptr(ring(offset_of!(Ring, depth))))?;
        a.add(rcx, 1)?;
        a.mov(ptr(ring(offset_of!(Ring, depth))), rcx)?;
        newest(a)?;
        a.add(rcx, r11)?;
        // The session; no line.
        a.mov(r11d, dword_ptr(ring(offset_of!(Ring, session))))?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, ticket))), r11)?;
        a.mov(r11, self.instruction)?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, instruction))), r11)?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, stack))), rsp)?;
        a.mov(
            qword_ptr(open(rcx, offset_of!(OpenSystemCall, injected))),
            0,
        )?;
        // Not `agent::calls::ticket::UNTOLD`, where no time is.
        a.mov(qword_ptr(open(rcx, offset_of!(OpenSystemCall, began))), 1)?;
        a.mov(r11, hook)?;
        a.mov(r11, ptr(at(r11, offset_of!(Hook, called))))?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, hook))), r11)?;
        if self.bare {
            return a.jmp(done);
        }
        a.mov(r11, rcx)?;
        keep(a, r11)?;
        ticks(a)?;
        a.mov(ptr(open(r11, offset_of!(OpenSystemCall, began))), rax)?;
        restore(a)?;
        a.jmp(done)
    }

    /// Behind it: it is counted, and open no more.
    fn count(
        &self,
        a: &mut CodeAssembler,
        routine: CodeLabel,
        done: CodeLabel,
    ) -> Result<(), IcedError> {
        a.mov(rcx, ptr(ring(offset_of!(Ring, depth))))?;
        a.test(rcx, rcx)?;
        a.je(routine)?;
        newest(a)?;
        a.add(rcx, r11)?;
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
        if !self.bare {
            keep(a, rcx)?;
        }
        a.mov(rcx, ptr(open(rcx, offset_of!(OpenSystemCall, hook))))?;
        a.test(rcx, rcx)?;
        a.je(routine)?;
        a.mov(ecx, dword_ptr(at(rcx, offset_of!(Hook, want))))?;
        a.and(ecx, !(want::PLACE as i32))?;
        let bare = if self.bare { want::BARE } else { 0 };
        a.cmp(ecx, (want::COUNT | bare) as i32)?;
        a.jne(routine)?;
        let (mut failed, mut counted) = (a.create_label(), a.create_label());
        self.add(a, routine)?;
        a.cmp(rax, LAST_RESULT)?;
        a.ja(failed)?;
        a.set_label(&mut counted)?;
        let seldom = if self.bare { None } else { Some(time(a)?) };
        a.sub(qword_ptr(ring(offset_of!(Ring, depth))), 1)?;
        a.jmp(done)?;
        a.set_label(&mut failed)?;
        a.add(qword_ptr(row(offset_of!(Count, errors))), 1)?;
        a.jmp(counted)?;
        seldom.map_or(Ok(()), |seldom| seldom.code(a))
    }

    /// rcx = the row of this place, to which a call is added.
    fn add(&self, a: &mut CodeAssembler, routine: CodeLabel) -> Result<(), IcedError> {
        a.cmp(qword_ptr(ring(offset_of!(Ring, counts))), 0)?;
        a.je(routine)?;
        let key = row_key(self.number, 0);
        a.mov(rcx, ptr(ring(offset_of!(Ring, counts))))?;
        a.add(rcx, (first_row(key) * size_of::<Count>()) as i32)?;
        a.cmp(qword_ptr(row(offset_of!(Count, key))), key as i32)?;
        a.jne(routine)?;
        a.test(dword_ptr(row(offset_of!(Count, returned))), LOOK as i32 - 1)?;
        a.je(routine)?;
        a.add(qword_ptr(row(offset_of!(Count, begun))), 1)?;
        a.add(qword_ptr(row(offset_of!(Count, returned))), 1)
    }
}

/// Out of the depth in rcx: the distance in bytes of the newest open call from the first.
fn newest(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.sub(ecx, 1)?;
    a.and(ecx, OPEN as i32 - 1)?;
    a.lea(rcx, rcx + rcx * 2)?;
    a.shl(ecx, 5)
}

/// Keeps rax and rdx in the slot.
fn keep(a: &mut CodeAssembler, slot: AsmRegister64) -> Result<(), IcedError> {
    a.mov(ptr(open(slot, KEPT)), rax)?;
    a.mov(ptr(open(slot, KEPT + 8)), rdx)
}

/// Has them as they were; the slot is in r11.
fn restore(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, ptr(open(r11, KEPT)))?;
    a.mov(rdx, ptr(open(r11, KEPT + 8)))
}

/// rax = the time-stamp counter; rdx is changed.
fn ticks(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.rdtsc()?;
    a.shl(rdx, 32)?;
    a.or(rax, rdx)
}

/// What is seldom done of [`time`]: the labels of its beginnings, and of where each goes on.
struct Seldom {
    longer: [CodeLabel; 2],
    shorter: [CodeLabel; 2],
    few: [CodeLabel; 2],
    many: CodeLabel,
}

/// Adds how long the newest open call has taken to the row in rcx, as `agent::calls::counts::returned` does. rax and rdx are kept
/// in its slot, and restored.
fn time(a: &mut CodeAssembler) -> Result<Seldom, IcedError> {
    let mut pair = || [a.create_label(), a.create_label()];
    let (mut longer, mut shorter, mut few) = (pair(), pair(), pair());
    let many = a.create_label();
    a.mov(rdx, ptr(ring(offset_of!(Ring, depth))))?;
    a.sub(edx, 1)?;
    a.and(edx, OPEN as i32 - 1)?;
    a.lea(rdx, rdx + rdx * 2)?;
    a.shl(edx, 5)?;
    a.add(r11, rdx)?;
    ticks(a)?;
    a.sub(rax, ptr(open(r11, offset_of!(OpenSystemCall, began))))?;
    a.add(ptr(row(offset_of!(Count, total))), rax)?;
    a.mov(rdx, rax)?;
    a.cmp(rdx, ptr(row(offset_of!(Count, longest))))?;
    a.ja(longer[0])?;
    a.set_label(&mut longer[1])?;
    // None yet is 0, and so the largest number now.
    a.mov(rax, ptr(row(offset_of!(Count, shortest))))?;
    a.sub(rax, 1)?;
    a.cmp(rax, rdx)?;
    a.jae(shorter[0])?;
    a.set_label(&mut shorter[1])?;
    // `wire::calls::bucket`.
    a.mov(ptr(open(r11, KEPT + 16)), rcx)?;
    a.cmp(rdx, 4)?;
    a.jb(few[0])?;
    a.mov(rax, rdx)?;
    a.bsr(rcx, rax)?;
    a.lea(edx, rcx * 4 - 4)?;
    a.sub(ecx, 2)?;
    a.shr(rax, cl)?;
    a.and(eax, 3)?;
    a.add(edx, eax)?;
    a.cmp(edx, BUCKETS as i32 - 1)?;
    a.ja(many)?;
    a.set_label(&mut few[1])?;
    a.mov(rcx, ptr(open(r11, KEPT + 16)))?;
    a.add(
        dword_ptr(rcx + rdx * 4 + offset_of!(Count, buckets) as i32),
        1,
    )?;
    restore(a)?;
    // A ring begins with a page.
    a.and(r11, -4096)?;
    Ok(Seldom {
        longer,
        shorter,
        few,
        many,
    })
}

impl Seldom {
    fn code(self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        let Seldom {
            mut longer,
            mut shorter,
            mut few,
            mut many,
        } = self;
        // rdx is longer, unless a handler has put a longer one there meanwhile.
        let mut again = a.create_label();
        a.set_label(&mut longer[0])?;
        a.mov(rax, ptr(row(offset_of!(Count, longest))))?;
        a.set_label(&mut again)?;
        a.cmp(rax, rdx)?;
        a.jae(longer[1])?;
        a.cmpxchg(ptr(row(offset_of!(Count, longest))), rdx)?;
        a.jne(again)?;
        a.jmp(longer[1])?;
        // rdx is shorter, or the first.
        let (mut again, mut replace) = (a.create_label(), a.create_label());
        a.set_label(&mut shorter[0])?;
        a.mov(rax, ptr(row(offset_of!(Count, shortest))))?;
        a.set_label(&mut again)?;
        a.test(rax, rax)?;
        a.je(replace)?;
        a.cmp(rax, rdx)?;
        a.jbe(shorter[1])?;
        a.set_label(&mut replace)?;
        a.cmpxchg(ptr(row(offset_of!(Count, shortest))), rdx)?;
        a.jne(again)?;
        a.jmp(shorter[1])?;
        a.set_label(&mut few[0])?;
        a.jmp(few[1])?;
        a.set_label(&mut many)?;
        a.mov(edx, BUCKETS as i32 - 1)?;
        a.jmp(few[1])
    }
}

/// The instructions with addresses that none of the guest's has, so that those which branch to one another are led there wherever they
/// are encoded (`relocate.rs`).
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
