//! Reports script lines that were requested and never occurred: a line of `--at` from which nothing was called, and an injection that was
//! never applied. Both are easily mistyped, and an empty result would look like a finding. Used by
//! `lancet::watching::run`.

use crate::Line;
use crate::consumer::{Consumer, Forgotten, SourceEnd};
use crate::event::{Call, End, Event, EventKind};
use crate::message::{Message, Messages};
use crate::options::Options;
use crate::stacks::{Kept, OpenCalls};
use crate::tamper::{Inject, Tampered};
use prototypes::condition::Condition;
use std::io;

/// Passes all events on, and reports at the end which of the requested lines and injections never occurred.
pub struct NeverOccurred<'a> {
    places: Vec<Asked<Condition>>,
    injections: Vec<Asked<Inject>>,
    /// For each open call, which injections may have been applied to it.
    stacks: OpenCalls<Candidates>,
    next: Box<dyn Consumer + 'a>,
    messages: Messages,
}

/// A requested line or injection.
struct Asked<T> {
    what: T,
    is_met: bool,
}

/// Set of injections, as bits; those beyond 64 count as met.
#[derive(Clone, Copy)]
struct Candidates(u64);

impl Kept for Candidates {
    fn beside(&self) -> usize {
        0
    }
}

impl<'a> NeverOccurred<'a> {
    /// Returns `next` itself if there is nothing to report, or if events go into a recording without passing this consumer.
    pub fn before(next: Box<dyn Consumer + 'a>, options: &Options) -> Box<dyn Consumer + 'a> {
        if options.recording.is_some() || options.at.is_empty() && options.inject.is_empty() {
            return next;
        }
        // Calls that guests count themselves are not reported one by one.
        let injections: &[Inject] = match options.counts_in_guest() {
            true => &[],
            false => &options.inject,
        };
        Box::new(NeverOccurred {
            places: asked(&options.at),
            injections: asked(&injections[..injections.len().min(64)]),
            stacks: OpenCalls::default(),
            next,
            messages: options.messages.clone(),
        })
    }

    fn is_at(&mut self, line: &Line) {
        let mut open = self.places.iter_mut().filter(|place| !place.is_met);
        let Some(first) = open.next() else {
            return;
        };
        let text = line.to_string();
        for place in std::iter::once(first).chain(open) {
            place.is_met = place.what.may_hold_at(Some(&text));
        }
    }

    fn candidates(&self, call: &Call) -> Candidates {
        let line = call.line.as_ref().map(ToString::to_string);
        let function = &call.edge.function;
        let is_of = |inject: &Inject| {
            let of_line = inject.line.as_ref();
            function.is_system_call()
                && inject.names.iter().any(|name| *name == function.name)
                && of_line.is_none_or(|of| of.may_hold_at(line.as_deref()))
        };
        let all = self.injections.iter().enumerate();
        let of_it = all.filter(|(_, one)| !one.is_met && is_of(&one.what));
        Candidates(of_it.fold(0, |bits, (number, _)| bits | 1 << number))
    }
}

fn asked<T: Clone>(all: &[T]) -> Vec<Asked<T>> {
    let all = all.iter().cloned();
    all.map(|what| Asked {
        what,
        is_met: false,
    })
    .collect()
}

impl Consumer for NeverOccurred<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        match &event.kind {
            EventKind::Call(call) => {
                if let Some(line) = &call.line {
                    self.is_at(line);
                }
                if self.injections.iter().any(|one| !one.is_met) {
                    let candidates = self.candidates(call);
                    self.stacks.enter(event.at, candidates);
                }
            }
            EventKind::Return(back) => {
                if let Some((Candidates(bits), ..)) = self.stacks.leave(event.at)
                    && Tampered::of(back.returned.rdx) != Tampered::default()
                {
                    let all = self.injections.iter_mut().enumerate();
                    all.filter(|(number, _)| bits >> number & 1 != 0)
                        .for_each(|(_, one)| one.is_met = true);
                }
            }
            EventKind::Ended(end) => {
                // A call whose thread the injected signal has ended does not return.
                let ended_by = match end {
                    End::Killed(signal) => Some(*signal),
                    _ => None,
                };
                for Candidates(bits) in self.stacks.drain(Some(event.at.process)) {
                    let all = self.injections.iter_mut().enumerate();
                    all.filter(|(number, one)| {
                        bits >> number & 1 != 0 && ended_by.is_some() && one.what.signal == ended_by
                    })
                    .for_each(|(_, one)| one.is_met = true);
                }
            }
            _ => {}
        }
        self.next.take(event)
    }

    fn rest(&mut self) -> io::Result<()> {
        self.next.rest()
    }

    fn forgotten(&self) -> Forgotten {
        self.next.forgotten()
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        let counted = end.counted.iter().filter_map(|count| count.line.as_ref());
        counted.for_each(|line| self.is_at(line));
        for place in self.places.iter().filter(|place| !place.is_met) {
            let place = place.what.sought();
            self.messages.say(Message::NothingAt { place });
        }
        for one in self.injections.iter().filter(|one| !one.is_met) {
            self.messages.say(Message::NothingInjected {
                names: one.what.names.clone(),
                place: one.what.line.as_ref().map(Condition::sought),
            });
        }
        self.next.finish(end)
    }
}
