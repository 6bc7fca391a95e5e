//! The flags of `lancet calls`: ltrace's letters with ltrace's meaning, and what ltrace lacks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args};
use prototypes::capture::condition::{LONGEST_SOUGHT, MOST_LINES};
use prototypes::{Condition, ConditionError, Filter, FilterError};

use crate::cli::duration::parse;
use crate::cli::format::one_of;
use crate::ui::terminal::Stream;
use calls::debug::Debug;
use calls::preset::Preset;
use calls::window::{Between, Moment};
use calls::{Messages, Options};
use report::calls::formats::{JSON, LINES, LTRACE};
use report::calls::{FORMATS, Format, Layout};

/// Options of `lancet calls`.
#[derive(Args, Clone, Debug)]
#[command(
    version,
    group = ArgGroup::new("target").required(true).multiple(true).args(["pids", "program", "debug"]),
    override_usage = "lancet calls [OPTIONS] -p PID...\n       lancet calls [OPTIONS] [--] PROGRAM [ARG]...\n       lancet calls [OPTIONS] FILE",
    after_help = help(),
)]
pub struct CallsArgs {
    /// Open the running process PID; may be repeated
    #[arg(short = 'p', long = "pid", value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// Start PROGRAM with its ARGs and watch it from before its first instruction to its end; or show what was recorded
    /// in this file
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, help_heading = TARGET)]
    pub program: Vec<OsString>,

    /// Follow children that are made from now on, and the programs that they run
    #[arg(short = 'f', help_heading = TARGET)]
    pub follow: bool,

    /// Run PROGRAM as this user
    #[arg(short = 'u', value_name = "USER", requires = "program", help_heading = TARGET)]
    pub user: Option<String>,

    /// Functions to hook at their entry, wherever they are called from: `[+-]NAME[@LIBRARY]`, with globs and
    /// /regular expressions/; the last rule that matches a name decides. By the script's own names: `ruby:Class#method`,
    /// `python:module.function`, `perl:Package::sub`, `php:Class::method`. The VM's garbage collection: `gc`. Static
    /// probes: usdt:PROVIDER:NAME
    #[arg(short = 'x', value_name = "FILTER", value_parser = filter, help_heading = WHICH)]
    pub x: Vec<Filter>,

    /// Functions whose calls from LIBRARY (MAIN: the program itself) are shown: `[+-]NAME[@LIBRARY]`
    #[arg(short = 'e', value_name = "FILTER", value_parser = filter, help_heading = WHICH)]
    pub e: Vec<Filter>,

    /// Functions of this library, called from outside it
    #[arg(short = 'l', long = "library", value_name = "LIBRARY", value_parser = library, help_heading = WHICH)]
    pub l: Vec<Filter>,

    /// Functions for a question: one of the presets below, or a file of your own; may be repeated
    #[arg(long = "preset", value_name = "NAME", value_parser = Preset::load, help_heading = WHICH)]
    pub presets: Vec<Preset>,

    /// System calls too, as functions of the library SYS: `write@SYS`; -x 'open*@SYS' shows some of them, with or without -S.
    /// -L -S: nothing else
    #[arg(short = 'S', help_heading = WHICH)]
    pub system_calls: bool,

    /// Only what -x, -e and -l name; without one of them and without this, calls from the program itself are shown
    /// (-e @MAIN)
    #[arg(short = 'L', visible_short_alias = 'g', help_heading = WHICH)]
    pub only: bool,

    /// Only calls that meet EXPR: `arg2 ~ "SELECT" && time > 5ms`. Decided in the process: arg1, arg2 …, ret, time, line;
    /// == != < <= > >=, ~ (holds), !~, ~* (whatever the case), null; && || ! ( ). Values of the script's language are compared as
    /// it has them
    #[arg(long = "where", value_name = "EXPR", value_parser = condition, help_heading = WHICH)]
    pub condition: Option<Condition>,

    /// Only calls that take so long at least (5ms)
    #[arg(long, value_name = "DURATION", value_parser = parse, help_heading = WHICH)]
    pub min_time: Option<Duration>,

    /// Tell the line of the nearest frame, also if that is a library's
    #[arg(long, help_heading = WHICH)]
    pub nearest: bool,

    /// The application's are the lines that hold TEXT, all others are libraries'; may be repeated. Without it paths tell
    /// (gems, site-packages, what a distribution installs)
    #[arg(long, value_name = "TEXT", value_parser = sought, conflicts_with = "nearest", help_heading = WHICH)]
    pub app: Vec<String>,

    /// Read prototypes from FILE, in the language of ltrace.conf(5), before those that lancet brings along; or from the
    /// files SONAME.conf of a folder. Several are parted by colons
    #[arg(short = 'F', long = "config", value_name = "FILE", value_delimiter = ':', help_heading = WHICH)]
    pub prototypes: Vec<PathBuf>,

    /// Watch for so long (500ms, 30s, 2m); without it until Ctrl-C or the end of the process
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, help_heading = TIME)]
    pub watch_for: Option<Duration>,

    /// Longest time that a call waits when lancet cannot read as fast as the process calls; after that, records are
    /// dropped and counted. 0 = never wait [default: 100ms; with --record 1s]
    #[arg(long, value_name = "DURATION", value_parser = wait, help_heading = TIME)]
    pub max_wait: Option<Duration>,

    /// Of a recording: only what happened from then on: so long after its beginning (90s, 2m), or a time of day
    /// (14:10, 14:10:54.5)
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = TIME)]
    pub since: Option<Moment>,

    /// Of a recording: only what happened before then, in the words of --since
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = TIME)]
    pub until: Option<Moment>,

    /// Count calls and their time by function and script line, and print the table at the end
    #[arg(short = 'c', help_heading = SHOW)]
    pub count: bool,

    /// Say on standard error what lancet does; MASK is octal, -Dh lists it
    #[arg(short = 'D', long, value_name = "MASK", value_parser = Debug::parse, help_heading = SHOW)]
    pub debug: Option<Debug>,

    /// Do not show the signals that PROGRAM gets
    #[arg(short = 'b', long = "no-signals", help_heading = SHOW)]
    pub no_signals: bool,

    /// Show how long each call took, in seconds
    #[arg(short = 'T', help_heading = SHOW)]
    pub durations: bool,

    /// Show the time of day; -tt with microseconds, -ttt in seconds since 1970
    #[arg(short = 't', action = ArgAction::Count, help_heading = SHOW)]
    pub times: u8,

    /// Show the time since the line before
    #[arg(short = 'r', conflicts_with = "times", help_heading = SHOW)]
    pub relative: bool,

    /// Show the address that the call returns to
    #[arg(short = 'i', help_heading = SHOW)]
    pub instruction: bool,

    /// Show N frames of who called whom under each call, as far as they lie within 8 KiB of the stack
    #[arg(short = 'w', value_name = "N", default_value_t = 0, help_heading = SHOW)]
    pub frames: usize,

    /// Indent calls made by calls by N columns
    #[arg(short = 'n', long = "indent", value_name = "N", default_value_t = 0, help_heading = SHOW)]
    pub indent: usize,

    /// Align the results to column N (5/8 of the terminal's width)
    #[arg(short = 'a', long = "align", value_name = "N", help_heading = SHOW)]
    pub align: Option<usize>,

    /// Show the names of C++ and Rust functions as they stand in the source
    #[arg(short = 'C', long = "demangle", help_heading = SHOW)]
    pub demangle: bool,

    /// Show at most N characters of a string (32, or what the preset says)
    #[arg(short = 's', value_name = "N", help_heading = SHOW)]
    strings: Option<u32>,

    /// Show at most N elements of an array
    #[arg(short = 'A', value_name = "N", default_value_t = 4, help_heading = SHOW)]
    pub array: u32,

    /// Write to FILE, readable by you alone (mode 0600), instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = SHOW)]
    pub output: Option<PathBuf>,

    /// Record the calls in FILE, readable by you alone (mode 0600), for `lancet calls FILE`; lines are printed only
    /// where -o says
    #[arg(long, value_name = "FILE", help_heading = SHOW)]
    pub record: Option<PathBuf>,

    /// How to write it [default: lines]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), help_heading = SHOW)]
    #[arg(conflicts_with_all = ["json", "ltrace"])]
    format: Option<&'static Format>,

    /// The same as --format json
    #[arg(long, conflicts_with = "ltrace", help_heading = SHOW)]
    json: bool,

    /// The same as --format ltrace
    #[arg(long, help_heading = SHOW)]
    ltrace: bool,
}

