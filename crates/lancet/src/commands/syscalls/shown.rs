//! strace's letters for what is shown of each call beside its text: names of descriptors and processes, a table behind the
//! lines, files for threads. Used by `expressions` and `args`.

use super::expressions::{Expression, word};
use crate::cli::format::one_of;
use clap::{ArgAction, Args};
use report::Writes;
use report::forms::Chosen;
use report::syscalls::{Clock, FORMATS, NamingKinds, Stamp};
use syscalls::{Constants, Hex};

/// The flags of `syscalls` for what is shown of each call beside its text.
#[derive(Args, Clone, Debug)]
pub struct Shown {
    /// Show what descriptors are: paths; -yy: also protocols and addresses of sockets, numbers of devices, processes
    #[arg(short = 'y', action = ArgAction::Count, help_heading = SHOW)]
    pub descriptors: u8,

    /// Show what descriptors are: path, socket, dev, pidfd, all, none
    #[arg(long, value_name = "SET", value_parser = descriptor_kinds, require_equals = true, num_args = 0..=1, default_missing_value = "path", help_heading = SHOW)]
    pub decode_fds: Option<NamingKinds>,

    /// Show what processes are called (--decode-pids=comm)
    #[arg(short = 'Y', help_heading = SHOW)]
    pub comms: bool,

    /// Show what processes are called (comm), and which ids those of other PID namespaces have in lancet's (pidns); all, none
    #[arg(long, value_name = "SET", value_parser = process_kinds, require_equals = true, num_args = 0..=1, default_missing_value = "comm", help_heading = SHOW)]
    pub decode_pids: Option<ProcessKinds>,

    /// --decode-pids=pidns
    #[arg(long, hide = true)]
    pub pidns_translation: bool,

    /// Only calls that are handed PATH, or a descriptor of it; may be repeated
    #[arg(
        short = 'P',
        long = "trace-path",
        value_name = "PATH",
        help_heading = "Which calls"
    )]
    pub paths: Vec<String>,

    /// Show calls, and behind them the table of -c
    #[arg(short = 'C', long = "summary", conflicts_with = "count", help_heading = SHOW)]
    pub table: bool,

    /// With -o FILE: each thread in a file of its own, FILE.TID; -ff is -f and this
    #[arg(long = "output-separately", requires = "output", help_heading = SHOW)]
    pub separately: bool,

    /// How to write it [default: lines]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FORMATS), conflicts_with_all = ["json", "strace"], help_heading = SHOW)]
    pub format: Option<Chosen<Writes>>,

    /// The same as --format json
    #[arg(long, conflicts_with = "strace", help_heading = SHOW)]
    pub json: bool,

    /// Lines in colours: auto (on a terminal, unless NO_COLOR is set), always, never. STRACE_COLORS may name others, as with strace 7
    #[arg(long, value_name = "WHEN", value_parser = colours, default_value = "auto", help_heading = SHOW)]
    pub color: Colours,

    /// Show numbers that have names as raw numbers, as names (abbrev), or both (verbose)
    #[arg(short = 'X', long = "const-print-style", value_name = "FORM", value_parser = constants, help_heading = SHOW)]
    pub constants: Option<Constants>,

    /// Show the number of each call
    #[arg(short = 'n', long = "syscall-number", help_heading = SHOW)]
    pub numbers: bool,

    /// Show the names of arguments: openat(dirfd=AT_FDCWD, pathname="/etc/hosts", ...)
    #[arg(short = 'N', long = "arg-names", help_heading = SHOW)]
    pub argument_names: bool,

    /// Show the address at which the thread stands before each call: behind the instruction that makes it
    #[arg(short = 'i', long = "instruction-pointer", help_heading = SHOW)]
    pub instructions: bool,

    /// Show strings in hexadecimal: all, non-ascii (those that are no ASCII text), non-ascii-chars, none
    #[arg(long, value_name = "WHICH", value_parser = in_hex, require_equals = true, num_args = 0..=1, default_missing_value = "all", help_heading = SHOW)]
    pub strings_in_hex: Option<Hex>,

    /// Show times: time, unix, none, and s, ms, us or ns (time,us is -tt)
    #[arg(long = "absolute-timestamps", visible_alias = "timestamps", value_name = "FORM", value_parser = stamp, require_equals = true, num_args = 0..=1, default_missing_value = "time", action = ArgAction::Append, help_heading = SHOW)]
    pub stamps: Vec<StampWords>,

    /// Show the time since the line before: s, ms, us, ns
    #[arg(long = "relative-timestamps", value_name = "UNIT", value_parser = digits, require_equals = true, num_args = 0..=1, default_missing_value = "us", help_heading = SHOW)]
    pub since_last: Option<usize>,

    /// Show how long each call took: s, ms, us, ns
    #[arg(long = "syscall-times", value_name = "UNIT", value_parser = digits, require_equals = true, num_args = 0..=1, default_missing_value = "us", help_heading = SHOW)]
    pub took: Option<usize>,

    /// -e trace=SET
    #[arg(long, value_name = "SET", value_parser = word("trace"), hide = true)]
    pub trace: Vec<Expression>,

    /// -e status=SET
    #[arg(long, value_name = "SET", value_parser = word("status"), hide = true)]
    pub status: Vec<Expression>,

    /// -e signal=SET
    #[arg(long, value_name = "SET", value_parser = word("signal"), hide = true)]
    pub signal: Vec<Expression>,

    /// -e raw=SET
    #[arg(long, value_name = "SET", value_parser = word("raw"), hide = true)]
    pub raw: Vec<Expression>,

    /// -e abbrev=SET
    #[arg(long, value_name = "SET", value_parser = word("abbrev"), hide = true)]
    pub abbrev: Vec<Expression>,

    /// -e verbose=SET
    #[arg(long = "verbose", value_name = "SET", value_parser = word("verbose"), hide = true)]
    pub structs: Vec<Expression>,

    /// -e read=SET
    #[arg(long, value_name = "SET", value_parser = word("read"), hide = true)]
    pub read: Vec<Expression>,

    /// -e namespace=new
    #[arg(long, value_name = "WHICH", value_parser = word("namespace"), require_equals = true, num_args = 0..=1, default_missing_value = "new", hide = true)]
    pub namespace: Vec<Expression>,

    /// -e fault=SET
    #[arg(long, value_name = "SET", value_parser = word("fault"), hide = true)]
    pub fault: Vec<Expression>,

    /// -e write=SET
    #[arg(long, value_name = "SET", value_parser = word("write"), hide = true)]
    pub write: Vec<Expression>,

    /// -e quiet=SET
    #[arg(long = "quiet", visible_aliases = ["silent", "silence"], value_name = "SET", value_parser = word("quiet"), require_equals = true, num_args = 0..=1, default_missing_value = "attach,personality", hide = true)]
    pub hidden: Vec<Expression>,
}

