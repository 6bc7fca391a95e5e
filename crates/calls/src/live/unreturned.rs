//! Calls of a preset's functions that have not returned when their process is left: a statement that waits for a lock, a name that is still
//! looked up. They are in no row of a table, least of all those that were made before hooks were set, and may be what is looked for.
//! Used by `family` and `guest`.
//!
//! They are found on the stacks of the threads, after the process was left: while its hooks are set, its threads would wait until their
//! records are read. A function whose caller is code of a file was entered before it was hooked, if each of its calls went through a frame
//! of ours from then on: of such a call the caller is the routine of our agent, which is in no file.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use crate::message::{Message, Unreturned};
use crate::preset::Preset;
use frames::live::open::{Live, Wanted};
use frames::live::scripts::Script;
use frames::live::stack::{Line, Stack};
use frames::live::unwind::End;
use process::guest::Status;
use prototypes::filter::{Filter, Where};

/// A process as it was when it was left.
pub struct Watched {
    status: Status,
    /// Since when all calls of a function go through a frame of ours, by the function's address.
    hooked: HashMap<u64, Instant>,
}

impl Watched {
    pub fn new(status: Status, hooked: HashMap<u64, Instant>) -> Self {
        Watched { status, hooked }
    }

    /// Looks for such calls. `None` where there are none, or where the process has ended or runs another program.
    pub fn look(&self, presets: &[Preset]) -> Option<Message> {
        let pid = self.status.pid;
        let found = self.calls(presets);
        // What was found may be of another process or program.
        if self.check().is_err_and(|error| error.is_left()) {
            return None;
        }
        match found {
            Ok(calls) if calls.is_empty() => None,
            Ok(calls) => Some(Message::Unreturned {
                pid,
                calls: calls.into_iter().collect(),
            }),
            Err(error) if error.is_left() => None,
            Err(error) => Some(Message::UnreturnedUnread { pid, error }),
        }
    }

    /// Returns whether it is still the same process, and runs the same program.
    fn check(&self) -> process::Result<()> {
        self.status.check_current()?;
        match Status::read(self.status.pid)?.stack == self.status.stack {
            true => Ok(()),
            false => Err(process::Error::Replaced(self.status.pid)),
        }
    }

    fn calls(&self, presets: &[Preset]) -> frames::Result<BTreeMap<Unreturned, usize>> {
        self.check()?;
        let filters: Vec<Filter> = presets.iter().flat_map(Preset::filters).collect();
        let mut live = Live::open(self.status.pid)?;
        let now = Instant::now();
        let look = live.look(Wanted::default())?;
        // Here is no place to say by what a VM without a table was read.
        let has_table = look.notes.is_empty() && look.unread.is_empty();
        let mut calls = BTreeMap::new();
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
            let outermost = stack.lines.iter().rposition(is_of_preset);
            if let Some(call) = outermost.and_then(|at| self.call(stack, at, now, has_table)) {
                *calls.entry(call).or_default() += 1;
            }
        }
        Ok(calls)
    }

    /// Returns the call of which a native frame of a stack is.
    fn call(&self, stack: &Stack, at: usize, now: Instant, has_table: bool) -> Option<Unreturned> {
        let function = stack.lines[at].function.as_ref()?;
        let name = function.name.as_deref()?;
        let is_of_file = |caller: &Line| caller.module.is_some();
        let before = stack.lines.get(at + 1).is_some_and(is_of_file);
        let hooked = self.hooked.get(&function.start).filter(|_| before);
        let script = place(stack, at).filter(|_| has_table);
        let line = script.map(|script| {
            let name = script.full_name();
            format!(" ← {}{} in '{name}'", script.path, script.colon_line())
        });
        Some(Unreturned {
            name: format!("{name}{}", line.unwrap_or_default()),
            before: hooked.map(|since| now.saturating_duration_since(*since)),
        })
    }
}

/// Returns the innermost script frame outside of a native frame: of the program itself, otherwise of a library. What the function calls back
/// is within it.
fn place(stack: &Stack, at: usize) -> Option<&Script> {
    let placed = stack.lines[at + 1..].iter().flat_map(|line| &line.scripts);
    // Where the walk did not reach the stack's end, those without a native frame are further out.
    let rest = match stack.end {
        End::Whole => None,
        End::Lost(_) => Some(&stack.unplaced),
    };
    let known = placed.chain(rest.into_iter().flatten());
    let known: Vec<&Script> = known.filter(|script| script.is_known()).collect();
    let own = known.iter().find(|script| !script.is_library());
    own.or(known.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process cannot stop itself.
    #[test]
    fn that_it_cannot_be_looked_at_is_told_of_the_same_process_only() {
        let presets = [Preset::load("sql").unwrap()];
        let watched = |change: &dyn Fn(&mut Status)| {
            let mut status = Status::read(std::process::id() as i32).unwrap();
            change(&mut status);
            Watched::new(status, HashMap::new()).look(&presets)
        };
        let told = watched(&|_| {});
        assert!(
            matches!(told, Some(Message::UnreturnedUnread { .. })),
            "{told:?}"
        );
        let another = watched(&|status| status.start += 1);
        assert!(another.is_none(), "{another:?}");
        let program = watched(&|status| status.stack += 16);
        assert!(program.is_none(), "{program:?}");
    }
}
