//! A line a call, in strace's form; a call during which another thread's is seen is cut in two. Used by `separate`, and
//! by `lancet::commands::syscalls::args`.
//!
//! ```text
//!   [pid    71] 14:10:54.994915 read(3, "a\n", 4096) = 2 <0.000005> ← app.rb:12 in 'show'
//!   [pid    72] futex(0x7f0c…, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>
//!   [pid    72] <... futex resumed>)       = 0
//! ```

mod ends;
mod open;

use open::{Open, Plan};

use super::{Layout, Naming, dump, part, seconds};
use crate::calls::CHUNK;
use crate::text::{make_printable, printable};
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{At, Call, CallEdge, Event, EventKind, OfThread, Return, Signal};
use calls::memo::Memo;
use calls::signatures::Signatures;
use calls::stacks::OpenCalls;
use calls::tamper::Tampered;
use prototypes::show::Captures;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use syscalls::{Part, RawCall};

/// The line that is being written.
#[derive(Clone, Copy)]
struct Unfinished {
    number: u64,
    /// How much of it was handed on already.
    before: usize,
    /// Where the rest of it begins in the text that was not.
    from: usize,
    /// Whose call it is.
    tid: u32,
    /// Arguments follow behind a comma when it returns.
    has_more: bool,
}

/// The call by which the kernel goes on with one that a signal has interrupted, and the result of that one, which tracers see
/// (include/linux/errno.h).
const RESTART: &str = "restart_syscall";
const RESTART_BLOCK: i32 = 516;

/// Bytes for which there is room in a part of a line before it grows: few are longer.
const WIDTH: usize = 128;

/// Bytes of a `syscall` instruction, and of `int $0x80`.
const INSTRUCTION: u64 = 2;

/// So long the line of a signal waits for the return of the call that it came in.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Writes system calls as lines.
pub struct Lines<'a> {
    layout: Layout,
    signatures: &'a Signatures,
    out: Box<dyn Write>,
    /// Lines that are not handed on yet; the last one may be unfinished.
    text: Vec<u8>,
    plans: Memo<CallEdge, Rc<Plan>>,
    stacks: OpenCalls<Rc<Open>>,
    unfinished: Option<Unfinished>,
    lines: u64,
    threads: HashSet<u32>,
    /// When the line before began.
    last: Option<Duration>,
    naming: Naming,
    /// Calls of threads that the kernel goes on with, by `restart_syscall`.
    interrupted: HashMap<u32, String>,
    /// Signals whose lines are not written yet, and since when.
    signals: Vec<(At, Option<u64>, String, Instant)>,
}

impl<'a> Lines<'a> {
    /// Makes the writer; nothing is written yet.
    pub fn new(
        layout: Layout,
        signatures: &'a Signatures,
        naming: Naming,
        out: Box<dyn Write>,
    ) -> Self {
        Lines {
            layout,
            naming,
            interrupted: HashMap::new(),
            signals: Vec::new(),
            signatures,
            out,
            text: Vec::new(),
            plans: Memo::default(),
            stacks: OpenCalls::default(),
            unfinished: None,
            lines: 0,
            threads: HashSet::new(),
            last: None,
        }
    }

    fn plan(&mut self, edge: &Arc<CallEdge>) -> Rc<Plan> {
        let (layout, signatures) = (&self.layout, self.signatures);
        let make = |edge: &CallEdge| Rc::new(Plan::of(edge, layout, signatures));
        self.plans.of(edge, make).clone()
    }