const SHOW: &str = "How to show them";

impl Shown {
    /// What the long forms of `-e` say.
    pub fn expressions(&self) -> impl DoubleEndedIterator<Item = &Expression> {
        let all = [
            &self.trace,
            &self.status,
            &self.signal,
            &self.raw,
            &self.abbrev,
            &self.structs,
            &self.read,
            &self.write,
            &self.fault,
            &self.hidden,
            &self.namespace,
        ];
        all.into_iter().flatten()
    }

    /// Which time stands before a line; `letters` is how often `-t` was given.
    pub fn time(&self, letters: u8) -> Option<Stamp> {
        let by_letters = match letters {
            0 => None,
            1 => Some(Stamp::new(Clock::OfDay, 0)),
            2 => Some(Stamp::new(Clock::OfDay, 6)),
            _ => Some(Stamp::new(Clock::Unix, 6)),
        };
        let stamps = self.stamps.iter();
        stamps.fold(by_letters, |stamp, words| words.over(stamp))
    }

    /// Digits of the time since the line before; `letter` is `-r`.
    pub fn relative(&self, letter: bool) -> Option<usize> {
        self.since_last.or(letter.then_some(6))
    }

    /// Digits of the time that a call took; `letter` is `-T`.
    pub fn durations(&self, letter: bool) -> Option<usize> {
        self.took.or(letter.then_some(6))
    }

    /// What descriptors and processes are called; `fds` and `pids` are what `-e` says of them, `whose` is the word for our
    /// PID namespace.
    pub fn naming(
        &self,
        fds: Option<NamingKinds>,
        pids: Option<ProcessKinds>,
        whose: &'static str,
    ) -> NamingKinds {
        let pids = self.decode_pids.or(pids).unwrap_or_default();
        let words = self.decode_fds.or(fds).unwrap_or_default();
        let asked = match self.descriptors {
            0 => words,
            1 => NamingKinds {
                paths: true,
                ..words
            },
            _ => ALL,
        };
        NamingKinds {
            comms: self.comms || pids.comms,
            namespaces: (pids.namespaces || self.pidns_translation).then_some(whose),
            ..asked
        }
    }
}

