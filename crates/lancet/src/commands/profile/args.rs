//! The flags of `lancet profile`. Used by `commands` and `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use frames::profile::{By, Mode};
use report::forms::Chosen;
use report::profile::{FORMATS, Format};

use crate::cli::duration::{parse, parse_interval_of_stacks};
use crate::cli::format::one_of;
use crate::ui::terminal::Stream;

/// How long a process is looked at unless `--for` says otherwise.
const LENGTH: Duration = Duration::from_secs(10);

/// How many rows a table has unless `--top` says otherwise.
const ROWS: usize = 20;

/// Options of `lancet profile`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("target").required(true).args(["pids", "program", "file", "diff"]),
    override_usage = "lancet profile [OPTIONS] -p PID\n       lancet profile [OPTIONS] -- PROGRAM [ARG]...\n       lancet profile [OPTIONS] FILE\n       \
                      lancet profile [OPTIONS] --diff OLD NEW",
    after_help = EXAMPLES,
)]
pub struct ProfileArgs {
    /// Look at the running process PID; may be repeated
    #[arg(short = 'p', long = "pid", value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// Look at its child processes as well (a preforking server's workers), those too that come
    #[arg(long, help_heading = TARGET)]
    pub children: bool,

    /// Show a profile that --save has written
    #[arg(value_name = "FILE", help_heading = TARGET)]
    #[arg(conflicts_with_all = ["children", "look_for", "every", "save"])]
    pub file: Option<PathBuf>,

    /// Start PROGRAM with its ARGs and look at it until it ends
    #[arg(last = true, value_name = "PROGRAM", help_heading = TARGET)]
    pub program: Vec<OsString>,

    /// Of which functions has the share changed between two profiles that --save has written?
    #[arg(long, value_names = ["OLD", "NEW"], num_args = 2, help_heading = TARGET)]
    #[arg(conflicts_with_all = ["children", "look_for", "every", "save"])]
    pub diff: Option<Vec<PathBuf>>,

    /// Look for so long (500ms, 30s, 2m) [default: 10s; of a program that is started, until it ends]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, help_heading = TIME)]
    look_for: Option<Duration>,

    /// How often to look, at least 1ms [default: each 10ms, or as seldom as keeps the process from standing still for more than a tenth of
    /// the time]
    #[arg(long, value_name = "DURATION", value_parser = parse_interval_of_stacks, help_heading = TIME)]
    pub every: Option<Duration>,

    /// Which time of its threads is shown [default: cpu]
    #[arg(long, value_name = "TIME", value_enum, help_heading = OUTPUT)]
    mode: Option<Time>,

    /// What a row is [default: function]
    #[arg(long, value_name = "WHAT", value_enum, help_heading = OUTPUT)]
    by: Option<Grouping>,

    /// A screen with the last seconds, until q is pressed; all of them are written then. Where standard output is no terminal, only that
    #[arg(long, help_heading = OUTPUT)]
    #[arg(conflicts_with_all = ["program", "file", "diff", "output"])]
    pub live: bool,

    /// Which rows of the table come first [default: own]
    #[arg(long, value_name = "SHARE", value_enum, conflicts_with = "diff", help_heading = OUTPUT)]
    sort: Option<Share>,

    /// Who calls the functions of this name, and what they call
    #[arg(long, value_name = "NAME", conflicts_with_all = ["diff", "save", "live"], help_heading = OUTPUT)]
    pub function: Option<String>,

    /// At most N rows; 0 for all
    #[arg(long, value_name = "N", default_value_t = ROWS, help_heading = OUTPUT)]
    top: usize,

    /// How what was seen is written [default: table]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), help_heading = OUTPUT)]
    #[arg(conflicts_with = "json")]
    format: Option<Chosen<Format>>,

    /// The same as --format json
    #[arg(long, help_heading = OUTPUT)]
    json: bool,

    /// Write nothing but the whole profile, to this file, which only you can read, to be shown (lancet profile FILE) or compared later
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "output", "top", "by", "sort", "mode"], help_heading = OUTPUT)]
    pub save: Option<PathBuf>,

    /// Write to FILE, mode 0600, instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
}

/// A time of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Time {
    /// In which they ran, and in a few lines what they waited for
    #[value(alias = "on-cpu")]
    Cpu,
    /// In which they ran, and in which they waited for what they had begun
    Wall,
    /// In which they waited for that, alone
    #[value(alias = "off-cpu")]
    Wait,
}

/// What makes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Grouping {
    /// The function
    Function,
    /// The file; what a file calls of itself is one call
    File,
    /// The thread, by its name
    Thread,
    /// The class; the file of what is in none
    Class,
    /// The gem or package, the native library, the language, or `app`
    #[value(alias = "gem")]
    Package,
}

/// A share of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Share {
    /// In which it was innermost
    Own,
    /// In which it was anywhere on the stack
    Total,
}

impl ProfileArgs {
    /// Returns how long to look; `None` for as long as the program runs.
    pub fn length(&self) -> Option<Duration> {
        let length = self.program.is_empty() && !self.is_on_screen();
        self.look_for.or(length.then_some(LENGTH))
    }

    /// Returns whether what is seen is shown on the terminal meanwhile.
    pub fn is_on_screen(&self) -> bool {
        self.live && self.stream().is_terminal()
    }

    /// Returns the stream for the profile.
    pub fn stream(&self) -> Stream {
        Stream::beside(&self.program)
    }

    /// Returns what is chosen to show the profile.
    pub fn chosen(&self) -> Chosen<Format> {
        Chosen::or_default(self.format, FORMATS, self.json)
    }

    /// Returns how the profile is written.
    pub fn format(&self) -> &'static Format {
        self.chosen().format
    }

    /// Returns which samples are shown.
    pub fn mode(&self) -> Mode {
        match self.mode {
            None | Some(Time::Cpu) => Mode::Cpu,
            Some(Time::Wall) => Mode::Wall,
            Some(Time::Wait) => Mode::Wait,
        }
    }

    /// Returns what a row is.
    pub fn by(&self) -> By {
        match self.by {
            None | Some(Grouping::Function) => By::Function,
            Some(Grouping::File) => By::File,
            Some(Grouping::Class) => By::Class,
            Some(Grouping::Thread) => By::Thread,
            Some(Grouping::Package) => By::Package,
        }
    }

    /// Returns whether rows are in the order of their total shares.
    pub fn by_total(&self) -> bool {
        self.sort == Some(Share::Total)
    }

    /// Returns how many rows a table has at most.
    pub fn rows(&self) -> usize {
        match self.top {
            0 => usize::MAX,
            rows => rows,
        }
    }
}

const TARGET: &str = "What to look at";
const TIME: &str = "When to look";
const OUTPUT: &str = "How to write it";

const EXAMPLES: &str = "\
Examples:
  lancet profile -p 4242                                   the functions in which it runs, for ten seconds
  lancet profile -p 4242 --children --for 30s              a server and its workers
  lancet profile -p 4242 --mode wait                       what its threads wait for, and at which lines
  lancet profile -p 4242 --live                            a screen with the last seconds
  lancet profile -p 4242 --format tree                     who calls whom
  lancet profile -p 4242 --by package --sort total         which gems and packages
  lancet profile -p 4242 --format html -o profile.html     a page with a flame graph to go into
  lancet profile -- ./job                                  a program from its beginning to its end
  lancet profile -p 4242 --save before.profile             to be looked at later: lancet profile before.profile
  lancet profile --diff before.profile after.profile       what takes more of the time than before";
