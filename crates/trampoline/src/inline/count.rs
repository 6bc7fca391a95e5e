//! Counts a system call inline: behind the call, the row of its place gets one more call, and its time where wanted.
//! Used by `inline`.
//!
//! The first call of a row and every 1,024th go to the agent, which makes the row and checks whether the command still lives
//! (`agent::calls::pulse`). So does a call whose row is not in the first place where it is searched for. `rdtsc` and multiplications change
//! rax and rdx; both are kept in the slot of the open call and restored before the slot is released.
//!
//! Where the agent has noted a script's line before the call, the row is that of place and line, found by the hash of both.

use core::mem::offset_of;

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister64, CodeAssembler, CodeLabel, cl, dword_ptr, eax, ecx, edx, ptr,
    qword_ptr, r11, r11d, rax, rcx, rdx, rsp, word_ptr,
};
use wire::FACTOR;
use wire::calls::{
    BUCKETS, COUNTS, Count, Hook, NO_APPLICATION, OPEN, OpenSystemCall, Ring, first_row, inline,
    row_key, want,
};

use super::{Inline, at, newest, open, open_another, ring, ticks};

/// Calls of a row between two that go to the agent.
const LOOK: u32 = 1 << 10;

/// Results above this one, compared as unsigned numbers, are errors: the kernel's range from -4095 to -1 (include/linux/err.h,
/// `MAX_ERRNO`).
const LAST_RESULT: i32 = -4096;

const _: () = assert!(COUNTS * size_of::<Count>() < i32::MAX as usize);

/// Offset in the call's `OpenSystemCall` at which rax, rdx and rcx are kept: the words of the arguments, which a counted call does not
/// need.
const KEPT: usize = offset_of!(OpenSystemCall, arguments);

/// The operand of a field of the row whose address rcx holds.
fn row(offset: usize) -> AsmMemoryOperand {
    at(rcx, offset)
}

impl Inline {
    /// Makes the code before the system call, which notes the call as open.
    pub(super) fn note_counted(
        &self,
        a: &mut CodeAssembler,
        hook: u64,
        [routine, done]: [CodeLabel; 2],
    ) -> Result<(), IcedError> {
        let mut known = a.create_label();
        a.cmp(ecx, inline::COUNT as i32)?;
        a.je(known)?;
        a.cmp(ecx, inline::COUNT_BARE as i32)?;
        a.jne(routine)?;
        a.set_label(&mut known)?;
        open_another(a)?;
        // The ticket: the session's number, and no line.
        a.mov(r11d, dword_ptr(ring(offset_of!(Ring, session))))?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, ticket))), r11)?;
        a.mov(r11, self.instruction)?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, instruction))), r11)?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, stack))), rsp)?;
        a.mov(
            qword_ptr(open(rcx, offset_of!(OpenSystemCall, injected))),
            0,
        )?;
        // 1, because 0 is `agent::calls::ticket::UNTOLD`; no time is taken here.
        a.mov(qword_ptr(open(rcx, offset_of!(OpenSystemCall, began))), 1)?;
        a.mov(r11, hook)?;
        a.cmp(
            dword_ptr(at(r11, offset_of!(Hook, inline) + 4)),
            inline::COUNT as i32,
        )?;
        a.mov(r11, ptr(at(r11, offset_of!(Hook, called))))?;
        a.mov(ptr(open(rcx, offset_of!(OpenSystemCall, hook))), r11)?;
        a.jne(done)?;
        a.mov(r11, rcx)?;
        keep(a, r11)?;
        ticks(a)?;
        a.mov(ptr(open(r11, offset_of!(OpenSystemCall, began))), rax)?;
        restore(a)?;
        a.jmp(done)
    }

    /// Makes the code behind the system call, which counts it, with or without its time, and releases its slot.
    pub(super) fn count(
        &self,
        a: &mut CodeAssembler,
        [routine, done]: [CodeLabel; 2],
    ) -> Result<(), IcedError> {
        let mut bare = a.create_label();
        a.cmp(ecx, inline::COUNT as i32)?;
        a.jne(bare)?;
        self.count_one(a, true, [routine, done])?;
        a.set_label(&mut bare)?;
        a.cmp(ecx, inline::COUNT_BARE as i32)?;
        a.jne(routine)?;
        self.count_one(a, false, [routine, done])
    }

    fn count_one(
        &self,
        a: &mut CodeAssembler,
        times: bool,
        [routine, done]: [CodeLabel; 2],
    ) -> Result<(), IcedError> {
        self.is_newest(a, routine)?;
        if times {
            keep(a, rcx)?;
        }
        let wanted = want::COUNT | if times { 0 } else { want::BARE };
        let (mut failed, mut counted) = (a.create_label(), a.create_label());
        let (mut lined, mut added) = (a.create_label(), a.create_label());
        let line = dword_ptr(open(rcx, offset_of!(OpenSystemCall, ticket) + 4));
        a.cmp(line, 0)?;
        a.jne(lined)?;
        is_wanted(a, wanted, routine)?;
        add(a, self.number, routine)?;
        a.set_label(&mut added)?;
        a.cmp(rax, LAST_RESULT)?;
        a.ja(failed)?;
        a.set_label(&mut counted)?;
        let seldom = if times { Some(time(a)?) } else { None };
        a.sub(qword_ptr(ring(offset_of!(Ring, depth))), 1)?;
        a.jmp(done)?;
        a.set_label(&mut failed)?;
        a.add(qword_ptr(row(offset_of!(Count, errors))), 1)?;
        a.jmp(counted)?;
        a.set_label(&mut lined)?;
        is_wanted(a, wanted, routine)?;
        a.mov(rcx, ptr(ring(offset_of!(Ring, depth))))?;
        newest(a)?;
        add_of_line(a, self.number, [routine, added])?;
        seldom.map_or(Ok(()), |seldom| seldom.code(a))
    }
}

