//! The contents of records of calls and returns: only what is requested for their function. Used by the crates `hooks`,
//! `agent`, `trampoline` and `calls`.
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
//! The time is the lower part of the time-stamp counter. It starts again from 0 after a day or more, so a reader must know roughly when a
//! record was made. The stack pointer is that at the function's entry, above the return address: it identifies the call within its ring
//! until the call returns. Addresses of user space have 47 bits.

use super::kind;

/// Bits of the time-stamp counter in a record.
pub const TIME: u32 = 48;
/// Bits of an address in a record.
pub const ADDRESS: u32 = 47;
/// The bit at which the line of the event begins, behind an address.
const LINE_AT: u32 = ADDRESS;
/// The bit at which the upper part of the hook's number begins.
const UPPER_AT: u32 = LINE_AT + 12;

/// One more than the highest number of a hook that fits into a record.
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
pub struct RecordedRegisters {
    /// How many integer registers are recorded at the call, from rdi on; at most 6.
    pub integers: u8,
    /// Whether none of their values has more than 32 bits, so that two take one word.
    pub narrow: bool,
    /// How many vector registers are recorded at the call, from xmm0 on; at most 8.
    pub vectors: u8,
    /// Whether rax has at most 32 bits that matter.
    pub narrow_result: bool,
    /// Whether rdx is recorded at the return.
    pub second_result: bool,
    /// How many vector registers are recorded at the return, from xmm0 on; at most 2.
    pub vector_results: u8,
    /// How many x87 registers are recorded at the return, from st(0) on; at most 2.
    pub x87: u8,
}

impl RecordedRegisters {
    /// All integer registers at the call, and rax at the return: for functions of which nothing is known.
    pub const UNKNOWN: Self = RecordedRegisters {
        integers: 6,
        narrow: false,
        vectors: 0,
        narrow_result: false,
        second_result: false,
        vector_results: 0,
        x87: 0,
    };

    /// Returns the value for [`super::Hook::shape`]. `returns` says that a return may be recorded behind its call, `plain` that nothing but
    /// these registers is asked of any call.
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
        Shape(entry | back << 8 | flag(plain, PLAIN)).with_words(returns)
    }
}

impl Shape {
    /// With the words that its bits take, and of the room behind a call's record where a return may be recorded there.
    const fn with_words(self, returns: bool) -> Self {
        let words = ENTRY + self.integer_words() as u64 + self.vectors();
        let room = ROOM
            + !self.has_narrow_result() as u64
            + self.second_result() as u64
            + self.vector_results();
        let has_room = returns && self.x87_words() == 0;
        Shape(self.0 | words << 24 | if has_room { room << 32 } else { 0 })
    }

    /// Returns the shape that the first word of a record tells: of a call or of a return, whichever it is.
    #[inline]
    pub const fn of_header(header: u64) -> Self {
        let bits = header >> 24 & 0xff;
        match header >> 16 & 0xff {
            kind::ENTRY | kind::HELD => Shape(bits),
            _ => Shape(bits << 8),
        }
    }

    /// Returns the bits of a call, in their place for the first word of its record.
    #[inline]
    pub const fn entry_bits(self) -> u64 {
        (self.0 & 0xff) << 24
    }

    /// Returns the bits of a return, in their place for the first word of its record.
    #[inline]
    pub const fn return_bits(self) -> u64 {
        (self.0 >> 8 & 0xff) << 24
    }

    /// Returns how many words a call's record has without copies.
    #[inline]
    pub const fn entry_words(self) -> u64 {
        self.0 >> 24 & 0xff
    }

    /// Returns how many words the room behind a call's record has; 0 = there is none.
    #[inline]
    pub const fn room_words(self) -> u64 {
        self.0 >> 32 & 0xff
    }

    /// Returns how many words a return's own record has without copies.
    #[inline]
    pub const fn return_words(self) -> u64 {
        RETURN + 1 + self.second_result() as u64 + self.vector_results() + self.x87_words()
    }

