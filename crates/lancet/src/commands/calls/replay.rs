//! `lancet calls FILE`: calls that were recorded, told again.

use super::select::Selection;
use super::signatures::Signatures;
use super::sink::Sink;
use super::source::{Count, Flow, Source};
use super::told::{At, Call, Caller, End as Ended, Module, Opened, Return, Shown, Told, Way, What};
use crate::cli::CallsArgs;
use anyhow::Context;
use process::functions::Function;
use process::lanes::{Line, Losses};
use prototypes::Pieces;
use prototypes::capture::{Registers, Returned};
use recording::{Happened, Item, Reader};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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
    /// Each as a way from nowhere.
    functions: Vec<Way>,
    /// Each with what its calls are shown as.
    ways: Vec<(Arc<Way>, Option<Arc<Shown>>)>,
    lines: Vec<Arc<Line>>,
    callers: Vec<Arc<Caller>>,
    /// They are asked for (`-w`).
    shows_callers: bool,
    /// Of two lines the library's is told.
    nearest: bool,
    losses: Vec<(i32, Losses)>,
    /// It was read up to its end.
    whole: bool,
    over: bool,
}

impl<'a> Replay<'a> {
    /// Looks at the file's beginning.
    pub fn open(
        path: &'a Path,
        args: &CallsArgs,
        signatures: &'a Signatures,
    ) -> anyhow::Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        Ok(Replay {
            reader: Reader::new(file).with_context(cannot)?,
            path,
            signatures,
            selection: Selection::recorded(args),
            pids: Vec::new(),
            modules: Vec::new(),
            functions: Vec::new(),
            ways: Vec::new(),
            lines: Vec::new(),
            callers: Vec::new(),
            shows_callers: args.frames != 0 && !args.count,
            nearest: args.nearest,
            losses: Vec::new(),
            whole: false,
            over: false,
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
        self.functions.push(Way {
            function: Arc::new(function),
            names,
            module,
            ..Way::default()
        });
    }

    fn way(&mut self, way: recording::Way) {
        let of = &self.functions[way.function as usize];
        let way = Way {
            function: of.function.clone(),
            names: of.names.clone(),
            module: of.module.clone(),
            from: way.from.map(|from| self.modules[from as usize].clone()),
            slots: way.slots,
        };
        let shown = self.selection.shows(&way).map(Arc::new);
        self.ways.push((Arc::new(way), shown));
    }

    fn end(&mut self) {
        self.over = true;
        let names = self
            .functions
            .iter()
            .flat_map(|of| of.names.iter().map(|name| &**name));
        for name in self.selection.missing(names) {
            eprintln!("lancet: {} holds no call of {name}", self.path.display());
        }
        if self.shows_callers && self.callers.is_empty() && !self.ways.is_empty() {
            let path = self.path.display();
            eprintln!("lancet: {path} holds no callers: they are recorded with -w");
        }
    }
}

/// A text; empty = there is none.
fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn laid(found: &[recording::Piece]) -> Pieces {
    let mut pieces = Pieces::new();
    for (at, bytes) in found {
        pieces.add(*at, bytes);
    }
    pieces
}

fn place(pids: &[i32], at: recording::At) -> At {
    At {
        // The reader has seen that there is one.
        pid: pids[at.guest as usize],
        tid: at.tid,
        lane: at.lane,
        stack: at.stack,
        frame: at.frame,
        time: Duration::from_nanos(at.time),
    }
}

impl Source for Replay<'_> {
    fn read(&mut self, sink: &mut dyn Sink) -> anyhow::Result<Flow> {
        for _ in 0..BATCH {
            if self.over {
                return Ok(Flow::Over);
            }
            let item = match self.reader.next() {
                Ok(Some(item)) => item,
                Ok(None) => {
                    self.whole = true;
                    self.end();
                    continue;
                }
                Err(error) => {
                    eprintln!("lancet: {}: {error}", self.path.display());
                    self.end();
                    continue;
                }
            };
            match item {
                Item::Head(_) | Item::End => {}
                Item::Guest(guest) => {
                    self.pids.push(guest.pid);
                    let at = At {
                        pid: guest.pid,
                        tid: guest.pid as u32,
                        ..At::default()
                    };
                    let opened = Opened {
                        command: guest.command,
                        vm: guest.vm,
                    };
                    sink.take(Told {
                        at,
                        what: What::Opened(opened),
                    })?;
                }
                Item::Module(module) => self.modules.push(Arc::new(Module {
                    path: module.path,
                    name: module.name.into(),
                    main: module.main,
                    bias: module.bias,
                })),
                Item::Function(function) => self.function(function),
                Item::Way(way) => self.way(way),
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
                Item::Call(call) => {
                    let (way, Some(shown)) = &self.ways[call.way as usize] else {
                        continue;
                    };
                    let line = |number: u32| self.lines[number as usize].clone();
                    let (told, library) = match call.library {
                        Some(library) if self.nearest => (Some(library), None),
                        library => (call.line, library),
                    };
                    let callers = call.callers.iter();
                    let callers = callers.map(|caller| self.callers[*caller as usize].clone());
                    let told = Call {
                        function: way.function.clone(),
                        way: way.clone(),
                        shown: shown.clone(),
                        caller: call.caller,
                        registers: Registers {
                            gp: call.gp,
                            sse: call.sse,
                            stack: call.at.frame,
                        },
                        pieces: laid(&call.pieces),
                        line: told.map(line),
                        library: library.map(line),
                        callers: callers.collect(),
                    };
                    sink.take(Told {
                        at: place(&self.pids, call.at),
                        what: What::Call(told),
                    })?;
                }
                Item::Return(back) => {
                    let told = Return {
                        returned: Returned {
                            rax: back.gp[0],
                            rdx: back.gp[1],
                            sse: back.sse,
                            x87: back.x87.unwrap_or_default(),
                        },
                        pieces: laid(&back.pieces),
                    };
                    sink.take(Told {
                        at: place(&self.pids, back.at),
                        what: What::Return(told),
                    })?;
                }
                Item::Event(event) => {
                    let pid = self.pids[event.guest as usize];
                    let at = At {
                        pid,
                        tid: event.tid,
                        time: Duration::from_nanos(event.time),
                        ..At::default()
                    };
                    let what = match event.what {
                        Happened::Signal(signal) => What::Signal(signal),
                        Happened::Forked(child) => What::Forked(child),
                        Happened::Exited(code) => What::Ended(Ended::Exited(code)),
                        Happened::Killed(signal) => What::Ended(Ended::Killed(signal)),
                        Happened::Ended => What::Ended(Ended::Unknown),
                        Happened::Replaced => What::Ended(Ended::Replaced),
                    };
                    sink.take(Told { at, what })?;
                }
                Item::Losses(losses) => self.losses.push((
                    self.pids[losses.guest as usize],
                    Losses {
                        records: losses.records,
                        unlaned: losses.unlaned,
                        uncounted: 0,
                    },
                )),
            }
        }
        Ok(Flow::More)
    }

    fn leave(&mut self) -> bool {
        self.whole || !self.over
    }

    fn counted(&mut self) -> Vec<Count> {
        Vec::new()
    }

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        std::mem::take(&mut self.losses)
    }
}