    fn called(&mut self, at: At, began: &mut Call) {
        let plan = self.plan(&began.edge);
        let mut callers = std::mem::take(&mut began.callers);
        callers.truncate(self.layout.frames);
        let captures = std::mem::take(&mut began.captures);
        let mut head = self.head(at, &plan, &began.registers.gp, &captures);
        if let Some(before) = self.interrupted.remove(&at.tid)
            && plan.name == RESTART
        {
            let text = format!("<... resuming interrupted {before} ...>");
            head.extend_from_slice(text.as_bytes());
        }
        let open = Rc::new(Open {
            arguments: began.registers.gp,
            captures,
            head,
            began: at.time,
            at,
            line: began.line.take(),
            callers,
            behind: began.caller.wrapping_add(INSTRUCTION),
            number: Cell::new(None),
            plan,
        });
        let (_, left) = self.stacks.enter(at, open.clone());
        for left in left {
            self.unwound(at, &left);
        }
        // What a call returns decides whether it is shown.
        let waits = self.layout.slower > Duration::ZERO
            || !(self.layout.statuses.successful && self.layout.statuses.failed);
        if waits || open.plan.hidden {
            return;
        }
        open.number.set(Some(self.begin(at, &open)));
        if open.plan.ends {
            self.stacks.leave(at);
            self.close(&open, b")", b"?", None);
        }
    }

    /// What is written of a call when it is made.
    fn head(&self, at: At, plan: &Plan, arguments: &[u64; 6], captures: &Captures) -> Vec<u8> {
        let mut head = Vec::with_capacity(WIDTH);
        head.extend_from_slice(plan.name.as_bytes());
        head.push(b'(');
        let begins = head.len();
        let made = RawCall {
            name: &plan.name,
            prototype: &plan.prototype,
            arguments,
            entry: captures,
            returned: None,
            descriptors: None,
            processes: None,
            netlink: None,
            namespaces: None,
        };
        self.naming.with((at.process, at.tid), &made, |call| {
            plan.style.arguments(call, Part::Entry, &mut head);
        });
        self.naming.enter(at.process, &made);
        make_printable(&mut head, begins);
        head
    }

    /// The line of a call begins; its number.
    fn begin(&mut self, at: At, open: &Open) -> u64 {
        self.break_line();
        let from = self.text.len();
        self.prefix(at, &open.plan.number, Some(open.behind));
        self.text.extend_from_slice(&open.head);
        self.starts(from, at.tid, open.has_more());
        self.lines
    }

    /// The second line of a call that was cut in two begins.
    fn resume(&mut self, at: At, open: &Open) {
        self.break_line();
        let from = self.text.len();
        self.prefix(at, &open.plan.number, Some(open.behind));
        self.text.extend_from_slice(b"<... ");
        self.text.extend_from_slice(open.plan.name.as_bytes());
        self.text.extend_from_slice(b" resumed>");
        self.starts(from, at.tid, false);
    }

    /// What is written of a call when it returns: arguments, and the result.
    fn tail(&self, at: At, open: &Open, called: &RawCall) -> (Vec<u8>, Vec<u8>) {
        let (mut late, mut result) = (Vec::with_capacity(WIDTH), Vec::with_capacity(WIDTH));
        let style = &open.plan.style;
        self.naming.leave(at.process, called);
        self.naming.with((at.process, at.tid), called, |call| {
            style.arguments(call, Part::Exit, &mut late);
            style.result(call, &mut result);
        });
        make_printable(&mut late, 0);
        make_printable(&mut result, 0);
        late.push(b')');
        (late, result)
    }

    fn came_back(&mut self, at: At, back: &Return) {
        let Some((open, _, inside)) = self.stacks.leave(at) else {
            return;
        };
        for left in inside {
            self.unwound(at, &left);
        }
        let tampered = Tampered::of(back.returned.rdx);
        self.returned(at, &open, (&back.captures, back.returned.rax), tampered);
    }

