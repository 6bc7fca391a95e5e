//! The flags of `lancet syscalls`: strace's letters with strace's meaning, and what strace lacks. Used by `commands`,
//! `asks` and `way`.

use super::expressions::{self, Expression, expression};
use super::inject::{self, Of};
use super::shown::Shown;
use super::started::Started;
use super::way::Way;
use crate::cli::duration::parse;
use crate::ui::terminal::Stream;
use crate::watching::Asked;
use crate::watching::args::{Common, SHOW, WHICH};
use calls::consumer::Consumer;
use calls::descriptors::names::Asking;
use calls::message::Messages;
use calls::options::{By, Options};
use calls::preset::Preset;
use calls::signatures::Signatures;
use calls::summary::Rows;
use calls::tamper::Inject;
use clap::{ArgAction, ArgGroup, Args};
use prototypes::filter::Filter;
use report::forms::Form;
use report::syscalls::{
    Columns, Layout, Naming, NamingKinds, OnPaths, Order, SharedOutput, Statuses, Summary, Together,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use syscalls::{Hex, Style, Trace};

/// Options of `lancet syscalls`.
#[derive(Args, Clone, Debug)]
#[command(
    version,
    args_override_self = true,
    group = ArgGroup::new("target").required(true).multiple(true).args(["pids", "program"]),
    override_usage = "lancet syscalls [OPTIONS] -p PID...\n       lancet syscalls [OPTIONS] [--] PROGRAM [ARG]...\n       lancet syscalls [OPTIONS] FILE",
    after_help = EXAMPLES,
)]
pub struct SyscallsArgs {
    #[command(flatten)]
    pub common: Common,

    /// trace=SET: system calls by name, by %class, by /regular expression, or !SET for all others; status=SET: successful,
    /// failed, unfinished; signal=SET; raw=SET, abbrev=SET, verbose=SET: calls whose arguments are numbers, whose structs
    /// are shortened, are shown at all; read=FDS, write=FDS: descriptors whose bytes are shown whole; quiet=SET;
    /// namespace=new: which namespaces clone, setns and unshare have led into, where calls are seen by ptrace. Without a
    /// word before the =, trace is meant; may be repeated
    #[arg(short = 'e', value_name = "EXPR", value_parser = expression, help_heading = WHICH)]
    pub expressions: Vec<Expression>,

    /// Have calls fail: SET:ERRNO, or the words of -e inject= of strace (retval=, signal=, delay_enter=, poke_enter=, when=2+2 …),
    /// and with @FILE:LINE only those from this line: openat:ENOSPC@app.rb:12; may be repeated
    #[arg(long, value_name = "SET:WHAT", value_parser = injected, help_heading = WHICH)]
    pub inject: Vec<Inject>,

    /// Only calls that succeed (-e status=successful)
    #[arg(short = 'z', long, help_heading = WHICH)]
    pub successful_only: bool,

    /// Only calls that fail (-e status=failed)
    #[arg(short = 'Z', long, conflicts_with = "successful_only", help_heading = WHICH)]
    pub failed_only: bool,

    /// Only calls that took so long at least (10ms)
    #[arg(long, value_name = "DURATION", value_parser = parse, help_heading = WHICH)]
    pub slower: Option<Duration>,

    #[command(flatten)]
    pub way: Way,

    /// What each thread waits for now: in which call, since when, on which file or peer. Nothing is hooked
    #[arg(long, requires = "pids", conflicts_with_all = ["program", "follow", "expressions", "successful_only", "failed_only", "at", "within", "slower", "watch_for", "count", "leaks", "record"])]
    #[arg(help_heading = SHOW)]
    pub blocked: bool,

    /// Which descriptors were opened and are still open at the end, by line; after 10s it says which line leaks
    #[arg(long, conflicts_with_all = ["expressions", "successful_only", "failed_only", "slower", "count", "strace", "at", "within"])]
    #[arg(help_heading = SHOW)]
    pub leaks: bool,

    /// Count calls, errors and time by system call, native function (-k: all around it) and script line, and print the table
    /// at the end
    #[arg(short = 'c', long = "summary-only", help_heading = SHOW)]
    pub count: bool,

    /// Order of the table: time, min-time, max-time, avg-time, calls, rate, errors, name, nothing. Unless told otherwise by time, or by
    /// calls where -U has no column of time
    #[arg(short = 'S', long = "summary-sort-by", value_name = "COLUMN", help_heading = SHOW)]
    pub sort: Option<Order>,

