//! What the records of calls and returns hold: as little as is asked of their function.
//!
//! ```text
//!   ENTRY, HELD   word 1   time 0..48          the hook's number, its bits 0..16
//!                 word 2   stack pointer 0..47   line of the event 47..59   the hook's number, its bits 16..21
//!                 word 3   return address 0..47  line of the library 47..63
//!                 then     the integer registers, two in a word where NARROW says so; the low halves of xmm0 and up
//!   RETURN        word 1   time 0..48          the hook's number, its bits 0..16
//!                 word 2   stack pointer 0..47   the hook's number, its bits 16..21
//!                 then     rax; rdx; xmm0 and xmm1; st(0) and st(1), two words each
//!   ROOM,         word 1   cycles since the call 0..32; rax 32..64, if NARROW says so
//!   RETURNED      then     rax, if it is not in word 1; rdx; xmm0 and xmm1
//! ```
//!
//! The time is the lower part of the time-stamp counter; it begins anew after a day or more, so whoever reads a record knows
//! which day it is. The stack pointer is that at the function's entry, above the return address: it names the call within
//! its ring until the call returns. Addresses of user space have 47 bits.

use super::kind;

/// Bits of the time-stamp counter in a record.
pub const TIME: u32 = 48;
/// Bits of an address in a record.
pub const ADDRESS: u32 = 47;
/// The bit at which the line of the event begins, behind an address.
const LINE_AT: u32 = ADDRESS;
/// The bit at which the upper part of the hook's number begins.
const UPPER_AT: u32 = LINE_AT + 12;

/// Hooks have lower numbers.
pub const HOOKS: u64 = 1 << (64 - TIME + 64 - UPPER_AT);

/// Words before the registers of a call: header, time, stack pointer, return address.
pub const ENTRY: u64 = 4;
/// Words before the registers of a return: header, time, stack pointer.
pub const RETURN: u64 = 3;
/// Words before the registers of a return in the [`kind::ROOM`] behind its call.
pub const ROOM: u64 = 2;

/// What is recorded of a function's calls and returns: [`super::Hook::shape`].
///
/// ```text
///   bits 0..8    of a call       0..3 integer registers   3 NARROW   4..8 vector registers
///   bits 8..16   of a return     8 NARROW   9 with rdx   10..12 vector registers   12..15 words of x87 registers
///   bit  16      PLAIN
///   bits 24..32  words of the call's record, and 32..40 of the room behind it; 0 = there is none
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape(pub u64);

/// Two integer registers are in one word, or rax is in the upper half of one, because no value has more than 32 bits.
const NARROW: u64 = 1 << 3;
const NARROW_RESULT: u64 = 1;
const WITH_RDX: u64 = 2;
const PLAIN: u64 = 1 << 16;

/// The registers that are recorded of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Integer registers at the call, from rdi on.
    pub integers: u8,
    /// None of their values has more than 32 bits.
    pub narrow: bool,
    /// Vector registers at the call, from xmm0 on.
    pub vectors: u8,
    /// rax has 32 bits that matter, or none.
    pub narrow_result: bool,
    /// rdx is recorded at the return.
    pub second_result: bool,
    /// Vector registers at the return.
    pub vector_results: u8,
    /// x87 registers at the return.
    pub x87: u8,
}

impl Wanted {
    /// All integer registers at the call, and rax at the return: for functions of which nothing is known.
    pub const UNKNOWN: Self = Wanted {
        integers: 6,
        narrow: false,
        vectors: 0,
        narrow_result: false,
        second_result: false,
        vector_results: 0,
        x87: 0,
    };