    /// A call has returned, with these copies and this in rax.
    fn returned(&mut self, at: At, open: &Rc<Open>, back: (&Captures, u64), tampered: Tampered) {
        let called = open.call(Some(back));
        let (mut late, mut result) = self.tail(at, open, &called);
        let took = at.time.saturating_sub(open.began);
        let failed = called.error().is_some();
        if called.error() == Some(RESTART_BLOCK) {
            self.interrupted.insert(at.tid, open.plan.name.clone());
        }
        if open.plan.hidden || !self.layout.statuses.shows(failed) || took < self.layout.slower {
            return;
        }
        match (open.number.get(), self.unfinished) {
            // Its line is still open.
            (Some(number), Some(unfinished)) if number == unfinished.number => {}
            (Some(_), _) => {
                self.resume(at, open);
                // The comma stands on the line that was cut.
                if late.starts_with(b", ") {
                    late.drain(..2);
                }
            }
            (None, _) => {
                let time = open.began;
                self.begin(At { time, ..at }, open);
            }
        }
        let injected: &[u8] = match (tampered.injected, tampered.poked) {
            (true, true) => b" (INJECTED: args, retval)",
            (false, true) => b" (INJECTED: args)",
            (true, false) => b" (INJECTED)",
            (false, false) => b"",
        };
        if !injected.is_empty() {
            result.extend_from_slice(injected);
        }
        if tampered.delayed {
            result.extend_from_slice(b" (DELAYED)");
        }
        self.close(open, &late, &result, Some(took));
        dump::of(&self.layout.dumped, &called, &mut self.text);
    }

    /// Ends the line of a call.
    fn close(&mut self, open: &Open, late: &[u8], result: &[u8], took: Option<Duration>) {
        self.text.extend_from_slice(late);
        self.text.push(b' ');
        let unfinished = self.unfinished;
        let written = unfinished.map_or(0, |line| line.before + self.text.len() - line.from);
        let spaces = self.layout.align.saturating_sub(written);
        self.text.resize(self.text.len() + spaces, b' ');
        self.text.extend_from_slice(b"= ");
        self.text.extend_from_slice(result);
        if let (Some(took), Some(digits)) = (took, self.layout.durations) {
            let text = format!(" <{}>", seconds(took, digits));
            self.text.extend_from_slice(text.as_bytes());
        }
        self.end_line(open);
    }

    fn end_line(&mut self, open: &Open) {
        let line = open.line.as_deref().map(ToString::to_string);
        // The nearest to the source that is known.
        let by = line.or_else(|| open.plan.native.clone());
        if let Some(by) = by.filter(|_| !self.layout.strace) {
            let text = format!(" ← {}", printable(&by));
            self.text.extend_from_slice(text.as_bytes());
        }
        self.unfinished = None;
        self.lines += 1;
        self.text.push(b'\n');
        for caller in &open.callers {
            let text = format!(" > {}\n", printable(&caller.as_strace()));
            self.text.extend_from_slice(text.as_bytes());
        }
    }

    /// Ends a line whose call has not returned.
    fn break_line(&mut self) {
        let Some(line) = self.unfinished.take() else {
            return;
        };
        self.lines += 1;
        if line.has_more {
            self.text.extend_from_slice(b", ");
        }
        self.text.extend_from_slice(b" <unfinished ...>\n");
    }

    /// Appends the thread, the time, the number of a call and the address at which the thread stands.
    fn prefix(&mut self, at: At, number: &str, instruction: Option<u64>) {
        let tid = at.tid;
        if self.layout.into_file {
            self.text.extend_from_slice(
                format!("{tid:<5}{} ", self.naming.comm(at.process, tid)).as_bytes(),
            );
        } else if self.threads.len() > 1 {
            let name = self.naming.comm(at.process, tid);
            self.text
                .extend_from_slice(format!("[pid {tid:5}{name}] ").as_bytes());
        }
        if let Some(stamp) = self.layout.times {
            let time = format!("{} ", stamp.text(at.time));
            self.text.extend_from_slice(time.as_bytes());
        }
        if let Some(digits) = self.layout.relative {
            let since = at.time.saturating_sub(self.last.unwrap_or(at.time));
            let (whole, part) = (since.as_secs(), part(since, digits));
            self.text
                .extend_from_slice(format!("{whole:>6}{part} ").as_bytes());
        }
        self.last = Some(at.time);
        self.text.extend_from_slice(number.as_bytes());
        if self.layout.instructions {
            let known = instruction.map(|address| format!("[{address:016x}] "));
            let text = known.as_deref().unwrap_or("[????????????????] ");
            self.text.extend_from_slice(text.as_bytes());
        }
    }

