//! `--where` and `--min-time` on what was recorded: decided by the code that decides in guests, over the bytes that were
//! copied there.

use super::asks::{Asked, Asks};
use super::signatures::Signatures;
use super::sink::{End, Sink};
use super::stacks::Stacks;
use super::told::{At, Call, Return, Told, What};
use crate::cli::CallsArgs;
use process::functions::Function;
use process::lanes::Line;
use prototypes::capture::Returned;
use prototypes::capture::condition::{Facts, holds, line_bits};
use prototypes::{Memory, Pieces};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::calls::want;

/// Time is counted in nanoseconds here.
fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// A call that has not returned.
#[derive(Clone)]
enum Open {
    /// It was let through.
    Told,
    /// It waits for its return.
    Held(At, Box<Call>, Arc<Asked>, u32),
}

/// See the module's text.
pub struct Sieve<'a> {
    asks: Asks,
    line_tests: Vec<u64>,
    signatures: &'a Signatures,
    /// By address, with what holds it; `None`: its calls cannot be asked.
    asked: HashMap<usize, (Arc<Function>, Option<Arc<Asked>>)>,
    lines: HashMap<usize, (Arc<Line>, u32)>,
    stacks: Stacks<Open>,
    next: Box<dyn Sink + 'a>,
}

impl<'a> Sieve<'a> {
    /// Lets through what is asked for; `next` itself if nothing is.
    pub fn before(
        next: Box<dyn Sink + 'a>,
        args: &CallsArgs,
        signatures: &'a Signatures,
    ) -> Box<dyn Sink + 'a> {
        let asks = Asks::new(args, nanos);
        if !asks.any() {
            return next;
        }
        Box::new(Sieve {
            line_tests: asks.lines(),
            asks,
            signatures,
            asked: HashMap::new(),
            lines: HashMap::new(),
            stacks: Stacks::default(),
            next,
        })
    }

    fn asked(&mut self, function: &Arc<Function>) -> Option<Arc<Asked>> {
        let key = Arc::as_ptr(function).addr();
        if let Some((_, known)) = self.asked.get(&key) {
            return known.clone();
        }
        let prototype = self.signatures.of(&function.module, &function.name);
        let asked = match self.asks.of(prototype.as_ref()) {
            Ok(asked) if asked.values => {
                eprintln!(
                    "lancet: no call of {} is shown: values of the script's language can be asked in the process, not in a recording; record with the same --where",
                    function.name
                );
                None
            }
            Ok(asked) => Some(Arc::new(asked)),
            Err(unfit) => {
                eprintln!("lancet: no call of {} is shown: {unfit}", function.name);
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
            let text = line.to_string();
            (line.clone(), line_bits(&self.line_tests, text.as_bytes()))
        };
        self.lines
            .entry(Arc::as_ptr(line).addr())
            .or_insert_with(find)
            .1
    }

    fn called(&mut self, at: At, call: Call) -> io::Result<()> {
        let Some(asked) = self.asked(&call.function) else {
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
            read(&call.pieces, at, into)
        }) {
            return Ok(());
        }
        if asked.want & want::HELD != 0 {
            let open = Open::Held(at, call.into(), asked, lines);
            self.stacks.enter(at, open);
            return Ok(());
        }
        self.stacks.enter(at, Open::Told);
        self.next.take(Told {
            at,
            what: What::Call(call),
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
            self.next.take(Told {
                at: began,
                what: What::Call(*call),
            })?;
        }
        self.next.take(Told {
            at,
            what: What::Return(back),
        })
    }
}

fn meets(call: &Call, returned: &Returned, asked: &Asked, elapsed: u64, lines: u32) -> bool {
    let facts = Facts {
        registers: &call.registers,
        returned: Some(returned),
        elapsed,
        lines,
    };
    holds(&asked.words[1], facts, |at, into| {
        read(&call.pieces, at, into)
    })
}

/// As many bytes as were copied from there on.
fn read(pieces: &Pieces, at: u64, into: &mut [u8]) -> usize {
    if pieces.read(at, into) {
        return into.len();
    }
    let (mut known, mut most) = (0, into.len());
    // All before what is known is there, and not all before `most`.
    while known + 1 < most {
        let middle = known.midpoint(most);
        match pieces.read(at, &mut into[..middle]) {
            true => known = middle,
            false => most = middle,
        }
    }
    pieces.read(at, &mut into[..known]);
    known
}

impl Sink for Sieve<'_> {
    fn take(&mut self, told: Told) -> io::Result<()> {
        match told.what {
            What::Call(call) => self.called(told.at, call),
            What::Return(back) => self.returned(told.at, back),
            What::Forked(child) => {
                self.stacks.fork(told.at.pid, child);
                self.next.take(told)
            }
            What::Ended(_) => {
                self.stacks.drain(Some(told.at.pid));
                self.next.take(told)
            }
            What::Opened(_) | What::Signal(_) => self.next.take(told),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.next.rest()
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        self.next.finish(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_copied_is_read_up_to_its_end() {
        let mut pieces = Pieces::new();
        pieces.add(100, b"hello");
        pieces.add(105, b" you");
        for length in 0..20 {
            let mut into = vec![0; length];
            let got = read(&pieces, 100, &mut into);
            assert_eq!(&into[..got], &b"hello you"[..length.min(9)]);
        }
        assert_eq!(read(&pieces, 109, &mut [0; 4]), 0);
        assert_eq!(read(&pieces, 99, &mut [0; 4]), 0);
    }
}
