//! The flags of `lancet tune`, and what they amount to. Used by `commands`, `change`, `events` and others.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use report::Writes;
use report::forms::Chosen;
use report::tune::FORMATS;
use tune::machine::Options;
use tune::verdict::{Goal, Verdict};

use crate::cli::duration::parse;
use crate::cli::format::one_of;
use crate::ui::interrupt;

/// How long counters are watched unless `--sample` says otherwise.
const SAMPLE: Duration = Duration::from_secs(1);

/// Options of `lancet tune`.
#[derive(Args, Clone, Debug)]
#[command(
    group = ArgGroup::new("instead").args(["explain", "watch", "apply", "undo", "events"]),
    override_usage = "lancet tune [OPTIONS] [-p PID]\n       lancet tune [OPTIONS] --apply ID...\n       \
                      lancet tune --undo [FILE]\n       lancet tune --events [-p PID]...",
    after_help = EXAMPLES,
)]
pub struct TuneArgs {
    /// Look at the machine as this process finds it: its network namespace, its sockets, limits and memory
    #[arg(short = 'p', long = "pid", value_name = "PID", help_heading = WHAT)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// What the machine is for, where the right value depends on it
    #[arg(long, value_name = "GOAL", help_heading = WHAT)]
    goal: Option<GoalName>,

    /// Read /proc, /sys, /etc and /boot below DIR, a copy of a machine, in place of this one's
    #[arg(long, value_name = "DIR", help_heading = WHAT)]
    pub root: Option<PathBuf>,

    /// How long to watch the counters that are judged by their growth [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse, help_heading = WHAT)]
    sample: Option<Duration>,

    /// Look at the counters only once: growth is then not judged
    #[arg(long, conflicts_with = "sample", help_heading = WHAT)]
    no_sample: bool,

    /// Say everything about one check: what it reads, why, who says so, the change, the undo
    #[arg(long, value_name = "ID", help_heading = INSTEAD)]
    pub explain: Option<String>,

    /// Go on looking, and say what changes, until Ctrl-C
    #[arg(long, help_heading = INSTEAD)]
    pub watch: bool,

    /// Make the changes these checks propose, or set a sysctl (KEY=VALUE); each is journalled first
    #[arg(long, value_name = "ID", num_args = 1.., help_heading = INSTEAD)]
    pub apply: Vec<String>,

    /// Take back what a journal says; without FILE the last one that still stands
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "last")]
    #[arg(help_heading = INSTEAD)]
    pub undo: Option<PathBuf>,

    /// Tell of every process that is made, becomes another program, or ends, until Ctrl-C
    #[arg(long, help_heading = INSTEAD)]
    pub events: bool,

    /// With --apply: only say what would be written
    #[arg(long, requires = "apply", help_heading = HOW)]
    pub dry_run: bool,

    /// Change also what another program owns; take back also what somebody else changed since
    #[arg(long, help_heading = HOW)]
    pub force: bool,

    /// Where journals are kept [default: /var/lib/lancet/tune, or below ~/.local/state]
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub journals: Option<PathBuf>,

    /// With --events or --watch: end after so long
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, help_heading = HOW)]
    pub watch_for: Option<Duration>,

    /// Show the evidence and the exact change under each line
    #[arg(short, long, help_heading = HOW)]
    pub verbose: bool,

    /// How to write an audit, or events [default: table]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), conflicts_with_all = ["json", "apply", "undo"], help_heading = HOW)]
    format: Option<Chosen<Writes>>,

    /// The same as --format json
    #[arg(long, conflicts_with_all = ["apply", "undo"], help_heading = HOW)]
    json: bool,

    /// Exit with 3 when a check is as bad as this, or worse
    #[arg(long, value_name = "VERDICT", num_args = 0..=1, default_missing_value = "bad")]
    #[arg(help_heading = HOW)]
    fail_on: Option<Threshold>,
}

const WHAT: &str = "What to look at";
const INSTEAD: &str = "What to do instead of one audit";
const HOW: &str = "How to do it";

const EXAMPLES: &str = "\
Examples:
  lancet tune                           this machine, the worst first
  lancet tune -p 4242 -v                for this server, with the evidence
  lancet tune --explain T21             why, who says so, the change and the undo
  lancet tune --apply T21 T26 --dry-run what would be written
  lancet tune --undo                    as it was before the last --apply
  lancet tune --events -p 4242          a worker that dies is seen at once, with its signal

Exit status: 0, 1 could not be done, 2 wrong usage, 3 a check was as bad as --fail-on,
4 done, but something was lost or refused.";

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GoalName {
    /// Each answer as soon as possible
    Latency,
    /// As many answers a second as possible
    Throughput,
}

/// From which verdict on to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Threshold {
    /// Only what does damage
    Harmful,
    /// What costs, or worse
    Bad,
    /// What is worth a thought, or worse
    Consider,
}

impl TuneArgs {
    /// Returns what to look at. Only checks that judge counters need time, so the caller says whether there are any.
    pub fn options(&self, counts: bool, try_events: bool) -> Options {
        let sample = self.sample.unwrap_or(SAMPLE);
        Options {
            root: self.root.clone(),
            pid: self.pids.first().copied(),
            goal: self.goal.map(|goal| match goal {
                GoalName::Latency => Goal::Latency,
                GoalName::Throughput => Goal::Throughput,
            }),
            sample: (counts && !self.no_sample).then_some(sample),
            try_events,
            stop: self.watch.then_some(interrupt::asked),
        }
    }

    /// Returns what is chosen to show the answer.
    pub fn chosen(&self) -> Chosen<Writes> {
        Chosen::or_default(self.format, FORMATS, self.json)
    }

    /// Returns whether it is shown by its records.
    pub fn has_records(&self) -> bool {
        self.chosen().records().is_some()
    }

    /// Returns the beginning of a command line that looks at the same.
    pub fn again(&self) -> String {
        let goal = self.goal.and_then(|goal| goal.to_possible_value());
        let goal = goal.map(|goal| format!(" --goal {}", goal.get_name()));
        self.same_machine() + &goal.unwrap_or_default()
    }

    /// Returns the beginning of a command line about the same machine, network and journals.
    pub fn same_machine(&self) -> String {
        let root = self
            .root
            .as_ref()
            .map(|root| format!(" --root {}", root.display()));
        let pid = self.pids.first().map(|pid| format!(" -p {pid}"));
        let journals = self.journals.as_ref();
        let journals = journals.map(|journals| format!(" --journals {}", journals.display()));
        let given = [root, pid, journals].into_iter().flatten();
        given.fold("lancet tune".into(), |line: String, flag| line + &flag)
    }

    /// Returns the mildest verdict that makes the exit code 3.
    pub fn fail_on(&self) -> Option<Verdict> {
        self.fail_on.map(|threshold| match threshold {
            Threshold::Harmful => Verdict::Harmful,
            Threshold::Bad => Verdict::Bad,
            Threshold::Consider => Verdict::Consider,
        })
    }
}