    /// Columns of the table: time-percent, total-time, min-time, max-time, avg-time, wall-total, wall-min, wall-max, wall-avg
    /// (strace 7's words for the same), calls, rate (calls a second, of one process that is watched), errors, name
    #[arg(short = 'U', long = "summary-columns", value_name = "COLUMNS", help_heading = SHOW)]
    pub columns: Option<Columns>,

    /// Understood and not needed: the times of -c are those between call and return
    #[arg(short = 'w', long = "summary-wall-clock", hide = true)]
    pub wall_clock: bool,

    /// Show at most N characters of a string and N elements of an array
    #[arg(short = 's', long = "string-limit", value_name = "N", default_value_t = 32, help_heading = SHOW)]
    pub strings: u32,

    /// Show structs whole; with -c, say before the table all that is not seen
    #[arg(short = 'v', long = "no-abbrev", help_heading = SHOW)]
    pub verbose: bool,

    /// Show strings that are no ASCII text in hexadecimal; -xx all strings
    #[arg(short = 'x', action = ArgAction::Count, help_heading = SHOW)]
    pub hex: u8,

    /// Show the native frames of each call, as far as they lie within 8 KiB of the stack
    #[arg(short = 'k', long = "stack-traces", help_heading = SHOW)]
    pub frames: bool,

    /// Align the results to column N
    #[arg(short = 'a', long = "columns", value_name = "N", default_value_t = 40, help_heading = SHOW)]
    pub align: usize,

    /// Do not show the ends of processes
    #[arg(short = 'q', action = ArgAction::Count, help_heading = SHOW)]
    pub quiet: u8,

    /// The same as --format strace. As strace does it: its text and its table, without script lines; and of a PROGRAM that is started all that it sees, by ptrace,
    /// at about 5 µs a call, unless --hooks is given too, or what hooks alone know (-k, --at, --in, --inject)
    #[arg(long, help_heading = SHOW)]
    pub strace: bool,

    #[command(flatten)]
    pub shown: Shown,

    #[command(flatten)]
    pub started: Started,
}

/// Frames that `-k` shows.
const FRAMES: usize = 64;

const EXAMPLES: &str = "\
Examples:
  lancet syscalls -p 4242                               every system call, with the script's line
  lancet syscalls -ttT -e trace=%network -p 4242        those of sockets, when and how long
  lancet syscalls -c -p 4242 --for 10s                  which line makes which calls, and how many fail
  lancet syscalls -Z -e trace=%file -- ./server         paths that could not be opened
  lancet syscalls --slower 10ms -p 4242                 what it waits for

Exit status: that of PROGRAM; 0, 1 could not be done, 2 wrong usage, 4 done, but something was lost or refused.";

fn injected(text: &str) -> Result<Inject, String> {
    inject::parse(text, Of::Own)
}

impl SyscallsArgs {
    /// The system calls that are asked for; `None` = all.
    pub(super) fn trace(&self) -> Option<&Trace> {
        expressions::last(self.all(), |of| match of {
            Expression::Trace(trace) => Some(trace),
            _ => None,
        })
    }

