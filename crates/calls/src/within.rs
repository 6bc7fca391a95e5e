//! `--in`: only calls that come from a function, of the script or native, whatever the source of the events is.

use crate::consumer::{Consumer, End, Forgotten};
use crate::event::{Call, Event, EventKind};
use crate::stacks::{Kept, Stacks};
use crate::{Message, Messages};
use hooks::rings::Line;
use std::io;

/// What Ruby writes before the name of the method that a block, a `rescue` or an `ensure` stands in.
const PARTS_OF_METHODS: [&str; 3] = ["block in ", "rescue in ", "ensure in "];

/// Lets calls through that come from a function of one of these names, with their returns.
pub struct Within<'a> {
    names: Vec<String>,
    /// Whether each has been the name of any.
    found: Vec<bool>,
    /// For each call that is open, whether it was let through.
    stacks: Stacks<Passes>,
    next: Box<dyn Consumer + 'a>,
    messages: Messages,
}

/// Whether a call was let through.
#[derive(Clone, Copy)]
struct Passes(bool);

impl Kept for Passes {
    fn beside(&self) -> usize {
        0
    }
}

impl<'a> Within<'a> {
    /// `next` itself if there are no names.
    pub fn before(
        next: Box<dyn Consumer + 'a>,
        names: &[String],
        messages: Messages,
    ) -> Box<dyn Consumer + 'a> {
        if names.is_empty() {
            return next;
        }
        Box::new(Within {
            names: names.into(),
            found: vec![false; names.len()],
            stacks: Stacks::default(),
            next,
            messages,
        })
    }

    fn is_within(&mut self, call: &Call) -> bool {
        let mut any = false;
        for (name, found) in self.names.iter().zip(&mut self.found) {
            let is = comes_from(call, name);
            *found |= is;
            any |= is;
        }
        any
    }
}

/// Whether one of the functions that are known around a call has this name.
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

/// Whether a method that a language calls `known` is meant by `name`: with or without its class, its blocks included.
fn is_named(known: &str, name: &str) -> bool {
    let mut known = known;
    while let Some(rest) = PARTS_OF_METHODS
        .iter()
        .find_map(|part| known.strip_prefix(part))
    {
        known = rest;
    }
    match known.strip_suffix(name) {
        Some("") => true,
        Some(class) => class.ends_with(['#', '.', ':']),
        None => false,
    }
}

impl Consumer for Within<'_> {
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

    fn finish(&mut self, end: End) -> io::Result<()> {
        for (name, found) in self.names.iter().zip(&self.found) {
            if !found {
                let name = name.clone();
                self.messages.say(Message::NothingWithin { name });
            }
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
            "rescue in block in total",
            "Order::total",
        ] {
            assert!(is_named(known, "total"), "{known}");
        }
        assert!(is_named("Order#total", "Order#total"));
        for known in ["subtotal", "totals", "", "total in x"] {
            assert!(!is_named(known, "total"), "{known}");
        }
    }
}
