//! Records a system call inline: before the call its record, with room for the return behind it, as `agent::calls::record` writes them;
//! behind the call the return is filled in, as `agent::calls::events::fill` does. Layouts: `wire::calls::record`. Used
//! by `inline`.
//!
//! The system call's arguments are kept in the slot of the open call, where the agent expects them anyway, so that their registers can be
//! used here. rax is kept there in a word without which the slot counts as unused: before the call the word of the ticket, which is written
//! last, and behind the call that of the instruction, whose value is known. (A signal handler may leave by longjmp; the slot that it leaves
//! behind must not be taken for a call later.) All registers are restored before the slot is released and before anything is left to the
//! routine. The routine takes over where the ring has no room that is known of (so a command that no longer reads is noticed when its ring
//! is full), where another record came in between, and where the call took too long for the room.

use core::mem::offset_of;

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister64, CodeAssembler, CodeLabel, dword_ptr, eax, esi, ptr, qword_ptr,
    r8, r9, r10, rax, rcx, rdi, rdx, rsi, rsp,
};
use wire::calls::record::{self, Shape};
use wire::calls::{Hook, OpenSystemCall, Ring, Written, header, kind, want};

use super::{Recorded, at, open, open_another, ring, ticks};

/// Registers of a system call's arguments, in the order of [`OpenSystemCall::arguments`].
const ARGUMENTS: [AsmRegister64; 6] = [rdi, rsi, rdx, r10, r8, r9];

/// Indices of those that this code uses for itself.
const USED: [usize; 4] = [0, 1, 2, 4];

/// What the hook must want of the call; the script's line may be wanted too, because none exists where no VM runs.
const WANTED: i32 = (want::ENTRY | want::RETURN) as i32;

/// Distance in bytes from a record to the cache line that is prefetched for a later one. The reader's processor holds that line in its
/// cache, and it arrives while the kernel works.
const AHEAD: i32 = 192;

/// The operand of a word of the open call in rcx.
fn word(offset: usize) -> AsmMemoryOperand {
    open(rcx, offset)
}

/// The operand of an argument of the open call in rcx.
fn argument(index: usize) -> AsmMemoryOperand {
    word(offset_of!(OpenSystemCall, arguments) + index * 8)
}

/// The word of the open call that keeps rax before the system call.
fn kept_before() -> AsmMemoryOperand {
    word(offset_of!(OpenSystemCall, ticket))
}

/// The word of the open call that keeps rax behind the system call.
fn kept_result() -> AsmMemoryOperand {
    word(offset_of!(OpenSystemCall, instruction))
}

/// The operand of a field of [`Written`], in the ring in r11.
fn written(offset: usize) -> AsmMemoryOperand {
    ring(offset_of!(Ring, written) + offset)
}

/// The operand of a word of the record that begins at rdi.
fn recorded(index: u64) -> AsmMemoryOperand {
    at(rdi, index as usize * 8)
}

/// Turns the position in rdx into an address in rdi. Changes rax.
fn address(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, ptr(ring(offset_of!(Ring, size))))?;
    a.sub(rax, 1)?;
    a.lea(rdi, rdx * 8)?;
    a.and(rdi, rax)?;
    a.add(rdi, ptr(ring(offset_of!(Ring, records))))
}

/// Restores the registers of [`USED`].
fn restore_used(a: &mut CodeAssembler) -> Result<(), IcedError> {
    for index in USED {
        a.mov(ARGUMENTS[index], ptr(argument(index)))?;
    }
    Ok(())
}

/// Before the call: restores all registers, and writes the call's ticket: the session, and no line.
fn restore_before(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, ptr(kept_before()))?;
    a.mov(esi, dword_ptr(ring(offset_of!(Ring, session))))?;
    a.mov(ptr(word(offset_of!(OpenSystemCall, ticket))), rsi)?;
    restore_used(a)
}

/// Loads into rsi what the hook in rax wants, without the script's line.
fn wanted(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rsi, ptr(at(rax, offset_of!(Hook, want))))?;
    a.and(rsi, !(want::PLACE as i32))
}

/// A system call that a stub records.
pub(super) struct Call {
    /// The number by which the record names its hook, and what the record holds.
    pub recorded: Recorded,
    /// Address of the instruction.
    pub instruction: u64,
}

impl Call {
    /// Makes the code before the system call: from here on the call is open and recorded. The place's hook is at `hook`. The code goes on
    /// at `routine` or at `done`.
    pub(super) fn write(
        &self,
        a: &mut CodeAssembler,
        hook: u64,
        [routine, done]: [CodeLabel; 2],
    ) -> Result<(), IcedError> {
        let mut otherwise = a.create_label();
        self.open(a, hook)?;
        a.cmp(rsi, WANTED)?;
        a.jne(otherwise)?;
        ticks(a)?;
        a.mov(ptr(word(offset_of!(OpenSystemCall, began))), rax)?;
        a.mov(rsi, rax)?;
        self.reserve(a, otherwise)?;
        self.record(a)?;
        a.prefetchw(ptr(rdi + AHEAD))?;
        restore_before(a)?;
        a.jmp(done)?;
        a.set_label(&mut otherwise)?;
        restore_before(a)?;
        a.sub(qword_ptr(ring(offset_of!(Ring, depth))), 1)?;
        a.jmp(routine)
    }

