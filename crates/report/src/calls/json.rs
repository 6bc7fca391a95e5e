//! `--json`: one object a line, of the records of [`answer::calls`]. Used by `syscalls::json`, `formats`, `not_freed`
//! and others.

use super::{CHUNK, Layout};
use crate::json::{self, end_string, string};
use answer::calls::Record;
use answer::place::Place;
use answer::process::{Language, Process};
use calls::Line;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{At, CallEdge, Caller, Event, EventKind, Opened, Return};
use calls::memo::Memo;
use calls::signatures::Signatures;
use calls::stacks::{Kept, OpenCall, OpenCalls};
use prototypes::digits::{decimal, hex, padded};
use prototypes::show::{CallValues, Prepared, Show};
use std::io::{self, Write};
use std::rc::Rc;

/// What is written of an event that is neither a call nor a return. A call is written by [`Calls::ended`], a system call
/// of `lancet syscalls` by [`crate::syscalls::json`].
pub(crate) fn other(event: &Event) -> Option<Record<'_>> {
    let at = event.at;
    let (pid, tid, time_ns) = (at.process, at.tid, nanos(at));
    Some(match &event.kind {
        EventKind::Opened(opened) => process(pid, opened),
        EventKind::Signal(signal) => Record::Signal {
            pid,
            tid,
            time_ns,
            signal: signal.number,
        },
        EventKind::Forked(child) => Record::Fork {
            pid,
            tid,
            time_ns,
            child: *child,
        },
        EventKind::Ended(end) => Record::End {
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
        },
        EventKind::Call(_) | EventKind::Return(_) | EventKind::Thread(_) => return None,
    })
}

/// A process that was opened.
pub(crate) fn process(pid: i32, opened: &Opened) -> Record<'_> {
    let vm = Some(opened.vm.as_str()).filter(|vm| !vm.is_empty());
    Record::Process(Process {
        languages: Some(vm.map(Language::of).into_iter().collect()),
        ..Process::new(pid, &*opened.command)
    })
}

/// A line of a script, as records have it.
pub(crate) fn place(line: &Line) -> Place<'_> {
    Place::new(&*line.path, line.line, &*line.name)
}

/// The application's line of a row, and where that is missing the library's.
pub(crate) fn line_of_row(line: &Line) -> (Option<Place<'_>>, Option<Place<'_>>) {
    let library = line.library();
    let library = library.map(|(path, number)| Place::new(path, number, ""));
    (
        Some(line)
            .filter(|line| !line.is_of_no_application())
            .map(place),
        library,
    )
}

/// Where the calls of a row come from.
pub(super) fn site(site: &calls::site::Site) -> answer::calls::Site<'_> {
    let (place, library) = site.line().map_or((None, None), line_of_row);
    answer::calls::Site {
        place,
        library,
        callers: site.callers(),
    }
}

/// How calls from one module to one function are written: all that is the same for each of them.
struct Plan {
    prepared: Prepared,
    /// What stands in a record between its depth and the caller's address:
    /// `,"function":"floor",…,"caller":"`.
    names: Vec<u8>,
}

/// A call that has not ended.
#[derive(Clone)]
struct Open {
    at: At,
    call: calls::event::Call,
    depth: usize,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        self.call.captures.size() + self.call.callers.len() * 8
    }
}

/// What the lines of a thread begin with within a second.
#[derive(Default)]
struct Begin {
    /// Process, thread, and seconds since 1970.
    of: (i32, u32, u64),
    /// A record up to the whole seconds of its time: `{"record":"call",…,"time_ns":17`.
    text: Vec<u8>,
}

/// Writes calls as JSON: a [`Consumer`] of events.
pub struct Json<'a> {
    out: Box<dyn Write>,
    calls: Calls<'a>,
    stacks: OpenCalls<Open>,
}

/// Writes the records of calls into a buffer.
struct Calls<'a> {
    layout: Layout,
    show: Show<'static>,
    signatures: &'a Signatures,
    /// Lines that are not handed on yet.
    text: Vec<u8>,
    begin: Begin,
    plans: Memo<CallEdge, Rc<Plan>>,
    lines: Memo<Line, Vec<u8>>,
    callers: Memo<Caller, Vec<u8>>,
}