/// Characters of a string that are shown.
const STRINGS: u32 = 32;
/// Characters that are recorded of a string.
const RECORDED_STRINGS: u32 = 512;

const TARGET: &str = "What to open";
const WHICH: &str = "Which calls";
const TIME: &str = "When to look";
const SHOW: &str = "How to show them";

const EXAMPLES: &str = "\
Examples:
  lancet calls -ttTg -x mysql_real_query -p 4242   each query, when, how long, on which line's behalf
  lancet calls -c --preset sql -p 4242 --for 1m    which statements take the time, and who sends them
  lancet calls -c -x malloc -p 4242 --for 10s      who allocates, and how long it takes
  lancet calls -x 'rb_gc*' -x rb_io_write -p 4242  several functions, by glob
  lancet calls -x 'mysql_*' --record q.lancet -p 4242  into a file, at full speed …
  lancet calls -T -x mysql_real_query q.lancet     … and from it, as often as you like

Exit status: 0, 1 could not be done, 2 wrong usage, 4 done, but something was lost or refused.";

fn help() -> String {
    format!("Presets:{}\n\n{EXAMPLES}", Preset::all())
}

impl CallsArgs {
    /// How calls are written.
    pub fn format(&self) -> &'static Format {
        self.chosen_format().unwrap_or(&LINES)
    }

    /// Whether calls are shown, and not only recorded.
    pub fn shows(&self) -> bool {
        let elsewhere = self.count || self.output.is_some();
        self.record.is_none()
            || elsewhere
            || self
                .chosen_format()
                .is_some_and(|format| !format.like_ltrace)
    }

    fn chosen_format(&self) -> Option<&'static Format> {
        let flags = [(self.json, &JSON), (self.ltrace, &LTRACE)];
        let by_flag = flags.into_iter().find(|(given, _)| *given);
        self.format.or(by_flag.map(|(_, format)| format))
    }

    /// At most so many characters of a string are shown.
    fn strings(&self) -> u32 {
        let of_presets = self.presets.iter().filter_map(|preset| preset.strings);
        self.strings.or(of_presets.max()).unwrap_or(STRINGS)
    }

    /// The recording to be shown, if that is what PROGRAM names.
    pub fn recording(&self) -> Option<&Path> {
        match &self.program[..] {
            [file] if self.pids.is_empty() && recording::is_recording(Path::new(file)) => {
                Some(Path::new(file))
            }
            _ => None,
        }
    }

    /// What cannot be asked together, though each can: what is wrong.
    pub fn flaw(&self) -> Option<String> {
        let of_condition = self.condition.as_ref().map_or(0, Condition::line_tests);
        let tests = of_condition + self.app.len();
        if tests > MOST_LINES {
            return Some(format!(
                "--app and the tests of `line` in --where are {tests} together, and at most {MOST_LINES} can be told apart"
            ));
        }
        if let [file, _, ..] = &self.program[..]
            && recording::is_recording(Path::new(file))
        {
            return Some(format!(
                "{} is a recording, no program with arguments: options stand before it",
                file.display()
            ));
        }
        let Some(file) = self.recording() else {
            let asks = self.since.is_some() || self.until.is_some();
            let why = "--since and --until choose a part of a recording: name its file";
            return asks.then(|| why.into());
        };
        (!self.app.is_empty()).then(|| format!(
            "--app is decided in the process: {} has the lines that were told when it was recorded",
            file.display()
        ))
    }

    /// What the library is to do; `messages` takes what it has to say.
    pub fn options(&self, messages: Messages) -> Options {
        let program = match self.recording() {
            Some(_) => Vec::new(),
            None => self.program.clone(),
        };
        Options {
            pids: self.pids.clone(),
            program,
            user: self.user.clone(),
            follow: self.follow,
            x: self.x.clone(),
            e: self.e.clone(),
            l: self.l.clone(),
            presets: self.presets.clone(),
            system_calls: self.system_calls,
            only: self.only,
            condition: self.condition.clone(),
            min_time: self.min_time,
            nearest: self.nearest,
            app: self.app.clone(),
            most_wait: self.most_wait(),
            count: self.count,
            record: self.record.is_some(),
            recording: None,
            window: Between {
                since: self.since,
                until: self.until,
            },
            strings: self.strings(),
            kept_of_strings: self.kept_of_strings(),
            array: self.array,
            frames: self.frames,
            ltrace: self.format().like_ltrace,
            debug: self.debug,
            messages,
        }
    }

    /// How calls are shown.
    pub fn layout(&self) -> Layout {
        Layout {
            strings: self.strings(),
            array: self.array,
            frames: self.frames,
            ltrace: self.format().like_ltrace,
            demangle: self.demangle,
            callers: !self.e.is_empty() || !self.l.is_empty() || self.only,
            processes: self.pids.len(),
            follow: self.follow,
            into_file: self.output.is_some(),
            times: self.times,
            relative: self.relative,
            durations: self.durations,
            instruction: self.instruction,
            indent: self.indent,
            align: self.align.unwrap_or_else(|| columns() * 5 / 8),
            no_signals: self.no_signals,
        }
    }

    /// How long a call waits for us at most. A file is there to hold everything, also where we get the processor
    /// rarely; what is printed is seen by somebody who would rather not slow the process down.
    fn most_wait(&self) -> Duration {
        let default = match self.record {
            Some(_) => Duration::from_secs(1),
            None => Duration::from_millis(100),
        };
        self.max_wait.unwrap_or(default)
    }

    /// How much of a string is told; what is recorded may be looked at with a larger `-s`.
    fn kept_of_strings(&self) -> u32 {
        match self.record {
            Some(_) => self.strings().max(RECORDED_STRINGS),
            None => self.strings(),
        }
    }
}

