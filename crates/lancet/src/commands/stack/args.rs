//! The flags of `lancet stack`, and what they amount to. Used by `commands`, `files`, `live` and others.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use frames::scan::Decode;
use report::forms::Chosen;
use report::stack::folded::{FORMATS, Format};

use crate::cli::duration::{parse, parse_interval_of_stacks};
use crate::cli::format::one_of;

/// How many rows a table has unless `--top` says otherwise.
const TABLE_ROWS: usize = 20;

/// Options of `lancet stack`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("when").multiple(true).args(["every", "look_for", "program"]),
    group = ArgGroup::new("target").required(true).multiple(true).args(["pids", "files", "gems", "process", "program", "diff"]),
    override_usage = "lancet stack [OPTIONS] -p PID\n       lancet stack [OPTIONS] -- PROGRAM [ARG]...\n       lancet stack [OPTIONS] CORE...\n       lancet stack [OPTIONS] FILE...\n       lancet stack [OPTIONS] --gem NAME\n       \
                      lancet stack [OPTIONS] --process PID\n       lancet stack [OPTIONS] --diff OLD NEW",
    after_help = EXAMPLES,
)]
pub struct StackArgs {
    /// Show what each thread of the running process PID does, and where; may be repeated
    #[arg(short = 'p', long = "pid", value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = ["files", "gems", "process"])]
    pub pids: Vec<i32>,

    /// Look at its child processes as well (a preforking server's workers), with --for and --every those too that come
    #[arg(long, conflicts_with_all = ["files", "gems", "process"], help_heading = TARGET)]
    pub children: bool,

    /// Say what the stacks cost each garbage collection, and which frames are to blame
    #[arg(long, conflicts_with_all = ["gems", "process", "every", "look_for"], help_heading = ROWS)]
    pub gc: bool,

    /// With --gc: time the collections that happen for so long, by an agent in the process [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse, requires = "gc", conflicts_with = "files", help_heading = ROWS)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "10s")]
    pub measure: Option<Duration>,

    /// With --measure: have the process collect its garbage, N times the young objects and once all; then leave
    #[arg(long, value_name = "N", requires = "measure", help_heading = ROWS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub collect: Option<u32>,

    /// Show the native frames too, between the lines of the scripts
    #[arg(long, conflicts_with_all = ["gems", "process"], help_heading = ROWS)]
    pub native: bool,

    /// Say how many bytes each stack has in use; with --native, how many each frame takes
    #[arg(long, conflicts_with_all = ["gems", "process"], help_heading = ROWS)]
    pub bytes: bool,

    /// Show what is parked too: fibers, greenlets, coroutines
    #[arg(long, conflicts_with_all = ["gems", "process"], help_heading = ROWS)]
    pub fibers: bool,

    /// Look again and again, and add up what was seen; until Ctrl-C or --for
    #[arg(long, value_name = "DURATION", value_parser = parse_interval_of_stacks, help_heading = TIME)]
    #[arg(conflicts_with_all = ["files", "gems", "process"])]
    pub every: Option<Duration>,