    /// As [`super::Hook::shape`] has it. `returns`: a return may be recorded behind its call. `plain`: nothing but these
    /// registers is asked of any call.
    pub fn shape(&self, returns: bool, plain: bool) -> Shape {
        let integers = u64::from(self.integers.min(6));
        let vectors = u64::from(self.vectors.min(8));
        let vector_results = u64::from(self.vector_results.min(2));
        let x87 = u64::from(self.x87.min(2)) * 2;
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let entry = integers | flag(self.narrow, NARROW) | vectors << 4;
        let back = flag(self.narrow_result, NARROW_RESULT)
            | flag(self.second_result, WITH_RDX)
            | vector_results << 2
            | x87 << 4;
        let words = ENTRY
            + if self.narrow {
                integers.div_ceil(2)
            } else {
                integers
            }
            + vectors;
        let room =
            ROOM + u64::from(!self.narrow_result) + u64::from(self.second_result) + vector_results;
        let room = if returns && x87 == 0 { room } else { 0 };
        Shape(entry | back << 8 | flag(plain, PLAIN) | words << 24 | room << 32)
    }
}

impl Shape {
    /// That of the record with this first word.
    #[inline]
    pub const fn of_header(header: u64) -> Self {
        let bits = header >> 24 & 0xff;
        match header >> 16 & 0xff {
            kind::ENTRY | kind::HELD => Shape(bits),
            _ => Shape(bits << 8),
        }
    }

    /// The bits of a call, for the first word of its record.
    #[inline]
    pub const fn entry_bits(self) -> u64 {
        (self.0 & 0xff) << 24
    }

    /// The bits of a return, likewise.
    #[inline]
    pub const fn return_bits(self) -> u64 {
        (self.0 >> 8 & 0xff) << 24
    }

    /// Words of a call's record without copies.
    #[inline]
    pub const fn entry_words(self) -> u64 {
        self.0 >> 24 & 0xff
    }

    /// Words of the room behind it.
    #[inline]
    pub const fn room_words(self) -> u64 {
        self.0 >> 32 & 0xff
    }

    /// Words of a return's own record without copies.
    #[inline]
    pub const fn return_words(self) -> u64 {
        RETURN + 1 + self.second_result() as u64 + self.vector_results() + self.x87_words()
    }

    /// Integer registers at the call.
    #[inline]
    pub const fn integers(self) -> u64 {
        self.0 & 7
    }

    /// Two of them are in one word.
    #[inline]
    pub const fn is_narrow(self) -> bool {
        self.0 & NARROW != 0
    }

    /// Words in which they are.
    #[inline]
    pub const fn integer_words(self) -> usize {
        let count = self.integers() as usize;
        if self.is_narrow() {
            count.div_ceil(2)
        } else {
            count
        }
    }

    /// They themselves, out of their words and no others: rdi, rsi, rdx, rcx, r8, r9; 0 where one was not recorded.
    #[inline(always)]
    pub fn integer_registers<const N: usize>(self, words: &[u64]) -> [u64; N] {
        let mut registers = [0; N];
        if !self.is_narrow() {
            for (register, word) in registers.iter_mut().zip(words) {
                *register = *word;
            }
            return registers;
        }
        // An odd last one is alone in its word.
        let (pairs, last) = registers.as_chunks_mut::<2>();
        for (two, word) in pairs.iter_mut().zip(words) {
            *two = [word & 0xffff_ffff, word >> 32];
        }
        if let ([one], Some(word)) = (last, words.get(N / 2)) {
            *one = word & 0xffff_ffff;
        }
        // The last word of an odd number has a half that is none of them.
        let count = self.integers() as usize;
        if count % 2 == 1
            && let Some(none) = registers.get_mut(count)
        {
            *none = 0;
        }
        registers
    }

    /// Vector registers at the call.
    #[inline]
    pub const fn vectors(self) -> u64 {
        self.0 >> 4 & 0xf
    }

    /// rax is in the upper half of the word with the cycles.
    #[inline]
    pub const fn has_narrow_result(self) -> bool {
        self.0 >> 8 & NARROW_RESULT != 0
    }

    /// rdx is recorded.
    #[inline]
    pub const fn second_result(self) -> bool {
        self.0 >> 8 & WITH_RDX != 0
    }

    /// Vector registers at the return.
    #[inline]
    pub const fn vector_results(self) -> u64 {
        self.0 >> 10 & 3
    }

