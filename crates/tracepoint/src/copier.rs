//! The interpreter of crate `capture`, as a function of the kernel's programs: it copies what the arguments of a call point to by the same
//! words by which a hook and a tracer copy it ([`capture::Op`]), so that all three tell the same. Used by `records`,
//! `watch` and `programs`.
//!
//! The kernel calls the function once for each step (`bpf_loop`, Linux 5.17), because it does not accept loops of which it cannot see the
//! end. What one step leaves to the next is in memory that each processor has for itself, with the record behind it:
//!
//! ```text
//!   0      state: which word is next, v, n, blocks, registers of the call
//!   BUFFER the record: its fixed part │ address (8) │ length (8) │ bytes, to a multiple of 8 │ address …
//! ```
//!
//! Memory is read without waiting for it (`bpf_probe_read_user`): what is not in memory at that instant cannot be read. [`MISSES`] says that
//! this happened, and the program for the end of the call tries again, because by then the kernel itself has read it.
//!
//! What no system call's program has, a text of wide characters, a `printf` format or a value of a script, is not done here.

mod steps;

use crate::assembler::{Code, Helper, Label, Math, Reg, Size, When};
use crate::kernel::Map;
use Reg::{Fp, R0, R1, R2, R3, R4, R5, R6, R7};
use Size::Double;
use capture::{CopyLimits, Op, Source};

// The state, by its offsets.
/// Number of the next word of the program.
pub const NEXT: i16 = 0;
const V: i16 = 8;
const N: i16 = 16;
const DEPTH: i16 = 24;
const BASE: i16 = 32;
/// Bytes that the record has so far.
pub const LENGTH: i16 = 40;
/// Not 0: something could not be read.
pub const MISSES: i16 = 48;
/// How many elements of an array that ends with zero were read, and where its length stands.
const ELEMENTS: i16 = 56;
const ARRAY: i16 = 64;
/// What the call has returned.
pub const RESULT: i16 = 72;
/// Number of the first word of the program that is run then, or 0, and how long the record was before that, or 0 if it was not run.
pub const THEN: i16 = 80;
pub const FIRST_LENGTH: i16 = 88;
/// Six registers of the call's arguments; room for eight.
pub const REGISTERS: i16 = 96;
/// Blocks of four words: the base around it, how many elements are left, their distance, the first word of its body.
const BLOCKS: i16 = 160;
/// More than [`CopyLimits::DEPTH`], and a power of two.
const MOST_BLOCKS: i32 = 16;
/// The record begins there.
pub const BUFFER: i16 = BLOCKS + 32 * MOST_BLOCKS as i16;
const _: () = assert!(CopyLimits::DEPTH <= MOST_BLOCKS as usize);

/// What is 0 when a program begins.
pub const AT_FIRST: [i16; 5] = [V, N, DEPTH, BASE, ELEMENTS];

/// Bytes that are copied in one piece, at most.
pub const LONGEST: i32 = 16 << 10;
/// Where a record is longer, no piece is added to it.
pub const FULL: i32 = 32 << 10;
/// Bytes before each piece: its address and its length.
pub const PIECE: i32 = 16;
/// Bytes of the memory of one processor.
pub const SCRATCH: usize = (BUFFER as i32 + FULL + PIECE + LONGEST + 8) as usize;
/// Words of all programs together, and what precedes them, at most.
pub const WORDS: usize = 32 << 10;
/// The number of the word that ends at once; the rows precede it.
pub const NOTHING: i32 = crate::writer::ROWS_OF_ALL as i32;
/// Steps for one call, at most.
pub const STEPS: i32 = 16 << 10;

/// The lowest valid address, as for the other interpreter: `vm.mmap_min_addr` keeps the pages below it free.
const FIRST_ADDRESS: i32 = 4096;
const PAGE: i32 = 4096;

/// The number of an operation, which is the lowest byte of its word.
const fn of(op: Op) -> i32 {
    (op.encode() & 0xff) as i32
}

/// The number of a source of a word.
const fn kind(source: Source) -> i32 {
    (Op::Value(source).encode() >> 8 & 0xff) as i32
}

struct Step<'c> {
    code: &'c mut Code,
    /// On with the next step.
    on: Label,
    /// The program is over.
    over: Label,
    /// Copies R9 bytes from address R8.
    copy: Label,
    /// Copies a text of at most R9 bytes from address R8.
    text: Label,
}

/// Writes the function behind a program, at `label`. `words` is the map with the words of all programs.
pub fn write(code: &mut Code, label: Label, words: &Map) {
    code.here(label);
    let (on, over, copy, text) = (code.label(), code.label(), code.label(), code.label());
    let mut step = Step {
        code,
        on,
        over,
        copy,
        text,
    };
    step.fetch(words);
    step.values();
    step.counts();
    step.copies();
    step.zero_ended();
    step.blocks();
    step.conditions();
    step.code.jump(over);
    step.pieces();
    step.code.here(over);
    step.then();
    let code = step.code;
    code.here(on);
    code.exit_with(0);
}