    /// Look for so long (500ms, 30s, 2m), and say at which lines threads run and wait; every 10ms, or as seldom as keeps the
    /// process from standing still for more than a tenth of the time, unless --every says otherwise
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, help_heading = TIME)]
    #[arg(conflicts_with_all = ["files", "gems", "process"])]
    pub look_for: Option<Duration>,

    /// How what was seen is written; but for the table and what all commands have it is of many looks (--for, --every, PROGRAM) [default: table]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), conflicts_with = "json", help_heading = OUTPUT)]
    format: Option<Chosen<Format>>,

    /// Write to FILE, mode 0600, instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,

    /// Rank the frames of this program or library, stripped or not; of a core file, show the stacks
    #[arg(value_name = "FILE", help_heading = TARGET)]
    pub files: Vec<PathBuf>,

    /// Start PROGRAM with its ARGs and look at it again and again until it ends, as with -p and --for
    #[arg(last = true, value_name = "PROGRAM", help_heading = TARGET)]
    #[arg(conflicts_with_all = ["pids", "files", "gems", "process", "gc", "native", "bytes", "max"])]
    pub program: Vec<OsString>,

    /// Rank the frames of a gem's compiled extensions; may be repeated
    #[arg(long = "gem", value_name = "NAME", help_heading = TARGET)]
    pub gems: Vec<String>,

    /// Rank the frames of everything this process has loaded; it is not stopped
    #[arg(long, value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub process: Option<i32>,

    /// Compare the frames of two builds of a program or library; with --max, exit with 3 if one that grew or is new is larger
    #[arg(long, value_names = ["OLD", "NEW"], num_args = 2, help_heading = TARGET)]
    #[arg(conflicts_with_all = ["pids", "children", "files", "gems", "process", "program", "gc", "native", "bytes", "fibers", "check"])]
    #[arg(conflicts_with_all = ["every", "look_for"])]
    pub diff: Option<Vec<PathBuf>>,

    /// For files: show the deepest chains of direct calls, and the bytes that each takes; with --max, exit with 3 if one is deeper
    #[arg(long, conflicts_with_all = ["pids", "children", "program", "diff", "gc", "native", "bytes", "fibers", "check"])]
    #[arg(conflicts_with_all = ["every", "look_for"], help_heading = ROWS)]
    pub chains: bool,

    /// Exit with 3 if a frame is larger
    #[arg(long, value_name = "BYTES", help_heading = ROWS)]
    #[arg(conflicts_with_all = ["every", "look_for", "gc"])]
    pub max: Option<u64>,

    /// At most N rows; 0 for all [default: 20; with --format json, csv or markdown, or -p, all]
    #[arg(long, value_name = "N", help_heading = ROWS)]
    top: Option<usize>,

    /// Decode every function and say where code and call frame information differ
    #[arg(long, help_heading = ROWS, conflicts_with = "pids")]
    pub check: bool,

    /// The same as --format json
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

impl StackArgs {
    /// Whether it is about processes of this machine, and not about files.
    pub fn looks_here(&self) -> bool {
        !self.pids.is_empty() || !self.program.is_empty() || self.process.is_some()
    }

    /// Whether to look more than once.
    pub fn looks_again(&self) -> bool {
        self.every.is_some() || self.look_for.is_some() || !self.program.is_empty()
    }

    /// Returns what is chosen to show the answer.
    pub fn chosen(&self) -> Chosen<Format> {
        Chosen::or_default(self.format, FORMATS, self.json)
    }

    /// Returns whether it is shown by its records.
    pub fn has_records(&self) -> bool {
        self.chosen().records().is_some()
    }

    /// Returns what is to be decoded.
    pub fn decode(&self) -> Decode {
        if self.check {
            Decode::Everything
        } else {
            Decode::AsNeeded
        }
    }

    /// Returns how many frames of a stack are shown: all, unless `--top` says otherwise.
    pub fn rows_of_stack(&self) -> usize {
        match self.top {
            Some(0) | None => usize::MAX,
            Some(rows) => rows,
        }
    }

    /// Returns how many rows of a ranking are shown.
    pub fn rows(&self) -> usize {
        match (self.top, self.has_records()) {
            (Some(0), _) | (None, true) => usize::MAX,
            (Some(rows), _) => rows,
            (None, false) => TABLE_ROWS,
        }
    }
}

const TARGET: &str = "What to look at";
const TIME: &str = "When to look";
const ROWS: &str = "What to show";
const OUTPUT: &str = "How to write it";

const EXAMPLES: &str = "\
Examples:
  lancet stack -p 4242                                        what each thread does now, and where
  lancet stack -p 4242 --native --bytes                       every frame on its stacks, and how big it is
  lancet stack -p 4242 --for 10s                              where it spends its time, and waits
  lancet stack --children -p 4242 --for 10s                   a server and its workers
  lancet stack -- ./job                                       a program from its beginning to its end
  lancet stack -p 4242 --for 10s --format svg -o flame.svg    the same as a flame graph
  lancet stack /usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1   the biggest frames in it
  lancet stack --gem eventmachine                             in a gem's extensions
  lancet stack --process 4242 --top 50                        in all a process has loaded
  lancet stack --max 16384 ext/*.so                           in CI: exit 3 if one is larger
  lancet stack --diff released/ext.so ext.so --max 4096       in CI: exit 3 if one that grew or is new is larger";
