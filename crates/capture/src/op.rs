//! The operations of capture programs, and how each is one word. Used by `condition`, `run` and others here, and by the
//! crates `prototypes`, `calls`, `tracepoint` and `syscalls`.
//!
//! The machine has two registers, `v` (an address) and `n` (a number), and a stack of *bases*: the address
//! of the block that [`Op::Member`] and its kin count from. [`Op::Open`] pushes `v` as base, [`Op::Each`]
//! pushes one element after the other and runs the operations up to its [`Op::Close`] for each.
//!
//! ```text
//!   array(struct(int, string), arg2)*, int          f({ { 1, "a" }, { 2, "b" } }, 2)
//!
//!   Value   gp0                 v = the first argument
//!   Count   gp1 as int          n = the second
//!   AtMost  5                   n = min(n, 5): as many as will be shown, and one
//!   Array   16                  output n * 16 bytes at v
//!   Each    16, skip 3          for each element
//!     Member 8, 8 bytes           v = the string's address
//!     Text   1, 33                output up to its NUL, at most 33 bytes
//!     Close
//! ```
//!
//! As a word: operation in bits 0..8, `a` in 8..16, `b` in 16..32, `c` in 32..64, little-endian as all of
//! the guest.

use crate::describe::What;

/// Where a word of the call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An integer argument register: 0 is rdi.
    Gp(u8),
    /// The low eight bytes of an SSE register.
    Sse(u8),
    /// The word at this offset in the arguments on the stack.
    Stack(u16),
    /// The address of this offset in the arguments on the stack.
    StackAddress(u16),
    /// The address of the caller's frame pointer, which the hook keeps below the return address (crate `routine`,
    /// `Frame`). From there on the stack shows who called whom.
    Callers,
    /// What the function returned in rax; known only at the return.
    Rax,
    /// The second word returned, in rdx; known only at the return.
    Rdx,
}

/// Which part of a word is meant, and whether it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Number of bytes: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Whether it is sign-extended to 64 bits.
    pub signed: bool,
    /// Bytes to skip first: where a small struct's member begins in its register.
    pub skip: u8,
}

impl Width {
    /// All eight bytes of a word.
    pub const WORD: Self = Self {
        bytes: 8,
        signed: false,
        skip: 0,
    };

    /// Returns the number in `word`.
    #[must_use]
    pub const fn of(self, word: u64) -> u64 {
        let word = word >> (8 * (self.skip as u32 & 7));
        match (self.bytes, self.signed) {
            (1, false) => word as u8 as u64,
            (1, true) => word as i8 as u64,
            (2, false) => word as u16 as u64,
            (2, true) => word as i16 as u64,
            (4, false) => word as u32 as u64,
            (4, true) => word as i32 as u64,
            _ => word,
        }
    }

    pub(crate) const fn encode(self) -> u8 {
        self.bytes & 0xf | (self.signed as u8) << 7 | (self.skip & 7) << 4
    }

    pub(crate) const fn decode(byte: u8) -> Self {
        Self {
            bytes: byte & 0xf,
            signed: byte & 0x80 != 0,
            skip: byte >> 4 & 7,
        }
    }
}

/// One operation of a capture program; in the guest it is one word ([`Op::encode`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `v` = a word of the call.
    Value(Source),
    /// `v` = the word at base + offset.
    Member(u32),
    /// `v` = base + offset.
    At(u32),
    /// Output this many bytes at `v`.
    Bytes(u32),
    /// Output `n` units of this many bytes at `v`.
    Array(u32),
    /// Output `max` units of `unit` bytes at `v`, or up to and with the first unit that is 0.
    Text {
        /// Bytes of a unit: 1, 2, 4 or 8.
        unit: u8,
        /// Units that are output at most, the first that is 0 included.
        max: u32,
    },
    /// As [`Op::Text`], and at most `n` units.
    CountedText {
        /// Bytes of a unit: 1, 2, 4 or 8.
        unit: u8,
        /// Units that are output at most, the first that is 0 included.
        max: u32,
    },
    /// `n` = a number of the call.
    Count(Source, Width),
    /// `n` = the number at base + offset.
    CountMember(u32, Width),
    /// `n` = this number.
    Constant(u32),
    /// `n` = min(`n`, this number); a negative `n` becomes 0.
    AtMost(u32),
    /// `n` = min(`n`, this number), both taken as numbers without a sign.
    Within(u32),
    /// `n` = the size in `n`, a command of ioctl (bits 16 to 30, include/uapi/asm-generic/ioctl.h), and this many more.
    CommandSize(u32),
    /// Output units of this size at `v` up to and with the first that is all zero, at most `n`; then `n` is
    /// how many came before it.
    ZeroEnded(u32),
    /// Push `v` as base; if it is no address, skip that many operations (to behind the `Close`).
    Open {
        /// Number of operations up to and with the `Close`.
        skip: u16,
    },
    /// Run the operations up to `Close` with each of `n` elements at `v` as base.
    Each {
        /// Bytes from one element to the next.
        stride: u32,
        /// Number of operations up to and with the `Close`.
        skip: u16,
    },
    /// The end of [`Op::Open`] or [`Op::Each`].
    Close,
    /// Skip that many operations unless an integer argument of 32 bits, shifted to the right, is this number: what another
    /// argument points to depends on it.
    OnlyIf {
        /// Number of the argument register; 0 is rdi.
        argument: u8,
        /// Bits by which it is shifted, at most 31.
        shift: u8,
        /// Number of operations that are skipped. They contain an [`Op::Open`] or [`Op::Each`] with its [`Op::Close`] or
        /// none of them.
        skip: u16,
        /// What the shifted argument must be for the operations to be done.
        is: u32,
    },
    /// Skip that many operations unless `n` is this number: what a member points to depends on another member.
    OnlyNumber {
        /// Number of operations that are skipped, as in [`Op::OnlyIf`].
        skip: u16,
        /// What `n` must be for the operations to be done.
        is: u32,
    },
    /// `v` is a word of a language VM: hand on its text ([`crate::describe`]).
    Describe {
        /// What the word stands for.
        what: What,
        /// Items of a container, at most.
        items: u16,
        /// Characters of a text, at most.
        text: u32,
    },
    /// `v` is a printf format. Output the strings that its conversions name; `max` as in [`Op::Text`].
    /// The first argument after it lies in these registers or at this place of the stack.
    Format {
        /// Number of integer argument registers that earlier arguments use.
        gp: u8,
        /// Number of SSE argument registers that earlier arguments use.
        sse: u8,
        /// Bytes of the stack that earlier arguments use.
        stack: u16,
        /// Bytes of one character of the format.
        unit: u8,
        /// Units of each string, at most.
        max: u16,
    },
}

