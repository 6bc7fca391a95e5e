//! `--json`: one object a line, of the records of [`answer::calls`] and [`answer::syscalls`]. Used by
//! `lancet::commands::syscalls::args`.

use super::{Layout, Naming};
use crate::calls::CHUNK;
use crate::calls::json::{list, nanos, or_null, other, place_text, word, words};
use crate::json::{self, string};
use calls::Line;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{At, CallEdge, Caller, Event, EventKind, Return};
use calls::memo::Memo;
use calls::signatures::Signatures;
use calls::stacks::{Kept, OpenCalls};
use calls::tamper::Tampered;
use prototypes::digits::decimal;
use prototypes::show::Captures;
use prototypes::types::Prototype;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use syscalls::{Part, RawCall, Style};

/// What all calls of a name have in common.
struct Plan {
    name: String,
    prototype: Prototype,
    number: Option<u32>,
    /// The function whose code makes the call.
    function: Option<Arc<str>>,
    /// It is seen only for what descriptors are called.
    hidden: bool,
    style: Style,
}

/// A call that has not ended.
struct Open {
    at: At,
    plan: Rc<Plan>,
    arguments: [u64; 6],
    entry: Captures,
    /// The arguments that were known when it was made, as text.
    early: Vec<Vec<u8>>,
    lines: [Option<Arc<Line>>; 2],
    callers: Vec<Arc<Caller>>,
    caller: u64,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        let early: usize = self.early.iter().map(Vec::len).sum();
        self.entry.size() + early + self.callers.len() * 8
    }
}

/// Writes system calls as JSON.
pub struct Json<'a> {
    layout: Layout,
    signatures: &'a Signatures,
    naming: Naming,
    out: Box<dyn Write>,
    text: Vec<u8>,
    plans: Memo<CallEdge, Rc<Plan>>,
    stacks: OpenCalls<Rc<Open>>,
    lines: Memo<Line, Vec<u8>>,
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

impl<'a> Json<'a> {
    /// Makes the writer; nothing is written yet.
    pub fn new(
        layout: Layout,
        signatures: &'a Signatures,
        naming: Naming,
        out: Box<dyn Write>,
    ) -> Self {
        Json {
            layout,
            signatures,
            naming,
            out,
            text: Vec::new(),
            plans: Memo::default(),
            stacks: OpenCalls::default(),
            lines: Memo::default(),
        }
    }

    fn plan(&mut self, edge: &Arc<CallEdge>) -> Rc<Plan> {
        let (layout, signatures) = (&self.layout, self.signatures);
        let make = |edge: &CallEdge| {
            let function = &edge.function;
            let known = signatures.of(&function.module, &function.name);
            let number =
                prototypes::bundle::system_calls().find(|(_, name)| *name == function.name);
            Rc::new(Plan {
                prototype: known.unwrap_or_else(|| signatures.unknown().clone()),
                hidden: !layout.shows(&function.name),
                number: number.map(|(number, _)| number),
                function: edge.inside.clone(),
                style: layout.exceptions.style(layout.style, &function.name),
                name: function.name.clone(),
            })
        };
        self.plans.of(edge, make).clone()
    }

    fn called(&mut self, at: At, mut made: calls::event::Call) {
        let plan = self.plan(&made.edge);
        made.callers.truncate(self.layout.frames);
        let mut open = Open {
            at,
            plan,
            arguments: made.registers.gp,
            entry: made.captures,
            early: Vec::new(),
            lines: [made.line, made.library],
            callers: made.callers,
            caller: made.caller,
        };
        open.early = self.arguments(&open, None);
        self.naming.enter(at.process, &call(&open, None));
        let (_, left) = self.stacks.enter(at, Rc::new(open));
        for left in left {
            self.ended(&left.call, "left", None);
        }
    }

    fn came_back(&mut self, at: At, back: &Return) {
        let Some((open, _, inside)) = self.stacks.leave(at) else {
            return;
        };
        for left in inside {
            self.ended(&left.call, "left", None);
        }
        let returned = Some((&back.captures, back.returned.rax));
        self.naming.leave(at.process, &call(&open, returned));
        let took = at.time.saturating_sub(open.at.time);
        let failed = call(&open, returned).error().is_some();
        if self.layout.statuses.shows(failed) && took >= self.layout.slower {
            self.ended(&open, "returned", Some((at, back)));
        }
    }

    /// The arguments of a part as text.
    fn arguments(&self, open: &Open, returned: Option<(&Captures, u64)>) -> Vec<Vec<u8>> {
        let called = call(open, returned);
        let part = match returned {
            Some(_) => Part::Exit,
            None => Part::Entry,
        };
        let mut all = Vec::new();
        let of = (open.at.process, open.at.tid);
        self.naming.with(of, &called, |call| {
            let style = &open.plan.style;
            style.each_argument(call, part, |text| all.push(text.to_vec()));
        });
        all
    }

