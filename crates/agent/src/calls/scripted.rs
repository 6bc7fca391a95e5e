//! Functions that the guest's VM calls by a name of the script's language: which of them, where several have their code
//! in common (all methods of Perl's DBI do).

use super::places::script;
use routine::Frame;
use wire::calls::{Hook, Name};

/// The number of the function that is called, and what must be kept until it returns; `None` if calls by this name are not
/// wanted.
#[inline]
pub fn called(hook: &Hook, frame: &Frame) -> Option<(u64, u64)> {
    Some((number(hook, frame)?, script().kept()))
}

/// The number of the function.
#[inline]
pub fn number(hook: &Hook, frame: &Frame) -> Option<u64> {
    let [at, count] = hook.names;
    if count == 0 {
        return Some(hook.number);
    }
    let identity = script().identity([
        frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9,
    ]);
    // SAFETY: the command wrote so many before the hook was told of them.
    let names = unsafe { core::slice::from_raw_parts(at as *const Name, count as usize) };
    let name = names.iter().find(|name| name.identity == identity)?;
    Some(name.number)
}