    /// A signal came. A call that has returned to a handler, or from which the thread goes on, stands before it, as with
    /// strace: its return is seen a moment later.
    fn signalled(&mut self, at: At, signal: &Signal) {
        let shown = self.layout.signals.as_ref();
        if shown.is_some_and(|of| !of.contains(&signal.number)) {
            return;
        }
        let name = syscalls::signal(signal.number);
        let style = &self.layout.style;
        let known = self.naming.signal(at.process, style, &signal.information);
        let known = known.map_or_else(String::new, |known| format!(" {known}"));
        let text = format!("--- {name}{known} ---");
        let waits = (at, signal.instruction, text, Instant::now());
        self.signals.push(waits);
    }

    /// Writes the signals of these threads, and those that have waited for long.
    fn tell_signals(&mut self, of: impl Fn(At) -> bool) {
        if self.signals.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.signals);
        for (at, instruction, text, since) in all {
            if of(at) || since.elapsed() > LONGEST_WAIT {
                self.note(at, instruction, &text);
            } else {
                self.signals.push((at, instruction, text, since));
            }
        }
    }

    /// A line that is no call.
    fn note(&mut self, at: At, instruction: Option<u64>, text: &str) {
        self.break_line();
        self.prefix(at, "", instruction);
        self.text.extend_from_slice(text.as_bytes());
        self.text.push(b'\n');
        self.lines += 1;
    }

    /// A line begins there in the text.
    fn starts(&mut self, from: usize, tid: u32, has_more: bool) {
        self.unfinished = Some(Unfinished {
            number: self.lines,
            before: 0,
            from,
            tid,
            has_more,
        });
    }

    /// Hands on what is written, if it is so much at least.
    fn write_out(&mut self, least: usize) -> io::Result<()> {
        if self.text.len() < least.max(1) {
            return Ok(());
        }
        self.out.write_all(&self.text)?;
        if let Some(line) = &mut self.unfinished {
            line.before += self.text.len() - line.from;
            line.from = 0;
        }
        self.text.clear();
        Ok(())
    }
}

impl Consumer for Lines<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let Event { at, kind } = event;
        if matches!(
            kind,
            EventKind::Call(_) | EventKind::Thread(OfThread::Began)
        ) {
            self.threads.insert(at.tid);
        }
        let returns = matches!(kind, EventKind::Return(_));
        if !returns {
            self.tell_signals(|told| told.tid == at.tid);
        }
        match kind {
            EventKind::Call(mut began) => self.called(at, &mut began),
            EventKind::Return(back) => self.came_back(at, &back),
            EventKind::Signal(signal) => self.signalled(at, &signal),
            EventKind::Forked(child) => {
                self.stacks.fork(at.process, child);
                self.naming.forked(at.process, child);
            }
            EventKind::Ended(end) => self.ended(at, end),
            EventKind::Thread(what) => self.of_thread(at, what),
            EventKind::Opened(_) => {
                if self.layout.is_traced {
                    self.threads.insert(at.tid);
                }
                self.naming.opened(at.process);
            }
        }
        if returns {
            self.tell_signals(|told| told.tid == at.tid);
        }
        self.write_out(CHUNK)
    }

    fn rest(&mut self) -> io::Result<()> {
        self.tell_signals(|_| false);
        self.write_out(0)?;
        self.out.flush()
    }

    fn finish(&mut self, _: SourceEnd) -> io::Result<()> {
        self.tell_signals(|_| true);
        self.all_left();
        self.break_line();
        self.write_out(0)?;
        self.out.flush()
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten())
    }
}
