//! The flags of `lancet mem`, and what they amount to. Used by `commands`, `attached`, `run` and others.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use births::analysis::{By, Fold, LEAST_INTERVALS, LEAST_SECONDS, Order, View};
use clap::{ArgGroup, Args, ValueEnum};
use inject::Image;
use report::forms::Chosen;
use report::mem::{FORMATS, Format, Options, Reporter, Weight, stacks};

use crate::agent::AGENT;
use crate::cli::duration::{parse, parse_interval};
use crate::cli::format::one_of;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// How many rows a table has unless `--top` says otherwise.
const TABLE_ROWS: usize = 40;

/// The shortest interval by which births are told apart: there are enough of them when a leak can be named.
const SHORTEST_INTERVAL: Duration =
    Duration::from_millis((LEAST_SECONDS * 1e3) as u64 / LEAST_INTERVALS as u64);

/// How often `--live` looks.
const LIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Options of `lancet mem`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("target").required(true).args(["pids", "program"]),
    override_usage = "lancet mem [OPTIONS] -p PID...\n       lancet mem [OPTIONS] -- PROGRAM [ARG]...",
    after_help = EXAMPLES,
)]
pub struct MemArgs {
    /// Open the running process PID; may be repeated, the report is then merged and per process
    #[arg(short = 'p', long = "pid", value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// The companion that has started this and waits: say `ready` on standard error when every process is open, and end
    /// with it
    #[arg(long, value_name = "PID", hide = true, requires = "pids")]
    pub companion: Option<i32>,

    /// Open its child processes as well (a preforking server's workers), merged and per worker
    #[arg(long, help_heading = TARGET)]
    pub children: bool,

    /// Count the blocks of the process's allocator (malloc), of which no VM knows: any program, by the function that took
    /// them
    #[arg(long, help_heading = TARGET, conflicts_with_all = NOT_NATIVE)]
    pub native: bool,

    /// Start PROGRAM with its ARGs and watch it from its first line
    #[arg(last = true, value_name = "PROGRAM", help_heading = TARGET)]
    pub program: Vec<OsString>,

    /// Watch for so long (500ms, 30s, 2m); without it until Ctrl-C or the end of the process
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, help_heading = TIME)]
    pub watch_for: Option<Duration>,

    /// Report every DURATION what grew since the last report: the leak view
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, help_heading = TIME)]
    pub every: Option<Duration>,

    /// Collect garbage before each count; its pause is printed (the default)
    #[arg(long, overrides_with = "no_gc", help_heading = TIME)]
    gc: bool,

    /// Collect no garbage first: no long pause, but what is garbage already counts as living
    #[arg(long, overrides_with = "gc", help_heading = TIME)]
    no_gc: bool,

    /// Looks that can wait hold the process for at most so many percent of the time: those of --every and --live come later
    /// where they take long
    #[arg(long, value_name = "PERCENT", default_value = "5", help_heading = TIME)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    budget: u32,

    /// With --native: tell each block with the line of the script that ran when it was taken. Each malloc then costs 0.1 µs
    /// more, behind many frames of libraries several µs
    #[arg(long, help_heading = ROWS, requires = "native")]
    lines: bool,

    /// What makes a row [default: line, of forms of stacks the function that made the objects]
    #[arg(long, value_name = "WHAT", help_heading = ROWS)]
    by: Option<Grouping>,

    /// One row for each line of a library too, which otherwise are added up by gem
    #[arg(short, long, help_heading = ROWS)]
    all: bool,

    /// Files whose path has TEXT in it are the application's, all others are of libraries [default: by where gems and Ruby
    /// are installed]
    #[arg(long, value_name = "TEXT", conflicts_with = "all", help_heading = ROWS)]
    app: Option<String>,

    /// Keep the call path of each birth, at most DEPTH frames (1 to 512), and write them folded
    /// for flame graphs
    #[arg(long, value_name = "DEPTH", conflicts_with = "by", help_heading = ROWS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=512))]
    pub stacks: Option<u32>,

    /// What comes first: the steadiest growth, or the largest figure [default: growth; live for a program that is
    /// started without --every]
    #[arg(long, value_name = "FIGURE", help_heading = ROWS)]
    sort: Option<First>,

    /// What was made meanwhile and is gone, most first, with its share of all that was made there
    #[arg(long, help_heading = ROWS, conflicts_with_all = ["sort", "every", "live", "stacks"])]
    temporary: bool,

    /// Only rows of at least N living objects (with --every: that changed by N; with --temporary: of N that are gone)
    /// [default: 1 in a table, else 0]
    #[arg(long, value_name = "N", help_heading = ROWS)]
    min: Option<u64>,

    /// At most N rows, the rest in one line; 0 for all [default: 40 in a table, else all]
    #[arg(long, value_name = "N", help_heading = ROWS)]
    top: Option<usize>,

    /// Show the VM's own objects too (IMEMO and the like), which Ruby code never sees
    #[arg(long, help_heading = ROWS)]
    pub internal: bool,

    /// How to write it [default: table, with --stacks folded]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), help_heading = OUTPUT)]
    format: Option<Chosen<Format>>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format", help_heading = OUTPUT)]
    json: bool,

    /// Which figure is the weight of a stack
    #[arg(long, value_name = "FIGURE", default_value = "live", help_heading = OUTPUT)]
    weight: Figure,

    /// Write to FILE, readable by you alone (mode 0600), instead of standard output (standard
    /// error when a program is started)
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,

    /// A screen that is refreshed each second; where standard output is no terminal, as
    /// --every 1s
    #[arg(long, help_heading = OUTPUT)]
    #[arg(conflicts_with_all = ["every", "format", "json", "output", "stacks", "program"])]
    pub live: bool,

    /// Exit with 3 when a row holds more than N living objects (with --every: grew by more than N;
    /// with --temporary too the living count)
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    pub fail_on: Option<u64>,
}

