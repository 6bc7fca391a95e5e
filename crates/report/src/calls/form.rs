//! How lines look: ours, and with `--ltrace` those of ltrace 0.7.91 (`output.c` there), to the byte.
//!
//! ```text
//!   ours      [pid 71] 14:10:54.994915 [0x7f01c2] write(1, "a\n", 2)      = 2 <0.000005104> ← p.py:3 in 'show' (MySQLdb/cursors.py:208)
//!   ltrace's  [pid 71] 14:10:54.994915 [0x7f01c2] cat->write(1, "a\n", 2) = 2 <0.000005>
//! ```

use super::Layout;
use crate::text::printable;
use calls::event::{At, Shown, time_of_day};
use calls::{Function, Line};
use frames::names::readable;
use std::time::Duration;

/// A name in a line, where the call begins and where its line is taken up again.
#[derive(Clone)]
pub struct Head {
    /// `libm.so.6->floor`, `floor@libm.so.6`
    pub begins: String,
    /// `floor`
    pub resumes: String,
}

/// See the module's text.
pub struct Form {
    ltrace: bool,
    demangle: bool,
    /// Lines say who calls.
    callers: bool,
    threads: Threads,
    times: u8,
    relative: bool,
    instruction: bool,
    indent: usize,
    align: usize,
    /// When the line before began.
    last: Option<Duration>,
}

/// How lines say which thread they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    /// They do not.
    No,
    /// `[pid 71] `
    Named,
    /// `71 `: into a file, of followed or several processes.
    Number,
}

impl Form {
    /// As the options say.
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
        }
    }

    /// More than one thread is seen. ltrace does not care.
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
        let plain = |name: &str| Head {
            begins: self.name(name),
            resumes: self.name(name),
        };
        let mut heads = Vec::new();
        if !self.ltrace {
            return vec![plain(&function.shown())];
        }
        let made = shown.and_then(|shown| shown.made.as_ref());
        let entered = shown.and_then(|shown| shown.entered.as_ref());
        if let Some(made) = made {
            let mut head = plain(&made.name);
            if self.callers {
                head.begins = format!("{}->{}", printable(&made.by), head.begins);
            }
            heads.push(head);
        }
        if let Some(entered) = entered {
            let mut head = plain(&entered.name);
            if let Some(library) = &entered.of {
                head.begins = format!("{}@{}", head.begins, printable(library));
            }
            heads.push(head);
        }
        heads
    }

    /// What a line begins with.
    pub fn prefix(&mut self, at: At, caller: Option<u64>, depth: usize) -> String {
        let At { tid, time, .. } = at;
        let mut prefix = match self.threads {
            Threads::No => String::new(),
            Threads::Named => format!("[pid {tid}] "),
            Threads::Number => format!("{tid} "),
        };
        let seconds = time.as_secs();
        let micros = time.subsec_micros();
        if self.relative {
            let since = time.saturating_sub(self.last.unwrap_or(time));
            prefix += &format!("{:3}.{:06} ", since.as_secs(), since.subsec_micros());
        }
        match self.times {
            0 => {}
            1 => prefix += &format!("{} ", time_of_day(time)),
            2 => prefix += &format!("{}.{micros:06} ", time_of_day(time)),
            _ => prefix += &format!("{seconds}.{micros:06} "),
        }
        self.last = Some(time);
        if let Some(caller) = caller.filter(|_| self.instruction) {
            prefix += &format!("[{caller:#x}] ");
        }
        prefix + &" ".repeat(self.indent * depth)
    }

    /// How wide a text is. ltrace counts bytes.
    pub fn width(&self, text: &str) -> usize {
        if self.ltrace {
            text.len()
        } else {
            text.chars().count()
        }
    }

    /// From the end of the arguments to the result: the `=` stands in the column that was asked for.
    pub fn equals(&self, written: usize) -> String {
        let pad = self.align.saturating_sub(written + 2);
        format!(" {:pad$}= ", "")
    }

    /// How long a call took.
    pub fn took(&self, took: Duration) -> String {
        if self.ltrace {
            format!(" <{}.{:06}>", took.as_secs(), took.subsec_micros())
        } else {
            format!(" <{}.{:09}>", took.as_secs(), took.subsec_nanos())
        }
    }
}

/// A library's line, short: `mysql2/client.rb:151`, the last two names of its path in the folder that libraries are in.
pub fn short(line: &Line) -> String {
    let path = vm::library::within(&line.path);
    let before = path.rmatch_indices('/').nth(1);
    let path = &path[before.map_or(0, |(at, _)| at + 1)..];
    match line.line {
        0 => path.to_owned(),
        number => format!("{path}:{number}"),
    }
}