impl Source {
    const fn encode(self) -> (u8, u16) {
        match self {
            Self::Gp(n) => (0, n as u16),
            Self::Sse(n) => (1, n as u16),
            Self::Stack(offset) => (2, offset),
            Self::StackAddress(offset) => (3, offset),
            Self::Rax => (4, 0),
            Self::Rdx => (5, 0),
            Self::Callers => (6, 0),
        }
    }

    pub(crate) const fn decode(kind: u8, at: u16) -> Option<Self> {
        Some(match kind {
            0 if at < 6 => Self::Gp(at as u8),
            1 if at < 8 => Self::Sse(at as u8),
            2 => Self::Stack(at),
            3 => Self::StackAddress(at),
            4 => Self::Rax,
            5 => Self::Rdx,
            6 => Self::Callers,
            _ => return None,
        })
    }
}

const fn word(op: u8, a: u8, b: u16, c: u32) -> u64 {
    op as u64 | (a as u64) << 8 | (b as u64) << 16 | (c as u64) << 32
}

impl Op {
    /// Bytes of an operation in the guest.
    pub const BYTES: usize = 8;

    /// Returns the operation as one word.
    #[must_use]
    pub const fn encode(self) -> u64 {
        match self {
            Self::Value(source) => {
                let (a, b) = source.encode();
                word(1, a, b, 0)
            }
            Self::Member(offset) => word(2, 0, 0, offset),
            Self::At(offset) => word(3, 0, 0, offset),
            Self::Bytes(len) => word(4, 0, 0, len),
            Self::Array(unit) => word(5, 0, 0, unit),
            Self::Text { unit, max } => word(6, unit, 0, max),
            Self::CountedText { unit, max } => word(7, unit, 0, max),
            Self::Count(source, width) => {
                let (a, b) = source.encode();
                word(8, a, b, width.encode() as u32)
            }
            Self::CountMember(offset, width) => word(9, width.encode(), 0, offset),
            Self::Constant(n) => word(10, 0, 0, n),
            Self::AtMost(n) => word(11, 0, 0, n),
            Self::Within(n) => word(21, 0, 0, n),
            Self::ZeroEnded(unit) => word(12, 0, 0, unit),
            Self::Open { skip } => word(13, 0, skip, 0),
            Self::Each { stride, skip } => word(14, 0, skip, stride),
            Self::Close => word(15, 0, 0, 0),
            Self::Format {
                gp,
                sse,
                stack,
                unit,
                max,
            } => {
                let a = gp & 0xf | sse << 4;
                word(16, a, stack, max as u32 | (unit as u32) << 16)
            }
            Self::Describe { what, items, text } => word(17, what.0, items, text),
            Self::CommandSize(more) => word(18, 0, 0, more),
            Self::OnlyIf {
                argument,
                shift,
                skip,
                is,
            } => word(19, argument & 7 | shift << 3, skip, is),
            Self::OnlyNumber { skip, is } => word(20, 0, skip, is),
        }
    }

    /// Returns the operation that a word means; `None` if it means none.
    #[must_use]
    pub const fn decode(word: u64) -> Option<Self> {
        let (op, a) = (word as u8, (word >> 8) as u8);
        let (b, c) = ((word >> 16) as u16, (word >> 32) as u32);
        // `?` is not allowed in a const function.
        let source = Source::decode(a, b);
        Some(match op {
            1 => match source {
                Some(source) => Self::Value(source),
                None => return None,
            },
            2 => Self::Member(c),
            3 => Self::At(c),
            4 => Self::Bytes(c),
            5 => Self::Array(c),
            6 => Self::Text { unit: a, max: c },
            7 => Self::CountedText { unit: a, max: c },
            8 => match source {
                Some(source) => Self::Count(source, Width::decode(c as u8)),
                None => return None,
            },
            9 => Self::CountMember(c, Width::decode(a)),
            10 => Self::Constant(c),
            11 => Self::AtMost(c),
            12 => Self::ZeroEnded(c),
            13 => Self::Open { skip: b },
            14 => Self::Each { stride: c, skip: b },
            15 => Self::Close,
            16 => Self::Format {
                gp: a & 0xf,
                sse: a >> 4,
                stack: b,
                unit: (c >> 16) as u8,
                max: c as u16,
            },
            17 => Self::Describe {
                what: What(a),
                items: b,
                text: c,
            },
            18 => Self::CommandSize(c),
            19 => Self::OnlyIf {
                argument: a & 7,
                shift: a >> 3,
                skip: b,
                is: c,
            },
            20 => Self::OnlyNumber { skip: b, is: c },
            21 => Self::Within(c),
            _ => return None,
        })
    }
}
