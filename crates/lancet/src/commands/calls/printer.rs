//! Calls as lines, in ltrace's form: a call whose return comes next is one line, any other is cut in two.

use super::signatures::Signatures;
use super::sink::Sink;
use super::source::Count;
use super::stacks::Stacks;
use super::told::{At, Call as Began, Return, Told, What};
use crate::cli::CallsArgs;
use process::functions::Function;
use process::lanes::Line;
use prototypes::capture::{Registers, Returned};
use prototypes::{Call, Detail, Pieces, Prototype, Show};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// A call that has not returned.
struct Open {
    function: Arc<Function>,
    prototype: Prototype,
    registers: Registers,
    pieces: Pieces,
    /// In nanoseconds since 1970, to subtract.
    began: Duration,
    line: Option<Arc<Line>>,
    /// Which line of the output it stands on.
    number: u64,
}

/// See the module's text.
pub struct Printer<'a> {
    args: &'a CallsArgs,
    signatures: &'a Signatures,
    out: Box<dyn Write>,
    stacks: Stacks<Open>,
    /// The number of the line that is being written, and how long it is, if it is not ended.
    unfinished: Option<(u64, usize)>,
    lines: u64,
    last: Option<Duration>,
    /// The first thread that was seen; more than one, and lines say which they are of.
    first: Option<(i32, u32)>,
    many: bool,
}

impl<'a> Printer<'a> {
    /// Nothing is printed yet.
    pub fn new(args: &'a CallsArgs, signatures: &'a Signatures, out: Box<dyn Write>) -> Self {
        Printer {
            args,
            signatures,
            out,
            stacks: Stacks::default(),
            unfinished: None,
            lines: 0,
            last: None,
            first: None,
            many: args.pids.len() > 1,
        }
    }

    fn show(&self) -> Show<'static> {
        Show {
            detail: Detail {
                strings: self.args.strings(),
                array: self.args.array,
            },
            decode: None,
            like_ltrace: self.args.ltrace,
        }
    }

    fn called(&mut self, at: At, began: Began) -> io::Result<()> {
        let Began {
            function,
            caller,
            registers,
            pieces,
            line,
        } = began;
        let known = self.signatures.of(&function.module, &function.name);
        let prototype = known.unwrap_or_else(|| self.signatures.unknown().clone());
        let call = Call {
            prototype: &prototype,
            registers: &registers,
            returned: None,
        };
        let left = self.show().left(call, &pieces);
        let head = format!("{}({left}", function.name);
        let open = Open {
            function,
            prototype,
            registers,
            pieces,
            began: at.time,
            line,
            number: 0,
        };
        let (depth, unwound) = self.stacks.enter(at, open);
        for open in unwound {
            self.unwound(at, depth, &open.call)?;
        }
        self.break_line()?;
        let prefix = self.prefix(at, Some(caller), depth);
        write!(self.out, "{prefix}{head}")?;
        self.unfinished = Some((self.lines, (prefix + &head).chars().count()));
        if let Some(open) = self.stacks.last(at) {
            open.number = self.lines;
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
        for (at, bytes) in back.pieces {
            open.pieces.add(at, &bytes);
        }
        self.returned(at, depth, &open, &back.returned)
    }

    fn returned(
        &mut self,
        at: At,
        depth: usize,
        open: &Open,
        returned: &Returned,
    ) -> io::Result<()> {
        let call = Call {
            prototype: &open.prototype,
            registers: &open.registers,
            returned: Some(returned),
        };
        let show = self.show();
        let right = show.right(call, &open.pieces);
        let value = show.returned(call, &open.pieces);
        let written = self.resume(at, depth, open)?;
        let tail = format!("{right})");
        let pad = self
            .args
            .align
            .saturating_sub(written + tail.chars().count() + 1);
        write!(self.out, "{tail}{:pad$} = {value}", "")?;
        if self.args.durations {
            let took = at.time.saturating_sub(open.began).as_secs_f64();
            match self.args.ltrace {
                true => write!(self.out, " <{took:.6}>")?,
                false => write!(self.out, " <{took:.9}>")?,
            }
        }
        self.end_line(open)
    }

    /// The line of a call goes on, or a new one that says which call it belongs to; how long it is so far.
    fn resume(&mut self, at: At, depth: usize, open: &Open) -> io::Result<usize> {
        if let Some((number, written)) = self.unfinished
            && number == open.number
        {
            return Ok(written);
        }
        self.break_line()?;
        let prefix = self.prefix(at, None, depth);
        let head = format!("{prefix}<... {} resumed> ", open.function.name);
        write!(self.out, "{head}")?;
        Ok(head.chars().count())
    }

    fn unwound(&mut self, at: At, depth: usize, open: &Open) -> io::Result<()> {
        // ltrace leaves such a line unfinished.
        if self.args.ltrace {
            return Ok(());
        }
        self.resume(at, depth, open)?;
        write!(self.out, ") <left by an exception or a jump>")?;
        self.end_line(open)
    }

    fn end_line(&mut self, open: &Open) -> io::Result<()> {
        if let Some(line) = &open.line {
            write!(self.out, " ← {line}")?;
        }
        self.unfinished = None;
        self.lines += 1;
        writeln!(self.out)
    }

    /// Ends a line whose call has not returned.
    fn break_line(&mut self) -> io::Result<()> {
        if self.unfinished.take().is_some() {
            self.lines += 1;
            writeln!(self.out, " <unfinished ...>")?;
        }
        Ok(())
    }

    fn prefix(&mut self, at: At, caller: Option<u64>, depth: usize) -> String {
        let At { tid, time, .. } = at;
        let mut prefix = String::new();
        if self.many {
            prefix += &format!("[pid {tid}] ");
        }
        let seconds = time.as_secs();
        let micros = time.subsec_micros();
        match self.args.times {
            0 => {}
            1 => prefix += &format!("{} ", of_day(seconds)),
            2 => prefix += &format!("{}.{micros:06} ", of_day(seconds)),
            _ => prefix += &format!("{seconds}.{micros:06} "),
        }
        if self.args.relative {
            let since = time.saturating_sub(self.last.unwrap_or(time));
            prefix += &format!("{:3}.{:06} ", since.as_secs(), since.subsec_micros());
        }
        self.last = Some(time);
        if self.args.instruction {
            prefix += &match caller {
                Some(caller) => format!("[{caller:#x}] "),
                None => format!("[{:#18}] ", ""),
            };
        }
        prefix + &" ".repeat(self.args.indent * depth)
    }
}

impl Sink for Printer<'_> {
    fn take(&mut self, told: Told) -> io::Result<()> {
        let thread = (told.at.pid, told.at.tid);
        self.many |= *self.first.get_or_insert(thread) != thread;
        match told.what {
            What::Call(began) => self.called(told.at, began),
            What::Return(back) => self.came_back(told.at, back),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _: Vec<Count>) -> io::Result<()> {
        self.break_line()?;
        self.out.flush()
    }
}

/// The local time of day.
fn of_day(seconds: u64) -> String {
    // SAFETY: a live record, filled by the call.
    let (hour, minute, second) = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        let at = seconds as libc::time_t;
        libc::localtime_r(&raw const at, &raw mut parts);
        (parts.tm_hour, parts.tm_min, parts.tm_sec)
    };
    format!("{hour:02}:{minute:02}:{second:02}")
}