impl Step<'_> {
    /// R6 is the state, R7 the next word, R1 the number of its operation.
    fn fetch(&mut self, words: &Map) {
        let code = &mut self.code;
        code.load(Double, R6, R2, 0);
        code.load(Double, R1, R6, NEXT);
        code.jump_if(R1, When::AtLeast, WORDS as i32, self.over);
        code.copy(R2, R1);
        code.math(Math::Add, R2, 1);
        code.store(Double, R6, NEXT, R2);
        code.math(Math::ShiftLeft, R1, 3);
        code.map_value(R7, words.descriptor());
        code.math_of(Math::Add, R7, R1);
        code.load(Double, R7, R7, 0);
        code.copy(R1, R7);
        code.math(Math::And, R1, 0xff);
    }

    /// Writes what is done for an operation, behind a jump for all others.
    fn case(&mut self, op: Op, write: impl FnOnce(&mut Self)) {
        let other = self.code.label();
        self.code.jump_if(R1, When::NotEqual, of(op), other);
        write(self);
        self.code.here(other);
    }

    /// The part of the word from this bit on, of so many bits.
    fn part(&mut self, to: Reg, from: i32, bits: i32) {
        self.code.copy(to, R7);
        if from + bits < 64 {
            self.code.math(Math::ShiftLeft, to, 64 - from - bits);
        }
        self.code.math(Math::ShiftRight, to, 64 - bits);
    }

    fn c(&mut self, to: Reg) {
        self.part(to, 32, 32);
    }

    fn skip(&mut self, to: Reg) {
        self.part(to, 16, 16);
    }

    fn load(&mut self, to: Reg, from: i16) {
        self.code.load(Double, to, R6, from);
    }

    fn store(&mut self, at: i16, from: Reg) {
        self.code.store(Double, R6, at, from);
    }

    /// Stores a register, and the step is done.
    fn set(&mut self, at: i16, from: Reg) {
        self.store(at, from);
        self.code.jump(self.on);
    }

    /// R3 = the word of the call that the operation names; R1 and R2 are lost.
    fn source(&mut self) {
        let (register, done) = (self.code.label(), self.code.label());
        self.part(R1, 8, 8);
        self.code
            .jump_if(R1, When::Equal, kind(Source::Gp(0)), register);
        self.code.set(R3, 0);
        self.code
            .jump_if(R1, When::NotEqual, kind(Source::Rax), done);
        self.load(R3, RESULT);
        self.code.jump(done);
        self.code.here(register);
        self.skip(R2);
        self.register(R3, R2);
        self.code.here(done);
    }

    /// `to` = the register of the call with this number, of which the lowest three bits count.
    fn register(&mut self, to: Reg, number: Reg) {
        let code = &mut self.code;
        code.math(Math::And, number, 7);
        code.math(Math::ShiftLeft, number, 3);
        code.math_of(Math::Add, number, R6);
        code.load(Double, to, number, REGISTERS);
    }

    /// R3 becomes the part of it that a width in R4 means ([`capture::Width::of`]); R1, R2 and R5 are lost.
    fn width(&mut self) {
        let code = &mut self.code;
        let (done, unsigned) = (code.label(), code.label());
        code.copy(R5, R4);
        code.math(Math::ShiftRight, R5, 4);
        code.math(Math::And, R5, 7);
        code.math(Math::ShiftLeft, R5, 3);
        code.math_of(Math::ShiftRight, R3, R5);
        code.copy(R5, R4);
        code.math(Math::And, R5, 0xf);
        code.jump_if(R5, When::Equal, 0, done);
        code.jump_if(R5, When::AtLeast, 8, done);
        code.math(Math::ShiftLeft, R5, 3);
        code.set(R2, 64);
        code.math_of(Math::Subtract, R2, R5);
        code.math_of(Math::ShiftLeft, R3, R2);
        code.math(Math::And, R4, 0x80);
        code.jump_if(R4, When::Equal, 0, unsigned);
        code.math_of(Math::SignedShiftRight, R3, R2);
        code.jump(done);
        code.here(unsigned);
        code.math_of(Math::ShiftRight, R3, R2);
        code.here(done);
    }

    /// R3 = R2 bytes at address R3, at most eight, or 0; all but R6 to R9 are lost.
    fn number(&mut self) {
        let code = &mut self.code;
        let (read, done) = (code.label(), code.label());
        code.store_number(Double, Fp, -8, 0);
        code.jump_if(R3, When::Below, FIRST_ADDRESS, done);
        code.math(Math::And, R2, 0xf);
        code.jump_if(R2, When::Below, 9, read);
        code.set(R2, 8);
        code.here(read);
        code.stack(R1, -8);
        code.call(Helper::ReadUser);
        code.jump_if(R0, When::Equal, 0, done);
        code.store_number(Double, Fp, -8, 0);
        code.store_number(Double, R6, MISSES, 1);
        code.here(done);
        code.load(Double, R3, Fp, -8);
    }

    /// The program is over: on with the other one, which knows no result.
    fn then(&mut self) {
        let other = self.code.label();
        self.load(R1, THEN);
        self.code.jump_if(R1, When::NotEqual, 0, other);
        self.code.exit_with(1);
        self.code.here(other);
        self.store(NEXT, R1);
        self.load(R1, LENGTH);
        self.store(FIRST_LENGTH, R1);
        for at in AT_FIRST.into_iter().chain([THEN, RESULT]) {
            self.code.store_number(Double, R6, at, 0);
        }
    }
}

/// Whether the interpreter of the kernel knows a word of a program: others end it.
#[must_use]
pub fn knows(word: u64) -> bool {
    match Op::decode(word) {
        Some(Op::Value(source) | Op::Count(source, _)) => {
            matches!(source, Source::Gp(_) | Source::Rax)
        }
        Some(Op::Text { unit, .. } | Op::CountedText { unit, .. }) => unit == 1,
        Some(Op::ZeroEnded(unit)) => unit == 8,
        Some(Op::Format { .. } | Op::Describe { .. }) | None => false,
        Some(_) => true,
    }
}
