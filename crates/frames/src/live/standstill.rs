//! Whether a process stands still for good ([`process::standstill`]), by what is known of its threads. Used by `open`.

use std::collections::HashMap;

use process::standstill;
use process::wait::Wait;

use super::stack::Stack;
use super::state::What;

/// Whether a process stands still, of which these are the threads.
pub(super) fn is(pid: i32, stacks: &[Stack]) -> bool {
    let waits: Option<HashMap<i32, &Wait>> = stacks
        .iter()
        .map(|stack| Some((stack.thread.tid, own(stack)?)))
        .collect();
    waits.is_some_and(|waits| {
        standstill::is(pid, &mut |asleep| {
            let call = asleep.call();
            let wait = waits.get(&asleep.tid());
            wait.is_some_and(|wait| (call.number, call.arguments) == (wait.number, wait.arguments))
        })
    })
}

/// Returns the wait of a thread, if it is one without a time limit that only its process ends.
fn own(stack: &Stack) -> Option<&Wait> {
    let state = stack.state.as_ref()?;
    let wait = state.wait.as_ref()?;
    // The kernel wakes whoever waits for the end of a thread by a word that processes could share.
    let is_end = state
        .held
        .as_ref()
        .is_some_and(|held| held.what == What::End);
    let is_own = wait.futex.is_some_and(|futex| !futex.shared || is_end);
    (is_own && !wait.timed && !state.stopped).then_some(wait)
}
