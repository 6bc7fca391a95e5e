//! Threads that make no remote calls, whatever they are doing. Used by `remote_call`.

use process::guest::{DISPATCHES, SHADOW_STACK};
use process::{ptrace, shadow_stack};

/// Returns why a stopped thread makes no remote calls, if there is a reason. Either may have been turned on at
/// any time.
pub fn why_no_remote_calls(pid: i32, tid: i32) -> Option<&'static str> {
    if shadow_stack::of_thread(pid, tid) {
        return Some(SHADOW_STACK);
    }
    ptrace::dispatches_system_calls(tid).then_some(DISPATCHES)
}
