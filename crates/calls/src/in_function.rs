//! `--in`: passes on only calls that come from a function, of the script or native, whatever the source of the events is.
//! Used by `lancet::watching::run`.

use crate::consumer::{Consumer, Forgotten, SourceEnd};
use crate::event::{Call, Event, EventKind};
use crate::message::{Message, Messages};
use crate::stacks::{Kept, OpenCalls};
use hooks::rings::Line;
use std::io;

/// What Ruby writes before the name of the method that contains a block, a `rescue` or an `ensure`; for blocks in blocks it writes
/// `block (2 levels) in `.
const PARTS_OF_METHODS: [&str; 3] = ["block in ", "rescue in ", "ensure in "];

/// Separators between a class and its function.
const BEHIND_CLASS: [char; 3] = ['#', '.', ':'];

/// Passes on calls that come from a function with one of these names, with their returns.
pub struct InFunction<'a> {
    names: Vec<Sought>,
    /// For each open call, whether it was passed on.
    stacks: OpenCalls<Passes>,
    next: Box<dyn Consumer + 'a>,
    messages: Messages,
}

/// A requested name, and whether it occurred.
struct Sought {
    name: String,
    /// Whether a call came from a function of this name.
    found: bool,
    /// Whether a call came from a function that has this name without the class, and whose class is unknown.
    without_class: bool,
}

impl Sought {
    fn is_of(&mut self, call: &Call) -> bool {
        let is = comes_from(call, &self.name);
        self.found |= is;
        if !self.found && !self.without_class {
            let function = function(&self.name);
            let lines = [call.line.as_deref(), call.library.as_deref()];
            let has_class = function.len() != self.name.len();
            let is_bare = |line: &Line| method(&line.name) == function;
            self.without_class = has_class && lines.into_iter().flatten().any(is_bare);
        }
        is
    }
}

/// Whether a call was let through.
#[derive(Clone, Copy)]
struct Passes(bool);

impl Kept for Passes {
    fn beside(&self) -> usize {
        0
    }
}

impl<'a> InFunction<'a> {
    /// Returns `next` itself without names.
    pub fn before(
        next: Box<dyn Consumer + 'a>,
        names: &[String],
        messages: Messages,
    ) -> Box<dyn Consumer + 'a> {
        if names.is_empty() {
            return next;
        }
        let sought = |name: &String| Sought {
            name: name.clone(),
            found: false,
            without_class: false,
        };
        Box::new(InFunction {
            names: names.iter().map(sought).collect(),
            stacks: OpenCalls::default(),
            next,
            messages,
        })
    }

    fn is_within(&mut self, call: &Call) -> bool {
        // All names are checked, because each occurrence is noted.
        let met = self
            .names
            .iter_mut()
            .filter_map(|name| name.is_of(call).then_some(()));
        met.count() > 0
    }
}

/// Whether one of the known functions around a call has this name.
fn comes_from(call: &Call, name: &str) -> bool {
    let of_line = |line: &Line| is_named(&line.name, name);
    let lines = [call.line.as_deref(), call.library.as_deref()];
    lines.into_iter().flatten().any(of_line)
        || call.edge.inside.as_deref() == Some(name)
        || call
            .callers
            .iter()
            .filter_map(|caller| caller.function.as_ref())
            .any(|(native, _)| native == name)
}

/// Whether `name` means a method that a language calls `known`: with or without its class, its blocks included.
fn is_named(known: &str, name: &str) -> bool {
    match method(known).strip_suffix(name) {
        Some("") => true,
        Some(class) => class.ends_with(BEHIND_CLASS),
        None => false,
    }
}

/// Returns the method that contains a block, a `rescue` or an `ensure`.
fn method(mut known: &str) -> &str {
    let levels = |known: &str| {
        let (number, rest) = known.strip_prefix("block (")?.split_once(" levels) in ")?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| known.len() - rest.len())
    };
    let part = |known: &str| {
        let mut parts = PARTS_OF_METHODS.iter();
        let part = parts.find(|part| known.starts_with(**part));
        part.map(|part| part.len()).or_else(|| levels(known))
    };
    while let Some(length) = part(known) {
        known = &known[length..];
    }
    known
}

/// Returns the name without its class.
fn function(name: &str) -> &str {
    name.rsplit(BEHIND_CLASS).next().unwrap_or(name)
}

impl Consumer for InFunction<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        match &event.kind {
            EventKind::Call(call) => {
                let is = self.is_within(call);
                self.stacks.enter(event.at, Passes(is));
                if !is {
                    return Ok(());
                }
            }
            EventKind::Return(_) => {
                if !matches!(self.stacks.leave(event.at), Some((Passes(true), ..))) {
                    return Ok(());
                }
            }
            EventKind::Forked(child) => self.stacks.fork(event.at.process, *child),
            EventKind::Ended(_) => {
                self.stacks.drain(Some(event.at.process));
            }
            EventKind::Opened(_) | EventKind::Signal(_) | EventKind::Thread(_) => {}
        }
        self.next.take(event)
    }

    fn rest(&mut self) -> io::Result<()> {
        self.next.rest()
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten()) + self.next.forgotten()
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        for sought in self.names.iter().filter(|sought| !sought.found) {
            let bare = sought
                .without_class
                .then(|| function(&sought.name).to_owned());
            let name = sought.name.clone();
            self.messages.say(Message::NothingWithin { name, bare });
        }
        self.next.finish(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_methods_with_or_without_their_class() {
        for known in [
            "total",
            "Order#total",
            "Shop::Order.total",
            "block in Order#total",
            "block (2 levels) in total",
            "block (12 levels) in Order#total",
            "rescue in block in total",
            "Order::total",
        ] {
            assert!(is_named(known, "total"), "{known}");
        }
        assert!(is_named("Order#total", "Order#total"));
        for known in [
            "subtotal",
            "totals",
            "",
            "total in x",
            "block (x levels) in",
        ] {
            assert!(!is_named(known, "total"), "{known}");
        }
    }
}
