//! Calls as lines, in ltrace's form: a call whose return comes next is one line, any other is cut in two.

use super::guest::{End, Told};
use super::signals::{signal_name, signal_text};
use super::signatures::Signatures;
use super::stacks::Stacks;
use crate::cli::CallsArgs;
use prototypes::capture::{Registers, Returned};
use prototypes::{Call, Detail, Pieces, Prototype, Show};
use std::io::{self, Write};
use std::time::Duration;

/// A call that has not returned.
#[derive(Clone)]
struct Open {
    name: String,
    prototype: Prototype,
    registers: Registers,
    pieces: Pieces,
    /// In nanoseconds since 1970, to subtract.
    began: Duration,
    line: Option<String>,
    /// Which line of the output it stands on.
    number: u64,
}

/// See the module's text.
pub struct Printer<'a> {
    args: &'a CallsArgs,
    signatures: &'a Signatures,
    stacks: Vec<(i32, Stacks<Open>)>,
    /// The number of the line that is being written, and how long it is, if it is not ended.
    unfinished: Option<(u64, usize)>,
    lines: u64,
    last: Option<Duration>,
    /// The first thread that told something.
    first: Option<u32>,
    /// Lines say which thread they are of.
    many: bool,
}

impl<'a> Printer<'a> {
    /// Nothing is printed yet.
    pub fn new(args: &'a CallsArgs, signatures: &'a Signatures) -> Self {
        Printer {
            args,
            signatures,
            stacks: Vec::new(),
            unfinished: None,
            lines: 0,
            last: None,
            first: None,
            many: false,
        }
    }

    fn stacks(&mut self, pid: i32) -> &mut Stacks<Open> {
        let at = match self.stacks.iter().position(|(known, _)| *known == pid) {
            Some(at) => at,
            None => {
                self.stacks.push((pid, Stacks::new(pid)));
                self.stacks.len() - 1
            }
        };
        &mut self.stacks[at].1
    }

    /// Lines say which thread they are of from now on: more than one is seen.
    pub fn say_threads(&mut self) {
        self.many = true;
    }

