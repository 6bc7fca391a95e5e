//! Calls as lines, in ltrace's form: a call whose return comes next is one line, any other is cut in two. Used by
//! `formats`.

use super::form::{Form, Head, short};
use super::{CHUNK, Layout};
use crate::text::{make_printable, printable};
use calls::Line;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{At, Call, CallEdge, Caller, End, Event, EventKind, Return};
use calls::memo::Memo;
use calls::signals::{signal_name, signal_text};
use calls::signatures::Signatures;
use calls::stacks::{Kept, OpenCall, OpenCalls};
use nix::errno::Errno;
use prototypes::capture::{Registers, Returned};
use prototypes::show::{CallValues, Captures, Prepared, Show};
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How calls from one module to one function are written: all that is the same for each of them.
struct Plan {
    heads: Vec<Head>,
    prepared: Prepared,
    is_system_call: bool,
    entry_only: bool,
}

/// A call that has not returned.
#[derive(Clone)]
struct Open {
    plan: Rc<Plan>,
    /// Which line of the output its last head stands on.
    number: u64,
    caller: u64,
    /// Not kept where what is shown of the return does not depend on it.
    late: Option<Box<Late>>,
    /// When it began, counted from 1970; the return's time less this is how long it took.
    began: Duration,
    line: Option<Arc<Line>>,
    library: Option<Arc<Line>>,
    callers: Vec<Arc<Caller>>,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        let late = self.late.as_ref();
        let late = late.map_or(0, |late| size_of::<Late>() + late.captures.size());
        late + self.callers.len() * 8
    }
}

/// What a call was made with.
#[derive(Clone, Default)]
struct Late {
    registers: Registers,
    captures: Captures,
}

/// The line that is being written.
#[derive(Clone, Copy)]
struct Unfinished {
    number: u64,
    /// How long it is.
    written: usize,
    thread: (i32, u32),
    /// How many calls are open, this one included.
    depth: usize,
}

/// What was worked out once of functions, lines and frames, because many events have the same.
#[derive(Default)]
struct Known {
    plans: Memo<CallEdge, Rc<Plan>>,
    /// What a script's line adds to a call's: ` ← app.rb:12 in 'show'`.
    lines: Memo<Line, Box<[u8]>>,
    /// What a library's line adds to that: ` (mysql2/client.rb:151)`.
    libraries: Memo<Line, Box<[u8]>>,
    /// A native frame, which has a line of its own below the call: ` > libc.so.6(qsort+63) [0x7f01c2]`.
    callers: Memo<Caller, Box<[u8]>>,
}

/// Writes calls as lines: a [`Consumer`] of events.
pub struct Lines<'a> {
    layout: Layout,
    show: Show<'static>,
    signatures: &'a Signatures,
    out: Box<dyn Write>,
    /// Lines that are not handed on yet; the last one may be unfinished.
    text: Vec<u8>,
    /// Arguments or a result, before they stand in a line.
    part: Vec<u8>,
    /// How wide the arguments in it are.
    width: usize,
    /// Of a return: how much of `part` stands before the `=`.
    right: usize,
    form: Form,
    known: Known,
    stacks: OpenCalls<Open>,
    unfinished: Option<Unfinished>,
    lines: u64,
    /// The first thread that was seen.
    first: Option<(i32, u32)>,
    /// How many calls were ever open at once in a thread; for ltrace's lines only.
    deepest: HashMap<(i32, u32), usize>,
}

impl<'a> Lines<'a> {
    /// Makes the writer; nothing is written yet.
    pub fn new(layout: Layout, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Lines {
            form: Form::new(&layout),
            show: layout.show(),
            layout,
            signatures,
            out,
            text: Vec::new(),
            part: Vec::new(),
            width: 0,
            right: 0,
            known: Known::default(),
            stacks: OpenCalls::default(),
            unfinished: None,
            lines: 0,
            first: None,
            deepest: HashMap::new(),
        }
    }

    fn plan(&mut self, edge: &Arc<CallEdge>) -> Rc<Plan> {
        let make = |edge: &CallEdge| {
            let function = &edge.function;
            let known = self.signatures.of(&function.module, &function.name);
            let prototype = known.unwrap_or_else(|| self.signatures.unknown().clone());
            Rc::new(Plan {
                heads: self.form.heads(function, edge.shown.as_ref()),
                prepared: Prepared::new(prototype),
                is_system_call: function.is_system_call(),
                entry_only: calls::is_told_at_entry_only(function),
            })
        };
        self.known.plans.of(edge, make).clone()
    }

