//! How lines look: ours, and with `--ltrace` those of ltrace 0.7.91 (`output.c` there), to the byte. Used by `lines`
//! and `stack::now`.
//!
//! ```text
//!   ours      [pid 71] 14:10:54.994915 [0x7f01c2] write(1, "a\n", 2)      = 2 <0.000005104> ← p.py:3 in 'show' (MySQLdb/cursors.py:208)
//!   ltrace's  [pid 71] 14:10:54.994915 [0x7f01c2] cat->write(1, "a\n", 2) = 2 <0.000005>
//! ```

use super::Layout;
use crate::text::printable;
use calls::Function;
use calls::event::{At, Shown, time_of_day};
use frames::names::readable;
use prototypes::digits::{decimal, hex, padded};
use std::time::Duration;

/// What the lines of a call begin with, where it is made and where its line is taken up again.
pub struct Head {
    /// What stands before the arguments: `libm.so.6->floor(`, `floor@libm.so.6(`.
    pub begins: Piece,
    /// What stands there where the line of a call is taken up again: `<... floor resumed> `.
    pub resumes: Piece,
}

/// A text that is written again and again, and how wide it is.
pub struct Piece {
    /// The text, in UTF-8 and safe to print.
    pub text: Box<[u8]>,
    /// Its width as [`Form::width`] counts it.
    pub width: usize,
}

/// The form of lines, by the options, and what it must know of the line before.
pub struct Form {
    ltrace: bool,
    demangle: bool,
    /// Lines name the module that calls.
    callers: bool,
    threads: Threads,
    times: u8,
    relative: bool,
    instruction: bool,
    indent: usize,
    align: usize,
    /// When the line before began.
    last: Option<Duration>,
    /// A second since 1970 as the time of day: many lines are of the same one.
    second: Option<(u64, String)>,
}

/// How lines say which thread they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    /// Lines do not say which thread they are of.
    No,
    /// By `[pid 71] ` at the beginning of each line.
    Named,
    /// By `71 `: where lines of followed or several processes go into a file, as with ltrace.
    Number,
}

impl Form {
    /// Makes the form that the options ask for.
    pub fn new(args: &Layout) -> Self {
        let several = args.follow || args.processes != 0;
        let threads = match args.ltrace {
            false if args.processes > 1 => Threads::Named,
            true if several && args.into_file => Threads::Number,
            true if args.follow => Threads::Named,
            _ => Threads::No,
        };
        Form {
            ltrace: args.ltrace,
            demangle: args.demangle,
            callers: args.callers,
            threads,
            times: args.times,
            relative: args.relative,
            instruction: args.instruction,
            indent: args.indent,
            align: args.align,
            last: None,
            second: None,
        }
    }

    /// Has lines say their thread from now on, because a second one was seen. Lines of ltrace never do for that reason.
    pub fn say_threads(&mut self) {
        if !self.ltrace {
            self.threads = Threads::Named;
        }
    }

    fn name(&self, name: &str) -> String {
        let name = if self.demangle {
            readable(name)
        } else {
            name.to_owned()
        };
        printable(&name).into_owned()
    }

    /// What a call is written as: to ltrace one that is asked for as made and as entered is two calls, the second inside
    /// the first.
    pub fn heads(&self, function: &Function, shown: Option<&Shown>) -> Vec<Head> {
        if !self.ltrace {
            let name = self.name(&function.shown());
            return vec![self.head(&name, &name)];
        }
        let mut heads = Vec::new();
        let made = shown.and_then(|shown| shown.made.as_ref());
        let entered = shown.and_then(|shown| shown.entered.as_ref());
        if let Some(made) = made {
            let name = self.name(&made.name);
            heads.push(if self.callers {
                self.head(&format!("{}->{name}", printable(&made.by)), &name)
            } else {
                self.head(&name, &name)
            });
        }
        if let Some(entered) = entered {
            let name = self.name(&entered.name);
            heads.push(match &entered.of {
                Some(library) => self.head(&format!("{name}@{}", printable(library)), &name),
                None => self.head(&name, &name),
            });
        }
        heads
    }

