//! What all programs are made of: the maps that they share, their places on the stack, and the steps that several of them take.
//! Used by `watch`, `places`, `records` and others.

use crate::assembler::{Code, Helper, Label, Math, Program, Reg, Size, When};
use crate::kernel::Map;
use crate::processes::Processes;
use Reg::{Fp, R0, R1, R2, R3, R4, R6, R7, R8};
use Size::{Double, Word};

/// The maps that programs share, and what is asked of them.
pub struct Shared {
    /// The processes that are watched.
    pub watched: Processes,
    /// Threads by the address of their task: [`IDLE`] or number, and the beginning of that call, or, where calls are told, the ids with
    /// which it began.
    pub threads: Map,
    /// Tasks, by address, that a watched process has made and that have not returned from their fork; the value is the id of that
    /// process.
    pub born: Map,
    /// A row of [`ROW`] bytes for each number of a call; each processor has its own.
    pub figures: Map,
    /// What is lost: one such row.
    pub lost: Map,
    /// How many records of calls are lost, by ids of process and thread and the call's number ([`UNFIT`] on the stack).
    pub unfit: Map,
    /// Which calls are told, and what copies what their arguments point to, if calls are told.
    pub copier: Option<Copier>,
    /// The ring buffer of records, read by [`Ring`](crate::ring::Ring).
    pub ring: Map,
    /// Calls are told one by one; else they are counted.
    pub tells: bool,
    /// Who makes calls faster than they are read is held up.
    pub holds_up: bool,
    /// Children of watched processes are watched too.
    pub follow: bool,
}

/// The maps of [`copier`](crate::copier).
pub struct Copier {
    /// Its only value: for each row whether its calls are told ([`TOLD`]) and which words copy what they point to, and behind these
    /// [`ROWS_OF_ALL`] words those of all programs of crate `capture`.
    pub words: Map,
    /// The state and the record of each processor.
    pub scratch: Map,
}

/// Where a set of programs runs.
pub trait Within {
    /// lancet's PID namespace by device and inode, if it is not the first one.
    fn namespace(&self) -> Option<[u64; 2]>;
}

/// The maps of a set of programs.
pub trait Maps {
    /// The processes that these programs watch.
    fn processes(&self) -> &Processes;
}

impl<M: Maps> Within for M {
    fn namespace(&self) -> Option<[u64; 2]> {
        self.processes().namespace
    }
}

impl Maps for Shared {
    fn processes(&self) -> &Processes {
        &self.watched
    }
}

/// Rows of 64 bits, then as many of 32; the last of each stands for all numbers that are greater.
pub const ROWS: u32 = 512;
/// How many these are.
pub const ROWS_OF_ALL: u32 = 2 * ROWS;
/// Bytes of a row of six words: calls that returned, the sum of their times, the shortest, the longest, errors, calls that never
/// returned; times in nanoseconds.
pub const ROW: usize = 48;
/// Bytes of an entry of `threads`; its third word is [`MISSED`], its fourth [`SINCE`].
pub const THREAD: usize = 32;
/// What is added to numbers of 32 bits.
pub const NARROW: u64 = 1 << 32;

/// The thread is in no call.
pub const IDLE: i32 = -1;
/// It is in one that is not told.
pub const UNTOLD: i32 = -2;

/// Added to the number of a call that returned an error by which the kernel has it made again (`ERESTARTSYS` and its like), while its
/// thread has made no other call; in the place of its beginning stands how long it took. Such a call is counted when the thread goes
/// on, as strace does it: where the thread is killed instead, it has never returned.
pub const AGAIN: u64 = 1 << 33;
/// Those errors, negated: `-ERESTART_RESTARTBLOCK` to `-ERESTARTSYS` (include/linux/errno.h).
pub const RESTARTS: std::ops::RangeInclusive<i32> = -516..=-512;

/// The first word of a record of a call that begins.
pub const CALL: i32 = 1;
/// The first word of a record of a call that has ended.
pub const RETURN: i32 = 2;
/// The first word of a record of a process that a watched one has made.
pub const CHILD: i32 = 3;
/// Bytes of a call's record without copies: what, thread, process, time, number, six arguments, instruction, stack, whether something could
/// not be read.
pub const CALL_BYTES: i32 = 104;
/// Bytes of a return's record without copies: what, thread, process, time, result, and how long the record is without what was copied again
/// of the call, or 0 if nothing was.
pub const RETURN_BYTES: i32 = 40;
/// Bytes of a child's record: what, thread, process, time, the process that has made it.
pub const CHILD_BYTES: i32 = 32;
/// A call is told; beside it stand in bits 8 to 31 the first word that copies its arguments, and in bits 32 to 63 the first for its end, or 0.
pub const TOLD: u64 = 1;

