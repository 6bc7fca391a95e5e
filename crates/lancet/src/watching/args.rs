//! The flags that `calls` and `syscalls` have in common: what is opened, whose lines are told, for how long, and where
//! it is written. Each command flattens them into its own, and begins its [`Options`] with [`Common::options`]. Used by
//! `commands::calls::args`, `commands::syscalls::args`, `commands::syscalls::started` and others.

use super::flags::{kept_of_strings, moment, most_wait, sought, wait};
use crate::cli::duration::parse;
use crate::exit::Usage;
use crate::ui::sink;
use crate::ui::terminal::Stream;
use calls::message::Messages;
use calls::options::{By, Options};
use calls::window::{Between, Moment};
use clap::{ArgAction, Args};
use process::guest;
use prototypes::capture::condition::MOST_LINES;
use prototypes::condition::Condition;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The flags that `calls` and `syscalls` have in common, as the user gave them. What clap cannot check about them together, `Common::flaw` does.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Open the running process PID, with all its threads; may be repeated
    #[arg(short = 'p', long = "pid", visible_alias = "attach", value_name = "PID", help_heading = TARGET)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub pids: Vec<i32>,

    /// Start PROGRAM with its ARGs and watch it from before its first instruction to its end; or show what was recorded
    /// in this file
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, help_heading = TARGET)]
    pub program: Vec<OsString>,

    /// Follow children that are made from now on, and the programs that they run
    #[arg(short = 'f', long = "follow-forks", action = ArgAction::Count, help_heading = TARGET)]
    pub follow: u8,

    /// The companion that has started this and waits: say `ready` on standard error when every process is open, and end
    /// with it
    #[arg(long, value_name = "PID", hide = true, requires = "pids")]
    pub companion: Option<i32>,

    /// Open the child processes of -p as well, those that are there and those that come (a preforking server's workers)
    #[arg(long, requires = "pids", help_heading = TARGET)]
    pub children: bool,

    /// Run PROGRAM as this user
    #[arg(short = 'u', long = "user", value_name = "USER", requires = "program", help_heading = TARGET)]
    pub user: Option<String>,

    /// Only calls from this line: the end of its path, a colon, its number (app.rb:12, models/user.rb:7); may be repeated
    #[arg(long, value_name = "FILE:LINE", value_parser = Condition::at, help_heading = WHICH)]
    pub at: Vec<Condition>,

    /// Only calls from this function of the script, by the name that is shown behind the line (methods of Ruby are shown without their
    /// class, functions of Python with it since 3.11), and system calls that this native function makes (with the native frames shown,
    /// any of them); may be repeated
    #[arg(long = "in", value_name = "FUNCTION", help_heading = WHICH)]
    pub within: Vec<String>,

    /// Tell the line of the nearest frame, also if that is a library's
    #[arg(long, help_heading = WHICH, display_order = LATER)]
    pub nearest: bool,

    /// The application's are the lines that hold TEXT, all others are libraries'; may be repeated. Without it paths tell
    /// (gems, site-packages, what a distribution installs)
    #[arg(long, value_name = "TEXT", value_parser = sought, conflicts_with = "nearest", help_heading = WHICH, display_order = LATER)]
    pub app: Vec<String>,

    /// Pass over lines that hold FILE (db.rb, DbiMysqli.php:209) when the application's line is looked for: what all calls go
    /// through; may be repeated
    #[arg(long, value_name = "FILE", value_parser = sought, conflicts_with = "nearest", help_heading = WHICH)]
    pub skip: Vec<String>,

    /// Watch for so long (500ms, 30s, 2m); without it until Ctrl-C or the end of the process
    #[arg(long = "for", value_name = "DURATION", value_parser = parse, help_heading = TIME)]
    pub watch_for: Option<Duration>,

    /// Longest time that a call waits when lancet cannot read as fast as the process calls; after that, records are
    /// dropped and counted. 0 = never wait [default: 100ms; 1s with --record, and for calls -c --preset alloc or files]
    #[arg(long, value_name = "DURATION", value_parser = wait, help_heading = TIME)]
    pub max_wait: Option<Duration>,

    /// Longest time that the process stands still at once while functions are hooked and let go; many are hooked in several
    /// stops, between which it runs. Each thread beyond 500 adds 20 µs
    #[arg(long, value_name = "DURATION", value_parser = parse, default_value = "10ms", help_heading = TIME)]
    pub max_stop: Duration,

    /// Of a recording: only what happened from then on: so long after its beginning (90s, 2m), or a time of day
    /// (14:10, 14:10:54.5)
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = TIME)]
    pub since: Option<Moment>,

    /// Of a recording: only what happened before then, in the words of --since
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = TIME)]
    pub until: Option<Moment>,

    /// Show how long each call took, in seconds
    #[arg(short = 'T', help_heading = SHOW, display_order = LATER)]
    pub durations: bool,

    /// Show the time of day; -tt with microseconds, -ttt in seconds since 1970
    #[arg(short = 't', action = ArgAction::Count, help_heading = SHOW, display_order = LATER)]
    pub times: u8,

    /// Show the time since the line before
    #[arg(short = 'r', conflicts_with = "times", help_heading = SHOW, display_order = LATER)]
    pub relative: bool,

    /// Write to FILE, readable by you alone (mode 0600), instead of a standard stream
    #[arg(short, long, value_name = "FILE", help_heading = SHOW, display_order = LATER)]
    pub output: Option<PathBuf>,

    /// Record the calls in FILE, readable by you alone (mode 0600), which the same command shows later; lines are printed
    /// only where -o says
    #[arg(long, value_name = "FILE", help_heading = SHOW, display_order = LATER)]
    pub record: Option<PathBuf>,
}

