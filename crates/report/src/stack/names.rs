//! What stacks, frames and their files are called. Used by `now`, `dump`, `gc::json` and others.

use answer::place::Address;
use answer::stack::Parked;
use frames::Scan;
use frames::live::stack::{Line, Stack};

use super::Subject;
use crate::text::printable;

/// Native functions of a thread that are told without its whole stack.
const NATIVE: usize = 4;

/// Returns the name of a file without its folder, safe to print.
pub fn file_name(scan: &Scan) -> String {
    let path = scan.image().path();
    let name = path.file_name().unwrap_or(path.as_os_str());
    printable(&name.to_string_lossy()).into_owned()
}

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
pub fn parked(stack: &Stack) -> Option<Parked> {
    let one = stack.parked.as_ref()?;
    Some(Parked {
        kind: match one.kind {
            "async generator" => "async_generator",
            kind => kind,
        },
        object: Address(one.object),
    })
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

/// Returns the names of the innermost functions of the program that called the C library, innermost first, without their parameters.
pub fn native(subject: &Subject, stack: &Stack) -> Vec<String> {
    let is_own = |line: &&Line| {
        let module = line.module.and_then(|module| subject.modules.get(module));
        module.is_none_or(|module| !module.is_c_library())
    };
    let names = stack.lines.iter().filter(is_own).filter_map(|line| {
        let name = line.function.as_ref()?.name.as_deref()?;
        Some(without_parameters(name).to_owned())
    });
    // What calls `main` says nothing.
    let names = names.filter(|name| name != "_start");
    names.take(NATIVE).collect()
}

/// `MDL_wait::timed_wait` of `MDL_wait::timed_wait(MDL_context_owner*, timespec*)`. A parenthesis that begins a part of a name (`(anonymous
/// namespace)`) or that is one (`operator()`) is no list of parameters.
fn without_parameters(name: &str) -> &str {
    let begins = name.char_indices().find(|(at, letter)| {
        let before = &name[..*at];
        let is_part = before.is_empty() || before.ends_with("::") || before.ends_with("operator");
        *letter == '(' && !is_part
    });
    begins.map_or(name, |(at, _)| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::without_parameters;

    #[test]
    fn a_function_is_called_by_its_name_alone() {
        for (whole, name) in [
            ("main", "main"),
            (
                "MDL_wait::timed_wait(timespec*, bool)",
                "MDL_wait::timed_wait",
            ),
            (
                "(anonymous namespace)::run(int)",
                "(anonymous namespace)::run",
            ),
            (
                "a::(anonymous namespace)::run(int)",
                "a::(anonymous namespace)::run",
            ),
            ("Task::operator()(int) const", "Task::operator()"),
        ] {
            assert_eq!(without_parameters(whole), name);
        }
    }
}
