//! Calls of a preset's functions that have not returned when their process is left: a statement that waits for a lock, a name that is still
//! looked up. They are in no row of a table, least of all those that were made before hooks were set, and may be what is looked for.
//!
//! They are found on the stacks of the threads. A function whose caller is code of a file was entered before it was hooked: of a hooked one
//! the caller is the routine of our agent, which is in no file.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::message::{Message, Unreturned};
use crate::options::Options;
use frames::live::open::{Live, Wanted};
use frames::live::stack::{Line, Stack};
use prototypes::{Filter, Where};

/// Looks for such calls in a process, whose functions were hooked this long ago. None where its stacks cannot be read.
pub(super) fn look(pid: i32, args: &Options, watched: Duration) -> Option<Message> {
    let filters: Vec<Filter> = args.presets.iter().flat_map(|one| one.filters()).collect();
    let mut live = Live::open(pid).ok()?;
    let look = live.look(Wanted::default()).ok()?;
    let mut calls: BTreeMap<Unreturned, usize> = BTreeMap::new();
    for stack in look.stacks.iter().filter(|stack| stack.parked.is_none()) {
        let is_of_preset = |line: &Line| {
            let module = line.module.and_then(|number| live.modules().get(number));
            let function = line.function.as_ref();
            let name = function.and_then(|function| function.name.as_deref());
            let (Some(module), Some(name)) = (module, name) else {
                return false;
            };
            let place = Where {
                path: "",
                soname: module.name(),
                is_main: false,
            };
            filters.iter().any(|filter| filter.matches(name, place))
        };
        if let Some(call) = outermost(stack, &is_of_preset) {
            *calls.entry(call).or_default() += 1;
        }
    }
    (!calls.is_empty()).then(|| Message::Unreturned {
        pid,
        calls: calls.into_iter().collect(),
        watched,
    })
}

/// Returns the outermost call on a stack of a function that is asked for.
fn outermost(stack: &Stack, is_one: &dyn Fn(&Line) -> bool) -> Option<Unreturned> {
    let at = stack.lines.iter().rposition(is_one)?;
    let name = stack.lines[at].function.as_ref()?.name.as_deref()?;
    let caller = stack.lines.get(at + 1);
    let line = stack.place().map(|script| {
        let name = script.qualified.as_ref().unwrap_or(&script.name);
        format!(" ← {}:{} in '{name}'", script.path, script.line)
    });
    Some(Unreturned {
        name: format!("{name}{}", line.unwrap_or_default()),
        before: caller.is_some_and(|caller| caller.module.is_some()),
    })
}
