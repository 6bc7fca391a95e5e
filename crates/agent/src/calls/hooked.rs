//! A call, in the form in which it is passed from step to step. Used by `system_calls`, `call`, `events` and others.

use routine::{Frame, Results, Vectors};
use wire::calls::Hook;
use wire::calls::record::Shape;

/// A call of a hooked function, or a probe or system call that is reported as one.
#[derive(Clone, Copy)]
pub struct Hooked<'a> {
    pub hook: &'a Hook,
    /// The result of [`wanted`], read once for each visit of a hook, because the command changes it at any time.
    pub wanted: u64,
    /// The registers at its entry.
    pub frame: &'a Frame,
    /// The vector registers at its entry.
    pub vectors: &'a Vectors,
    /// Address of its stack arguments, by which events identify the call.
    pub stack: u64,
}

impl<'a> Hooked<'a> {
    /// A call whose frame the routine made, on the stack of the caller.
    #[inline]
    pub fn new(hook: &'a Hook, wanted: u64, frame: &'a Frame, vectors: &'a Vectors) -> Self {
        Hooked {
            hook,
            wanted,
            frame,
            vectors,
            stack: Frame::stack_arguments(frame).expose_provenance() as u64,
        }
    }

    /// Whether any of these bits of `wire::calls::want` is set.
    #[inline]
    pub fn wants(&self, bits: u64) -> bool {
        self.wanted & bits != 0
    }
}

/// The results of a call, and what was kept at the call for them.
#[derive(Clone, Copy)]
pub struct Outcome<'a> {
    pub results: &'a Results,
    /// What [`Script::kept`](super::languages::Script::kept) gave at the call.
    pub kept: u64,
}

/// Returns what is wanted of a hook now: bits of `wire::calls::want`.
#[inline]
pub fn wanted(hook: &Hook) -> u64 {
    // SAFETY: `hook` is a live reference. The command changes the word while threads run, as one aligned word, hence
    // the volatile read.
    unsafe { (&raw const hook.want).read_volatile() }
}

/// Returns what the records of a hook hold now. It is read once for each record, because the command may change it
/// between two reads of the same visit.
#[inline(always)]
pub fn shape(hook: &Hook) -> Shape {
    // SAFETY: `hook` is a live reference. The command changes the word while threads run, as one aligned word, hence
    // the volatile read.
    Shape(unsafe { (&raw const hook.shape).read_volatile() })
}

/// The vector registers of an event that is recorded like a call of a function.
pub const NO_VECTORS: &Vectors = &[[0; 2]; 8];

/// Returns a frame for an event that is recorded like a call of a function, with the caller's frame pointer and the
/// return address.
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
