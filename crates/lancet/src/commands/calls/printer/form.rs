//! How lines look: ours, and with `--ltrace` those of ltrace 0.7.91 (`output.c` there), to the byte.
//!
//! ```text
//!   ours      [pid 71] 14:10:54.994915 [0x7f01c2] write(1, "a\n", 2)      = 2 <0.000005104> ← p.py:3 in 'show' (MySQLdb/cursors.py:208)
//!   ltrace's  [pid 71] 14:10:54.994915 [0x7f01c2] cat->write(1, "a\n", 2) = 2 <0.000005>
//! ```

use super::super::told::{At, Shown};
use crate::cli::CallsArgs;
use crate::ui::terminal::Stream;
use frames::names::readable;
use process::functions::Function;
use process::lanes::Line;
use std::time::Duration;

/// A name in a line, where the call begins and where it is told of again.
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
    pub fn new(args: &CallsArgs) -> Self {
        let several = args.follow || !args.pids.is_empty();
        let threads = match args.ltrace {
            false if args.pids.len() > 1 => Threads::Named,
            true if several && args.output.is_some() => Threads::Number,
            true if args.follow => Threads::Named,
            _ => Threads::No,
        };
        Form {
            ltrace: args.ltrace,
            demangle: args.demangle,
            callers: !args.e.is_empty() || !args.l.is_empty() || args.only,
            threads,
            times: args.times,
            relative: args.relative,
            instruction: args.instruction,
            indent: args.indent,
            align: args.align.unwrap_or_else(|| columns() * 5 / 8),
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
        match self.demangle {
            true => readable(name),
            false => name.to_owned(),
        }
    }

    /// What a call is written as: to ltrace one that is asked for as made and as entered is two calls, the second inside
    /// the first.
    pub fn heads(&self, function: &Function, shown: &Shown) -> Vec<Head> {
        let plain = |name: &str| Head {
            begins: self.name(name),
            resumes: self.name(name),
        };
        let mut heads = Vec::new();
        if !self.ltrace {
            return vec![plain(&function.shown())];
        }
        if let Some(made) = &shown.made {
            let mut head = plain(&made.name);
            if self.callers {
                head.begins = format!("{}->{}", made.by, head.begins);
            }
            heads.push(head);
        }
        if let Some(entered) = &shown.entered {
            let mut head = plain(&entered.name);
            if let Some(library) = &entered.of {
                head.begins = format!("{}@{library}", head.begins);
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
            1 => prefix += &format!("{} ", of_day(seconds)),
            2 => prefix += &format!("{}.{micros:06} ", of_day(seconds)),
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
        match self.ltrace {
            true => text.len(),
            false => text.chars().count(),
        }
    }

    /// From the end of the arguments to the result: the `=` stands in the column that was asked for.
    pub fn equals(&self, written: usize) -> String {
        let pad = self.align.saturating_sub(written + 2);
        format!(" {:pad$}= ", "")
    }

    /// How long a call took.
    pub fn took(&self, took: Duration) -> String {
        match self.ltrace {
            true => format!(" <{}.{:06}>", took.as_secs(), took.subsec_micros()),
            false => format!(" <{}.{:09}>", took.as_secs(), took.subsec_nanos()),
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

/// Width of the terminal; 80 if there is none.
fn columns() -> usize {
    let named = std::env::var("COLUMNS").ok();
    if let Some(columns) = named.and_then(|text| text.parse().ok())
        && columns > 0
    {
        return columns;
    }
    let ours = [Stream::Stdout, Stream::Stderr].into_iter();
    ours.filter_map(|stream| stream.style().width)
        .next()
        .unwrap_or(80)
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