/// The headings under which help lists the flags of `calls` and `syscalls`.
pub const TARGET: &str = "What to open";
pub const WHICH: &str = "Which calls";
pub const TIME: &str = "When to look";
pub const SHOW: &str = "How to show them";

/// Behind the command's own flags of the same heading.
const LATER: usize = 100;

impl Common {
    /// The recording to be shown, if that is what PROGRAM names.
    pub fn recording(&self) -> Option<&Path> {
        match &self.program[..] {
            [file] if self.pids.is_empty() && recording::is_recording(Path::new(file)) => {
                Some(Path::new(file))
            }
            _ => None,
        }
    }

    /// Checks that what is shown has a place: what is no text is not for a terminal.
    pub fn require_room(&self, is_text: bool) -> Result<(), Usage> {
        let otherwise = Stream::beside(&self.program);
        sink::require_room(is_text, self.output.as_deref(), otherwise)
    }

    /// What cannot be asked together. `tests` is how many tests of lines the command's own flags make.
    pub fn flaw(&self, tests: usize) -> Option<String> {
        let tests = tests + self.app.len() + self.skip.len();
        if tests > MOST_LINES {
            return Some(format!(
                "--app, --skip, --at and all other tests of lines are {tests} together, and at most {MOST_LINES} can be told apart"
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
        (!self.app.is_empty() || !self.skip.is_empty()).then(|| {
            let file = file.display();
            format!(
                "--app and --skip are decided in the process: {file} has the lines that were told when it was recorded"
            )
        })
    }

    /// A call comes from one of the lines that were named.
    pub fn places(&self) -> Option<Condition> {
        self.at.iter().cloned().reduce(Condition::or)
    }

    /// The processes that are opened: those that were named, and their children, if these are asked for.
    pub fn processes(&self) -> Vec<i32> {
        guest::family(&self.pids, self.children)
    }

    /// What these flags ask of the library, with at most `strings` characters of a string shown. Nothing is chosen yet.
    pub fn options(&self, strings: u32, messages: Messages) -> Options {
        Options {
            pids: self.processes(),
            program: match self.recording() {
                Some(_) => Vec::new(),
                None => self.program.clone(),
            },
            user: self.user.clone(),
            follow: self.follow > 0 || self.children,
            x: Vec::new(),
            e: Vec::new(),
            l: Vec::new(),
            presets: Vec::new(),
            system_calls: false,
            only: false,
            at: self.at.clone(),
            condition: self.places(),
            within: self.within.clone(),
            from_exec: false,
            may_lead: false,
            may_lead_by_bpf: false,
            by: By::Hooks,
            leave_at_exec: false,
            exact: false,
            inject: Vec::new(),
            min_time: None,
            nearest: self.nearest,
            app: self.app.clone(),
            skip: self.skip.clone(),
            budget: 100,
            most_wait: most_wait(self.max_wait, self.record.is_some()),
            max_stop: self.max_stop,
            count: false,
            bare: false,
            results: false,
            record: self.record.is_some(),
            recording: None,
            window: Between {
                since: self.since,
                until: self.until,
            },
            strings,
            kept_of_strings: kept_of_strings(strings, self.record.is_some()),
            kept_of_messages: 0,
            environment: false,
            array: strings,
            frames: 0,
            ltrace: false,
            verbose: true,
            debug: None,
            messages,
        }
    }
}
