//! The flags of `lancet heap`, and what they amount to. Used by `run`, `commands` and `ledger`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use report::Style;
use report::forms::Chosen;
use report::heap::{FORMATS, Format, Options};

use super::when::{self, When};
use crate::cli::duration::parse;
use crate::cli::format::one_of;
use crate::cli::size;

/// Options of `lancet heap`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct HeapArgs {
    /// A heap snapshot that lancet has written; or the core file of a Ruby, Python, Perl or PHP (docs/heap-how.md#core-files)
    #[arg(value_name = "FILE", required_unless_present_any = ["pid", "diff"], help_heading = WHAT)]
    pub file: Option<PathBuf>,

    /// The running process: a Ruby, Python, Perl or PHP, which goes on while a copy of it is read (docs/heap-how.md)
    #[arg(short = 'p', long = "pid", value_name = "PID", conflicts_with = "file", help_heading = WHAT)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,

    /// Of a core file: read the program from this file, because it is not at the path that it had
    #[arg(long = "exe", value_name = "PROGRAM", requires = "file", help_heading = WHAT)]
    pub executable: Option<PathBuf>,

    /// Only write the snapshot of a process or core file to this file, which only you can read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "diff"], help_heading = WHAT)]
    pub save: Option<PathBuf>,

    /// Note the lines of the objects that the process makes in this time before the snapshot, as lancet mem does: 30s, 5m
    #[arg(long, value_name = "DURATION", value_parser = parse, requires = "pid", help_heading = WHAT)]
    pub births: Option<Duration>,

    /// Copy the process although its memory limit leaves less than it has in memory: if it writes to much of that
    /// meanwhile, the kernel ends the copy, and now and then the process
    #[arg(long, requires = "pid", help_heading = WHAT)]
    pub despite_limit: bool,

    /// Do not begin where the objects will take more than SIZE of lancet's memory, as far as that is known before: 200M, 1.5G. The process
    /// is not stopped then (exit status 3); of more objects or references than were expected, those beyond SIZE are left out
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "pid", conflicts_with = "rss", help_heading = WHAT)]
    pub max_memory: Option<u64>,

    /// What its resident memory is used for: every byte in one row (docs/heap-rss.md). The process is only read, of any
    /// language, and does not stand still; of a FILE what it was used for then
    #[arg(long, conflicts_with_all = ["path", "save", "contents", "births"], help_heading = WHAT)]
    pub rss: bool,

    /// With --rss: also what GC.compact would give back, measured in a copy of the process (Ruby) that is ended afterwards. The copy
    /// may need as much memory again as the process has
    #[arg(long, requires_all = ["rss", "pid"], help_heading = WHAT)]
    pub compact: bool,

    /// With --rss: also what jemalloc or tcmalloc has in use and free, where one has taken malloc's place: asked in a copy of the process
    /// (Ruby, Python, Perl, PHP) that is ended afterwards
    #[arg(long, requires_all = ["rss", "pid"], help_heading = WHAT)]
    pub ask_malloc: bool,

    /// Wait until it has so much in memory (rss>2G), or grows so fast (rss+100M/min), and do it then
    #[arg(long, value_name = "CONDITION", value_parser = when::parse, requires = "pid", help_heading = WHAT)]
    pub when: Option<When>,

    /// With --when: wait at most so long: 30s, 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, requires = "when", help_heading = WHAT)]
    pub wait_for: Option<Duration>,

    /// What is new in the snapshot LATER since the snapshot EARLIER of the same process, and who holds it
    #[arg(long, value_names = ["EARLIER", "LATER"], num_args = 2, help_heading = WHAT)]
    #[arg(conflicts_with_all = ["file", "pid", "path"])]
    pub diff: Option<Vec<PathBuf>>,

    /// How is it held: the object at an address (0x7f…), or all objects of a class, by the ways in which they are
    #[arg(long, value_name = "CLASS|ADDRESS", help_heading = WHAT)]
    pub path: Option<String>,

    /// Walk through it on the screen: suspects, types, the tree of dominators, each object with its references; with -p, n makes a
    /// new snapshot and shows what is new
    #[arg(long, conflicts_with_all = ["path", "save", "rss", "diff", "format", "json", "top", "output"], help_heading = WHAT)]
    pub live: bool,

    /// At most N rows of each list; 0 for all [default: 10; with --format json, csv or markdown 1000]
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    top: Option<usize>,

    /// How to write it [default: table]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), help_heading = OUTPUT)]
    format: Option<Chosen<Format>>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format", help_heading = OUTPUT)]
    json: bool,

    /// Show the beginning of texts; with -p they are kept in the snapshot, of which FILE shows what is kept
    #[arg(long, help_heading = OUTPUT)]
    pub contents: bool,

    /// Write to this file, which only you can read
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
}