    /// Opens the call and loads its slot into rcx, and into rsi what is wanted of it. Keeps the registers of [`USED`], and rax.
    fn open(&self, a: &mut CodeAssembler, hook: u64) -> Result<(), IcedError> {
        open_another(a)?;
        for (index, register) in ARGUMENTS.into_iter().enumerate() {
            a.mov(ptr(argument(index)), register)?;
        }
        a.mov(ptr(kept_before()), rax)?;
        a.mov(qword_ptr(word(offset_of!(OpenSystemCall, injected))), 0)?;
        a.mov(rax, self.instruction)?;
        a.mov(ptr(word(offset_of!(OpenSystemCall, instruction))), rax)?;
        a.mov(ptr(word(offset_of!(OpenSystemCall, stack))), rsp)?;
        a.mov(rax, hook)?;
        a.mov(rax, ptr(at(rax, offset_of!(Hook, called))))?;
        a.mov(ptr(word(offset_of!(OpenSystemCall, hook))), rax)?;
        wanted(a)
    }

    /// Reserves room for the record and the return: its position in rdx, its address in rdi.
    fn reserve(&self, a: &mut CodeAssembler, otherwise: CodeLabel) -> Result<(), IcedError> {
        let take = self.recorded.shape.entry_words() + self.recorded.shape.room_words();
        let mut again = a.create_label();
        a.mov(rax, ptr(written(offset_of!(Written, reserved))))?;
        a.set_label(&mut again)?;
        a.lea(rdx, rax + take as i32)?;
        a.cmp(rdx, ptr(written(offset_of!(Written, limit))))?;
        a.ja(otherwise)?;
        // A signal handler that ran in between has reserved some; rax then holds the new position.
        a.cmpxchg(ptr(written(offset_of!(Written, reserved))), rdx)?;
        a.jne(again)?;
        a.mov(rdx, rax)?;
        address(a)
    }

    /// Writes the record: position in rdx, address in rdi, time in rsi. The room for the return comes first and the record's first word
    /// last: until then that word says how long both are, and that they are being written.
    fn record(&self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        let Recorded { number, shape } = self.recorded;
        let (words, room) = (shape.entry_words(), shape.room_words());
        a.mov(r8, rdx)?;
        a.shl(r8, 32)?;
        a.lea(rax, r8 + header(words + room, kind::BEGUN, 0) as i32)?;
        a.mov(ptr(recorded(0)), rax)?;
        let [time, stack, caller] = record::call(number.into(), 0, 0, 0, self.instruction);
        // The time goes above the lower part of the hook's number, and the word is then rotated.
        a.mov(rax, rsi)?;
        a.shl(rax, (64 - record::TIME) as i32)?;
        a.or(rax, (time >> record::TIME) as i32)?;
        a.ror(rax, (64 - record::TIME) as i32)?;
        a.mov(ptr(recorded(1)), rax)?;
        let above = (64 - record::ADDRESS) as i32;
        a.mov(rax, rsp)?;
        a.shl(rax, above)?;
        if stack == 0 {
            a.shr(rax, above)?;
        } else {
            a.or(rax, (stack >> record::ADDRESS) as i32)?;
            a.ror(rax, above)?;
        }
        a.mov(ptr(recorded(2)), rax)?;
        a.mov(rax, caller)?;
        a.mov(ptr(recorded(3)), rax)?;
        self.record_arguments(a)?;
        // The first word of the room for the return.
        a.lea(rdx, rdx + words as i32)?;
        a.mov(rax, rdx)?;
        a.shl(rax, 32)?;
        a.or(rax, room_header(shape) as i32)?;
        a.mov(ptr(recorded(words)), rax)?;
        a.mov(ptr(written(offset_of!(Written, began))), rsi)?;
        a.mov(ptr(written(offset_of!(Written, room))), rdx)?;
        let whole = header(words, kind::ENTRY, 0) | shape.entry_bits();
        a.or(r8, whole as i32)?;
        a.mov(ptr(recorded(0)), r8)
    }

    /// Writes the arguments, two in a word where they are narrow.
    fn record_arguments(&self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        let first = record::ENTRY as usize * 8;
        for index in 0..self.recorded.shape.integers() as usize {
            if self.recorded.shape.is_narrow() {
                a.mov(eax, dword_ptr(argument(index)))?;
                a.mov(dword_ptr(at(rdi, first + index * 4)), eax)?;
            } else {
                a.mov(rax, ptr(argument(index)))?;
                a.mov(ptr(at(rdi, first + index * 8)), rax)?;
            }
        }
        Ok(())
    }