/// Goes to the routine unless the hook of the open call in rcx wants `wanted` and nothing else but the script's line. Changes rcx.
fn is_wanted(a: &mut CodeAssembler, wanted: u64, routine: CodeLabel) -> Result<(), IcedError> {
    a.mov(rcx, ptr(open(rcx, offset_of!(OpenSystemCall, hook))))?;
    a.test(rcx, rcx)?;
    a.je(routine)?;
    a.mov(ecx, dword_ptr(at(rcx, offset_of!(Hook, want))))?;
    a.and(ecx, !(want::PLACE as i32))?;
    a.cmp(ecx, wanted as i32)?;
    a.jne(routine)
}

/// Loads the row of this place into rcx, and adds a call to it.
fn add(a: &mut CodeAssembler, number: u32, routine: CodeLabel) -> Result<(), IcedError> {
    a.cmp(qword_ptr(ring(offset_of!(Ring, counts))), 0)?;
    a.je(routine)?;
    let key = row_key(number, 0);
    a.mov(rcx, ptr(ring(offset_of!(Ring, counts))))?;
    a.add(rcx, (first_row(key) * size_of::<Count>()) as i32)?;
    a.cmp(qword_ptr(row(offset_of!(Count, key))), key as i32)?;
    a.jne(routine)?;
    add_to(a, routine)
}

/// Adds a call to the row in rcx, or goes to the routine if the agent must see this call.
fn add_to(a: &mut CodeAssembler, routine: CodeLabel) -> Result<(), IcedError> {
    a.test(dword_ptr(row(offset_of!(Count, returned))), LOOK as i32 - 1)?;
    a.je(routine)?;
    a.add(qword_ptr(row(offset_of!(Count, begun))), 1)?;
    a.add(qword_ptr(row(offset_of!(Count, returned))), 1)
}

