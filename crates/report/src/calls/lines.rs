//! Calls as lines, in ltrace's form: a call whose return comes next is one line, any other is cut in two.

use super::Layout;
use super::form::{Form, Head, short};
use crate::text::printable;
use calls::Line;
use calls::consumer::{Consumer, End};
use calls::event::{At, Call as Began, Caller, End as Ended, Event, EventKind, Return};
use calls::signals::{signal_name, signal_text};
use calls::signatures::Signatures;
use calls::stacks::Stacks;
use nix::errno::Errno;
use prototypes::capture::{Registers, Returned};
use prototypes::{CallValues, Captures, Detail, Prototype, Show};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// A call that has not returned.
#[derive(Clone)]
struct Open {
    heads: Vec<Head>,
    is_system_call: bool,
    /// Which line of the output its last head stands on.
    number: u64,
    caller: u64,
    prototype: Prototype,
    registers: Registers,
    captures: Captures,
    /// In nanoseconds since 1970, to subtract.
    began: Duration,
    line: Option<Arc<Line>>,
    library: Option<Arc<Line>>,
    callers: Vec<Arc<Caller>>,
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

/// See the module's text.
pub struct Lines<'a> {
    layout: Layout,
    signatures: &'a Signatures,
    out: Box<dyn Write>,
    form: Form,
    stacks: Stacks<Open>,
    unfinished: Option<Unfinished>,
    lines: u64,
    /// The first thread that was seen.
    first: Option<(i32, u32)>,
    /// How many calls were ever open at once in a thread.
    deepest: HashMap<(i32, u32), usize>,
}

impl<'a> Lines<'a> {
    /// Nothing is printed yet.
    pub fn new(layout: Layout, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Lines {
            form: Form::new(&layout),
            layout,
            signatures,
            out,
            stacks: Stacks::default(),
            unfinished: None,
            lines: 0,
            first: None,
            deepest: HashMap::new(),
        }
    }

    fn show(&self) -> Show<'static> {
        Show {
            detail: Detail {
                strings: self.layout.strings,
                array: self.layout.array,
            },
            decode: None,
            like_ltrace: self.layout.ltrace,
        }
    }

    fn called(&mut self, at: At, began: Began) -> io::Result<()> {
        let Began {
            edge,
            caller,
            registers,
            captures,
            line,
            library,
            mut callers,
        } = began;
        let function = &edge.function;
        // A recording may have more.
        callers.truncate(self.layout.frames);
        let known = self.signatures.of(&function.module, &function.name);
        let prototype = known.unwrap_or_else(|| self.signatures.unknown().clone());
        let call = CallValues {
            prototype: &prototype,
            registers: &registers,
            returned: None,
        };
        let left = self.show().left(call, &captures);
        let left = printable(&left);
        let entry_only = calls::is_told_at_entry_only(function);
        let heads = self.form.heads(function, edge.shown.as_ref());
        let begin: Vec<String> = heads
            .iter()
            .map(|head| format!("{}({left}", head.begins))
            .collect();
        let open = Open {
            heads,
            is_system_call: function.is_system_call(),
            number: self.lines,
            caller,
            prototype,
            registers,
            captures,
            began: at.time,
            line,
            library,
            callers,
        };
        let (depth, unwound) = self.stacks.enter(at, open);
        for open in unwound {
            self.unwound(at, depth, &open.call)?;
        }
        for (inside, head) in begin.iter().enumerate() {
            self.break_line()?;
            let prefix = self.form.prefix(at, Some(caller), depth + inside);
            write!(self.out, "{prefix}{head}")?;
            let thread = (at.process, at.tid);
            let depth = depth + inside + 1;
            let deepest = self.deepest.entry(thread).or_default();
            *deepest = depth.max(*deepest);
            self.unfinished = Some(Unfinished {
                number: self.lines,
                written: self.form.width(&prefix) + self.form.width(head),
                thread,
                depth,
            });
        }
        if let Some(open) = self.stacks.last(at) {
            open.number = self.lines;
        }
        // ltrace leaves such a line unfinished.
        if entry_only
            && !self.layout.ltrace
            && let Some((open, ..)) = self.stacks.leave(at)
        {
            write!(self.out, ") <return not told>")?;
            self.end_line(&open)?;
        }
        Ok(())
    }

    fn came_back(&mut self, at: At, back: Return) -> io::Result<()> {
        // It was called before we came, or in a process that is not shown.
        let Some((mut open, depth, inside)) = self.stacks.leave(at) else {
            return Ok(());
        };
        for open in inside {
            self.unwound(at, depth + 1, &open.call)?;
        }
        open.captures.lay(&back.captures);
        self.returned(at, depth, &open, &back.returned)
    }

    fn returned(
        &mut self,
        at: At,
        depth: usize,
        open: &Open,
        returned: &Returned,
    ) -> io::Result<()> {
        let call = CallValues {
            prototype: &open.prototype,
            registers: &open.registers,
            returned: Some(returned),
        };
        let show = self.show();
        let right = show.right(call, &open.captures);
        let right = printable(&right);
        let error = (open.is_system_call && !self.layout.ltrace)
            .then(|| error_of(returned.rax))
            .flatten();
        let value = error.unwrap_or_else(|| show.returned(call, &open.captures));
        let value = printable(&value);
        for (inside, head) in open.heads.iter().enumerate().rev() {
            let written = self.resume(at, depth + inside, open, head)?;
            let equals = self.form.equals(written + self.form.width(&right) + 1);
            write!(self.out, "{right}){equals}{value}")?;
            if self.layout.durations {
                let took = at.time.saturating_sub(open.began);
                write!(self.out, "{}", self.form.took(took))?;
            }
            self.end_line(open)?;
        }
        Ok(())
    }

    /// The line of a call goes on, or a new one that says which call it belongs to; how long it is so far.
    fn resume(&mut self, at: At, depth: usize, open: &Open, head: &Head) -> io::Result<usize> {
        // A child of vfork returns from its parent's call.
        if let Some(unfinished) = self.unfinished
            && unfinished.number == open.number
            && unfinished.thread == (at.process, at.tid)
        {
            return Ok(unfinished.written);
        }
        self.break_line()?;
        let prefix = self.form.prefix(at, Some(open.caller), depth);
        let head = format!("{prefix}<... {} resumed> ", head.resumes);
        write!(self.out, "{head}")?;
        Ok(self.form.width(&head))
    }

    fn unwound(&mut self, at: At, depth: usize, open: &Open) -> io::Result<()> {
        // ltrace leaves such a line unfinished.
        if self.layout.ltrace {
            return Ok(());
        }
        if let Some(head) = open.heads.last() {
            self.resume(at, depth, open, head)?;
        }
        write!(self.out, ") <left by an exception or a jump>")?;
        self.end_line(open)
    }

    fn end_line(&mut self, open: &Open) -> io::Result<()> {
        if let Some(line) = &open.line {
            write!(self.out, " ← {}", printable(&line.to_string()))?;
        }
        if let Some(library) = &open.library {
            write!(self.out, " ({})", printable(&short(library)))?;
        }
        self.unfinished = None;
        self.lines += 1;
        writeln!(self.out)?;
        for caller in &open.callers {
            writeln!(self.out, " > {}", printable(&caller.to_string()))?;
        }
        if open.callers.is_empty() {
            Ok(())
        } else {
            // As ltrace does.
            writeln!(self.out)
        }
    }

    /// A line that is no call. To ltrace a call has not ended before it if other calls were made in it, else it will
    /// not return.
    fn note(&mut self, at: At, text: &str) -> io::Result<()> {
        if let Some(unfinished) = self.unfinished
            && self.layout.ltrace
            && self.deepest.get(&unfinished.thread) == Some(&unfinished.depth)
        {
            self.unfinished = None;
            self.lines += 1;
            writeln!(self.out, " <no return ...>")?;
        }
        self.break_line()?;
        let prefix = self.form.prefix(at, None, 0);
        self.lines += 1;
        writeln!(self.out, "{prefix}{text}")
    }

    /// Ends a line whose call has not returned.
    fn break_line(&mut self) -> io::Result<()> {
        if self.unfinished.take().is_some() {
            self.lines += 1;
            writeln!(self.out, " <unfinished ...>")?;
        }
        Ok(())
    }
}