/// What says nothing of blocks: they have no type, no gem, no collector, and looks hold nobody.
const NOT_NATIVE: [&str; 7] = ["stacks", "internal", "app", "all", "gc", "no_gc", "budget"];

const TARGET: &str = "What to open";
const TIME: &str = "When to look";
const ROWS: &str = "What to show";
const OUTPUT: &str = "How to write it";

const EXAMPLES: &str = "\
Examples:
  lancet mem -p 4242 --for 30s          which line leaks, and who holds what was made meanwhile
  lancet mem -p 4242 --every 10s        the same again and again, and what grew since
  lancet mem -p 4242 --children --live  a server and its workers, on a screen
  lancet mem -p 4242 --native --for 1m  which C function takes memory and does not give it back
  lancet mem --native -- ./convert       what it has not given back at its end
  lancet mem --stacks 32 -o mem.folded -- ruby app.rb

Exit status: the started program's own; with -p 0, 1 could not be done, 2 wrong usage,
3 a limit was exceeded (--fail-on), 4 done, but something was lost or refused.";

/// What makes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Grouping {
    /// file:line:Type
    Line,
    /// The method or block
    Method,
    /// The file
    File,
    /// The gem, `ruby stdlib`, `ruby core` or `app`
    Gem,
    /// The type
    Type,
}

/// What decides which rows come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum First {
    /// What keeps objects of every interval: a leak
    Growth,
    /// Living objects
    Live,
    /// Objects made while watched
    Born,
    /// Memory of the living ones
    Bytes,
    /// Memory of all that were made while watched
    Allocated,
}

/// One of the figures of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// Living objects
    Live,
    /// Objects made while watched
    Born,
    /// Memory of the living ones
    Bytes,
}

impl MemArgs {
    /// Returns whether to collect garbage before a count.
    pub fn gc(&self) -> bool {
        // `--gc` is the default and only there to take back a `--no-gc` before it.
        self.gc || !self.no_gc
    }

    /// Returns whether a verdict on leaks is given. A program that is started and reported on at its end has made what it
    /// needs all the time, and that is no leak.
    pub fn seeks_leaks(&self) -> bool {
        !self.native && !self.temporary && (self.program.is_empty() || self.every.is_some())
    }

    /// Returns how long the first intervals are by which births are told apart: there are to be enough of them at the
    /// first report.
    pub fn first_interval(&self) -> Duration {
        let first = [self.interval(), self.watch_for]
            .into_iter()
            .flatten()
            .min();
        let quarter = first.map_or(LIVE_INTERVAL, |first| first / LEAST_INTERVALS as u32);
        quarter.max(SHORTEST_INTERVAL)
    }

    /// Returns what the processes are opened for.
    pub fn options(&self) -> births::Options {
        births::Options {
            depth: self.stacks.unwrap_or(1),
            follow: self.children,
            interval: self.first_interval(),
            // Where garbage counts as living there is no verdict.
            looks: self.gc() && self.seeks_leaks(),
            budget: self.budget,
            door: false,
        }
    }

