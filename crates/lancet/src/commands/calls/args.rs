//! The flags of `lancet calls`: ltrace's letters with ltrace's meaning, and what ltrace lacks. Used by `commands` and
//! `run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use prototypes::condition::{Condition, ConditionError};
use prototypes::filter::{Filter, FilterError};

use crate::cli::duration::parse;
use crate::cli::format::{flaw_of_flags, lacks_form, one_of};
use crate::ui::terminal::Stream;
use crate::watching::Asked;
use crate::watching::args::{Common, SHOW, TIME, WHICH};
use crate::watching::flags::most_wait;
use calls::consumer::Consumer;
use calls::debug::Debug;
use calls::message::Messages;
use calls::options::Options;
use calls::preset::Preset;
use calls::signatures::Signatures;
use calls::summary::{Order, Rows};
use report::calls::formats::LTRACE;
use report::calls::{FORMATS, Format, Layout, Summary};
use report::forms::{Chosen, Form};
use std::io::Write;

/// Options of `lancet calls`.
#[derive(Args, Clone, Debug)]
#[command(
    version,
    group = ArgGroup::new("target").required(true).multiple(true).args(["pids", "program", "debug"]),
    override_usage = "lancet calls [OPTIONS] -p PID...\n       lancet calls [OPTIONS] [--] PROGRAM [ARG]...\n       lancet calls [OPTIONS] FILE",
    after_help = help(),
)]
pub struct CallsArgs {
    #[command(flatten)]
    pub common: Common,

    /// Show what each thread is in right now, also what began before: in which call, for how long, on which peer, for whose
    /// lock. Nothing is hooked
    #[arg(long, requires = "pids", help_heading = WHICH)]
    #[arg(conflicts_with_all = ["program", "follow", "x", "e", "l", "presets", "system_calls", "only", "condition", "min_time", "watch_for", "count", "sort", "record", "ltrace"])]
    pub now: bool,

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
    #[arg(short = 'L', visible_short_alias = 'g', overrides_with = "only", help_heading = WHICH)]
    pub only: bool,

    /// Only calls that meet EXPR: `arg2 ~ "SELECT" && time > 5ms`. Decided in the process: arg1, arg2 …, ret, time, line;
    /// == != < <= > >=, ~ (holds), !~, ~* (whatever the case), null; && || ! ( ). Values of the script's language are compared as
    /// it has them
    #[arg(long = "where", value_name = "EXPR", value_parser = condition, help_heading = WHICH)]
    pub condition: Option<Condition>,

    /// Only calls that take so long at least (5ms)
    #[arg(long, value_name = "DURATION", value_parser = parse, help_heading = WHICH)]
    pub min_time: Option<Duration>,

    /// Read prototypes from FILE, in the language of ltrace.conf(5), before those that lancet brings along; or from the
    /// files SONAME.conf of a folder. Several are parted by colons
    #[arg(short = 'F', long = "config", value_name = "FILE", value_delimiter = ':', help_heading = WHICH)]
    pub prototypes: Vec<PathBuf>,

    /// Hooks may take so many percent of the process's processor time; beyond that the functions that are called most are watched
    /// no more, which is said. 100 = whatever they take
    #[arg(long, value_name = "PERCENT", default_value = "50", help_heading = TIME)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    budget: u32,

    /// Count calls and their time by function and script line, and print the table at the end
    #[arg(short = 'c', help_heading = SHOW)]
    pub count: bool,

    /// Order of the table of -c [default: time]: time, calls, mean, max, name; wall: by time, with the share of the time that passed; failed,
    /// bytes: by what calls returned
    #[arg(long, value_name = "COLUMN", value_parser = order, help_heading = SHOW)]
    pub sort: Option<Order>,

    /// Say on standard error what lancet does; MASK is octal, -Dh lists it
    #[arg(short = 'D', long, value_name = "MASK", value_parser = Debug::parse, help_heading = SHOW)]
    pub debug: Option<Debug>,

    /// Name each function that cannot be hooked, with the reason; with -c, say it before the table
    #[arg(short = 'v', long, help_heading = SHOW)]
    pub verbose: bool,

    /// Do not show the signals that PROGRAM gets
    #[arg(short = 'b', long = "no-signals", help_heading = SHOW)]
    pub no_signals: bool,

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

    /// How to write it [default: lines]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), help_heading = SHOW)]
    #[arg(conflicts_with_all = ["json", "ltrace"])]
    format: Option<Chosen<Format>>,

    /// The same as --format json
    #[arg(long, conflicts_with = "ltrace", help_heading = SHOW)]
    json: bool,

