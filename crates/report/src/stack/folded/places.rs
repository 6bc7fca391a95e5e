//! Where threads ran and where they waited, by the application's line. Used by `stacks` and `table`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use frames::labels::{Labelled, Labels};
use frames::live::activity::{Lock, lock, waits_for};
use frames::live::loaded::Modules;
use frames::live::scripts::Script;
use frames::live::stack::Stack;
use vm::library::within;

use crate::stack::states::{Words, place, sleeping, words};
use crate::text::printable;

/// A row: what a thread did, and at which line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    /// Whether it ran, or was about to.
    pub running: bool,
    /// Whether the line is the application's. A pool's threads that wait for work have none.
    pub of_application: bool,
    /// Where.
    pub line: Rc<Where>,
    /// `asleep in IO#gets`; empty for what runs.
    pub state: String,
}

/// Where a thread was: `/srv/app.rb:12 in Object#total`; a native function, where no script runs.
pub(super) type Where = Labelled<Spot>;

/// The same for programs.
#[derive(Clone, Debug, Default)]
pub(super) struct Spot {
    pub place: answer::place::Place<'static>,
    /// It is a native function, and the path is the name of its program or library.
    pub native: bool,
}

/// Returns the line of a script.
fn of_script(script: &Script, labels: &mut Labels<Spot>) -> Rc<Where> {
    let write = |text: &mut String| {
        *text += &printable(within(&script.path));
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{} in {}",
            script.colon_line(),
            printable(script.full_name())
        );
    };
    labels.intern("", write, || Spot {
        place: place(script).owned(),
        native: false,
    })
}

/// Returns the innermost function that has a name, as `libc.so.6: memcpy`.
fn of_native(modules: &Modules, stack: &Stack, labels: &mut Labels<Spot>) -> Rc<Where> {
    let named = stack.lines.iter().find_map(|line| {
        let name = line.function.as_ref()?.name.as_ref()?;
        Some((modules.get(line.module?)?.name(), name))
    });
    let write = |text: &mut String| match named {
        Some((file, name)) => {
            *text += &printable(file);
            *text += ": ";
            *text += &printable(name);
        }
        None => *text += "(no function that has a name)",
    };
    let (file, name) = named.map_or(("", ""), |(file, name)| (file, name));
    labels.intern("", write, || Spot {
        place: answer::place::Place::new(file, 0, name.to_owned()).owned(),
        native: true,
    })
}

/// How often a lock was waited for, and at which lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    pub count: u64,
    /// Whether a thread was seen that had it. What Python calls a lock may be the place at which one thread waits for a condition, which
    /// nobody has.
    pub held: bool,
    pub at: BTreeMap<Rc<Where>, u64>,
}

/// How often a place was seen, and with which calls and peers: ` (poll): tcp to 10.0.0.7:80`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub count: u64,
    pub on: BTreeMap<String, u64>,
}

impl RowKey {
    /// Returns the row of a thread, and what it waits for there; `None` for what no thread runs, and where the states
    /// of threads were not asked for.
    pub fn of(
        modules: &Modules,
        stacks: &[Stack],
        number: usize,
        labels: &mut Labels<Spot>,
    ) -> Option<(Self, String)> {
        let stack = &stacks[number];
        if stack.parked.is_some() {
            return None;
        }
        let words = words(stacks, number)?;
        let running = words.verb == "running";
        let (state, on) = if running {
            (String::new(), String::new())
        } else {
            parted(stack, &words)
        };
        let script = stack.place();
        let row = RowKey {
            running,
            of_application: script.is_some_and(|script| !script.is_library()),
            line: match script {
                Some(script) => of_script(script, labels),
                None => of_native(modules, stack, labels),
            },
            state,
        };
        Some((row, on))
    }
}

/// Returns what a thread waits for, parted as [`parted`] does; `None` if it waits for nothing, or that was not asked for.
pub(crate) fn waited(stacks: &[Stack], number: usize) -> Option<(String, String)> {
    let words = words(stacks, number)?;
    let waits = !matches!(words.verb, "running" | "stopped");
    waits.then(|| parted(&stacks[number], &words))
}

/// Returns the lock that a thread waits for, and whether it is known who has it.
pub(crate) fn locked(stacks: &[Stack], number: usize) -> Option<(Lock, bool)> {
    let lock = lock(stacks, number)?;
    Some((lock, waits_for(stacks, number).is_some()))
}

/// Parts what differs from look to look and from thread to thread from the rest, so that each wait at a line is one row: who has the lock,
/// and `asleep in IO#gets (poll): tcp to 10.0.0.7:80` before the call and the peer. Of those that wait in a pool of Ruby 3.1 one polls, and the
/// others wait for it.
fn parted(stack: &Stack, words: &Words) -> (String, String) {
    if words.for_another {
        let (rest, whom) = words.rest.split_at(words.whom);
        return (state_of_wait(stack, words.verb, rest), whom.to_owned());
    }
    let (rest, on) = of_call(&words.rest);
    (format!("{} {rest}", words.verb), on.to_owned())
}

/// Parts `in IO#gets (poll): tcp to 10.0.0.7:80` before the call and the peer.
fn of_call(rest: &str) -> (&str, &str) {
    let at = rest.find(" (").or_else(|| rest.find(": "));
    rest.split_at(at.unwrap_or(rest.len()))
}

/// Who has a Python's `Lock` is known at some looks only, those within a `with`: the wait is called as at the others.
fn state_of_wait(stack: &Stack, verb: &str, rest: &str) -> String {
    let vm = stack.state.as_ref().and_then(|state| state.vm.as_ref());
    let may_want = vm.is_some_and(|vm| vm.wants.is_none() && vm.may_want.is_some());
    match sleeping(stack).filter(|_| may_want) {
        Some(asleep) => format!("asleep {}", of_call(&asleep).0),
        None => format!("{verb} {rest}"),
    }
}

/// A place of a test: `app.rb:12 in total`.
#[cfg(test)]
pub(super) fn named(text: &str) -> Rc<Where> {
    let (place, function) = text.split_once(" in ").unwrap_or((text, ""));
    let (path, line) = place.split_once(':').unwrap_or((place, "0"));
    let line = line.parse().unwrap_or_default();
    let spot = Spot {
        place: answer::place::Place::new(path, line, function).owned(),
        native: false,
    };
    Rc::new(Where::new(text, spot))
}