    /// Returns how many integer registers are recorded at the call.
    #[inline]
    pub const fn integers(self) -> u64 {
        self.0 & 7
    }

    /// Returns whether two integer registers are in one word.
    #[inline]
    pub const fn is_narrow(self) -> bool {
        self.0 & NARROW != 0
    }

    /// Returns in how many words the integer registers are.
    #[inline]
    pub const fn integer_words(self) -> usize {
        let count = self.integers() as usize;
        if self.is_narrow() {
            count.div_ceil(2)
        } else {
            count
        }
    }

    /// Returns the integer registers out of `words`, which are theirs alone: rdi, rsi, rdx, rcx, r8, r9; 0 where one was not recorded.
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

    /// Returns how many vector registers are recorded at the call.
    #[inline]
    pub const fn vectors(self) -> u64 {
        self.0 >> 4 & 0xf
    }

    /// Returns whether rax is in the upper half of the word with the cycles.
    #[inline]
    pub const fn has_narrow_result(self) -> bool {
        self.0 >> 8 & NARROW_RESULT != 0
    }

    /// Returns whether rdx is recorded at the return.
    #[inline]
    pub const fn second_result(self) -> bool {
        self.0 >> 8 & WITH_RDX != 0
    }

    /// Returns how many vector registers are recorded at the return.
    #[inline]
    pub const fn vector_results(self) -> u64 {
        self.0 >> 10 & 3
    }

    /// Returns how many words of x87 registers are recorded at the return, two for each.
    #[inline]
    pub const fn x87_words(self) -> u64 {
        self.0 >> 12 & 7
    }

    /// Returns the plain shape with room for the return that records the same registers; `None` if vector or x87 registers are among them.
    #[must_use]
    pub const fn plain_with_room(self) -> Option<Self> {
        let plain = Shape(self.0 & 0xffff | PLAIN);
        if plain.is_plain() {
            Some(plain.with_words(true))
        } else {
            None
        }
    }

    /// Returns whether nothing but registers is asked of any call, and no vector or x87 register is among them.
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.0 & (PLAIN | 0xf0 | 0x7c << 8) == PLAIN
    }
}

/// Returns the words of a call's record before its registers, without the first. `lines` is packed by [`super::lines`].
#[inline]
pub const fn call(hook: u64, lines: u32, ticks: u64, stack: u64, caller: u64) -> [u64; 3] {
    let [time, stack] = back(hook, ticks, stack);
    let event = (super::event_line(lines) as u64) << LINE_AT;
    let library = (super::library_line(lines) as u64) << LINE_AT;
    [time, stack | event, caller & LOW | library]
}

/// Returns the words of a return's record before its registers, without the first.
#[inline]
pub const fn back(hook: u64, ticks: u64, stack: u64) -> [u64; 2] {
    let time = ticks & ((1 << TIME) - 1) | hook << TIME;
    [time, stack & LOW | (hook >> (64 - TIME)) << UPPER_AT]
}

const LOW: u64 = (1 << ADDRESS) - 1;

/// Returns the number of the hook, out of words 1 and 2 of a record.
#[inline]
pub const fn hook(words: [u64; 2]) -> u32 {
    (words[0] >> TIME | words[1] >> UPPER_AT << (64 - TIME)) as u32
}

/// Returns the address in word 2 or 3 of a record: the stack pointer or the return address.
#[inline]
pub const fn address(word: u64) -> u64 {
    word & LOW
}

/// Returns the line of the event and that of the library, out of words 2 and 3 of a call's record.
#[inline]
pub const fn lines_of(words: [u64; 2]) -> [u32; 2] {
    let event = (words[0] >> LINE_AT) as u32 & 0xfff;
    [event, (words[1] >> LINE_AT) as u32 & 0xffff]
}

/// Returns the time-stamp counter out of word 1 of a record, whose upper bits are those of `now`: the counter's value at most half a day
/// after the record was written, or a little before.
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
        let wanted = RecordedRegisters {
            integers: 2,
            narrow: true,
            narrow_result: true,
            ..RecordedRegisters::default()
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
