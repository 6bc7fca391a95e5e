//! `--json`: one object a line. The schema is docs/calls-json.md; a test holds this file against it.

use super::Layout;
use crate::json::{self, string};
use calls::consumer::{Consumer, End};
use calls::event::{At, CallEdge, Caller, Event, EventKind, Return};
use calls::signatures::Signatures;
use calls::stacks::Stacks;
use calls::{Line, Memo};
use prototypes::digits::{decimal, hex};
use prototypes::{CallValues, Prepared, Show};
use serde::Serialize;
use std::io::{self, Write};
use std::rc::Rc;

/// Of the layout.
const SCHEMA: u32 = 1;

/// A script's line.
#[derive(Serialize)]
pub struct ScriptLine<'a> {
    path: &'a str,
    line: u32,
    name: &'a str,
}

impl<'a> From<&'a Line> for ScriptLine<'a> {
    fn from(line: &'a Line) -> Self {
        ScriptLine {
            path: &line.path,
            line: line.line,
            name: &line.name,
        }
    }
}

/// What is written seldom. A call is written by [`Json::ended`].
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "lowercase")]
enum Record<'a> {
    Guest {
        schema: u32,
        pid: i32,
        command: &'a [String],
        vm: Option<&'a str>,
    },
    Signal {
        pid: i32,
        tid: u32,
        time_ns: u64,
        signal: i32,
    },
    Fork {
        pid: i32,
        tid: u32,
        time_ns: u64,
        child: i32,
    },
    End {
        pid: i32,
        code: Option<i32>,
        signal: Option<i32>,
        exec: bool,
    },
    Loss {
        pid: i32,
        records: u64,
        threads: u64,
        counts: u64,
        /// Left out where there was none, as nearly always.
        #[serde(skip_serializing_if = "is_zero")]
        panics: u64,
    },
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How calls from one module to one function are written: all that is the same for each of them.
struct Plan {
    prepared: Prepared,
    /// `,"function":"floor",…,"caller":"`
    names: Vec<u8>,
}

/// A call that has not ended.
#[derive(Clone)]
struct Open {
    at: At,
    call: calls::event::Call,
    depth: usize,
}

/// So many bytes are handed on at once.
const CHUNK: usize = 64 << 10;

/// See the module's text.
pub struct Json<'a> {
    layout: Layout,
    show: Show<'static>,
    signatures: &'a Signatures,
    out: Box<dyn Write>,
    /// Lines that are not handed on yet.
    text: Vec<u8>,
    /// An argument or a result, before it is a string in `text`.
    part: Vec<u8>,
    plans: Memo<CallEdge, Rc<Plan>>,
    lines: Memo<Line, Vec<u8>>,
    callers: Memo<Caller, Vec<u8>>,
    stacks: Stacks<Open>,
}

fn nanos(at: At) -> u64 {
    at.time.as_nanos() as u64
}

fn write(out: &mut dyn Write, record: &Record) -> io::Result<()> {
    json::line(out, record)
}