/// How a system call says that it failed: `-1 ENOENT`. The kernel returns the error's number, negative.
fn error_of(result: u64) -> Option<String> {
    const MOST: i64 = 4095;
    let number = (result as i64).checked_neg()?;
    let error = (1..=MOST).contains(&number).then_some(number as i32)?;
    Some(match Errno::from_raw(error) {
        Errno::UnknownErrno => format!("-1 ({error})"),
        known => format!("-1 {known:?}"),
    })
}

impl Consumer for Lines<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        process::fault::point("formatting");
        let thread = (event.at.process, event.at.tid);
        let is_call = matches!(event.kind, EventKind::Call(_) | EventKind::Return(_));
        if is_call && *self.first.get_or_insert(thread) != thread {
            self.form.say_threads();
        }
        match event.kind {
            EventKind::Opened(_) => Ok(()),
            EventKind::Call(began) => self.called(event.at, began),
            EventKind::Return(back) => self.came_back(event.at, back),
            EventKind::Signal(_) if self.layout.no_signals => Ok(()),
            EventKind::Signal(signal) => {
                let name = signal_name(signal);
                self.note(
                    event.at,
                    &format!("--- {name} ({}) ---", signal_text(signal)),
                )
            }
            EventKind::Forked(child) => {
                self.stacks.fork(event.at.process, child);
                Ok(())
            }
            EventKind::Ended(end) => {
                self.stacks.drain(Some(event.at.process));
                self.deepest.retain(|(pid, _), _| *pid != event.at.process);
                match end {
                    Ended::Exited(code) => {
                        self.note(event.at, &format!("+++ exited (status {code}) +++"))
                    }
                    Ended::Killed(signal) => self.note(
                        event.at,
                        &format!("+++ killed by {} +++", signal_name(signal)),
                    ),
                    Ended::Replaced if self.layout.ltrace => {
                        self.note(event.at, "--- Called exec() ---")
                    }
                    Ended::Unknown | Ended::Replaced => self.break_line(),
                }
            }
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: End) -> io::Result<()> {
        self.break_line()?;
        self.out.flush()
    }
}
