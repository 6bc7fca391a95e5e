//! Recording: before the call its record with room for the return behind it, as `agent::calls::record` makes them; behind the call
//! the room is filled, as `agent::calls::events::fill` does. Layouts: `wire::calls::record`.
//!
//! The arguments of the system call are kept in the room of the open call, where the agent wants them anyway, and so their registers can be
//! used. rax is kept there in a word without which no thread owns the call: before the call that of the ticket, which is written last, and behind
//! it that of the instruction, whose value is known. (A handler may leave by longjmp, and what it leaves behind must not be taken for a call
//! later.) All have their values again before the room of the open call is given back, and before anything is left to the routine. The routine is asked where the ring has no room that is known of (so
//! a command that reads no more is noticed when its ring is full), where another record came in between, and where the call took too long
//! for the room.

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

/// Those that are used here, by their index.
const USED: [usize; 4] = [0, 1, 2, 4];

/// What is wanted of the call, beside the script's line, which is nobody's where no VM runs.
const WANTED: i32 = (want::ENTRY | want::RETURN) as i32;

/// Bytes behind a record at which the cache line is fetched that a later one will be written to: the reader has it in another processor's
/// cache, and it comes while the kernel works.
const AHEAD: i32 = 192;

/// A word of the open call in rcx.
fn word(offset: usize) -> AsmMemoryOperand {
    open(rcx, offset)
}

/// Where an argument of the open call is.
fn argument(index: usize) -> AsmMemoryOperand {
    word(offset_of!(OpenSystemCall, arguments) + index * 8)
}

/// Where rax is kept in the open call before the system call.
fn kept_before() -> AsmMemoryOperand {
    word(offset_of!(OpenSystemCall, ticket))
}

/// Where rax is kept in the open call behind it.
fn kept_result() -> AsmMemoryOperand {
    word(offset_of!(OpenSystemCall, instruction))
}

/// A field of what the ring in r11 says of its records.
fn written(offset: usize) -> AsmMemoryOperand {
    ring(offset_of!(Ring, written) + offset)
}

/// A word of the record whose first word is at rdi.
fn recorded(index: u64) -> AsmMemoryOperand {
    at(rdi, index as usize * 8)
}

/// rdi = the address of the position in rdx; rax is changed.
fn address(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, ptr(ring(offset_of!(Ring, size))))?;
    a.sub(rax, 1)?;
    a.lea(rdi, rdx * 8)?;
    a.and(rdi, rax)?;
    a.add(rdi, ptr(ring(offset_of!(Ring, records))))
}

/// The registers of [`USED`] have the values that were kept.
fn restore_used(a: &mut CodeAssembler) -> Result<(), IcedError> {
    for index in USED {
        a.mov(ARGUMENTS[index], ptr(argument(index)))?;
    }
    Ok(())
}

/// Before the call: all registers have the values that were kept, and the call its ticket: the session, and no line.
fn restore_before(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rax, ptr(kept_before()))?;
    a.mov(esi, dword_ptr(ring(offset_of!(Ring, session))))?;
    a.mov(ptr(word(offset_of!(OpenSystemCall, ticket))), rsi)?;
    restore_used(a)
}

/// rsi = what the hook in rax wants, beside the script's line.
fn wanted(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(rsi, ptr(at(rax, offset_of!(Hook, want))))?;
    a.and(rsi, !(want::PLACE as i32))
}

/// A system call that is recorded.
pub(super) struct Call {
    /// The number by which the record names its hook, and what the record holds.
    pub recorded: Recorded,
    /// Address of the instruction.
    pub instruction: u64,
}

impl Call {
    /// Before the system call: it is open and recorded from here on. The place's hook is at `hook`; where it goes on is `routine`, or
    /// `done`.
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

    /// rcx = the call, which is open now; rsi = what is wanted of it. The registers of [`USED`] and rax are kept.
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

    /// rdx = the position of room for the record and for the return, rdi its address.
    fn reserve(&self, a: &mut CodeAssembler, otherwise: CodeLabel) -> Result<(), IcedError> {
        let take = self.recorded.shape.entry_words() + self.recorded.shape.room_words();
        let mut again = a.create_label();
        a.mov(rax, ptr(written(offset_of!(Written, reserved))))?;
        a.set_label(&mut again)?;
        a.lea(rdx, rax + take as i32)?;
        a.cmp(rdx, ptr(written(offset_of!(Written, limit))))?;
        a.ja(otherwise)?;
        // A handler that came in between has reserved some; rax is then what it left.
        a.cmpxchg(ptr(written(offset_of!(Written, reserved))), rdx)?;
        a.jne(again)?;
        a.mov(rdx, rax)?;
        address(a)
    }

    /// Writes the record, whose position is in rdx, its address in rdi and its time in rsi. The room first, and the first word last: until
    /// then it says how long both are, and that they are being written.
    fn record(&self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        let Recorded { number, shape } = self.recorded;
        let (words, room) = (shape.entry_words(), shape.room_words());
        a.mov(r8, rdx)?;
        a.shl(r8, 32)?;
        a.lea(rax, r8 + header(words + room, kind::BEGUN, 0) as i32)?;
        a.mov(ptr(recorded(0)), rax)?;
        let [time, stack, caller] = record::call(number.into(), 0, 0, 0, self.instruction);
        // The time above the number's lower part, and then turned.
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
        // The room's own first word.
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

    /// Behind the system call, whose open call is in rcx: fills the room behind its record.
    pub(super) fn fill(
        &self,
        a: &mut CodeAssembler,
        [routine, done]: [CodeLabel; 2],
    ) -> Result<(), IcedError> {
        let shape = self.recorded.shape;
        let (mut another, mut otherwise, mut overtaken) =
            (a.create_label(), a.create_label(), a.create_label());
        // What the stub before has kept, or the agent; whoever has changed a register since then is served by the routine.
        for index in USED {
            a.cmp(ARGUMENTS[index], ptr(argument(index)))?;
            a.jne(routine)?;
        }
        a.cmp(qword_ptr(word(offset_of!(OpenSystemCall, injected))), 0)?;
        a.jne(routine)?;
        // Of this session, from whatever line.
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
        // r8 = how long it took.
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
        // rsi = the room's first word, which says that it is being filled.
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
        // A handler's records came in between, and the reader may have gone past the room.
        a.set_label(&mut overtaken)?;
        a.mov(rax, rsi)?;
        a.shr(rsi, 32)?;
        a.shl(rsi, 32)?;
        a.or(rsi, header(shape.room_words(), kind::GAP, 0) as i32)?;
        a.cmpxchg(ptr(recorded(0)), rsi)?;
        a.set_label(&mut otherwise)?;
        // The agent looks for the call by its instruction.
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

/// The lower half of the first word of the room.
fn room_header(shape: Shape) -> u64 {
    header(shape.room_words(), kind::ROOM, 0) | shape.return_bits()
}

/// rdi = the address of the room behind the newest call, rsi = its first word, which says now that it is being filled: if nothing was
/// recorded since. A handler that comes in at any instruction may write all of the ring, so the word is changed by one instruction that
/// compares it, and only then is it looked once more whether anything was reserved behind it.
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
