//! What threads wait for, as `lancet stack --for` says it, for a profile. Used by `profile`.

use frames::live::activity::{Until, waits_for};
use frames::live::stack::Stack;
use frames::profile::script;
use frames::profile::waits::{Lock, Wait};

use crate::stack::folded::table::name;
use crate::stack::folded::{locked, waited};

/// Returns what the thread of a stack waits for; `None` if it runs or is stopped.
pub fn asleep(pid: i32, stacks: &[Stack], number: usize) -> Option<Wait> {
    let (doing, on) = waited(stacks, number)?;
    let until = waits_for(stacks, number);
    let is_end = until.is_some_and(|(until, _)| until == Until::Ended);
    let other = until.filter(|_| !is_end).map(|(_, other)| &stacks[other]);
    let lock = locked(stacks, number).filter(|(_, is_held)| *is_held);
    Some(Wait {
        doing,
        on,
        lock: lock.map(|(lock, _)| Lock {
            pid: pid.unsigned_abs(),
            name: name(lock),
        }),
        holder: other.and_then(Stack::place).map(script),
        is_idle: is_end || awaits_work(&stacks[number]),
    })
}

/// Whether a thread waits for a connection, as a server does that has nothing to do.
fn awaits_work(stack: &Stack) -> bool {
    let wait = stack.state.as_ref().and_then(|state| state.wait.as_ref());
    wait.is_some_and(|wait| {
        let accepts = wait.call.is_some_and(|call| call.starts_with("accept"));
        accepts || wait.on.iter().any(|on| on.contains(" listening on "))
    })
}