    /// Makes the code behind the system call, whose open call is in rcx: fills the room behind its record.
    pub(super) fn fill(
        &self,
        a: &mut CodeAssembler,
        [routine, done]: [CodeLabel; 2],
    ) -> Result<(), IcedError> {
        let shape = self.recorded.shape;
        let (mut another, mut otherwise, mut overtaken) =
            (a.create_label(), a.create_label(), a.create_label());
        // The values that the stub before the call or the agent has kept. If the guest has changed a register since, the routine takes
        // over.
        for index in USED {
            a.cmp(ARGUMENTS[index], ptr(argument(index)))?;
            a.jne(routine)?;
        }
        a.cmp(qword_ptr(word(offset_of!(OpenSystemCall, injected))), 0)?;
        a.jne(routine)?;
        // The ticket must be of this session, with any line.
        a.mov(esi, dword_ptr(ring(offset_of!(Ring, session))))?;
        a.cmp(esi, dword_ptr(word(offset_of!(OpenSystemCall, ticket))))?;
        a.jne(another)?;
        a.mov(ptr(kept_result()), rax)?;
        a.mov(rax, ptr(word(offset_of!(OpenSystemCall, hook))))?;
        a.test(rax, rax)?;
        a.je(otherwise)?;
        wanted(a)?;
        a.cmp(rsi, WANTED)?;
        a.jne(otherwise)?;
        ticks(a)?;
        // r8 = the duration of the call.
        a.mov(rsi, ptr(word(offset_of!(OpenSystemCall, began))))?;
        a.test(rsi, rsi)?;
        a.je(otherwise)?;
        a.cmp(rsi, ptr(written(offset_of!(Written, began))))?;
        a.jne(otherwise)?;
        a.sub(rax, rsi)?;
        a.mov(r8, rax)?;
        a.shr(rax, 32)?;
        a.jne(otherwise)?;
        claim(a, shape, [otherwise, overtaken])?;
        // rsi = the first word of the room, marked as being filled.
        if shape.has_narrow_result() {
            a.mov(eax, dword_ptr(kept_result()))?;
            a.shl(rax, 32)?;
            a.or(r8, rax)?;
        } else {
            a.mov(rax, ptr(kept_result()))?;
            a.mov(ptr(recorded(2)), rax)?;
        }
        a.mov(ptr(recorded(1)), r8)?;
        if shape.second_result() {
            let at = record::ROOM + u64::from(!shape.has_narrow_result());
            a.mov(rax, ptr(argument(2)))?;
            a.mov(ptr(recorded(at)), rax)?;
        }
        a.sub(rsi, ((kind::BEGUN - kind::RETURNED) << 16) as i32)?;
        a.mov(ptr(recorded(0)), rsi)?;
        a.mov(rax, ptr(kept_result()))?;
        restore_used(a)?;
        a.sub(qword_ptr(ring(offset_of!(Ring, depth))), 1)?;
        a.jmp(done)?;
        // Records of a signal handler came in between, and the reader may have gone past the room.
        a.set_label(&mut overtaken)?;
        a.mov(rax, rsi)?;
        a.shr(rsi, 32)?;
        a.shl(rsi, 32)?;
        a.or(rsi, header(shape.room_words(), kind::GAP, 0) as i32)?;
        a.cmpxchg(ptr(recorded(0)), rsi)?;
        a.set_label(&mut otherwise)?;
        // The agent finds the call by its instruction's address.
        a.mov(rax, ptr(kept_result()))?;
        a.mov(rsi, self.instruction)?;
        a.mov(ptr(kept_result()), rsi)?;
        restore_used(a)?;
        a.jmp(routine)?;
        a.set_label(&mut another)?;
        a.mov(rsi, ptr(argument(1)))?;
        a.jmp(routine)
    }
}

/// The lower half of the first word of the room for the return.
fn room_header(shape: Shape) -> u64 {
    header(shape.room_words(), kind::ROOM, 0) | shape.return_bits()
}

/// Loads the address of the room behind the newest call into rdi and its first word, now marked as being filled, into rsi; goes elsewhere
/// if anything was recorded since. A signal handler that runs at any instruction may fill the whole ring. So the word is changed by one
/// instruction that also compares it, and only after that is it checked again whether anything was reserved behind the room.
fn claim(
    a: &mut CodeAssembler,
    shape: Shape,
    [otherwise, overtaken]: [CodeLabel; 2],
) -> Result<(), IcedError> {
    a.mov(rdx, ptr(written(offset_of!(Written, room))))?;
    address(a)?;
    a.mov(rax, rdx)?;
    a.shl(rax, 32)?;
    a.or(rax, room_header(shape) as i32)?;
    a.add(rdx, shape.room_words() as i32)?;
    a.cmp(rdx, ptr(written(offset_of!(Written, reserved))))?;
    a.jne(otherwise)?;
    a.lea(rsi, rax + ((kind::BEGUN - kind::ROOM) << 16) as i32)?;
    a.cmpxchg(ptr(recorded(0)), rsi)?;
    a.jne(otherwise)?;
    a.cmp(rdx, ptr(written(offset_of!(Written, reserved))))?;
    a.jne(overtaken)
}