    fn show(&self) -> Show<'static> {
        Show {
            detail: Detail {
                strings: self.args.strings,
                array: self.args.array,
            },
            decode: None,
            like_ltrace: self.args.ltrace,
        }
    }

    /// Prints what a guest told.
    pub fn print(&mut self, out: &mut dyn Write, told: Told) -> io::Result<()> {
        if let Told::Call { tid, .. } | Told::Return { tid, .. } = &told {
            self.many |= self.first.get_or_insert(*tid) != tid;
        }
        match told {
            Told::Call {
                pid,
                tid,
                lane,
                frame,
                time,
                function,
                caller,
                registers,
                pieces,
                line,
            } => {
                let known = self.signatures.of(&function.module, &function.name);
                let prototype = known.unwrap_or_else(|| self.signatures.unknown().clone());
                let name = function.name;
                let call = Call {
                    prototype: &prototype,
                    registers: &registers,
                    returned: None,
                };
                let left = self.show().left(call, &pieces);
                let head = format!("{name}({left}");
                let open = Open {
                    name,
                    prototype,
                    registers,
                    pieces,
                    began: time,
                    line,
                    number: 0,
                };
                let (depth, unwound) = self.stacks(pid).enter(lane, frame, open);
                for open in unwound {
                    self.unwound(out, tid, time, depth, &open.call)?;
                }
                self.break_line(out)?;
                let prefix = self.prefix(tid, time, Some(caller), depth);
                write!(out, "{prefix}{head}")?;
                self.unfinished = Some((self.lines, (prefix + &head).chars().count()));
                let at = self.lines;
                if let Some(open) = self.stacks(pid).last(lane, frame) {
                    open.number = at;
                }
                Ok(())
            }
            Told::Return {
                pid,
                tid,
                lane,
                frame,
                time,
                returned,
                pieces,
            } => {
                // It was called before we came, or in a process that is not shown.
                let Some((mut open, depth, inside)) = self.stacks(pid).leave(lane, frame) else {
                    return Ok(());
                };
                for open in inside {
                    self.unwound(out, tid, time, depth + 1, &open.call)?;
                }
                for (at, bytes) in pieces {
                    open.pieces.add(at, &bytes);
                }
                self.returned(out, tid, time, depth, &open, &returned)
            }
            Told::Signal { pid, time, signal } => {
                let name = signal_name(signal);
                let text = format!("--- {name} ({}) ---", signal_text(signal));
                match self.args.no_signals {
                    true => Ok(()),
                    false => self.note(out, pid, time, &text),
                }
            }
            Told::Forked { pid, child } => {
                self.forked(pid, child);
                Ok(())
            }
            Told::Ended { pid, time, end } => {
                self.stacks.retain(|(known, _)| *known != pid);
                match end {
                    End::Exited(code) => {
                        let text = format!("+++ exited (status {code}) +++");
                        self.note(out, pid, time, &text)
                    }
                    End::Killed(signal) => {
                        let text = format!("+++ killed by {} +++", signal_name(signal));
                        self.note(out, pid, time, &text)
                    }
                    End::Unknown | End::Replaced => self.break_line(out),
                }
            }
        }
    }

    /// A line that is no call.
    fn note(
        &mut self,
        out: &mut dyn Write,
        pid: i32,
        time: Duration,
        text: &str,
    ) -> io::Result<()> {
        if self.args.count {
            return Ok(());
        }
        self.break_line(out)?;
        let prefix = self.prefix(pid as u32, time, None, 0);
        self.lines += 1;
        writeln!(out, "{prefix}{text}")
    }

    /// A child has its parent's open calls, and returns from them too.
    fn forked(&mut self, parent: i32, child: i32) {
        let of_parent = self.stacks.iter().find(|(known, _)| *known == parent);
        if let Some((_, stacks)) = of_parent {
            let stacks = stacks.of_child(child);
            self.stacks.push((child, stacks));
        }
    }

    fn returned(
        &mut self,
        out: &mut dyn Write,
        tid: u32,
        time: Duration,
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
        let written = self.resume(out, tid, time, depth, open)?;
        let tail = format!("{right})");
        let pad = self
            .args
            .align
            .saturating_sub(written + tail.chars().count() + 1);
        write!(out, "{tail}{:pad$} = {value}", "")?;
        if self.args.durations {
            let took = time.saturating_sub(open.began).as_secs_f64();
            match self.args.ltrace {
                true => write!(out, " <{took:.6}>")?,
                false => write!(out, " <{took:.9}>")?,
            }
        }
        self.end_line(out, open)
    }

    /// The line of a call goes on, or a new one that says which call it belongs to; how long it is so far.
    fn resume(
        &mut self,
        out: &mut dyn Write,
        tid: u32,
        time: Duration,
        depth: usize,
        open: &Open,
    ) -> io::Result<usize> {
        if let Some((number, written)) = self.unfinished
            && number == open.number
        {
            return Ok(written);
        }
        self.break_line(out)?;
        let prefix = self.prefix(tid, time, None, depth);
        let head = format!("{prefix}<... {} resumed> ", open.name);
        write!(out, "{head}")?;
        Ok(head.chars().count())
    }

    fn unwound(
        &mut self,
        out: &mut dyn Write,
        tid: u32,
        time: Duration,
        depth: usize,
        open: &Open,
    ) -> io::Result<()> {
        // ltrace leaves such a line unfinished.
        if self.args.ltrace {
            return Ok(());
        }
        self.resume(out, tid, time, depth, open)?;
        write!(out, ") <left by an exception or a jump>")?;
        self.end_line(out, open)
    }

    fn end_line(&mut self, out: &mut dyn Write, open: &Open) -> io::Result<()> {
        if let Some(line) = &open.line {
            write!(out, " ← {line}")?;
        }
        self.unfinished = None;
        self.lines += 1;
        writeln!(out)
    }

    /// Ends a line whose call has not returned.
    fn break_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if self.unfinished.take().is_some() {
            self.lines += 1;
            writeln!(out, " <unfinished ...>")?;
        }
        Ok(())
    }

    /// Ends the last line.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.break_line(out)
    }

    fn prefix(&mut self, tid: u32, time: Duration, caller: Option<u64>, depth: usize) -> String {
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