/// Width of the terminal in columns; 80 if there is none.
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

fn condition(text: &str) -> Result<Condition, ConditionError> {
    Condition::parse(text)
}

/// What lines are to hold.
fn sought(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("every line holds it".into()),
        1..=LONGEST_SOUGHT => Ok(text.into()),
        _ => Err(format!(
            "a text that is looked for has at most {LONGEST_SOUGHT} bytes"
        )),
    }
}

fn filter(text: &str) -> Result<Filter, FilterError> {
    Filter::parse(text)
}

fn library(text: &str) -> Result<Filter, FilterError> {
    Filter::library(text)
}

/// `90s` behind the beginning, or `14:10:54.5`.
fn moment(text: &str) -> Result<Moment, String> {
    if !text.contains(':') {
        return parse(text).map(Moment::After);
    }
    let mut parts = text.split(':');
    let mut next = |most: u64| -> Option<u64> {
        let part = parts.next().unwrap_or("0");
        part.parse().ok().filter(|number| *number < most)
    };
    let (hours, minutes) = (next(24), next(60));
    let seconds: Option<f64> = parts.next().map_or(Some(0.0), |part| part.parse().ok());
    let seconds = seconds.filter(|number| (0.0..60.0).contains(number));
    match (hours, minutes, seconds, parts.next()) {
        (Some(hours), Some(minutes), Some(seconds), None) => {
            let whole = Duration::from_secs(hours * 3600 + minutes * 60);
            Ok(Moment::TimeOfDay(whole + Duration::from_secs_f64(seconds)))
        }
        _ => Err("a time of day is written 14:10 or 14:10:54.5".into()),
    }
}

fn wait(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => parse(text),
    }
}
