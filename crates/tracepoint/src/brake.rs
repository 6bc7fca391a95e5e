//! Has a thread wait for lancet where the ring buffer of records fills: the program keeps the processor, and with it the thread, for a moment at
//! the end of a call. Used by `programs`.
//!
//! A BPF program can neither sleep nor stop a thread, but by a signal, which the thread's program may see. So it looks at the clock until a time
//! has come (`bpf_loop`, Linux 5.17). That costs processor time, and is therefore short, and the shorter the more room there is:
//!
//! | of the ring buffer is unread | a call takes longer by |
//! |---|---|
//! | less than a half | nothing |
//! | a half | [`SHORT`] |
//! | three quarters | [`LONG`] |
//! | all | nothing: the record is lost, and counted |
//!
//! A call makes some 250 bytes of records, so 8 MiB fill in 2 s and more where lancet does not read at all, and last for ever where it
//! reads as slowly as it writes lines. Nobody waits longer than [`LONG`] at one call, whatever becomes of lancet: the scheduler takes the
//! thread from the processor at the end of its call, if others want that.

use crate::assembler::{Code, Helper, Label, Math, Reg, Size, When};
use crate::writer::{TOOK, Writer};
use Reg::{Fp, R0, R1, R2, R3, R4, R6, R8};
use Size::Double;
use std::time::Duration;

/// Nanoseconds that a call is held at its end while half of the ring buffer is unread: some ten calls of lancet's reading.
const SHORT: i32 = 20_000;
/// The same while three quarters are unread. Nobody else has this processor meanwhile.
const LONG: i32 = 250_000;
/// The longest time that a call is held.
pub const LONGEST: Duration = Duration::from_nanos(LONG as u64);
/// The most looks at the clock: each takes ten nanoseconds at least.
const LOOKS: i32 = LONG / 10;

/// What is asked of a ring: how many bytes are not read yet (`BPF_RB_AVAIL_DATA`).
const UNREAD: i32 = 0;

impl Writer<'_> {
    /// Has the thread, which stands at the end of a call that was told, wait if the ring buffer is full enough for that. R8 is lost.
    pub fn wait_for_room(&mut self) {
        if !self.shared.holds_up {
            return;
        }
        let bytes = self.shared.ring.entries() as i32;
        let known = self.pause;
        let pause = known.unwrap_or_else(|| self.code.label());
        self.pause = Some(pause);
        let code = &mut self.code;
        let (room, chosen) = (code.label(), code.label());
        code.map(R1, self.shared.ring.descriptor());
        code.set(R2, UNREAD);
        code.call(Helper::RingQuery);
        code.jump_if(R0, When::Below, bytes / 2, room);
        code.set(R8, SHORT);
        code.jump_if(R0, When::Below, bytes / 4 * 3, chosen);
        code.set(R8, LONG);
        code.here(chosen);
        code.call(Helper::Nanoseconds);
        code.math_of(Math::Add, R0, R8);
        code.store(Double, Fp, TOOK, R0);
        code.set(R1, LOOKS);
        code.function(R2, pause);
        code.stack(R3, TOOK);
        code.set(R4, 0);
        code.call(Helper::Loop);
        code.here(room);
    }
}

/// Writes the function behind a program, at `label`: it is called until the time has come that its context holds.
pub fn write(code: &mut Code, label: Label) {
    let over = code.label();
    code.here(label);
    code.load(Double, R6, R2, 0);
    code.call(Helper::Nanoseconds);
    code.jump_if_of(R0, When::AtLeast, R6, over);
    code.exit_with(0);
    code.here(over);
    code.exit_with(1);
}
