//! A system call that has not returned, and what all calls of its name have in common. Used by `lines` and `ends`.

use super::super::{Layout, native};
use calls::Line;
use calls::event::{At, CallEdge, Caller};
use calls::signatures::Signatures;
use calls::stacks::Kept;
use prototypes::show::Captures;
use prototypes::types::Prototype;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use syscalls::{RawCall, Style};

/// A system call that has not returned.
pub(super) struct Open {
    pub plan: Rc<Plan>,
    pub arguments: [u64; 6],
    pub captures: Captures,
    /// Its name and the arguments that are known at the call, written while descriptors were called what they were.
    pub head: Vec<u8>,
    pub began: Duration,
    /// Where and when it was made.
    pub at: At,
    pub line: Option<Arc<Line>>,
    pub callers: Vec<Arc<Caller>>,
    /// The address behind the instruction that asks.
    pub behind: u64,
    /// The number of the line that it stands on; `None` = it is written when it returns.
    pub number: Cell<Option<u64>>,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        self.captures.size() + self.head.len() + self.callers.len() * 8
    }
}

impl Open {
    /// Whether arguments are written when it returns.
    pub fn is_written_late(&self) -> bool {
        let prototype = &self.plan.prototype;
        let (late, all) = (prototype.late_from, prototype.parameters.len());
        all > 0 && self.head.ends_with(b"(") || late.is_some_and(|from| from < all)
    }

    /// Whether these stand behind others, and a comma.
    pub fn has_more(&self) -> bool {
        self.is_written_late() && !self.head.ends_with(b"(")
    }

    /// Returns the call with what is known of it, for the crate `syscalls` to write.
    pub fn call<'a>(&'a self, returned: Option<(&'a Captures, u64)>) -> RawCall<'a> {
        RawCall {
            name: &self.plan.name,
            prototype: &self.plan.prototype,
            arguments: &self.arguments,
            entry: &self.captures,
            returned,
            descriptors: None,
            processes: None,
            netlink: None,
            namespaces: None,
        }
    }
}

/// What all calls of a name have in common.
pub(super) struct Plan {
    pub name: String,
    /// What stands before its line's text: its number, if that is asked for.
    pub number: String,
    pub prototype: Prototype,
    /// The function that makes the call, if its name says more than the call's.
    pub native: Option<String>,
    /// It does not return: `exit`.
    pub ends: bool,
    /// It does not return if it succeeds, because another program runs then: `execve`.
    pub replaces: bool,
    /// It is seen only for what descriptors are called.
    pub hidden: bool,
    /// How it is written.
    pub style: Style,
}

impl Plan {
    /// Of the calls of an edge.
    pub fn of(edge: &CallEdge, layout: &Layout, signatures: &Signatures) -> Self {
        let function = &edge.function;
        let known = signatures.of(&function.module, &function.name);
        Plan {
            prototype: known.unwrap_or_else(|| signatures.unknown().clone()),
            native: native(&function.name, edge.inside.as_deref()),
            hidden: !layout.shows(&function.name),
            style: layout.exceptions.style(layout.style, &function.name),
            ends: !layout.exits_return && matches!(function.name.as_str(), "exit" | "exit_group"),
            replaces: matches!(function.name.as_str(), "execve" | "execveat"),
            number: if layout.numbers {
                number(&function.name)
            } else {
                String::new()
            },
            name: function.name.clone(),
        }
    }
}

/// Returns what `-n` puts before the name of a call, `[ 257] `; nothing for a call without a number.
fn number(name: &str) -> String {
    let known = prototypes::bundle::system_calls().find(|(_, known)| *known == name);
    known.map_or_else(String::new, |(number, _)| format!("[{number:4}] "))
}
