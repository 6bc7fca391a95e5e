//! What the routine must do for a hook, as flags and numbers of its record. Used by `set` and `built`.

use crate::wanted::Wanted;
use routine::frame::{MOST_COPIED, flags};
use wire::calls::blocks::Effect;
use wire::calls::{Hook, want};

/// The flag of a function that may return in a child.
pub(crate) fn own_flags(wanted: u64) -> u32 {
    match wanted & want::FORKS {
        0 => 0,
        _ => flags::FORKS,
    }
}

/// Whether a call's floating-point arguments may be needed when it returns: they are copied then, a condition asks for
/// them, or the call itself is reported only then.
pub(crate) fn floats_at_return(hook: &Hook) -> u32 {
    let programs = [hook.at_return, hook.asks_return];
    let held = hook.want & want::HELD != 0;
    let asked = held || programs.iter().any(|[_, words]| *words != 0);
    if asked { flags::FLOATS } else { 0 }
}

/// Whether a hook that counts blocks may go the routine's short way.
pub(crate) fn short_way_of_blocks(hook: &Hook) -> u32 {
    let counts = hook.want & (want::BLOCKS | want::PLACE) == want::BLOCKS;
    if counts && Effect(hook.blocks).is_simple() {
        flags::BLOCKS
    } else {
        0
    }
}

/// Bytes of stack arguments by the function's prototype. A prototype may be wrong, and the guest must not suffer for it,
/// so the caller also takes what the code reads into account.
pub(crate) fn described(wanted: &Wanted) -> u32 {
    let bytes = wanted.stack.unwrap_or(0);
    bytes.min(MOST_COPIED).next_multiple_of(16)
}