/// When lines have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    /// On a terminal that shows them.
    #[default]
    Auto,
    /// Also in a file or a pipe.
    Always,
    /// Nowhere.
    Never,
}

/// What stands behind `--color=`.
fn colours(when: &str) -> Result<Colours, String> {
    match when {
        "auto" => Ok(Colours::Auto),
        "always" => Ok(Colours::Always),
        "never" => Ok(Colours::Never),
        other => Err(format!("there is no {other}: auto, always, never")),
    }
}

/// All that descriptors are.
const ALL: NamingKinds = NamingKinds {
    paths: true,
    sockets: true,
    devices: true,
    processes: true,
    comms: false,
    namespaces: None,
    entered: false,
};

/// What one `--absolute-timestamps=` says: which clock, how many digits; `None` = as before.
#[derive(Clone, Copy, Debug, Default)]
pub struct StampWords {
    clock: Option<Option<Clock>>,
    digits: Option<usize>,
}

impl StampWords {
    /// What it makes of what was said before.
    fn over(self, before: Option<Stamp>) -> Option<Stamp> {
        let clock = match self.clock {
            Some(clock) => clock?,
            None => before.map_or(Clock::OfDay, |stamp| stamp.clock),
        };
        let digits = before.map_or(0, |stamp| stamp.digits);
        Some(Stamp::new(clock, self.digits.unwrap_or(digits)))
    }
}

fn stamp(text: &str) -> Result<StampWords, String> {
    let mut words = StampWords::default();
    for word in text.split(',') {
        let word = word.strip_prefix("format:").unwrap_or(word);
        let word = word.strip_prefix("precision:").unwrap_or(word);
        match word {
            "time" => words.clock = Some(Some(Clock::OfDay)),
            "unix" => words.clock = Some(Some(Clock::Unix)),
            "none" => words.clock = Some(None),
            unit => {
                words.digits = Some(digits(unit).map_err(|_| {
                    format!("there is no time {unit}: time, unix, none, s, ms, us, ns")
                })?)
            }
        }
    }
    Ok(words)
}

/// Digits behind the point of a number of seconds that is as exact as this unit.
fn digits(unit: &str) -> Result<usize, String> {
    match unit {
        "s" => Ok(0),
        "ms" => Ok(3),
        "us" => Ok(6),
        "ns" => Ok(9),
        other => Err(format!("there is no unit {other}: s, ms, us, ns")),
    }
}

fn constants(form: &str) -> Result<Constants, String> {
    match form {
        "raw" => Ok(Constants::Numbers),
        "abbrev" => Ok(Constants::Names),
        "verbose" => Ok(Constants::Both),
        other => Err(format!(
            "numbers are not shown as {other}: raw, abbrev, verbose"
        )),
    }
}

fn in_hex(which: &str) -> Result<Hex, String> {
    match which {
        "all" => Ok(Hex::Always),
        "non-ascii" => Ok(Hex::NotText),
        "non-ascii-chars" => Ok(Hex::Characters),
        "none" => Ok(Hex::Never),
        other => Err(format!(
            "there are no strings {other}: all, non-ascii, non-ascii-chars, none"
        )),
    }
}

/// What descriptors are shown as.
pub fn descriptor_kinds(set: &str) -> Result<NamingKinds, String> {
    let mut kinds = NamingKinds::default();
    for word in set.split(',') {
        match word {
            "all" => kinds = ALL,
            "none" => {}
            "path" => kinds.paths = true,
            "socket" => kinds.sockets = true,
            "dev" => kinds.devices = true,
            "pidfd" => kinds.processes = true,
            other => {
                return Err(format!(
                    "descriptors are not shown as {other}: path, socket, dev, pidfd, all, none"
                ));
            }
        }
    }
    Ok(kinds)
}

/// What is shown of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessKinds {
    /// What they are called.
    comms: bool,
    /// Which ids they have in our PID namespace.
    namespaces: bool,
}

/// What processes are shown as.
pub fn process_kinds(set: &str) -> Result<ProcessKinds, String> {
    let mut kinds = ProcessKinds::default();
    for word in set.split(',') {
        match word {
            "comm" => kinds.comms = true,
            "pidns" => kinds.namespaces = true,
            "none" => kinds = ProcessKinds::default(),
            "all" => {
                kinds = ProcessKinds {
                    comms: true,
                    namespaces: true,
                }
            }
            other => {
                return Err(format!(
                    "processes are not shown as {other}: comm, pidns, all, none"
                ));
            }
        }
    }
    Ok(kinds)
}
