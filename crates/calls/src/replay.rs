//! `lancet calls FILE`: the source of events that were recorded. Used by `lancet::watching::run`.
//!
//! Events are merged by time if each is shown (`recording::Merge`). A table needs no order between threads: the segments of the
//! file are counted on all processors ([`tally`](self)), unless the request needs events in their order: a preset that groups
//! calls, a condition on more than the line, a process that forked. A segment in which no line and no call edge can meet the
//! request is not read at all: the index of the file lists those that occur.

mod names;
mod tally;

use crate::Error;
use crate::consumer::Consumer;
use crate::event::{At, Event, EventKind, Opened};
use crate::message::{Message, Messages};
use crate::options::Options;
use crate::select::Selection;
use crate::signatures::Signatures;
use crate::source::{Count, Flow, Source};
use crate::window::Window;
use hooks::rings::Losses;
use names::Names;
use recording::{Merge, Recording, Wanted};
use std::fs::File;
use std::path::Path;
use tally::Tally;

/// Number of events between two checks whether the command must end.
const BATCH: usize = 4096;

/// How the file is read.
enum Way {
    Merged(Box<Merge>),
    Counted(Box<Tally>),
}

/// A recording as the [`Source`] of events or counts; it is read once, from its beginning to its end.
pub struct Replay<'a> {
    recording: Recording,
    path: &'a Path,
    selection: Selection,
    names: Names,
    way: Way,
    /// Processes that were not reported yet, in the order in which they were opened.
    to_open: Vec<u32>,
    /// Whether callers are shown (`-w`).
    shows_callers: bool,
    over: bool,
    messages: Messages,
}

impl<'a> Replay<'a> {
    /// Reads the definitions of the file.
    pub fn open(path: &'a Path, args: &Options, signatures: &Signatures) -> Result<Self, Error> {
        let cannot = |error| Error::Recording {
            path: path.to_owned(),
            error,
        };
        let file = File::open(path).map_err(|error| cannot(error.into()))?;
        let mut recording = Recording::open(file).map_err(cannot)?;
        let definitions = recording.take_definitions();
        let selection = Selection::recorded(args);
        let Window { since, until } = args.window.within(definitions.head.began);
        let names = Names::new(definitions, &selection, signatures, args.nearest);
        let wanted = Wanted {
            edges: names.shown(),
            lines: names.lines_asked(args.condition.as_ref()),
            nearest: args.nearest,
            since,
            until,
        };
        let way = if args.counts_in_guest() && args.asks_lines_only() && !recording.forks() {
            Way::Counted(Box::new(Tally::new(wanted)))
        } else {
            Way::Merged(Box::new(Merge::new(wanted)))
        };
        Ok(Replay {
            to_open: (0..names.guests() as u32).rev().collect(),
            recording,
            path,
            selection,
            names,
            way,
            shows_callers: args.frames != 0 && !args.count,
            over: false,
            messages: args.messages.clone(),
        })
    }

    /// Reports processes that were opened before this time, and one that has an event now.
    fn tell_opened(
        &mut self,
        sink: &mut dyn Consumer,
        time: u64,
        speaks: Option<u32>,
    ) -> Result<(), Error> {
        while let Some(number) = self.to_open.last().copied() {
            let guest = self.names.guest(number);
            if guest.since > time && speaks.is_none_or(|speaks| speaks < number) {
                return Ok(());
            }
            self.to_open.pop();
            let at = At {
                process: guest.pid,
                tid: guest.pid as u32,
                ..At::default()
            };
            let opened = Opened {
                command: guest.command.clone(),
                vm: guest.vm.clone(),
            };
            sink.take(Event {
                at,
                kind: EventKind::Opened(opened),
            })?;
        }
        Ok(())
    }

    fn end(&mut self, flaw: Option<recording::Error>) {
        self.over = true;
        if let Some(error) = flaw.or_else(|| self.recording.flaw()) {
            let path = self.path.to_owned();
            self.messages.say(Message::RecordingEnds { path, error });
        }
        if let Way::Merged(merge) = &self.way
            && merge.unordered() != 0
        {
            let (path, segments) = (self.path.to_owned(), merge.unordered());
            self.messages.say(Message::Unordered { path, segments });
        }
        for name in self.selection.missing(self.names.functions()) {
            let (path, name) = (self.path.to_owned(), name.to_owned());
            self.messages.say(Message::NotRecorded { path, name });
        }
        if self.shows_callers && self.names.lacks_callers() {
            let path = self.path.to_owned();
            self.messages.say(Message::NoCallersRecorded { path });
        }
    }

    /// Returns the next event of the merged streams; `None` = there are no more.
    fn next(&mut self) -> Option<recording::Event> {
        let Way::Merged(merge) = &mut self.way else {
            return None;
        };
        match merge.next(&self.recording) {
            Ok(Some(event)) => Some(event),
            Ok(None) => {
                self.end(None);
                None
            }
            Err(error) => {
                self.end(Some(error));
                None
            }
        }
    }
}

impl Source for Replay<'_> {
    fn read(&mut self, sink: &mut dyn Consumer) -> Result<Flow, Error> {
        if self.over {
            return Ok(Flow::Over);
        }
        if let Way::Counted(tally) = &mut self.way {
            match tally.read(&self.recording) {
                Ok(true) => return Ok(Flow::More),
                Ok(false) => self.end(None),
                Err(error) => self.end(Some(error)),
            }
            // Which processes the counts are of.
            self.tell_opened(sink, u64::MAX, None)?;
            return Ok(Flow::More);
        }
        for _ in 0..BATCH {
            let Some(event) = self.next() else {
                self.tell_opened(sink, u64::MAX, None)?;
                return Ok(Flow::Over);
            };
            self.tell_opened(sink, event.at.nanos(), Some(event.at.process))?;
            sink.take(self.names.resolve(event))?;
        }
        Ok(Flow::More)
    }

    fn leave(&mut self) {}

    fn is_recording(&self) -> bool {
        true
    }

    fn counted(&mut self) -> Vec<Count> {
        match &mut self.way {
            Way::Counted(tally) => tally.counts(&self.names),
            Way::Merged(_) => Vec::new(),
        }
    }

    fn forgotten(&self) -> u64 {
        match &self.way {
            Way::Counted(tally) => tally.forgotten(),
            Way::Merged(_) => 0,
        }
    }

    fn progress(&self) -> Option<f64> {
        Some(self.recording.progress())
    }

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        self.names.losses()
    }
}
