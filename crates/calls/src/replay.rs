//! `lancet calls FILE`: events that were recorded, as they were then.

use crate::consumer::Consumer;
use crate::event::{At, Call, CallEdge, Caller, Event, EventKind, Module, Opened};
use crate::options::Options;
use crate::select::Selection;
use crate::signatures::Signatures;
use crate::source::{Count, Flow, Source};
use crate::{Error, Message, Messages};
use hooks::rings::{Line, Losses};
use process::functions::Function;
use recording::{Item, Reader};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// So many items between two looks at whether it is to end.
const BATCH: usize = 4096;

/// See the module's text.
pub struct Replay<'a> {
    reader: Reader<File>,
    path: &'a Path,
    signatures: &'a Signatures,
    selection: Selection,
    pids: Vec<i32>,
    modules: Vec<Arc<Module>>,
    /// Each as a call edge from no module.
    functions: Vec<CallEdge>,
    edges: Vec<Arc<CallEdge>>,
    lines: Vec<Arc<Line>>,
    callers: Vec<Arc<Caller>>,
    /// They are asked for (`-w`).
    shows_callers: bool,
    /// Of two lines the library's is shown.
    nearest: bool,
    losses: Vec<(i32, Losses)>,
    over: bool,
    messages: Messages,
}

impl<'a> Replay<'a> {
    /// Looks at the file's beginning.
    pub fn open(path: &'a Path, args: &Options, signatures: &'a Signatures) -> Result<Self, Error> {
        let cannot = |error| Error::Recording {
            path: path.to_owned(),
            error,
        };
        let file = File::open(path).map_err(|error| cannot(error.into()))?;
        Ok(Replay {
            reader: Reader::new(file).map_err(cannot)?,
            path,
            signatures,
            selection: Selection::recorded(args),
            pids: Vec::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            edges: Vec::new(),
            lines: Vec::new(),
            callers: Vec::new(),
            shows_callers: args.frames != 0 && !args.count,
            nearest: args.nearest,
            losses: Vec::new(),
            over: false,
            messages: args.messages.clone(),
        })
    }

    fn function(&mut self, function: recording::Function) {
        let module = self.modules[function.module as usize].clone();
        let name = function.names.first().cloned().unwrap_or_default();
        if !function.prototype.is_empty() {
            let text = &function.prototype;
            self.signatures.learn(&module.name, &name, text);
        }
        let names = function.names.into();
        let function = Function {
            name,
            module: module.name.clone(),
            address: function.address,
            size: function.size,
            picks: false,
        };
        self.functions.push(CallEdge {
            function: Arc::new(function),
            names,
            module,
            ..CallEdge::default()
        });
    }

    fn edge(&mut self, edge: recording::CallEdge) {
        let of = &self.functions[edge.function as usize];
        let mut edge = CallEdge {
            function: of.function.clone(),
            names: of.names.clone(),
            module: of.module.clone(),
            from: edge.from.map(|from| self.modules[from as usize].clone()),
            slots: edge.slots,
            shown: None,
        };
        edge.shown = self.selection.shows(&edge);
        self.edges.push(Arc::new(edge));
    }

    /// An item as an event: with what was defined in place of its number. `None` for a call that is not shown. The reader
    /// has seen to it that everything is defined.
    fn resolve(&self, event: recording::Event) -> Option<Event> {
        let kind = match event.kind {
            recording::EventKind::Call(call) => {
                let edge = &self.edges[call.edge as usize];
                edge.shown.as_ref()?;
                let line = |number: u32| self.lines[number as usize].clone();
                let (nearest, library) = match call.library {
                    Some(library) if self.nearest => (Some(library), None),
                    library => (call.line, library),
                };
                let callers = call.callers.iter();
                let callers = callers.map(|caller| self.callers[*caller as usize].clone());
                EventKind::Call(Call {
                    edge: edge.clone(),
                    caller: call.caller,
                    registers: call.registers,
                    captures: call.captures,
                    line: nearest.map(line),
                    library: library.map(line),
                    callers: callers.collect(),
                })
            }
            recording::EventKind::Return(back) => EventKind::Return(back),
            recording::EventKind::Opened(opened) => EventKind::Opened(opened),
            recording::EventKind::Signal(signal) => EventKind::Signal(signal),
            recording::EventKind::Forked(child) => EventKind::Forked(child),
            recording::EventKind::Ended(end) => EventKind::Ended(end),
        };
        let process = self.pids[event.at.process as usize];
        let at = event.at.named(process);
        Some(Event { at, kind })
    }

    fn end(&mut self) {
        self.over = true;
        let names = self
            .functions
            .iter()
            .flat_map(|of| of.names.iter().map(|name| &**name));
        for name in self.selection.missing(names) {
            let (path, name) = (self.path.to_owned(), name.to_owned());
            self.messages.say(Message::NotRecorded { path, name });
        }
        if self.shows_callers && self.callers.is_empty() && !self.edges.is_empty() {
            let path = self.path.to_owned();
            self.messages.say(Message::NoCallersRecorded { path });
        }
    }
}

/// A text; empty = there is none.
fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl Source for Replay<'_> {
    fn read(&mut self, sink: &mut dyn Consumer) -> Result<Flow, Error> {
        for _ in 0..BATCH {
            if self.over {
                return Ok(Flow::Over);
            }
            let item = match self.reader.next() {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.end();
                    continue;
                }
                Err(error) => {
                    let path = self.path.to_owned();
                    self.messages.say(Message::RecordingEnds { path, error });
                    self.end();
                    continue;
                }
            };
            match item {
                Item::Head(_) | Item::End => {}
                Item::Guest(guest) => {
                    self.pids.push(guest.pid);
                    let at = At {
                        process: guest.pid,
                        tid: guest.pid as u32,
                        ..At::default()
                    };
                    let opened = Opened {
                        command: guest.command,
                        vm: guest.vm,
                    };
                    sink.take(Event {
                        at,
                        kind: EventKind::Opened(opened),
                    })?;
                }
                Item::Module(module) => self.modules.push(Arc::new(Module {
                    path: module.path,
                    name: module.name.into(),
                    main: module.main,
                    bias: module.bias,
                })),
                Item::Function(function) => self.function(function),
                Item::CallEdge(edge) => self.edge(edge),
                Item::Line(line) => self.lines.push(Arc::new(Line {
                    path: line.path,
                    line: line.line,
                    name: line.name,
                })),
                Item::Caller(caller) => self.callers.push(Arc::new(Caller {
                    address: caller.address,
                    path: filled(caller.path),
                    function: filled(caller.name).map(|name| (name, caller.offset)),
                })),
                Item::Event(event) => {
                    if let Some(event) = self.resolve(event) {
                        sink.take(event)?;
                    }
                }
                Item::Losses(losses) => self.losses.push((
                    self.pids[losses.guest as usize],
                    Losses {
                        records: losses.records,
                        without_ring: losses.without_ring,
                        ..Losses::default()
                    },
                )),
            }
        }
        Ok(Flow::More)
    }

    fn leave(&mut self) {}

    fn counted(&mut self) -> Vec<Count> {
        Vec::new()
    }

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        std::mem::take(&mut self.losses)
    }
}