    fn called(&mut self, at: At, began: &mut Call) {
        let plan = self.plan(&began.edge);
        let call = CallValues {
            prepared: &plan.prepared,
            registers: &began.registers,
            returned: None,
        };
        self.part.clear();
        self.show.left(call, &began.captures, &mut self.part);
        self.measure();
        let caller = began.caller;
        let mut callers = std::mem::take(&mut began.callers);
        // A recording may have more.
        callers.truncate(self.layout.frames);
        let open = Open {
            plan: plan.clone(),
            number: self.lines,
            caller,
            late: plan.prepared.looks_back().then(|| {
                Box::new(Late {
                    registers: began.registers,
                    captures: std::mem::take(&mut began.captures),
                })
            }),
            began: at.time,
            line: began.line.take(),
            library: began.library.take(),
            callers,
        };
        let (depth, unwound) = self.stacks.enter(at, open);
        // Nearly always there is none.
        if !unwound.is_empty() {
            self.all_unwound(at, depth, &unwound);
        }
        for (inside, head) in plan.heads.iter().enumerate() {
            self.begin(at, caller, depth + inside, head);
        }
        if let Some(open) = self.stacks.last(at) {
            open.number = self.lines;
        }
        // ltrace leaves such a line unfinished.
        if plan.entry_only
            && !self.layout.ltrace
            && let Some((open, ..)) = self.stacks.leave(at)
        {
            self.push(") <return not told>");
            self.end_line(&open);
        }
    }

    /// Makes the arguments in `part` printable.
    fn measure(&mut self) {
        let characters = make_printable(&mut self.part, 0);
        self.width = self.form.width(self.part.len(), characters);
    }

    /// A line begins, with the arguments that are in `part`.
    fn begin(&mut self, at: At, caller: u64, depth: usize, head: &Head) {
        self.break_line();
        let prefix = self.form.prefix(at, Some(caller), depth, &mut self.text);
        self.text.extend_from_slice(&head.begins.text);
        self.text.extend_from_slice(&self.part);
        let thread = (at.process, at.tid);
        let depth = depth + 1;
        if self.layout.ltrace {
            let deepest = self.deepest.entry(thread).or_default();
            *deepest = depth.max(*deepest);
        }
        self.unfinished = Some(Unfinished {
            number: self.lines,
            written: prefix + head.begins.width + self.width,
            thread,
            depth,
        });
    }

    fn came_back(&mut self, at: At, back: &Return) {
        // It was called before we came, or in a process that is not shown.
        let Some((mut open, depth, inside)) = self.stacks.leave(at) else {
            return;
        };
        if !inside.is_empty() {
            self.all_unwound(at, depth + 1, &inside);
        }
        match &mut open.late {
            Some(late) => {
                late.captures.lay(&back.captures);
                self.show_return(late, &open.plan, &back.returned);
            }
            None => self.show_return(&Late::default(), &open.plan, &back.returned),
        }
        self.returned(at, depth, &open);
    }

    /// Writes what a line has behind the arguments that it began with.
    fn show_return(&mut self, late: &Late, plan: &Plan, returned: &Returned) {
        let call = CallValues {
            prepared: &plan.prepared,
            registers: &late.registers,
            returned: Some(returned),
        };
        self.part.clear();
        self.show.right(call, &late.captures, &mut self.part);
        self.measure();
        self.part.push(b')');
        self.right = self.part.len();
        let tells_errors = plan.is_system_call && !self.layout.ltrace;
        if !(tells_errors && push_error(returned.rax, &mut self.part)) {
            self.show.returned(call, &late.captures, &mut self.part);
            make_printable(&mut self.part, self.right);
        }
    }

    /// A call returns, of which `part` has what is shown of its return.
    fn returned(&mut self, at: At, depth: usize, open: &Open) {
        for (inside, head) in open.plan.heads.iter().enumerate().rev() {
            let written = self.resume(at, depth + inside, open, head);
            let (late, value) = self.part.split_at(self.right);
            self.text.extend_from_slice(late);
            // With the parenthesis behind them.
            self.form.equals(written + self.width + 1, &mut self.text);
            self.text.extend_from_slice(value);
            if self.layout.durations {
                let took = at.time.saturating_sub(open.began);
                self.form.took(took, &mut self.text);
            }
            self.end_line(open);
        }
    }

    /// The line of a call goes on, or a new one that says which call it belongs to; how long it is so far.
    fn resume(&mut self, at: At, depth: usize, open: &Open, head: &Head) -> usize {
        // A child of vfork returns from its parent's call.
        if let Some(unfinished) = self.unfinished
            && unfinished.number == open.number
            && unfinished.thread == (at.process, at.tid)
        {
            return unfinished.written;
        }
        self.break_line();
        let prefix = self
            .form
            .prefix(at, Some(open.caller), depth, &mut self.text);
        self.text.extend_from_slice(&head.resumes.text);
        prefix + head.resumes.width
    }

    #[cold]
    fn all_unwound(&mut self, at: At, depth: usize, left: &[OpenCall<Open>]) {
        for open in left {
            self.unwound(at, depth, &open.call);
        }
    }

