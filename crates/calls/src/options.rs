//! What the user wants to know of calls: the same answers whatever asked the questions.

use crate::debug::Debug;
use crate::message::Messages;
use crate::preset::Preset;
use crate::recorder::Recording;
use crate::tamper::Inject;
use crate::window::Between;
use prototypes::{Condition, Filter};
use std::ffi::OsString;
use std::time::Duration;

/// How system calls are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By hooks; a process that cannot be hooked is seen as with [`By::Nothing`], where [`Options::from_exec`] is asked for.
    #[default]
    Hooks,
    /// By what changes nothing in a process: BPF where it is allowed and calls are only counted, else ptrace.
    Nothing,
    /// By BPF programs at the kernel's tracepoints, and in no other way.
    Bpf,
    /// By ptrace, and in no other way.
    Ptrace,
}

/// What one run wants to know: a command makes it of its flags, and guests, recordings and formats read it. Filters have the meaning that ltrace
/// gives to the option of the same letter.
#[derive(Clone)]
pub struct Options {
    /// Running processes to open.
    pub pids: Vec<i32>,
    /// A program to start with its arguments; empty = none.
    pub program: Vec<OsString>,
    /// The user who runs that program; `None` = whoever runs us.
    pub user: Option<String>,
    /// Children that are made from now on are opened, and the programs that guests execute.
    pub follow: bool,
    /// Functions to hook at their entry, wherever they are called from.
    pub x: Vec<Filter>,
    /// Functions whose calls from a module are wanted.
    pub e: Vec<Filter>,
    /// Functions of a library that are wanted when they are called from outside it.
    pub l: Vec<Filter>,
    /// Presets, each of which has functions of its own to hook.
    pub presets: Vec<Preset>,
    /// System calls are wanted.
    pub system_calls: bool,
    /// Those of a program that is started or that a guest runs are told from its exec on, although it can be hooked only when
    /// its libraries are there: its tracer sees them until then.
    pub from_exec: bool,
    /// How system calls are seen.
    pub by: By,
    /// A process that is seen by its tracer is left as soon as it runs another program.
    pub leave_at_exec: bool,
    /// A process is refused if some of what is asked for would not be seen of it.
    pub exact: bool,
    /// What is injected into system calls.
    pub inject: Vec<Inject>,
    /// Nothing is wanted but what the filters name; without this and without a filter, calls from the program itself are.
    pub only: bool,
    /// Lines of which one must have made a call (`--at`), each for itself; `condition` asks for any of them.
    pub at: Vec<Condition>,
    /// What a call must meet to be reported.
    pub condition: Option<Condition>,
    /// Only calls that come from a function of one of these names, of the script or native; empty = from all.
    pub within: Vec<String>,
    /// How long a call must take to be reported.
    pub min_time: Option<Duration>,
    /// The script line of a call is that of the nearest frame, also if a library's code runs there.
    pub nearest: bool,
    /// A line belongs to the application if its text holds one of these; empty = the path decides.
    pub app: Vec<String>,
    /// Lines that hold one of these are passed over when the application's line is looked for.
    pub skip: Vec<String>,
    /// The percentage of a guest's processor time that hooks may take; beyond it the hottest functions are watched no more. 100 =
    /// whatever they take.
    pub budget: u32,
    /// How long a guest's thread waits for room in its ring before it drops a record; zero = it never waits.
    pub most_wait: Duration,
    /// Only how often and how long is wanted, not each call.
    pub count: bool,
    /// Of counted calls neither how long they took nor the bytes that they moved is wanted.
    pub bare: bool,
    /// What the calls of a recording returned is wanted too, so that each must be seen. A guest that counts sees it itself.
    pub results: bool,
    /// Events are recorded in a file.
    pub record: bool,
    /// The file, if events go there and nowhere else.
    pub recording: Option<Recording>,
    /// Which part of a recording is looked at.
    pub window: Between,
    /// Characters of a string that are shown.
    pub strings: u32,
    /// Characters of a string that are copied from the guest: at least as many.
    pub kept_of_strings: u32,
    /// The environment of programs that are run is copied.
    pub environment: bool,
    /// Elements of an array that are copied and shown.
    pub array: u32,
    /// Native frames around each call; 0 = none are copied.
    pub frames: usize,
    /// Work as ltrace does where we would do otherwise, and send no [`Message`](crate::Message) of progress.
    pub ltrace: bool,
    /// Each function that cannot be hooked is named with the reason; else those that were not asked for by name are counted.
    pub verbose: bool,
    /// What lancet itself does is said, too.
    pub debug: Option<Debug>,
    /// Takes what is to be said to the user.
    pub messages: Messages,
}

impl Options {
    /// Whether guests count calls for themselves instead of reporting each one. They cannot tell what the calls of a
    /// preset have in common (a statement, a name), nor which descriptors are open, so a preset that asks for that has its
    /// calls reported; so has `within`.
    pub fn counts_in_guest(&self) -> bool {
        let tells = |preset: &Preset| {
            preset.descriptors || preset.rules.iter().any(|rule| rule.by.is_some())
        };
        let alone = !self.record && !self.results && self.within.is_empty();
        self.count && alone && !self.presets.iter().any(tells)
    }

    /// Whether what is asked for can be told by a tracer, who sees system calls, and neither functions nor script lines.
    pub fn is_for_tracer(&self) -> bool {
        let lines = self.inject.iter().any(|inject| inject.line.is_some());
        let decides = self.condition.is_some() || !self.within.is_empty() || lines;
        self.from_exec && !decides
    }

    /// Whether what is injected is for a tracer to do; `from_start` = into a process that stands at its exec.
    pub fn injects_by_tracer(&self, from_start: bool) -> bool {
        let mut all = self.inject.iter();
        all.any(|inject| inject.is_for_tracer() || from_start && inject.from_start)
    }

    /// Whether the line of a call says all that must be met.
    pub fn asks_lines_only(&self) -> bool {
        self.min_time.is_none() && self.condition.as_ref().is_none_or(Condition::is_of_lines)
    }

    /// Whether it is wanted which descriptors are still open.
    pub fn asks_descriptors(&self) -> bool {
        self.count && self.presets.iter().any(|preset| preset.descriptors)
    }

    /// The filters by calling module: those of `e`, or all calls from the program itself if nothing else is wanted.
    pub fn callers(&self) -> Vec<Filter> {
        // To ltrace -x is no reason to do without them.
        let entries = !self.x.is_empty() && !self.ltrace || !self.presets.is_empty();
        if self.only || entries || !self.l.is_empty() || !self.e.is_empty() {
            self.e.clone()
        } else {
            vec![Filter::parse("@MAIN").expect("a literal that the grammar knows")]
        }
    }
}