    fn head(&self, begins: &str, resumes: &str) -> Head {
        let piece = |text: String| Piece {
            width: self.width(text.len(), text.chars().count()),
            text: text.into_bytes().into(),
        };
        Head {
            begins: piece(format!("{begins}(")),
            resumes: piece(format!("<... {resumes} resumed> ")),
        }
    }

    /// Appends what a line begins with, and returns how wide that is.
    pub fn prefix(
        &mut self,
        at: At,
        caller: Option<u64>,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let begins = out.len();
        match self.threads {
            Threads::No => {}
            Threads::Named => {
                out.extend_from_slice(b"[pid ");
                decimal(at.tid, out);
                out.extend_from_slice(b"] ");
            }
            Threads::Number => {
                decimal(at.tid, out);
                out.push(b' ');
            }
        }
        self.times(at.time, out);
        if let Some(caller) = caller.filter(|_| self.instruction) {
            out.push(b'[');
            hex(caller, out);
            out.extend_from_slice(b"] ");
        }
        spaces(self.indent * depth, out);
        // All of it is ASCII.
        out.len() - begins
    }

    fn times(&mut self, time: Duration, out: &mut Vec<u8>) {
        let (seconds, micros) = (time.as_secs(), time.subsec_micros().into());
        if self.relative {
            let since = time.saturating_sub(self.last.unwrap_or(time));
            let whole = since.as_secs();
            spaces(2 - (whole.max(1).ilog10() as usize).min(2), out);
            fraction(whole, since.subsec_micros().into(), 6, out);
            out.push(b' ');
        }
        self.last = Some(time);
        if self.times == 0 {
            return;
        }
        if self.times > 2 {
            fraction(seconds, micros, 6, out);
        } else {
            let known = self.second.take().filter(|(known, _)| *known == seconds);
            let (_, text) = self
                .second
                .insert(known.unwrap_or_else(|| (seconds, time_of_day(time))));
            out.extend_from_slice(text.as_bytes());
            if self.times == 2 {
                out.push(b'.');
                padded(micros, 6, out);
            }
        }
        out.push(b' ');
    }

    /// How wide a text of so many bytes and characters is. ltrace counts bytes.
    pub fn width(&self, bytes: usize, characters: usize) -> usize {
        if self.ltrace { bytes } else { characters }
    }

    /// Appends what stands between the end of the arguments and the result: the `=` is in the column that was asked for.
    pub fn equals(&self, written: usize, out: &mut Vec<u8>) {
        out.push(b' ');
        spaces(self.align.saturating_sub(written + 2), out);
        out.extend_from_slice(b"= ");
    }

    /// Appends how long a call took.
    pub fn took(&self, took: Duration, out: &mut Vec<u8>) {
        out.extend_from_slice(b" <");
        if self.ltrace {
            fraction(took.as_secs(), took.subsec_micros().into(), 6, out);
        } else {
            fraction(took.as_secs(), took.subsec_nanos().into(), 9, out);
        }
        out.push(b'>');
    }
}

fn spaces(count: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + count, b' ');
}

/// Appends a number with a part of one, in so many digits: `12.000345`.
fn fraction(whole: u64, part: u64, digits: usize, out: &mut Vec<u8>) {
    decimal(whole, out);
    out.push(b'.');
    padded(part, digits, out);
}

/// A library's line, short: `mysql2/client.rb:151`, the last two names of its path in the folder that libraries are in.
pub fn short(path: &str, number: u32) -> String {
    let path = vm::library::within(path);
    let before = path.rmatch_indices('/').nth(1);
    let path = &path[before.map_or(0, |(at, _)| at + 1)..];
    match number {
        0 => path.to_owned(),
        number => format!("{path}:{number}"),
    }
}