    /// Returns what processes are opened for whose blocks are counted.
    pub fn native(&self) -> anyhow::Result<births::native::Shared> {
        Ok(births::native::Shared {
            image: Image::parse(AGENT)?,
            lines: self.lines,
            follow: self.children,
        })
    }

    /// Returns the stream for the report.
    pub fn stream(&self) -> Stream {
        Stream::beside(&self.program)
    }

    /// Returns what is wrong with the flags together, if anything is.
    pub fn flaw(&self) -> Option<String> {
        if self.native {
            let by = match self.by {
                Some(Grouping::Line) if self.lines => None,
                Some(Grouping::Line) => Some("line"),
                Some(Grouping::Gem) => Some("gem"),
                Some(Grouping::Type) => Some("type"),
                Some(Grouping::Method | Grouping::File) | None => None,
            };
            if let Some(by) = by {
                return Some(format!(
                    "--by {by} says nothing of native blocks, which are known by function: leave it away, or take --by file, or --lines --by line"
                ));
            }
            if matches!(self.sort, Some(First::Growth)) {
                return Some(
                    "--sort growth needs intervals of births, which are not noted of native blocks: take another --sort".into(),
                );
            }
        }
        let name = self.chosen().name();
        if self.temporary && (self.chosen().has_stacks() || name == "memprof") {
            return Some(format!(
                "--format {name} tells the living, and --temporary what is gone: take --format table, json, csv or another with rows"
            ));
        }
        if self.chosen().repeats() {
            return None;
        }
        self.every.map(|_| {
            format!("--format {name} is one profile, and --every makes many: leave --every away, or take --for")
        })
    }

    /// Returns what is chosen to show the answer.
    pub fn chosen(&self) -> Chosen<Format> {
        match (self.format, self.stacks) {
            (Some(chosen), _) => chosen,
            (None, Some(_)) if !self.json => Chosen::entry(&stacks::FORMAT),
            (None, _) => Chosen::by_default(FORMATS, self.json),
        }
    }

    /// Returns the format of the answer.
    pub fn format(&self) -> &'static Format {
        self.chosen().format
    }

    /// Returns the time between two looks, or `None` for one look at the end.
    pub fn interval(&self) -> Option<Duration> {
        self.every.or(self.live.then_some(LIVE_INTERVAL))
    }

    /// Returns which rows are shown. What is for people is cut to what a person reads.
    pub fn view(&self) -> View {
        let for_people = self.format().for_people;
        View {
            by: match (self.stacks, self.by) {
                (Some(_), _) => By::Stack,
                (None, None) if self.chosen().has_stacks() => By::Stack,
                (None, None) if self.native => By::Method,
                (None, None | Some(Grouping::Line)) => By::Line,
                (None, Some(Grouping::Method)) => By::Method,
                (None, Some(Grouping::File)) => By::File,
                (None, Some(Grouping::Gem)) => By::Gem,
                (None, Some(Grouping::Type)) => By::Type,
            },
            fold: if for_people && !self.all && !self.native {
                Fold::Libraries {
                    app: self.app.clone().unwrap_or_default(),
                }
            } else {
                Fold::Nothing
            },
            internal: self.internal,
            order: match self.sort {
                _ if self.temporary => Order::Dead,
                Some(First::Growth) => Order::Growth,
                Some(First::Live) => Order::Live,
                Some(First::Born) => Order::Born,
                Some(First::Bytes) => Order::Bytes,
                Some(First::Allocated) => Order::Allocated,
                None if self.seeks_leaks() => Order::Growth,
                None => Order::Live,
            },
            min: self.min.unwrap_or(if for_people { 1 } else { 0 }),
            top: match self.top {
                Some(0) => None,
                Some(top) => Some(top),
                None => for_people.then_some(TABLE_ROWS),
            },
        }
    }

    /// Returns the reporter of one run, which writes to `sink`.
    pub fn reporter(&self, sink: Sink) -> Reporter {
        let options = Options {
            format: self.format(),
            stacks: self.chosen().stacks(),
            view: self.view(),
            weight: self.weight(),
            style: sink.style,
            limit: self.fail_on,
            growing: self.interval().is_some(),
        };
        Reporter::new(sink.out, options)
    }

    /// Returns which figure stands at the end of a folded line.
    fn weight(&self) -> Weight {
        match self.weight {
            Figure::Live => Weight::Live,
            Figure::Born => Weight::Born,
            Figure::Bytes => Weight::Bytes,
        }
    }
}

#[cfg(test)]
mod tests;
