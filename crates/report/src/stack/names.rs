//! What stacks and frames are called.

use frames::live::stack::{Line, Stack};
use serde_json::{Value, json};

use super::Subject;
use crate::text::printable;

/// Returns whose stack it is, safe to print: the thread's id and name, or what is parked.
pub fn whose(stack: &Stack) -> String {
    match &stack.parked {
        // A core has no names of threads.
        None if name(stack).is_empty() => stack.thread.tid.to_string(),
        None => format!("{} {}", stack.thread.tid, printable(name(stack))),
        Some(one) if one.object == 0 => format!("{}, parked", one.kind),
        Some(one) => format!("{} {:#x}, parked", one.kind, one.object),
    }
}

/// Returns the name of a thread: the one that the program gave it, else the kernel's.
pub fn name(stack: &Stack) -> &str {
    let state = stack.state.as_ref();
    let own = state.and_then(|state| state.vm.as_ref()?.name.as_deref());
    own.unwrap_or(&stack.thread.name)
}

/// Returns the thread's id for programs; `None` for a stack that no thread runs.
pub fn tid(stack: &Stack) -> Option<i32> {
    stack.parked.is_none().then_some(stack.thread.tid)
}

/// Returns what is parked on a stack, for programs; `None` for the stack of a thread.
pub fn parked(stack: &Stack) -> Option<Value> {
    let one = stack.parked.as_ref()?;
    Some(json!({ "kind": one.kind, "object": one.object }))
}

/// Returns `libc.so.6: read+0x1a`, or what is known of a function without a name; safe to print.
pub fn location(subject: &Subject, line: &Line) -> String {
    let Some(loaded) = line.module.and_then(|module| subject.modules.get(module)) else {
        return format!("{:#x}, in no file", line.native.ip);
    };
    let Some(function) = &line.function else {
        return printable(loaded.name()).into_owned();
    };
    let text = match &function.name {
        Some(name) if line.native.made_at_run_time() => format!(
            "{}: {name}, in code made at run time at {:#x}",
            loaded.name(),
            line.native.ip
        ),
        Some(name) => format!("{}: {name}+{:#x}", loaded.name(), function.offset),
        None => {
            let hints = loaded.hints(subject.memory, function.start);
            let calls = if hints.calls.is_empty() {
                String::new()
            } else {
                format!(", calls {}", hints.calls.join(", "))
            };
            let address = function.start.wrapping_sub(loaded.bias);
            format!(
                "{}: {address:#x}+{:#x}{calls}",
                loaded.name(),
                function.offset
            )
        }
    };
    printable(&text).into_owned()
}