/// How long a core file may be read: nobody waits for it but whoever asked.
const PATIENCE: Duration = Duration::from_secs(1800);

const WHAT: &str = "What to look at";
const OUTPUT: &str = "Output";

const EXAMPLES: &str = "\
Examples:
  lancet heap -p 8429                     who keeps most alive in a running process
  lancet heap -p 8429 --save shop.heap    a snapshot, to be looked at later
  lancet heap -p 8429 --births 30s        with the lines of what is made meanwhile
  lancet heap -p 8429 --rss               what its resident memory is used for
  lancet heap -p 8429 --when 'rss>2G' --save shop.heap
                                          a snapshot before the kernel ends it
  lancet heap core.8429                   the same of a process that has died
  lancet heap shop.heap                   who keeps most alive, by whom, made where
  lancet heap shop.heap --live            walk through it on the screen
  lancet heap shop.heap --path Order      how the orders are held
  lancet heap shop.heap --path 0x7f12a8   how this object is held
  lancet heap --diff morning.heap noon.heap
                                          what is new and who holds it
  lancet heap shop.heap --format heapsnapshot -o shop.heapsnapshot
                                          for Chrome: DevTools, Memory, Load profile
  lancet heap shop.heap --json            the same for programs (docs/json.md)

Exit status: 0, 1 could not be done, 2 wrong usage, 3 it takes more than --max-memory,
4 done, but something is missing from the snapshot.";

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Everything that the format writes.
    All,
    /// How the object at this address is held.
    Object(u64),
    /// How the objects of this class are held.
    Class(&'a str),
}

impl HeapArgs {
    /// Returns what is chosen to show the answer.
    pub fn chosen(&self) -> Chosen<Format> {
        Chosen::or_default(self.format, FORMATS, self.json)
    }

    /// Returns the format of the answer.
    pub fn format(&self) -> &'static Format {
        self.chosen().format
    }

    /// Returns how the answer is to be written, where a table may look so.
    pub fn options(&self, style: Style) -> Options {
        Options {
            top: match self.top {
                None => self.format().rows,
                Some(0) => usize::MAX,
                Some(rows) => rows,
            },
            contents: self.contents,
            style,
            stacks: self.chosen().stacks(),
        }
    }

    /// Returns how a ledger is to be written.
    pub fn ledger_options(&self, style: Style) -> report::rss::Options {
        let Options { top, style, .. } = self.options(style);
        let json = self.format().writes.is_records();
        report::rss::Options { top, json, style }
    }

    /// Returns what is wanted of a snapshot of a process.
    pub fn wanted(&self) -> dump::Options {
        dump::Options {
            contents: self.contents,
            births: self.births.map(|_| &births::COUNTING),
            despite_limit: self.despite_limit,
            most_memory: self.max_memory,
            starved: super::live::say_starved,
            expected: super::live::say_expected,
            ..dump::Options::default()
        }
    }

    /// Whether a copy of the process is made.
    pub fn copies(&self) -> bool {
        !self.rss || self.compact || self.ask_malloc
    }

    /// Returns what is wanted of a core file.
    pub fn wanted_of_core(&self) -> dump::core::Options<'_> {
        dump::core::Options {
            executable: self.executable.as_deref(),
            contents: self.contents,
            patience: PATIENCE,
        }
    }

    /// Returns what is asked about.
    pub fn question(&self) -> Question<'_> {
        let Some(path) = self.path.as_deref() else {
            return Question::All;
        };
        let digits = path.strip_prefix("0x");
        match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(address) => Question::Object(address),
            None => Question::Class(path),
        }
    }
}
