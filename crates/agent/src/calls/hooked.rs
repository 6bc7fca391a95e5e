//! A call, as every step on its way is handed it.

use routine::{Frame, Results, Vectors};
use wire::calls::Hook;
use wire::calls::record::Shape;

/// A call of a hooked function, or a probe or system call that is shown as one.
#[derive(Clone, Copy)]
pub struct Hooked<'a> {
    pub hook: &'a Hook,
    /// [`wanted`] of the hook, read once for each visit of a hook: the command changes it at any time.
    pub wanted: u64,
    /// The registers at its entry.
    pub frame: &'a Frame,
    /// The vector registers at its entry.
    pub vectors: &'a Vectors,
    /// Where its stack arguments begin; names the call in its events.
    pub stack: u64,
}

impl<'a> Hooked<'a> {
    /// A call whose frame the routine made, on the stack it is called on.
    #[inline]
    pub fn new(hook: &'a Hook, wanted: u64, frame: &'a Frame, vectors: &'a Vectors) -> Self {
        Hooked {
            hook,
            wanted,
            frame,
            vectors,
            stack: Frame::stack_arguments(frame).addr() as u64,
        }
    }

    /// Whether any of these bits of `wire::calls::want` is set.
    #[inline]
    pub fn wants(&self, bits: u64) -> bool {
        self.wanted & bits != 0
    }
}

/// What a call that has returned left in the registers, and what was kept of it at the call.
#[derive(Clone, Copy)]
pub struct Outcome<'a> {
    pub results: &'a Results,
    /// What [`Script::kept`](super::languages::Script::kept) gave at the call.
    pub kept: u64,
}

/// What is wanted of a hook now: bits of `wire::calls::want`.
#[inline]
pub fn wanted(hook: &Hook) -> u64 {
    // SAFETY: the command changes it while threads run; an aligned word is read whole.
    unsafe { (&raw const hook.want).read_volatile() }
}

/// What the records of a hook hold now. Read once for each record, as [`wanted`] is for each visit: the command changes
/// it where a thread may stand between two looks.
#[inline(always)]
pub fn shape(hook: &Hook) -> Shape {
    // SAFETY: as in `wanted`.
    Shape(unsafe { (&raw const hook.shape).read_volatile() })
}

/// The vector registers of what is recorded as if it were a call of a function.
pub const NO_VECTORS: &Vectors = &[[0; 2]; 8];

/// The frame of what is recorded as if it were a call of a function, by a caller with that frame pointer and at that
/// place.
#[inline]
pub fn as_call(hook: &Hook, arguments: [u64; 6], rbp: u64, return_address: u64) -> Frame {
    let [rdi, rsi, rdx, rcx, r8, r9] = arguments;
    Frame {
        rdi,
        rsi,
        rdx,
        rcx,
        r8,
        r9,
        rax: 0,
        r10: 0,
        ticket: [0; 3],
        original: hook.original,
        descriptor: core::ptr::from_ref(hook).cast(),
        r11: 0,
        rbp,
        return_address,
    }
}