    /// The result as text.
    fn result(&self, open: &Open, back: &Return) -> Vec<u8> {
        let called = call(open, Some((&back.captures, back.returned.rax)));
        let mut text = Vec::new();
        let of = (open.at.process, open.at.tid);
        self.naming.with(of, &called, |call| {
            open.plan.style.result(call, &mut text);
        });
        text
    }

    /// Writes a call: with what it returned and when, or how else it ended.
    fn ended(&mut self, open: &Open, how: &str, back: Option<(At, &Return)>) {
        if open.plan.hidden {
            return;
        }
        let returned = back.map(|(_, back)| (&back.captures, back.returned.rax));
        let late = returned.map_or_else(Vec::new, |returned| self.arguments(open, Some(returned)));
        let result = back.map(|(_, back)| self.result(open, back));
        let error = call(open, returned).error();
        let out = &mut self.text;
        push(out, "{\"record\":\"syscall\",\"pid\":");
        decimal(open.at.process, out);
        push(out, ",\"tid\":");
        decimal(open.at.tid, out);
        push(out, ",\"time_ns\":");
        decimal(nanos(open.at), out);
        push(out, ",\"duration_ns\":");
        let took = back.map(|(end, _)| nanos(end).saturating_sub(nanos(open.at)));
        or_null(took, out, decimal);
        push(out, &format!(",\"ended\":\"{how}\",\"name\":"));
        string(out, open.plan.name.as_bytes());
        push(out, ",\"number\":");
        or_null(open.plan.number, out, decimal);
        push(out, ",\"arguments\":");
        list(open.early.iter().chain(&late), out, |text, out| {
            string(out, text)
        });
        push(out, ",\"registers\":");
        words(&open.arguments, out);
        push(out, ",\"result\":");
        or_null(result, out, |text, out| string(out, &text));
        push(out, ",\"rax\":");
        or_null(back, out, |(_, back), out| word(back.returned.rax, out));
        push(out, ",\"errno\":");
        or_null(error, out, |error, out| {
            string(out, syscalls::error_name(error).as_bytes())
        });
        let tampered = back.map_or_else(Tampered::default, |(_, back)| {
            Tampered::of(back.returned.rdx)
        });
        let injected = tampered.injected || tampered.poked;
        push(out, &format!(",\"injected\":{injected}"));
        push(out, ",\"caller\":");
        word(open.caller, out);
        push(out, ",\"function\":");
        or_null(open.plan.function.as_ref(), out, |name, out| {
            string(out, name.as_bytes());
        });
        for (name, line) in ["place", "library"].iter().zip(&open.lines) {
            push(out, &format!(",\"{name}\":"));
            or_null(line.as_ref(), out, |line, out| {
                out.extend_from_slice(self.lines.of(line, place_text));
            });
        }
        push(out, ",\"callers\":");
        list(&open.callers, out, |caller, out| {
            string(out, caller.to_string().as_bytes())
        });
        push(out, "}\n");
    }

    fn all_open(&mut self, process: Option<i32>) {
        for open in self.stacks.drain(process) {
            if self.layout.statuses.unfinished {
                self.ended(&open, "open", None);
            }
        }
    }

    fn hand_on(&mut self, least: usize) -> io::Result<()> {
        if self.text.len() >= least.max(1) {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}

fn call<'a>(open: &'a Open, returned: Option<(&'a Captures, u64)>) -> RawCall<'a> {
    RawCall {
        name: &open.plan.name,
        prototype: &open.plan.prototype,
        arguments: &open.arguments,
        entry: &open.entry,
        returned,
        descriptors: None,
        processes: None,
        netlink: None,
        namespaces: None,
    }
}

impl Consumer for Json<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let at = event.at;
        match event.kind {
            EventKind::Call(made) => self.called(at, made),
            EventKind::Return(back) => self.came_back(at, &back),
            EventKind::Signal(ref signal) => {
                let shown = self.layout.signals.as_ref();
                if shown.is_none_or(|of| of.contains(&signal.number)) {
                    self.other(&event)?;
                }
            }
            // A call that is open is told so with the others of its process.
            EventKind::Thread(_) => {}
            EventKind::Opened(_) => {
                self.naming.opened(at.process);
                self.other(&event)?;
            }
            EventKind::Forked(child) => {
                self.stacks.fork(at.process, child);
                self.naming.forked(at.process, child);
                self.other(&event)?;
            }
            EventKind::Ended(how) => {
                self.all_open(Some(at.process));
                self.naming.ended(at.process, how);
                self.other(&event)?;
            }
        }
        self.hand_on(CHUNK)
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten())
    }

    fn rest(&mut self) -> io::Result<()> {
        self.hand_on(0)?;
        self.out.flush()
    }

    fn finish(&mut self, _: SourceEnd) -> io::Result<()> {
        self.all_open(None);
        self.hand_on(0)?;
        self.out.flush()
    }
}

impl Json<'_> {
    /// Writes an event that is neither a call nor a return.
    fn other(&mut self, event: &Event) -> io::Result<()> {
        match other(event) {
            Some(record) => json::line(&mut self.text, &record),
            None => Ok(()),
        }
    }
}