// Places on the stack, from its end.
pub const TASK: i16 = -8;
pub const PROCESS: i16 = -16;
pub const IDS: i16 = -24;
pub const ROW_KEY: i16 = -32;
/// The number of the call, when it began, whether something it points to could not be read then, and since when its process is watched: an
/// entry of `threads`.
pub const NUMBER: i16 = -240;
pub const BEGAN: i16 = -232;
pub const MISSED: i16 = -224;
/// An entry of an earlier watch of the same process says nothing: the call in which the thread was at its end was not seen to return.
pub const SINCE: i16 = -216;
/// The address of this processor's state and record, for the copier.
pub const CONTEXT: i16 = -208;
pub const NOW: i16 = -56;
/// Two words: the ids of process and thread, and the number of a call that is not told.
pub const UNFIT: i16 = -48;
/// How long the call took that is counted.
pub const TOOK: i16 = -200;
/// The value in `wanted` of the call that is told.
pub const WANTED: i16 = -192;
/// A copy of part of the thread's `struct pt_regs`, [`LENGTH`] bytes from [`FIRST`] on.
pub const REGISTERS: i16 = -184;
/// It begins there: what precedes rbp are registers that no call has its arguments in.
pub const FIRST: i32 = 32;
pub const LENGTH: i32 = 128;
// Within that part (arch/x86/include/uapi/asm/ptrace.h): rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp.
pub const RBP_AT: i16 = REGISTERS;
pub const RBX_AT: i16 = REGISTERS + 8;
pub const R10_AT: i16 = REGISTERS + 24;
pub const R9_AT: i16 = REGISTERS + 32;
pub const R8_AT: i16 = REGISTERS + 40;
pub const RCX_AT: i16 = REGISTERS + 56;
pub const RDX_AT: i16 = REGISTERS + 64;
pub const RSI_AT: i16 = REGISTERS + 72;
pub const RDI_AT: i16 = REGISTERS + 80;
pub const ORIGINAL_AT: i16 = REGISTERS + 88;
pub const RIP_AT: i16 = REGISTERS + 96;
pub const CS_AT: i16 = REGISTERS + 104;
pub const RSP_AT: i16 = REGISTERS + 120;
/// The registers of arguments, in their order (psABI, A.2.1).
pub const ARGUMENTS: [i16; 6] = [RDI_AT, RSI_AT, RDX_AT, R10_AT, R8_AT, R9_AT];
/// Those of code of 32 bits in their order: ebx, ecx, edx, esi, edi, ebp (arch/x86/entry/entry_64_compat.S). [`Writer::by_width`] has each
/// copied to the place of the same argument in [`ARGUMENTS`].
pub const NARROW_ARGUMENTS: [i16; 6] = [RBX_AT, RCX_AT, RDX_AT, RSI_AT, RDI_AT, RBP_AT];
/// The order of these copies, by argument: no register is overwritten before it was copied itself (r10 = esi, r8 = edi, r9 = ebp, then
/// rsi = ecx, rdi = ebx; edx stands in its place).
const COPIED: [usize; 5] = [3, 4, 5, 1, 0];
/// The code segment of 32 bits, `__USER32_CS` (arch/x86/include/asm/segment.h).
pub const CS_32: i32 = 0x23;

/// The bytes of `int $0x80`.
const INT_80: i32 = 0x80cd;

/// Of the row of what is lost: records, threads, children.
pub const LOST_RECORDS: i16 = 0;
pub const LOST_THREADS: i16 = 8;
pub const LOST_CHILDREN: i16 = 16;

/// Forks: arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl.
pub const FORKS: [u64; 7] = [56, 57, 58, 435, NARROW | 2, NARROW | 120, NARROW | 190];
pub const CLONE3_32: u64 = NARROW | 435;

/// A program while it is being written. In all of it R6 holds the address of the tracepoint's arguments.
pub struct Writer<'s, M = Shared> {
    /// The instructions that were written so far.
    pub code: Code,
    /// The maps, and what is asked.
    pub shared: &'s M,
    /// The label at the end of the program, to which it goes when there is nothing more to do.
    pub out: Label,
    /// The copier behind the program, if it needs it.
    pub step: Option<Label>,
    /// The function behind the program that waits, if it needs it.
    pub pause: Option<Label>,
}

