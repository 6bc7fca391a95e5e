//! Finds which function of the script's language the guest's VM calls, where several share their C code (all methods of
//! Perl's DBI do). Used by `call`.

use super::places::script;
use crate::memory::follow::ours;
use routine::Frame;
use wire::calls::{Hook, Name};

/// Returns the number of the function that is called, and what must be kept until it returns; `None` if calls of it are
/// not wanted.
#[inline]
pub fn called(hook: &Hook, frame: &Frame) -> Option<(u64, u64)> {
    Some((number(hook, frame)?, script().kept()))
}

/// Returns the number of the function.
#[inline]
pub fn number(hook: &Hook, frame: &Frame) -> Option<u64> {
    let [at, count] = hook.names;
    if count == 0 {
        return Some(hook.number);
    }
    let identity = script().identity([
        frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
    ]);
    // SAFETY: the command has written `count` entries at `at` before it told the hook of them, and changes none in a
    // session.
    let names = unsafe { core::slice::from_raw_parts(ours::<Name>(at), count as usize) };
    let name = names.iter().find(|name| name.identity == identity)?;
    Some(name.number)
}