    /// What `-e` and the long forms of its words say.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Expression> {
        self.expressions.iter().chain(self.shown.expressions())
    }

    pub(super) fn injections(&self) -> impl Iterator<Item = &Inject> {
        let of_expressions = self.all().filter_map(|expression| match expression {
            Expression::Inject(inject) => Some(&**inject),
            _ => None,
        });
        of_expressions.chain(&self.inject)
    }

    fn statuses(&self) -> Statuses {
        let asked = expressions::last(self.all(), |of| match of {
            Expression::Status(statuses) => Some(*statuses),
            _ => None,
        });
        let only = |successful: bool| Statuses {
            successful,
            failed: !successful,
            unfinished: false,
            detached: false,
        };
        match (self.successful_only, self.failed_only) {
            (true, _) => only(true),
            (_, true) => only(false),
            _ => asked.unwrap_or(Statuses::ALL),
        }
    }

    /// Whether only figures of all calls are asked for, which guests count for themselves: they do not choose by results,
    /// and keep no native frames. The quick way through a recording knows no errors.
    pub(super) fn is_counted_whole(&self) -> bool {
        let all = self.statuses() == Statuses::ALL && self.slower.is_none();
        let all = all && !self.follows() && !self.frames;
        self.is_counted() && all && self.common.recording().is_none()
    }

    /// Whether the table shows nothing of times, so that no clock need be read for it.
    fn is_without_times(&self) -> bool {
        let columns = self.columns.as_ref();
        let order = self.sort.is_none_or(|order| !order.asks_times());
        !self.leaks && order && columns.is_some_and(|columns| !columns.ask_times())
    }

    /// The calls that open and close descriptors, if it is asked what is left open.
    fn presets(&self) -> Vec<Preset> {
        let files = self.leaks.then(|| Preset::load("files"));
        files.into_iter().flatten().collect()
    }

    /// Returns how lines look, and which calls they are of, as the flags say.
    pub(super) fn layout(&self) -> Layout {
        Layout {
            style: Style {
                strings: self.strings as usize,
                verbose: self.verbose,
                hex: self.shown.strings_in_hex.unwrap_or(match self.hex {
                    0 => Hex::Never,
                    1 => Hex::NotText,
                    _ => Hex::Always,
                }),
                raw: false,
                addresses: false,
                date: Some(calls::event::date),
                constants: self.shown.constants.unwrap_or_default(),
                whole: self.is_by_tracer(),
                names: self.shown.argument_names,
            },
            calls: self
                .trace()
                .filter(|trace| self.follows() || trace.is_empty())
                .cloned(),
            exceptions: expressions::exceptions(self.all().collect()),
            dumped: expressions::dumped(self.all().collect()),
            naming: self.naming(),
            signals: expressions::signals(self.all().collect()),
            strace: self.is_strace(),
            into_file: self.common.output.is_some()
                && (self.common.follow > 0 || self.begins_with_several())
                && !self.is_separate(),
            times: self.shown.time(self.common.times),
            relative: self.shown.relative(self.common.relative),
            durations: self.shown.durations(self.common.durations),
            numbers: self.shown.numbers,
            instructions: self.shown.instructions,
            frames: if self.frames { FRAMES } else { 0 },
            align: self.align,
            statuses: self.statuses(),
            slower: self.slower.unwrap_or_default(),
            quiet: self.hidden().ends,
            hides_superseded: self.hidden().superseded,
            exits_return: self.is_by_tracer() && self.injects_ends(),
            is_traced: self.is_by_tracer(),
        }
    }

    /// What descriptors and processes are called; `-e decode-fds=` is the long form's other name.
    pub(super) fn naming(&self) -> NamingKinds {
        let fds = expressions::last(self.all(), |of| match of {
            Expression::Descriptors(kinds) => Some(*kinds),
            _ => None,
        });
        let pids = expressions::last(self.all(), |of| match of {
            Expression::Processes(kinds) => Some(*kinds),
            _ => None,
        });
        let whose = if self.is_strace() { "strace" } else { "lancet" };
        NamingKinds {
            entered: self.asks_namespaces(),
            ..self.shown.naming(fds, pids, whose)
        }
    }

    /// Whether it must be known what descriptors are called. No table of calls says it.
    fn follows(&self) -> bool {
        let names = self.naming().of_descriptors() || self.tells_messages();
        names && !self.is_counted() || !self.shown.paths.is_empty()
    }

    /// Whether each thread's lines go into a file of its own.
    pub(super) fn is_separate(&self) -> bool {
        self.common.output.is_some() && (self.common.follow > 1 || self.shown.separately)
    }
}