impl<M: Maps> Writer<'_, M> {
    /// Goes to `not` if the process is not watched; else R0 is the address of when it began to be.
    pub fn watched(&mut self, not: Label) {
        self.ids();
        self.look_up(&self.shared.processes().watched, PROCESS);
        self.code.jump_if(R0, When::Equal, 0, not);
    }
}

impl<'s, M: Within> Writer<'s, M> {
    pub fn new(shared: &'s M) -> Self {
        let mut code = Code::default();
        let out = code.label();
        code.copy(R6, R1);
        Writer {
            code,
            shared,
            out,
            step: None,
            pause: None,
        }
    }

    pub fn finish(mut self) -> Program {
        self.end();
        self.code.finish()
    }

    /// The end of the program itself.
    pub fn end(&mut self) {
        self.code.here(self.out);
        self.code.exit();
    }

    /// Looks a key on the stack up in a map: R0 is its value, or 0.
    pub fn look_up(&mut self, map: &Map, key: i16) {
        self.code.map(R1, map.descriptor());
        self.code.stack(R2, key);
        self.code.call(Helper::MapLookup);
    }

    pub fn put(&mut self, map: &Map, key: i16, value: i16) {
        self.update(map, key, value, 0);
    }

    /// Puts a key and its value in, unless the key is there already (`BPF_NOEXIST`): R0 is 0 if it was not.
    pub fn put_new(&mut self, map: &Map, key: i16, value: i16) {
        self.update(map, key, value, 1);
    }

    fn update(&mut self, map: &Map, key: i16, value: i16, flags: i32) {
        self.code.map(R1, map.descriptor());
        self.code.stack(R2, key);
        self.code.stack(R3, value);
        self.code.set(R4, flags);
        self.code.call(Helper::MapUpdate);
    }

    pub fn delete(&mut self, map: &Map, key: i16) {
        self.code.map(R1, map.descriptor());
        self.code.stack(R2, key);
        self.code.call(Helper::MapDelete);
    }

    /// R7 = the ids of process and thread, and the process as a key on the stack.
    pub fn ids(&mut self) {
        let code = &mut self.code;
        match self.shared.namespace() {
            None => {
                code.call(Helper::CurrentIds);
                code.copy(R7, R0);
            }
            Some([device, inode]) => {
                code.set_wide(R1, device);
                code.set_wide(R2, inode);
                code.stack(R3, IDS);
                code.set(R4, 8);
                code.call(Helper::CurrentIdsInNamespace);
                code.jump_if(R0, When::NotEqual, 0, self.out);
                // `struct bpf_pidns_info`: thread, process.
                code.load(Word, R7, Fp, IDS + 4);
                code.math(Math::ShiftLeft, R7, 32);
                code.load(Word, R1, Fp, IDS);
                code.math_of(Math::Or, R7, R1);
            }
        }
        code.copy(R1, R7);
        code.math(Math::ShiftRight, R1, 32);
        code.store(Double, Fp, PROCESS, R1);
    }

    pub fn task(&mut self) {
        self.code.call(Helper::CurrentTask);
        self.code.store(Double, Fp, TASK, R0);
    }

    /// The time, on the stack and in R0.
    pub fn now(&mut self) {
        self.code.call(Helper::Nanoseconds);
        self.code.store(Double, Fp, NOW, R0);
    }

    /// Copies the thread's registers to the stack.
    pub fn registers(&mut self) {
        let code = &mut self.code;
        code.stack(R1, REGISTERS);
        code.set(R2, LENGTH);
        code.load(Double, R3, R6, 0);
        code.math(Math::Add, R3, FIRST);
        code.call(Helper::ReadKernel);
        code.jump_if(R0, When::NotEqual, 0, self.out);
    }

    /// R8, a number of 32 bits, becomes what we know the call by, and the arguments of calls of 32 bits are put where those of 64 bits are.
    /// Code of 64 bits can make these too: the instruction before the thread's place says so.
    pub fn by_width(&mut self) {
        const INSTRUCTION: i32 = 2;
        let code = &mut self.code;
        let (wide, narrow) = (code.label(), code.label());
        code.math(Math::ShiftLeft, R8, 32);
        code.math(Math::ShiftRight, R8, 32);
        code.load(Double, R1, Fp, CS_AT);
        code.jump_if(R1, When::Equal, CS_32, narrow);
        code.store_number(Double, Fp, IDS, 0);
        code.stack(R1, IDS);
        code.set(R2, INSTRUCTION);
        code.load(Double, R3, Fp, RIP_AT);
        code.math(Math::Add, R3, -INSTRUCTION);
        code.call(Helper::ReadUser);
        code.jump_if(R0, When::NotEqual, 0, wide);
        code.load(Double, R1, Fp, IDS);
        code.jump_if(R1, When::NotEqual, INT_80, wide);
        code.here(narrow);
        code.set_wide(R1, NARROW);
        code.math_of(Math::Or, R8, R1);
        for argument in COPIED {
            code.load(Word, R1, Fp, NARROW_ARGUMENTS[argument]);
            code.store(Double, Fp, ARGUMENTS[argument], R1);
        }
        code.here(wide);
    }
}

