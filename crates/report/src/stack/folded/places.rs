//! Where threads ran and where they waited, by the application's line.

use std::collections::BTreeMap;

use frames::live::loaded::Modules;
use frames::live::stack::Stack;

use crate::stack::states::{Words, at, words};
use crate::text::printable;

/// A row: what a thread did, and at which line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Whether it ran, or was about to.
    pub running: bool,
    /// Whether the line is the application's. A pool's threads that wait for work have none.
    pub of_application: bool,
    /// `/srv/app.rb:12 in Object#total`; a native function, where no script runs.
    pub line: String,
    /// `asleep in IO#gets`; empty for what runs.
    pub state: String,
}

/// How often a place was seen, and with which calls and peers: ` (poll): tcp to 10.0.0.7:80`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub count: u64,
    pub on: BTreeMap<String, u64>,
}

impl Place {
    /// Returns the place of a thread, and what it waits for there; `None` for what no thread runs, and where the states
    /// of threads were not asked for.
    pub fn of(modules: &Modules, stacks: &[Stack], number: usize) -> Option<(Self, String)> {
        let stack = &stacks[number];
        if stack.parked.is_some() {
            return None;
        }
        let words = words(stacks, number)?;
        let running = words.verb == "running";
        let (state, on) = if running {
            (String::new(), String::new())
        } else {
            parted(&words)
        };
        let place = stack.place();
        let line = place.map(|script| {
            let name = script.qualified.as_ref().unwrap_or(&script.name);
            format!("{} in {}", at(script), printable(name))
        });
        let place = Place {
            running,
            of_application: place.is_some_and(|script| !script.is_library()),
            line: line.unwrap_or_else(|| native(modules, stack)),
            state,
        };
        Some((place, on))
    }
}

/// Parts `asleep in IO#gets (poll): tcp to 10.0.0.7:80` before the call and the peer, which differ from thread to thread:
/// of those that wait in a pool of Ruby 3.1 one polls, and the others wait for it.
fn parted(words: &Words) -> (String, String) {
    let of_call = words.rest.find(" (").or_else(|| words.rest.find(": "));
    let at = of_call.filter(|_| !words.for_another);
    let (rest, on) = words.rest.split_at(at.unwrap_or(words.rest.len()));
    (format!("{} {rest}", words.verb), on.to_owned())
}

/// Returns the innermost function that has a name, as `libc.so.6: memcpy`.
fn native(modules: &Modules, stack: &Stack) -> String {
    let named = stack.lines.iter().find_map(|line| {
        let name = line.function.as_ref()?.name.as_ref()?;
        Some((modules.get(line.module?)?.name(), name))
    });
    match named {
        Some((file, name)) => printable(&format!("{file}: {name}")).into_owned(),
        None => "(no function that has a name)".to_owned(),
    }
}
