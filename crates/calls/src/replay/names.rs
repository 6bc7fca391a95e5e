//! The meaning of the numbers in a recording: processes, functions, call edges, lines, callers. Used by `replay` and
//! `tally`.

use crate::event::{Call, CallEdge, Caller, Event, EventKind, Module};
use crate::select::Selection;
use crate::signatures::Signatures;
use hooks::rings::{Line, Losses};
use process::functions::Function;
use prototypes::condition::Condition;
use recording::{Definitions, Guest};
use std::sync::Arc;

/// The definitions of a recording, kept while its events are read. Looking up a number that is not defined panics; the reader of the file
/// refuses events with such numbers.
pub struct Names {
    guests: Vec<Guest>,
    edges: Vec<Arc<CallEdge>>,
    /// Each function, as a call edge that comes from no module.
    functions: Vec<CallEdge>,
    lines: Vec<Arc<Line>>,
    callers: Vec<Arc<Caller>>,
    losses: Vec<recording::Losses>,
    /// Whether the library's line is shown of a call with two lines.
    nearest: bool,
}

/// Returns a text, or `None` if it is empty.
fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl Names {
    /// Takes over the definitions of a file; its prototypes are noted in `signatures`.
    pub fn new(
        of: Definitions,
        selection: &Selection,
        signatures: &Signatures,
        nearest: bool,
    ) -> Self {
        let modules = of.modules.into_iter().map(|module| {
            Arc::new(Module {
                path: module.path,
                name: module.name.into(),
                main: module.main,
                bias: module.bias,
            })
        });
        let modules: Vec<_> = modules.collect();
        let functions = of.functions.into_iter();
        let functions = functions.map(|function| named(function, &modules, signatures));
        let functions: Vec<_> = functions.collect();
        let edges = of.edges.into_iter().map(|edge| {
            let of = &functions[edge.function as usize];
            let mut edge = CallEdge {
                function: of.function.clone(),
                names: of.names.clone(),
                module: of.module.clone(),
                from: edge.from.map(|from| modules[from as usize].clone()),
                slots: edge.slots,
                inside: filled(edge.inside).map(Arc::from),
                shown: None,
            };
            edge.shown = selection.shows(&edge);
            Arc::new(edge)
        });
        let edges = edges.collect();
        let lines = of.lines.into_iter().map(|line| {
            Arc::new(Line {
                path: line.path,
                line: line.line,
                name: line.name,
            })
        });
        let callers = of.callers.into_iter().map(|caller| {
            Arc::new(Caller {
                address: caller.address,
                path: filled(caller.path),
                function: filled(caller.name).map(|name| (name, caller.offset)),
                in_file: caller.in_file,
            })
        });
        Names {
            guests: of.guests,
            edges,
            functions,
            lines: lines.collect(),
            callers: callers.collect(),
            losses: of.losses,
            nearest,
        }
    }

    /// How many processes there are.
    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    /// The process with this number of the recording.
    pub fn guest(&self, number: u32) -> &Guest {
        &self.guests[number as usize]
    }

    /// Returns for each call edge whether its calls are shown.
    pub fn shown(&self) -> Vec<bool> {
        self.edges.iter().map(|edge| edge.shown.is_some()).collect()
    }

    /// Returns for each line, by its number plus 1, whether a call from it may meet the condition; the first entry is for calls without a
    /// line. `None` = all may.
    pub fn lines_asked(&self, condition: Option<&Condition>) -> Option<Vec<bool>> {
        let condition = condition?;
        let of = |line: &Arc<Line>| condition.may_hold_at(Some(&line.tested()));
        let mut asked = vec![condition.may_hold_at(None)];
        asked.extend(self.lines.iter().map(of));
        asked.contains(&false).then_some(asked)
    }

    /// The call edge with this number of the recording.
    pub fn edge(&self, number: u32) -> &CallEdge {
        &self.edges[number as usize]
    }

    /// The script line with this number of the recording.
    pub fn line(&self, number: u32) -> Arc<Line> {
        self.lines[number as usize].clone()
    }

    /// All names of all functions.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let names = self.functions.iter().flat_map(|of| of.names.iter());
        names.map(|name| &**name)
    }

    /// Whether there are calls, but no frames around any of them.
    pub fn lacks_callers(&self) -> bool {
        self.callers.is_empty() && !self.edges.is_empty()
    }

    /// Returns what was lost of each process.
    pub fn losses(&mut self) -> Vec<(i32, Losses)> {
        let losses = std::mem::take(&mut self.losses);
        let losses = losses.into_iter().map(|losses| {
            let lost = Losses {
                records: losses.records,
                without_ring: losses.without_ring,
                ..Losses::default()
            };
            (self.guest(losses.guest).pid, lost)
        });
        losses.collect()
    }

    /// Returns an event with definitions in place of its numbers. The reader has checked that everything is defined.
    pub fn resolve(&self, event: recording::Event) -> Event {
        let at = event.at.named(self.guest(event.at.process).pid);
        let kind = match event.kind {
            recording::EventKind::Call(call) => {
                let (nearest, library) = match call.library {
                    Some(library) if self.nearest => (Some(library), None),
                    library => (call.line, library),
                };
                let callers = call.callers.iter();
                let callers = callers.map(|caller| self.callers[*caller as usize].clone());
                EventKind::Call(Call {
                    edge: self.edges[call.edge as usize].clone(),
                    caller: call.caller,
                    registers: call.registers,
                    captures: call.captures,
                    line: nearest.map(|line| self.line(line)),
                    library: library.map(|line| self.line(line)),
                    callers: callers.collect(),
                })
            }
            recording::EventKind::Return(back) => EventKind::Return(back),
            recording::EventKind::Opened(opened) => EventKind::Opened(opened),
            recording::EventKind::Signal(signal) => EventKind::Signal(signal),
            recording::EventKind::Forked(child) => EventKind::Forked(child),
            recording::EventKind::Ended(end) => EventKind::Ended(end),
            recording::EventKind::Thread(end) => EventKind::Thread(end),
        };
        Event { at, kind }
    }
}

fn named(
    function: recording::Function,
    modules: &[Arc<Module>],
    signatures: &Signatures,
) -> CallEdge {
    let module = modules[function.module as usize].clone();
    let name = function.names.first().cloned().unwrap_or_default();
    if !function.prototype.is_empty() {
        signatures.learn(&module.name, &name, &function.prototype);
    }
    CallEdge {
        function: Arc::new(Function {
            name,
            module: module.name.clone(),
            address: function.address,
            size: function.size,
            picks: false,
        }),
        names: function.names.into(),
        module,
        ..CallEdge::default()
    }
}