    /// Words of x87 registers at the return.
    #[inline]
    pub const fn x87_words(self) -> u64 {
        self.0 >> 12 & 7
    }

    /// Nothing but these registers is asked of any call, and no vector or x87 register is among them.
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.0 & (PLAIN | 0xf0 | 0x7c << 8) == PLAIN
    }
}

/// The words of a call's record before its registers, without the first. `lines`: [`super::lines`].
#[inline]
pub const fn call(hook: u64, lines: u32, ticks: u64, stack: u64, caller: u64) -> [u64; 3] {
    let [time, stack] = back(hook, ticks, stack);
    let event = (super::event_line(lines) as u64) << LINE_AT;
    let library = (super::library_line(lines) as u64) << LINE_AT;
    [time, stack | event, caller & LOW | library]
}

/// The words of a return's record before its registers, without the first.
#[inline]
pub const fn back(hook: u64, ticks: u64, stack: u64) -> [u64; 2] {
    let time = ticks & ((1 << TIME) - 1) | hook << TIME;
    [time, stack & LOW | (hook >> (64 - TIME)) << UPPER_AT]
}

const LOW: u64 = (1 << ADDRESS) - 1;

/// The number of the hook, out of words 1 and 2.
#[inline]
pub const fn hook(words: [u64; 2]) -> u32 {
    (words[0] >> TIME | words[1] >> UPPER_AT << (64 - TIME)) as u32
}

/// The address in a word.
#[inline]
pub const fn address(word: u64) -> u64 {
    word & LOW
}

/// The line of the event and that of the library, out of words 2 and 3.
#[inline]
pub const fn lines_of(words: [u64; 2]) -> [u32; 2] {
    let event = (words[0] >> LINE_AT) as u32 & 0xfff;
    [event, (words[1] >> LINE_AT) as u32 & 0xffff]
}

/// The time-stamp counter, out of a word of a record that was written at most half a day before it stood at `now`, or a
/// little later.
#[inline]
pub const fn ticks(word: u64, now: u64) -> u64 {
    let latest = now.wrapping_add(1 << (TIME - 8));
    let time = word & ((1 << TIME) - 1);
    latest.wrapping_sub(latest.wrapping_sub(time) & ((1 << TIME) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let lines = super::super::lines(4095, 0xabcd);
        for hook_number in [0, 1, 0xffff, 0x10000, HOOKS - 1] {
            let now = 0x1234_5678_9abc_def0;
            let (stack, caller) = (0x7fff_ffff_fff8, 0x5555_1234_5677);
            let words = call(hook_number, lines, now, stack, caller);
            assert_eq!(u64::from(hook([words[0], words[1]])), hook_number);
            assert_eq!(lines_of([words[1], words[2]]), [4095, 0xabcd]);
            assert_eq!([address(words[1]), address(words[2])], [stack, caller]);
            for seen in [now, now + (1 << 46), now - 1000] {
                assert_eq!(ticks(words[0], seen), now);
            }
            let words = back(hook_number, now, stack);
            assert_eq!(u64::from(hook(words)), hook_number);
        }
        // The first of the counter.
        assert_eq!(ticks(call(1, 0, 5, 8, 8)[0], 7), 5);
    }

    #[test]
    fn a_call_of_two_numbers_and_its_return_take_56_bytes() {
        let wanted = Wanted {
            integers: 2,
            narrow: true,
            narrow_result: true,
            ..Wanted::default()
        };
        let shape = wanted.shape(true, true);
        assert!(shape.is_plain());
        assert_eq!((shape.entry_words(), shape.room_words()), (5, 2));
        let header = super::super::header(5, kind::ENTRY, 1) | shape.entry_bits();
        let read = Shape::of_header(header);
        assert_eq!(
            (read.integers(), read.is_narrow(), read.vectors()),
            (2, true, 0)
        );
        let header = super::super::header(2, kind::RETURNED, 1) | shape.return_bits();
        assert!(Shape::of_header(header).has_narrow_result());
    }
}
