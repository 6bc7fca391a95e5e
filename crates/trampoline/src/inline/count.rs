//! Counting: behind the call, the place's row has one more call, and what is told of its time.
//!
//! Every 1,024th call of a row goes to the agent, which looks whether the command lives (`agent::calls::pulse`), and so does the first,
//! for which it makes the row. A row that does not stand where it is looked for first is left to the agent, too. rax and rdx, which
//! `rdtsc` and multiplications change, are kept in the room of the open call, and restored before that is given back.
//!
//! Where the agent has noted a script's line before the call, the row is that of the place and the line, and found by the hash of both.

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

/// Results above it, as unsigned numbers, are errors: the kernel's lie from -4095 to -1 (include/linux/err.h, `MAX_ERRNO`).
const LAST_RESULT: i32 = -4096;

const _: () = assert!(COUNTS * size_of::<Count>() < i32::MAX as usize);

/// Offset in the call's `OpenSystemCall` at which rax, rdx and rcx are kept: in words that a counted call does not need.
const KEPT: usize = offset_of!(OpenSystemCall, arguments);

/// A field of the row in rcx.
fn row(offset: usize) -> AsmMemoryOperand {
    at(rcx, offset)
}

impl Inline {
    /// Before the system call: it is open from here on.
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

    /// Behind it, with times or without: it is counted, and open no more.
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

/// Whether so much is wanted of the open call in rcx, which is changed.
fn is_wanted(a: &mut CodeAssembler, wanted: u64, routine: CodeLabel) -> Result<(), IcedError> {
    a.mov(rcx, ptr(open(rcx, offset_of!(OpenSystemCall, hook))))?;
    a.test(rcx, rcx)?;
    a.je(routine)?;
    a.mov(ecx, dword_ptr(at(rcx, offset_of!(Hook, want))))?;
    a.and(ecx, !(want::PLACE as i32))?;
    a.cmp(ecx, wanted as i32)?;
    a.jne(routine)
}

/// rcx = the row of this place, to which a call is added.
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

/// Adds a call to the row in rcx, unless it is one that the agent wants to see.
fn add_to(a: &mut CodeAssembler, routine: CodeLabel) -> Result<(), IcedError> {
    a.test(dword_ptr(row(offset_of!(Count, returned))), LOOK as i32 - 1)?;
    a.je(routine)?;
    a.add(qword_ptr(row(offset_of!(Count, begun))), 1)?;
    a.add(qword_ptr(row(offset_of!(Count, returned))), 1)
}

/// The same for the row of this place and the line of the open call in rcx (`agent::calls::counts`: `key`, `row`). Its hash is `wire::mix`,
/// a multiplication by 128 bits; what is multiplied and the lower half of it are kept in the call's room meanwhile.
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
    // rcx = the row, r11 = the call; and then the ring, which begins with a page.
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