/// Writes what got lost, as every run ends.
pub fn losses(out: &mut dyn Write, end: &End) -> io::Result<()> {
    for (pid, losses) in &end.losses {
        let loss = Record::Loss {
            pid: *pid,
            records: losses.records,
            threads: losses.without_ring,
            counts: losses.uncounted,
            panics: losses.panics,
        };
        write(out, &loss)?;
    }
    Ok(())
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a word as a string: `"0x7f01c2"`.
fn word(word: u64, out: &mut Vec<u8>) {
    out.push(b'"');
    hex(word, out);
    out.push(b'"');
}

/// Appends a list.
fn list<T>(
    items: impl IntoIterator<Item = T>,
    out: &mut Vec<u8>,
    mut item: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    let mut comma = false;
    for one in items {
        if std::mem::replace(&mut comma, true) {
            out.push(b',');
        }
        item(one, out);
    }
    out.push(b']');
}

/// Appends what `some` appends of a value, or `null` where there is none.
fn or_null<T>(value: Option<T>, out: &mut Vec<u8>, some: impl FnOnce(T, &mut Vec<u8>)) {
    match value {
        Some(value) => some(value, out),
        None => push(out, "null"),
    }
}

impl Plan {
    fn new(edge: &CallEdge, signatures: &Signatures) -> Self {
        let function = &edge.function;
        let known = signatures.of(&function.module, &function.name);
        let prototype = known.unwrap_or_else(|| signatures.unknown().clone());
        let mut names = Vec::new();
        push(&mut names, ",\"function\":");
        string(&mut names, &function.name);
        push(&mut names, ",\"module\":");
        string(&mut names, &edge.module.path);
        push(&mut names, ",\"address\":");
        word(function.address, &mut names);
        push(&mut names, ",\"from\":");
        or_null(edge.from.as_ref(), &mut names, |from, out| {
            string(out, &from.path);
        });
        push(&mut names, ",\"caller\":");
        Plan {
            prepared: Prepared::new(prototype),
            names,
        }
    }
}

impl<'a> Json<'a> {
    /// Nothing is written yet.
    pub fn new(layout: Layout, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Json {
            show: layout.show(),
            layout,
            signatures,
            out,
            text: Vec::new(),
            part: Vec::new(),
            plans: Memo::default(),
            lines: Memo::default(),
            callers: Memo::default(),
            stacks: Stacks::default(),
        }
    }

    /// Writes a call: with what it returned and when, or how else it ended.
    fn ended(&mut self, open: &mut Open, how: &str, back: Option<(At, &Return)>) {
        let Open { at, call, depth } = open;
        let make = |edge: &CallEdge| Rc::new(Plan::new(edge, self.signatures));
        let plan = self.plans.of(&call.edge, make).clone();
        if let Some((_, back)) = back {
            call.captures.lay(&back.captures);
        }
        let took = back.map(|(end, _)| nanos(end).saturating_sub(nanos(*at)));
        let out = &mut self.text;
        push(out, "{\"record\":\"call\",\"pid\":");
        decimal(at.process, out);
        push(out, ",\"tid\":");
        decimal(at.tid, out);
        push(out, ",\"time_ns\":");
        decimal(nanos(*at), out);
        push(out, ",\"duration_ns\":");
        or_null(took, out, decimal);
        push(out, ",\"ended\":\"");
        push(out, how);
        push(out, "\",\"depth\":");
        decimal(*depth, out);
        out.extend_from_slice(&plan.names);
        word(call.caller, out);
        self.values(&plan.prepared, call, back.map(|(_, back)| back));
        let out = &mut self.text;
        for (name, line) in [(",\"line\":", &call.line), (",\"library\":", &call.library)] {
            push(out, name);
            or_null(line.as_ref(), out, |line, out| {
                out.extend_from_slice(self.lines.of(line, script_line));
            });
        }
        push(out, ",\"callers\":");
        // A recording may have more.
        let callers = call.callers.iter().take(self.layout.frames);
        list(callers, out, |caller, out| {
            let text = |caller: &Caller| {
                let mut text = Vec::new();
                string(&mut text, &caller.to_string());
                text
            };
            out.extend_from_slice(self.callers.of(caller, text));
        });
        push(out, "}\n");
    }

    /// The arguments, the result and the registers.
    fn values(&mut self, prepared: &Prepared, call: &calls::event::Call, back: Option<&Return>) {
        let out = &mut self.text;
        let shown = CallValues {
            prepared,
            registers: &call.registers,
            returned: back.map(|back| &back.returned),
        };
        push(out, ",\"arguments\":[");
        let begins = out.len();
        let part = &mut self.part;
        self.show.each(shown, &call.captures, part, |text| {
            string(out, &String::from_utf8_lossy(text));
            out.push(b',');
        });
        if out.len() > begins {
            out.pop();
        }
        push(out, "],\"registers\":");
        list(call.registers.gp, out, word);
        push(out, ",\"xmm\":");
        list(call.registers.sse, out, word);
        push(out, ",\"result\":");
        or_null(back, out, |_, out| {
            part.clear();
            self.show.returned(shown, &call.captures, part);
            string(out, &String::from_utf8_lossy(part));
        });
        push(out, ",\"rax\":");
        or_null(back, out, |back, out| word(back.returned.rax, out));
        push(out, ",\"xmm0\":");
        or_null(back, out, |back, out| word(back.returned.sse[0], out));
    }

    /// Writes calls that were left without a return, or that are still open.
    fn all_ended(&mut self, open: impl IntoIterator<Item = Open>, how: &str) {
        for mut open in open {
            self.ended(&mut open, how, None);
        }
    }

    /// Hands on what was written.
    fn hand_on(&mut self) -> io::Result<()> {
        let done = self.out.write_all(&self.text);
        self.text.clear();
        done
    }
}

fn script_line(line: &Line) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a Vec does not fail.
    let _ = json::line(&mut text, &ScriptLine::from(line));
    text.pop();
    text
}

impl Consumer for Json<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let at = event.at;
        let (pid, tid, time_ns) = (at.process, at.tid, nanos(at));
        let record = match &event.kind {
            EventKind::Opened(opened) => Record::Guest {
                schema: SCHEMA,
                pid,
                command: &opened.command,
                vm: (!opened.vm.is_empty()).then_some(&opened.vm),
            },
            EventKind::Signal(signal) => Record::Signal {
                pid,
                tid,
                time_ns,
                signal: *signal,
            },
            EventKind::Forked(child) => {
                self.stacks.fork(pid, *child);
                Record::Fork {
                    pid,
                    tid,
                    time_ns,
                    child: *child,
                }
            }
            EventKind::Ended(end) => {
                let open = self.stacks.drain(Some(pid));
                self.all_ended(open, "open");
                Record::End {
                    pid,
                    code: match end {
                        calls::event::End::Exited(code) => Some(*code),
                        _ => None,
                    },
                    signal: match end {
                        calls::event::End::Killed(signal) => Some(*signal),
                        _ => None,
                    },
                    exec: *end == calls::event::End::Replaced,
                }
            }
            EventKind::Call(_) => {
                let EventKind::Call(call) = event.kind else {
                    return Ok(());
                };
                let open = Open { at, call, depth: 0 };
                let (depth, unwound) = self.stacks.enter(at, open);
                if let Some(open) = self.stacks.last(at) {
                    open.depth = depth;
                }
                self.all_ended(unwound.into_iter().map(|open| open.call), "left");
                return Ok(());
            }
            EventKind::Return(back) => {
                if let Some((mut open, _, inside)) = self.stacks.leave(at) {
                    self.all_ended(inside.into_iter().map(|open| open.call), "left");
                    self.ended(&mut open, "returned", Some((at, back)));
                }
                if self.text.len() >= CHUNK {
                    self.hand_on()?;
                }
                return Ok(());
            }
        };
        write(&mut self.text, &record)
    }

    fn rest(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        let open = self.stacks.drain(None);
        self.all_ended(open, "open");
        losses(&mut self.text, &end)?;
        self.hand_on()?;
        self.out.flush()
    }
}
