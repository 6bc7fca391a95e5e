//! One function of a profile: who calls it, and what it calls. Used by `profile`, and by crate `lancet`.

use std::collections::{BTreeMap, HashSet};

use super::Profile;
use super::frame::{Frame, Function};

/// What the samples say of the calls of a function.
#[derive(Clone, Debug, Default)]
pub struct Around<'a> {
    /// Samples in which it was the innermost.
    pub own: u64,
    /// Samples in which it was somewhere on the stack.
    pub total: u64,
    /// The frames that called it, with the samples in which they did; of a recursion the outermost caller.
    pub callers: BTreeMap<&'a Frame, u64>,
    /// The functions that it called, with the samples in which it did.
    pub callees: BTreeMap<&'a Function, u64>,
}

impl Profile {
    /// Returns who calls a function, and what it calls.
    pub fn around(&self, function: &Function) -> Around<'_> {
        let mut around = Around::default();
        for (frames, count) in self.each_stack() {
            let is_it = |frame: &Frame| frame.function == *function;
            let Some(first) = frames.iter().position(|frame| is_it(frame)) else {
                continue;
            };
            around.total += count;
            if frames.last().is_some_and(|frame| is_it(frame)) {
                around.own += count;
            }
            if let Some(caller) = first.checked_sub(1).and_then(|at| frames.get(at)) {
                *around.callers.entry(caller).or_default() += count;
            }
            let calls = frames
                .windows(2)
                .filter(|pair| pair[0].function == *function);
            let called: HashSet<&Function> = calls.map(|pair| &pair[1].function).collect();
            for callee in called.into_iter().filter(|callee| *callee != function) {
                *around.callees.entry(callee).or_default() += count;
            }
        }
        around
    }
}
