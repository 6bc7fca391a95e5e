//! Applies `--where` and `--min-time` to recorded calls, by the same code that decides in guests, over the bytes that were copied there.
//! Used by `lancet::watching::run`.

use crate::conditions::{CallTest, Conditions};
use crate::consumer::{Consumer, Forgotten, SourceEnd};
use crate::event::{At, Call, Event, EventKind, Return};
use crate::message::{Message, Messages};
use crate::options::Options;
use crate::signatures::Signatures;
use crate::stacks::{Kept, OpenCalls};
use hooks::rings::Line;
use process::functions::Function;
use prototypes::capture::Returned;
use prototypes::capture::condition::{Facts, holds, line_bits};
use prototypes::show::{Captures, Memory};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::calls::want;

/// Converts a duration to nanoseconds, the unit of times here.
fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// A call that has not returned.
#[derive(Clone)]
enum Open {
    /// The call was passed on when it was made.
    Event,
    /// The call is kept until it returns, with its conditions and the bits of the line tests that its lines pass.
    Held(At, Box<Call>, Arc<CallTest>, u32),
}

impl Kept for Open {
    fn beside(&self) -> usize {
        match self {
            Open::Event => 0,
            Open::Held(_, call, ..) => {
                size_of::<Call>() + call.captures.size() + call.callers.len() * 8
            }
        }
    }
}

/// A consumer that passes on only the calls that meet the conditions, with their returns. A call whose result or time is tested is kept
/// until it returns and passed on then; one that never returns is dropped.
pub struct RecordFilter<'a> {
    asks: Conditions,
    line_tests: Vec<u64>,
    signatures: &'a Signatures,
    /// The conditions of a function's calls, by the address of the function, which is kept so that its address is not used again; `None` =
    /// its calls cannot be tested, and none is passed on.
    asked: HashMap<usize, (Arc<Function>, Option<Arc<CallTest>>)>,
    lines: HashMap<usize, (Arc<Line>, u32)>,
    stacks: OpenCalls<Open>,
    next: Box<dyn Consumer + 'a>,
    messages: Messages,
}

impl<'a> RecordFilter<'a> {
    /// Returns a filter that passes on to `next`, or `next` itself without a condition.
    pub fn before(
        next: Box<dyn Consumer + 'a>,
        args: &Options,
        signatures: &'a Signatures,
    ) -> Box<dyn Consumer + 'a> {
        let asks = Conditions::new(args, nanos);
        if !asks.any() {
            return next;
        }
        Box::new(RecordFilter {
            line_tests: asks.lines(),
            asks,
            signatures,
            asked: HashMap::new(),
            lines: HashMap::new(),
            stacks: OpenCalls::default(),
            next,
            messages: args.messages.clone(),
        })
    }

    fn asked(&mut self, function: &Arc<Function>) -> Option<Arc<CallTest>> {
        let key = Arc::as_ptr(function).addr();
        if let Some((_, known)) = self.asked.get(&key) {
            return known.clone();
        }
        let prototype = self.signatures.of(&function.module, &function.name);
        let asked = match self.asks.of(prototype.as_ref()) {
            Ok(asked) if asked.values => {
                let name = function.name.clone();
                let why = "values of the script's language can be asked in the process, not in a recording; record with the same --where".into();
                self.messages.say(Message::NotShown {
                    names: vec![name],
                    why,
                });
                None
            }
            Ok(asked) => Some(Arc::new(asked)),
            Err(unfit) => {
                let (name, why) = (function.name.clone(), unfit.to_string());
                self.messages.say(Message::NotShown {
                    names: vec![name],
                    why,
                });
                None
            }
        };
        self.asked.insert(key, (function.clone(), asked.clone()));
        asked
    }

    fn bits(&mut self, line: Option<&Arc<Line>>) -> u32 {
        let Some(line) = line.filter(|_| !self.line_tests.is_empty()) else {
            return 0;
        };
        let find = || {
            let text = line.tested();
            (line.clone(), line_bits(&self.line_tests, text.as_bytes()))
        };
        self.lines
            .entry(Arc::as_ptr(line).addr())
            .or_insert_with(find)
            .1
    }

    fn called(&mut self, at: At, call: Call) -> io::Result<()> {
        let Some(asked) = self.asked(&call.edge.function) else {
            return Ok(());
        };
        let lines = self.bits(call.line.as_ref());
        let facts = Facts {
            registers: &call.registers,
            returned: None,
            elapsed: 0,
            lines,
        };
        if !holds(&asked.words[0], facts, |at, into| {
            read(&call.captures, at, into)
        }) {
            return Ok(());
        }
        if asked.want & want::HELD != 0 {
            let open = Open::Held(at, call.into(), asked, lines);
            self.stacks.enter(at, open);
            return Ok(());
        }
        self.stacks.enter(at, Open::Event);
        self.next.take(Event {
            at,
            kind: EventKind::Call(call),
        })
    }

    fn returned(&mut self, at: At, back: Return) -> io::Result<()> {
        let Some((open, ..)) = self.stacks.leave(at) else {
            return Ok(());
        };
        if let Open::Held(began, call, asked, lines) = open {
            let took = nanos(at.time.saturating_sub(began.time));
            if took < asked.least || !meets(&call, &back.returned, &asked, took, lines) {
                return Ok(());
            }
            self.next.take(Event {
                at: began,
                kind: EventKind::Call(*call),
            })?;
        }
        self.next.take(Event {
            at,
            kind: EventKind::Return(back),
        })
    }
}

fn meets(call: &Call, returned: &Returned, asked: &CallTest, elapsed: u64, lines: u32) -> bool {
    let facts = Facts {
        registers: &call.registers,
        returned: Some(returned),
        elapsed,
        lines,
    };
    holds(&asked.words[1], facts, |at, into| {
        read(&call.captures, at, into)
    })
}

/// Fills `into` with what was copied of the memory from `at` on, and returns the number of bytes.
fn read(captures: &Captures, at: u64, into: &mut [u8]) -> usize {
    if captures.read(at, into) {
        return into.len();
    }
    let (mut known, mut most) = (0, into.len());
    // All bytes up to `known` are there, and not all up to `most`: a binary search.
    while known + 1 < most {
        let middle = known.midpoint(most);
        if captures.read(at, &mut into[..middle]) {
            known = middle
        } else {
            most = middle
        }
    }
    captures.read(at, &mut into[..known]);
    known
}

impl Consumer for RecordFilter<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        match event.kind {
            EventKind::Call(call) => self.called(event.at, call),
            EventKind::Return(back) => self.returned(event.at, back),
            EventKind::Forked(child) => {
                self.stacks.fork(event.at.process, child);
                self.next.take(event)
            }
            EventKind::Ended(_) => {
                self.stacks.drain(Some(event.at.process));
                self.next.take(event)
            }
            EventKind::Opened(_) | EventKind::Signal(_) | EventKind::Thread(_) => {
                self.next.take(event)
            }
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.next.rest()
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        self.next.finish(end)
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten()) + self.next.forgotten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_read_up_to_its_end() {
        let mut captures = Captures::new();
        captures.add(100, b"hello");
        captures.add(105, b" you");
        for length in 0..20 {
            let mut into = vec![0; length];
            let got = read(&captures, 100, &mut into);
            assert_eq!(&into[..got], &b"hello you"[..length.min(9)]);
        }
        assert_eq!(read(&captures, 109, &mut [0; 4]), 0);
        assert_eq!(read(&captures, 99, &mut [0; 4]), 0);
    }
}