/// Like [`add`] for the row of this place and the line of the open call in rcx (`agent::calls::counts`: `key`, `row`). The hash is
/// `wire::mix`, a multiplication to 128 bits; its operand and the lower half of its product are kept in the call's slot meanwhile.
fn add_of_line(
    a: &mut CodeAssembler,
    number: u32,
    [routine, added]: [CodeLabel; 2],
) -> Result<(), IcedError> {
    let [key, lower] = [KEPT + 16, KEPT + 24].map(|kept| ptr(open(rcx, kept)));
    let mut otherwise = a.create_label();
    a.cmp(qword_ptr(ring(offset_of!(Ring, counts))), 0)?;
    a.je(routine)?;
    keep(a, rcx)?;
    a.movzx(
        eax,
        word_ptr(open(rcx, offset_of!(OpenSystemCall, ticket) + 4)),
    )?;
    a.cmp(eax, NO_APPLICATION as i32)?;
    a.je(otherwise)?;
    a.shl(rax, 32)?;
    a.or(rax, row_key(number, 0) as i32)?;
    a.mov(key, rax)?;
    a.mov(rdx, FACTOR as u64)?;
    a.mul(rdx)?;
    a.mov(lower, rax)?;
    a.mov(rax, (FACTOR >> 64) as u64)?;
    a.imul_2(rax, key)?;
    a.add(rax, rdx)?;
    a.xor(rax, lower)?;
    a.and(eax, COUNTS as i32 - 1)?;
    a.imul_3(eax, eax, size_of::<Count>() as i32)?;
    a.add(rax, ptr(ring(offset_of!(Ring, counts))))?;
    a.mov(rdx, key)?;
    a.cmp(ptr(at(rax, offset_of!(Count, key))), rdx)?;
    a.jne(otherwise)?;
    // rcx = the row, r11 = the call; then r11 = the ring again, which begins at a page boundary.
    a.mov(r11, rcx)?;
    a.mov(rcx, rax)?;
    restore(a)?;
    a.and(r11, -4096)?;
    add_to(a, routine)?;
    a.jmp(added)?;
    a.set_label(&mut otherwise)?;
    a.mov(r11, rcx)?;
    restore(a)?;
    a.jmp(routine)
}

/// Saves rax and rdx in the slot.
fn keep(a: &mut CodeAssembler, slot: AsmRegister64) -> Result<(), IcedError> {
    a.mov(ptr(open(slot, KEPT)), rax)?;
    a.mov(ptr(open(slot, KEPT + 8)), rdx)
}

/// Restores rax and rdx from the slot, whose address r11 holds.
fn restore(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, ptr(open(r11, KEPT)))?;
    a.mov(rdx, ptr(open(r11, KEPT + 8)))
}

/// Code of [`time`] that seldom runs, placed out of the way: the labels where its parts begin and where each goes back to.
struct Seldom {
    longer: [CodeLabel; 2],
    shorter: [CodeLabel; 2],
    few: [CodeLabel; 2],
    many: CodeLabel,
}

/// Adds the time that the newest open call has taken to the row in rcx, as `agent::calls::counts::returned` does. rax and rdx are kept in
/// the call's slot and restored.
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
    // 0 means that there is none yet; minus 1 it becomes the largest number.
    a.mov(rax, ptr(row(offset_of!(Count, shortest))))?;
    a.sub(rax, 1)?;
    a.cmp(rax, rdx)?;
    a.jae(shorter[0])?;
    a.set_label(&mut shorter[1])?;
    // The bucket's number, as `wire::calls::bucket` computes it.
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
    // The ring begins at a page boundary.
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
        // rdx is longer, unless a signal handler has stored a longer time meanwhile.
        let mut again = a.create_label();
        a.set_label(&mut longer[0])?;
        a.mov(rax, ptr(row(offset_of!(Count, longest))))?;
        a.set_label(&mut again)?;
        a.cmp(rax, rdx)?;
        a.jae(longer[1])?;
        a.cmpxchg(ptr(row(offset_of!(Count, longest))), rdx)?;
        a.jne(again)?;
        a.jmp(longer[1])?;
        // rdx is shorter, or is the first time.
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