impl Asked for SyscallsArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn flaw(&self) -> Option<String> {
        // strace shows signals and ends then.
        let nothing = self.trace().is_some_and(Trace::is_empty);
        if nothing && !self.is_strace() {
            return Some("-e trace= leaves no system call to be shown".into());
        }
        let separate = self.common.follow > 1 || self.shown.separately;
        if let Some(flaw) = self.flaw_of_form(separate) {
            return Some(flaw);
        }
        if separate && self.count {
            return Some("-c counts all threads together: it cannot be asked with -ff".into());
        }
        if let Some(flaw) = self.flaw_of_way().or_else(|| self.flaw_of_namespaces()) {
            return Some(flaw);
        }
        if let Some(flaw) = self.started.flaw(self.is_by_tracer()) {
            return Some(flaw);
        }
        let injected = self.injections().filter(|one| one.line.is_some()).count();
        let tests = self.common.places().map_or(0, |asked| asked.line_tests());
        self.flaw_of_injections()
            .or_else(|| self.common.flaw(tests + injected))
    }

    fn options(&self, messages: Messages) -> Options {
        let named = self.trace().filter(|trace| *trace != &Trace::all());
        let followed = named.is_some() && self.follows();
        let followed = followed.then(calls::descriptors::names::followed);
        // What is hooked where no call is asked for, and not shown: of nothing at all all would be hooked.
        let none = named.is_some_and(Trace::is_empty).then_some("exit_group");
        let filters = named.into_iter().flat_map(Trace::names).chain(none);
        let filters = filters.chain(followed.into_iter().flatten());
        let filters = filters.map(|name| {
            Filter::parse(&format!("{name}@SYS")).expect("names of system calls are names")
        });
        Options {
            x: filters.collect(),
            presets: self.presets(),
            system_calls: !self.leaks,
            from_exec: !self.leaks,
            may_lead: self.way.by.is_none() && !self.way.hooks,
            may_lead_by_bpf: self.may_lead_by_bpf(),
            // By BPF nothing stands still at an exec; that a tracer is asked for is seen to in `flaw`.
            by: match self.started.detach_on {
                Some(_) => By::Ptrace,
                None => self.by(),
            },
            leave_at_exec: self.started.detach_on.is_some(),
            exact: self.way.is_exact(),
            inject: self.injections().cloned().collect(),
            only: true,
            count: self.leaks || self.is_counted_whole(),
            bare: self.is_counted_whole() && self.is_without_times(),
            environment: self.shows_environments(),
            kept_of_strings: self.kept(),
            kept_of_messages: self.kept_of_messages(),
            frames: if self.frames { FRAMES } else { 0 },
            ..self.common.options(self.strings, messages)
        }
    }

    fn prototypes(&self) -> &[PathBuf] {
        &[]
    }

    fn output(&self) -> Option<&Path> {
        // Each thread has a file of its own.
        let one = |_: &&Path| !self.is_separate();
        self.common.output.as_deref().filter(one)
    }

    fn shows(&self) -> bool {
        self.common.record.is_none() || self.counts() || self.common.output.is_some()
    }

    fn ends_as_program(&self) -> bool {
        self.is_strace() && self.common.pids.is_empty()
    }

    fn lets_streams_go(&self) -> bool {
        self.is_strace()
    }

    fn counts(&self) -> bool {
        self.is_counted() || self.leaks
    }

    fn tells_all(&self) -> bool {
        self.verbose
    }

    fn form(&self) -> Option<&'static Form> {
        self.chosen().records()
    }

    fn tells_tracing(&self) -> bool {
        // How strace's answer is found is told to who sits there, not into files that are read as strace's.
        self.way.is_asked() || !self.hidden().attaching && Stream::Stderr.is_terminal()
    }

    fn tells_leaving(&self) -> bool {
        !self.hidden().attaching
    }

    fn ends_as_strace(&self) -> bool {
        self.is_strace() && !self.hidden().attaching
    }

    fn consumer<'a>(
        &'a self,
        options: &Options,
        signatures: &'a Signatures,
        out: Box<dyn Write>,
    ) -> Box<dyn Consumer + 'a> {
        let paths = &self.shown.paths;
        let live = self.common.recording().is_none();
        let asking = match (live, self.is_by_tracer()) {
            (false, _) => Asking::Nobody,
            (true, false) => Asking::Later,
            (true, true) => Asking::AtOnce,
        };
        let mut naming = Naming::new(
            self.naming(),
            asking,
            !paths.is_empty() || self.tells_messages(),
        );
        if self.tells_messages() {
            naming = naming.with_messages();
        }
        let table = |out| {
            let columns = self.columns.clone().unwrap_or_default();
            let form = self.chosen().form;
            let table = Summary::new(&self.layout(), self.sort, columns, form, out);
            let to_terminal = self.common.output.is_none() && !self.is_strace();
            let stream = Stream::beside(&self.common.program);
            Box::new(table.within(stream.style().width.filter(|_| to_terminal)))
        };
        let writer: Box<dyn Consumer + 'a> = match (self.leaks, self.is_counted(), self.shown.table)
        {
            (true, ..) => {
                let rows = Rows::new(&self.presets(), options.strings, true);
                let counted = report::calls::Summary::new(rows, None, self.leaks_form(), out);
                Box::new(if live { counted.live() } else { counted })
            }
            (_, true, _) => table(out),
            (.., true) => {
                let out = SharedOutput::new(out);
                let lines = self.lines(signatures, naming.clone(), Box::new(out.clone()));
                Box::new(Together::new(lines, table(Box::new(out))))
            }
            _ => self.lines(signatures, naming.clone(), out),
        };
        if paths.is_empty() {
            return writer;
        }
        let naming = (naming, !self.is_counted());
        Box::new(OnPaths::before(writer, paths, signatures, naming))
    }
}