    /// The same as --format ltrace
    #[arg(long, help_heading = SHOW)]
    ltrace: bool,
}

/// Characters of a string that are shown.
const STRINGS: u32 = 32;

const EXAMPLES: &str = "\
Examples:
  lancet calls -ttTg -x mysql_real_query -p 4242   each query, when, how long, on which line's behalf
  lancet calls --now -p 4242                       what hangs there, since when, on whom
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
    /// What is chosen to show calls.
    pub(super) fn chosen(&self) -> Chosen<Format> {
        match (self.format, self.ltrace) {
            (Some(chosen), _) => chosen,
            (None, true) => Chosen::entry(&LTRACE),
            (None, false) => Chosen::by_default(FORMATS, self.json),
        }
    }

    /// How calls are written.
    pub fn format(&self) -> &'static Format {
        self.chosen().format
    }

    /// At most so many characters of a string are shown.
    fn strings(&self) -> u32 {
        let of_presets = self.presets.iter().filter_map(|preset| preset.strings);
        self.strings.or(of_presets.max()).unwrap_or(STRINGS)
    }

    /// Whether what presets of this kind open and close is paired.
    fn pairs(&self, is_it: &dyn Fn(&Preset) -> bool) -> bool {
        self.is_counted() && self.presets.iter().any(is_it)
    }

    /// Whether calls are counted, and not shown one by one.
    fn is_counted(&self) -> bool {
        self.count || self.chosen().only_counts()
    }

    /// So many native frames tell rows apart.
    fn frames_of_rows(&self) -> usize {
        match self.chosen().has_stacks() {
            true => self.frames,
            false => 0,
        }
    }

    /// What a call must meet: one of `--at`, and `--where`.
    fn asked(&self) -> Option<Condition> {
        let places = self.common.places();
        let all = places.into_iter().chain(self.condition.clone());
        all.reduce(Condition::and)
    }

    /// What cannot be asked with a form of stacks.
    fn flaw_of_stacks(&self) -> Option<String> {
        if !self.chosen().has_stacks() {
            return None;
        }
        // What is open and what is not freed is no stack.
        if self.pairs(&|preset| preset.allocations || preset.descriptors) {
            let what = "a preset that pairs what is opened or allocated with its end";
            return lacks_form(self.chosen(), FORMATS, what);
        }
        let flags = [
            (self.instruction, "-i"),
            (self.indent != 0, "-n"),
            (self.align.is_some(), "-a"),
            (self.common.times != 0, "-t"),
            (self.common.relative, "-r"),
            (self.common.durations, "-T"),
        ];
        flaw_of_flags(self.chosen(), &flags)
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
            processes: self.common.pids.len(),
            follow: self.common.follow > 0,
            into_file: self.common.output.is_some(),
            times: self.common.times,
            relative: self.common.relative,
            durations: self.common.durations,
            instruction: self.instruction,
            indent: self.indent,
            align: self.align.unwrap_or_else(|| columns() * 5 / 8),
            no_signals: self.no_signals,
        }
    }
}

impl Asked for CallsArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn shows(&self) -> bool {
        let elsewhere = self.is_counted() || self.common.output.is_some();
        self.common.record.is_none()
            || elsewhere
            || self.json
            || self.format.is_some_and(|chosen| !chosen.format.like_ltrace)
    }

    fn flaw(&self) -> Option<String> {
        if self.sort.is_some() && !self.is_counted() {
            return Some("--sort is the order of what is counted: ask for -c".to_owned());
        }
        if let Some(flaw) = self.flaw_of_stacks() {
            return Some(flaw);
        }
        let pairs = self.pairs(&|preset| preset.allocations);
        let chooses =
            self.asked().is_some() || self.min_time.is_some() || !self.common.within.is_empty();
        if pairs && chooses {
            return Some(
                "--preset alloc pairs what is allocated with what is freed: --where, --at, --in and --min-time would leave out some of either"
                    .to_owned(),
            );
        }
        self.common
            .flaw(self.asked().map_or(0, |asked| asked.line_tests()))
    }

    fn options(&self, messages: Messages) -> Options {
        let needs_all =
            self.common.record.is_some() || self.pairs(&|one| one.allocations || one.descriptors);
        Options {
            most_wait: most_wait(self.common.max_wait, needs_all),
            x: self.x.clone(),
            e: self.e.clone(),
            l: self.l.clone(),
            presets: self.presets.clone(),
            system_calls: self.system_calls,
            only: self.only,
            condition: self.asked(),
            min_time: self.min_time,
            // ltrace shows all, whatever that costs.
            budget: if self.format().like_ltrace {
                100
            } else {
                self.budget
            },
            // A process that counts for itself knows no frames.
            count: self.is_counted() && self.frames_of_rows() == 0,
            bare: false,
            results: self.common.recording().is_some()
                && self.sort.is_some_and(Order::asks_results),
            array: self.array,
            frames: self.frames,
            ltrace: self.format().like_ltrace,
            verbose: self.verbose,
            debug: self.debug,
            ..self.common.options(self.strings(), messages)
        }
    }

    fn prototypes(&self) -> &[PathBuf] {
        &self.prototypes
    }

    fn counts(&self) -> bool {
        self.is_counted()
    }

    fn tells_all(&self) -> bool {
        self.verbose
    }

    fn form(&self) -> Option<&'static Form> {
        self.chosen().records()
    }

    fn consumer<'a>(
        &'a self,
        options: &Options,
        signatures: &'a Signatures,
        out: Box<dyn Write>,
    ) -> Box<dyn Consumer + 'a> {
        if let Some(events) = self.format().events.filter(|_| !self.is_counted()) {
            return events(self.layout(), signatures, out);
        }
        let rows = Rows::new(&self.presets, options.strings, self.demangle);
        let rows = rows.by_frames(self.frames_of_rows());
        let summary = Summary::new(rows, self.sort, self.chosen(), out);
        Box::new(match self.common.recording() {
            Some(_) => summary,
            None => summary.live(),
        })
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