    fn unwound(&mut self, at: At, depth: usize, open: &Open) {
        // ltrace leaves such a line unfinished.
        if self.layout.ltrace {
            return;
        }
        if let Some(head) = open.plan.heads.last() {
            self.resume(at, depth, open, head);
        }
        self.push(") <left by an exception or a jump>");
        self.end_line(open);
    }

    fn end_line(&mut self, open: &Open) {
        let Known {
            lines,
            libraries,
            callers,
            ..
        } = &mut self.known;
        if let Some(line) = &open.line {
            let text = |line: &Line| piece(" ← ", &line.to_string());
            self.text.extend_from_slice(lines.of(line, text));
        }
        // The line says it where it is no line of the application.
        let told = open.line.as_ref().is_some_and(|line| line.names_library());
        if let Some(library) = open.library.as_ref().filter(|_| !told) {
            let text = |line: &Line| piece(" (", &(short(&line.path, line.line) + ")"));
            self.text.extend_from_slice(libraries.of(library, text));
        }
        self.unfinished = None;
        self.lines += 1;
        self.text.push(b'\n');
        for caller in &open.callers {
            let text = |caller: &Caller| piece(" > ", &caller.to_string());
            self.text.extend_from_slice(callers.of(caller, text));
            self.text.push(b'\n');
        }
        if !open.callers.is_empty() {
            // As ltrace does.
            self.text.push(b'\n');
        }
    }

    /// A line that is no call. To ltrace a call has not ended before it if other calls were made in it, else it will
    /// not return.
    fn note(&mut self, at: At, text: &str) {
        if let Some(unfinished) = self.unfinished
            && self.layout.ltrace
            && self.deepest.get(&unfinished.thread) == Some(&unfinished.depth)
        {
            self.unfinished = None;
            self.lines += 1;
            self.push(" <no return ...>\n");
        }
        self.break_line();
        self.form.prefix(at, None, 0, &mut self.text);
        self.lines += 1;
        self.push(text);
        self.push("\n");
    }

    /// A process has ended, or runs another program.
    fn ended(&mut self, at: At, end: End) {
        self.stacks.drain(Some(at.process));
        self.deepest.retain(|(pid, _), _| *pid != at.process);
        match end {
            End::Exited(code) => self.note(at, &format!("+++ exited (status {code}) +++")),
            End::Killed(signal) => {
                let name = signal_name(signal);
                self.note(at, &format!("+++ killed by {name} +++"));
            }
            End::Replaced if self.layout.ltrace => self.note(at, "--- Called exec() ---"),
            End::Unknown | End::Replaced => self.break_line(),
        }
    }

    /// Ends a line whose call has not returned.
    fn break_line(&mut self) {
        if self.unfinished.take().is_some() {
            self.lines += 1;
            self.push(" <unfinished ...>\n");
        }
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Hands on what was written.
    fn hand_on(&mut self) -> io::Result<()> {
        let done = self.out.write_all(&self.text);
        self.text.clear();
        done
    }
}

/// A text of the guest behind one of ours.
fn piece(before: &str, text: &str) -> Box<[u8]> {
    format!("{before}{}", printable(text)).into_bytes().into()
}

/// Appends how a system call says that it failed: `-1 ENOENT`; false if it did not fail. The kernel returns the error's
/// number, negative.
fn push_error(result: u64, out: &mut Vec<u8>) -> bool {
    let Some(error) = syscalls::error(result) else {
        return false;
    };
    // Writing to a Vec does not fail.
    let _ = match Errno::from_raw(error) {
        Errno::UnknownErrno => write!(out, "-1 ({error})"),
        known => write!(out, "-1 {known:?}"),
    };
    true
}

impl Consumer for Lines<'_> {
    fn take(&mut self, mut event: Event) -> io::Result<()> {
        process::fault::point("formatting");
        let thread = (event.at.process, event.at.tid);
        let is_call = matches!(event.kind, EventKind::Call(_) | EventKind::Return(_));
        if is_call && *self.first.get_or_insert(thread) != thread {
            self.form.say_threads();
        }
        match &mut event.kind {
            EventKind::Opened(_) => {}
            EventKind::Call(began) => self.called(event.at, began),
            EventKind::Return(back) => self.came_back(event.at, back),
            EventKind::Signal(_) if self.layout.no_signals => {}
            EventKind::Signal(signal) => {
                let number = signal.number;
                let (name, text) = (signal_name(number), signal_text(number));
                self.note(event.at, &format!("--- {name} ({text}) ---"));
            }
            EventKind::Forked(child) => self.stacks.fork(event.at.process, *child),
            EventKind::Thread(_) => {}
            EventKind::Ended(end) => self.ended(event.at, *end),
        }
        if self.text.len() >= CHUNK {
            return self.hand_on();
        }
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.out.flush()
    }

    fn finish(&mut self, _: SourceEnd) -> io::Result<()> {
        self.break_line();
        self.hand_on()?;
        self.out.flush()
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten())
    }
}