impl Writer<'_> {
    /// Adds one to a figure of what is lost.
    pub fn lose(&mut self, what: i16) {
        let none = self.code.label();
        self.code.store_number(Word, Fp, ROW_KEY, 0);
        self.look_up(&self.shared.lost, ROW_KEY);
        let code = &mut self.code;
        code.jump_if(R0, When::Equal, 0, none);
        code.load(Double, R1, R0, what);
        code.math(Math::Add, R1, 1);
        code.store(Double, R0, what, R1);
        code.here(none);
    }

    /// Adds one to the lost records, and to those of call R8 of the thread whose ids are in R7.
    pub fn lose_record(&mut self) {
        self.lose(LOST_RECORDS);
        let (new, done) = (self.code.label(), self.code.label());
        self.code.store(Double, Fp, UNFIT, R7);
        self.code.store(Double, Fp, UNFIT + 8, R8);
        self.look_up(&self.shared.unfit, UNFIT);
        let code = &mut self.code;
        code.jump_if(R0, When::Equal, 0, new);
        code.set(R1, 1);
        code.add_to(R0, 0, R1);
        code.jump(done);
        code.here(new);
        code.store_number(Double, Fp, TOOK, 1);
        // Only this thread has this key. Where there is no room for it, the sum knows of it.
        self.put(&self.shared.unfit, UNFIT, TOOK);
        self.code.here(done);
    }

    /// The row of number R8 as a key on the stack.
    pub fn row(&mut self) {
        let code = &mut self.code;
        let (fits, wide) = (code.label(), code.label());
        code.copy(R1, R8);
        code.math(Math::ShiftLeft, R1, 32);
        code.math(Math::ShiftRight, R1, 32);
        code.jump_if(R1, When::Below, ROWS as i32, fits);
        code.set(R1, ROWS as i32 - 1);
        code.here(fits);
        code.copy(R2, R8);
        code.math(Math::ShiftRight, R2, 32);
        code.jump_if(R2, When::Equal, 0, wide);
        code.math(Math::Add, R1, ROWS as i32);
        code.here(wide);
        code.store(Word, Fp, ROW_KEY, R1);
    }

    /// Clears [`AGAIN`] in R8, so that the number with [`NARROW`] is left.
    pub fn without_again(&mut self) {
        self.code.math(Math::ShiftLeft, R8, 31);
        self.code.math(Math::ShiftRight, R8, 31);
    }

    /// Adds call R8 to its figures; it has failed, or its result says whether it has.
    pub fn add_up(&mut self, has_failed: bool) {
        /// The least result that is an error: `-MAX_ERRNO`, the bound of `IS_ERR_VALUE` (include/linux/err.h).
        const FIRST_ERROR: i32 = -4095;
        self.row();
        self.look_up(&self.shared.figures, ROW_KEY);
        let code = &mut self.code;
        let (first, compared, longest, done) =
            (code.label(), code.label(), code.label(), code.label());
        code.jump_if(R0, When::Equal, 0, done);
        code.load(Double, R1, Fp, TOOK);
        code.load(Double, R2, R0, 0);
        code.jump_if(R2, When::Equal, 0, first);
        code.load(Double, R3, R0, 16);
        code.jump_if_of(R3, When::Below, R1, compared);
        code.here(first);
        code.store(Double, R0, 16, R1);
        code.here(compared);
        code.math(Math::Add, R2, 1);
        code.store(Double, R0, 0, R2);
        code.load(Double, R2, R0, 8);
        code.math_of(Math::Add, R2, R1);
        code.store(Double, R0, 8, R2);
        code.load(Double, R2, R0, 24);
        code.jump_if_of(R1, When::Below, R2, longest);
        code.store(Double, R0, 24, R1);
        code.here(longest);
        if !has_failed {
            code.load(Double, R1, R6, 8);
            code.jump_if(R1, When::Below, FIRST_ERROR, done);
        }
        code.load(Double, R2, R0, 32);
        code.math(Math::Add, R2, 1);
        code.store(Double, R0, 32, R2);
        code.here(done);
    }
}