fn order(text: &str) -> Result<Order, String> {
    let found = Order::ALL.iter().find(|(name, _)| *name == text);
    let names = || Order::ALL.map(|(name, _)| name).join(", ");
    found
        .map(|(_, order)| *order)
        .ok_or_else(|| format!("the orders are {}", names()))
}

fn condition(text: &str) -> Result<Condition, ConditionError> {
    Condition::parse(text)
}

fn filter(text: &str) -> Result<Filter, FilterError> {
    Filter::parse(text)
}

fn library(text: &str) -> Result<Filter, FilterError> {
    Filter::library(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CallsArgs,
    }

    fn flaw(words: &[&str]) -> Option<String> {
        let line = Line::parse_from([&["calls", "-p", "7"], words].concat());
        line.args.flaw()
    }

    #[test]
    fn an_order_is_of_what_is_counted() {
        for counted in [&["-c"][..], &["--format", "folded"]] {
            assert_eq!(flaw(&[counted, &["--sort", "calls"]].concat()), None);
        }
        assert!(flaw(&["--sort", "calls"]).is_some_and(|flaw| flaw.contains("-c")));
    }

    #[test]
    fn what_is_open_is_no_stack() {
        for preset in ["files", "alloc"] {
            let asked = |form| flaw(&["-c", "--preset", preset, "--format", form]);
            let refused = "has no --format svg: there are lines, json, csv, markdown";
            assert!(asked("svg").is_some_and(|flaw| flaw.ends_with(refused)));
            assert_eq!(asked("csv"), None);
        }
        assert_eq!(flaw(&["--preset", "sql", "--format", "svg"]), None);
    }

    #[test]
    fn what_lines_alone_have_is_refused_with_stacks() {
        for flags in [
            &["-i"][..],
            &["-n", "2"],
            &["-a", "40"],
            &["-t"],
            &["-r"],
            &["-T"],
        ] {
            let flaw = flaw(&[flags, &["--format", "folded"]].concat());
            let says = format!("--format folded has nothing that {} would change", flags[0]);
            assert!(flaw.is_some_and(|flaw| flaw.starts_with(&says)));
        }
        assert_eq!(flaw(&["-tT", "-i"]), None);
    }

    /// Where one lost call spoils the answer, the process waits longer for it, unless the user says how long.
    #[test]
    fn what_is_paired_is_waited_for() {
        let most_wait = |words: &[&str]| {
            let line = Line::parse_from([&["calls", "-p", "7"], words].concat());
            let options = line.args.options(Messages::to(|_| {}));
            options.most_wait.as_millis()
        };
        assert_eq!(most_wait(&["-c", "--preset", "alloc"]), 1000);
        assert_eq!(most_wait(&["-c", "--preset", "files"]), 1000);
        assert_eq!(most_wait(&["--preset", "alloc"]), 100);
        assert_eq!(most_wait(&["-c", "--preset", "sql"]), 100);
        let asked = ["-c", "--preset", "alloc", "--max-wait", "5ms"];
        assert_eq!(most_wait(&asked), 5);
    }
}