/// The time in nanoseconds since 1970.
pub(crate) fn nanos(at: At) -> u64 {
    answer::time::nanos(at.time)
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends a word as a string: `"0x7f01c2"`.
pub(crate) fn word(word: u64, out: &mut Vec<u8>) {
    if word == 0 {
        return out.extend_from_slice(b"\"0x0\"");
    }
    out.push(b'"');
    hex(word, out);
    out.push(b'"');
}

/// Appends the words of registers as a list, which ends with the last that is not 0.
pub(crate) fn words(words: &[u64], out: &mut Vec<u8>) {
    let used = words.iter().rposition(|word| *word != 0);
    let used = used.map_or(0, |last| last + 1);
    list(&words[..used], out, |one, out| word(*one, out));
}

/// Appends a list in brackets, each of its items as `item` writes it.
pub(crate) fn list<T>(
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
pub(crate) fn or_null<T>(value: Option<T>, out: &mut Vec<u8>, some: impl FnOnce(T, &mut Vec<u8>)) {
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
        string(&mut names, function.name.as_bytes());
        push(&mut names, ",\"module\":");
        string(&mut names, edge.module.path.as_bytes());
        push(&mut names, ",\"address\":");
        word(function.address, &mut names);
        push(&mut names, ",\"from\":");
        or_null(edge.from.as_ref(), &mut names, |from, out| {
            string(out, from.path.as_bytes());
        });
        push(&mut names, ",\"caller\":");
        Plan {
            prepared: Prepared::new(prototype),
            names,
        }
    }
}

impl<'a> Json<'a> {
    /// Makes the writer; nothing is written yet.
    pub fn new(layout: Layout, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Json {
            out,
            calls: Calls {
                show: layout.show(),
                layout,
                signatures,
                text: Vec::new(),
                begin: Begin::default(),
                plans: Memo::default(),
                lines: Memo::default(),
                callers: Memo::default(),
            },
            stacks: OpenCalls::default(),
        }
    }

    /// Writes calls that are still open.
    fn all_open(&mut self, open: Vec<Open>) {
        for mut open in open {
            self.calls.ended(&mut open, "open", None);
        }
    }

    /// Hands on what was written.
    fn hand_on(&mut self) -> io::Result<()> {
        let done = self.out.write_all(&self.calls.text);
        self.calls.text.clear();
        done
    }
}

impl Calls<'_> {
    /// Writes a call: with what it returned and when, or how else it ended.
    fn ended(&mut self, open: &mut Open, how: &str, back: Option<(At, &Return)>) {
        let Open { at, call, depth } = open;
        let make = |edge: &CallEdge| Rc::new(Plan::new(edge, self.signatures));
        let plan = self.plans.of(&call.edge, make).clone();
        if let Some((_, back)) = back {
            call.captures.lay(&back.captures);
        }
        self.begin(*at);
        let took = back.map(|(end, _)| nanos(end).saturating_sub(nanos(*at)));
        let out = &mut self.text;
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
        if call.line.is_none() && call.library.is_none() && call.callers.is_empty() {
            return push(out, ",\"place\":null,\"library\":null,\"callers\":[]}\n");
        }
        let line = call
            .line
            .as_ref()
            .filter(|line| !line.is_of_no_application());
        for (name, line) in [
            (",\"place\":", line),
            (",\"library\":", call.library.as_ref()),
        ] {
            push(out, name);
            or_null(line, out, |line, out| {
                out.extend_from_slice(self.lines.of(line, place_text));
            });
        }
        push(out, ",\"callers\":");
        // A recording may have more.
        let callers = call.callers.iter().take(self.layout.frames);
        list(callers, out, |caller, out| {
            let text = |caller: &Caller| {
                let mut text = Vec::new();
                string(&mut text, caller.to_string().as_bytes());
                text
            };
            out.extend_from_slice(self.callers.of(caller, text));
        });
        push(out, "}\n");
    }

    /// Begins the line of a call: up to its time.
    fn begin(&mut self, at: At) {
        let (seconds, Begin { of, text }) = (at.time.as_secs(), &mut self.begin);
        if *of != (at.process, at.tid, seconds) || text.is_empty() {
            *of = (at.process, at.tid, seconds);
            text.clear();
            push(text, "{\"record\":\"call\",\"pid\":");
            decimal(at.process, text);
            push(text, ",\"tid\":");
            decimal(at.tid, text);
            push(text, ",\"time_ns\":");
            if seconds != 0 {
                decimal(seconds, text);
            }
        }
        let width = if seconds == 0 { 1 } else { 9 };
        self.text.extend_from_slice(text);
        padded(at.time.subsec_nanos().into(), width, &mut self.text);
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
        // Each stands behind the quotation mark that was written after the one before.
        out.push(b'"');
        self.show.each(shown, &call.captures, out, |out, from| {
            end_string(out, from);
            out.extend_from_slice(b",\"");
        });
        let none = out.len() == begins + 1;
        out.truncate(out.len() - if none { 1 } else { 2 });
        push(out, "],\"registers\":");
        words(&call.registers.gp, out);
        push(out, ",\"xmm\":");
        words(&call.registers.sse, out);
        push(out, ",\"result\":");
        or_null(back, out, |_, out| {
            out.push(b'"');
            let from = out.len();
            self.show.returned(shown, &call.captures, out);
            end_string(out, from);
        });
        push(out, ",\"rax\":");
        or_null(back, out, |back, out| word(back.returned.rax, out));
        push(out, ",\"xmm0\":");
        or_null(back, out, |back, out| word(back.returned.sse[0], out));
    }

    /// Writes calls that were left without a return. Nearly always there is none.
    fn all_left(&mut self, left: &mut [OpenCall<Open>]) {
        for open in left {
            self.ended(&mut open.call, "left", None);
        }
    }
}

/// The text of a script's line.
pub(crate) fn place_text(line: &Line) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a Vec does not fail.
    let _ = json::line(&mut text, &place(line));
    text.pop();
    text
}

impl Consumer for Json<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let at = event.at;
        match &event.kind {
            EventKind::Forked(child) => self.stacks.fork(at.process, *child),
            EventKind::Ended(_) => {
                let open = self.stacks.drain(Some(at.process));
                self.all_open(open);
            }
            EventKind::Opened(_) | EventKind::Signal(_) | EventKind::Thread(_) => {}
            EventKind::Call(_) => {
                let EventKind::Call(call) = event.kind else {
                    return Ok(());
                };
                let open = |depth| Open { at, call, depth };
                let (_, mut unwound) = self.stacks.enter_with(at, open);
                self.calls.all_left(&mut unwound);
                return Ok(());
            }
            EventKind::Return(back) => {
                self.stacks.leave_with(at, |open, inside| {
                    self.calls.all_left(inside);
                    self.calls.ended(open, "returned", Some((at, back)));
                });
                if self.calls.text.len() >= CHUNK {
                    self.hand_on()?;
                }
                return Ok(());
            }
        }
        match other(&event) {
            Some(record) => json::line(&mut self.calls.text, &record),
            None => Ok(()),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }

    fn finish(&mut self, _: SourceEnd) -> io::Result<()> {
        let open = self.stacks.drain(None);
        self.all_open(open);
        self.hand_on()?;
        self.out.flush()
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten())
    }
}
