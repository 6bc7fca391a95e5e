//! The options of a run: what the user wants to know of calls, independent of the command line. Used by
//! `live::process`, `conditions` and others here, and by crate `lancet`.

use crate::debug::Debug;
use crate::message::Messages;
use crate::preset::{Preset, Rule};
use crate::recorder::Recording;
use crate::tamper::Inject;
use crate::window::Between;
use prototypes::condition::Condition;
use prototypes::filter::Filter;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How system calls are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By hooks; a process that cannot be hooked is watched as with [`By::Nothing`], if [`Options::from_exec`] is set.
    #[default]
    Hooks,
    /// By what changes nothing in a process: BPF if it is allowed and calls are only counted, else ptrace.
    Nothing,
    /// Only by BPF programs at the kernel's tracepoints.
    Bpf,
    /// Only by ptrace.
    Ptrace,
}

/// The options of one run: a command makes them of its flags, and guests, recordings and formats read them. Filters have the meaning that
/// ltrace gives to the option of the same letter.
#[derive(Clone)]
pub struct Options {
    /// Running processes to open.
    pub pids: Vec<i32>,
    /// A program to start with its arguments; empty = none.
    pub program: Vec<OsString>,
    /// The user who runs that program; `None` = the user of lancet.
    pub user: Option<String>,
    /// Whether children that are made from now on, and the programs that guests execute, are opened too.
    pub follow: bool,
    /// Functions to hook at their entry, whatever calls them.
    pub x: Vec<Filter>,
    /// Functions whose calls from a module are wanted.
    pub e: Vec<Filter>,
    /// Functions of a library that are wanted when they are called from outside it.
    pub l: Vec<Filter>,
    /// Presets, each of which has functions of its own to hook.
    pub presets: Vec<Preset>,
    /// Whether system calls are wanted.
    pub system_calls: bool,
    /// Whether the system calls of a program that is started, or that a guest runs, are reported from its exec on. It can be hooked only
    /// when its libraries are loaded; its tracer sees them until then.
    pub from_exec: bool,
    /// How system calls are seen.
    pub by: By,
    /// Whether programs that processes run while they are followed may be seen by ptrace at first, and hooked later.
    pub may_lead: bool,
    /// Whether the calls of such programs may be counted by BPF programs instead, which do not have the thread stand at each call.
    pub may_lead_by_bpf: bool,
    /// Whether a process that its tracer sees is left as soon as it runs another program.
    pub leave_at_exec: bool,
    /// Whether a process is refused if some of what is requested would not be seen of it.
    pub exact: bool,
    /// What is injected into system calls.
    pub inject: Vec<Inject>,
    /// Whether only calls that the filters name are wanted; without this and without a filter, calls from the program itself are.
    pub only: bool,
    /// Lines of which one must have made a call (`--at`), each by itself; `condition` combines them.
    pub at: Vec<Condition>,
    /// The condition that a call must meet to be reported.
    pub condition: Option<Condition>,
    /// Only calls from a function with one of these names, of the script or native; empty = from all.
    pub within: Vec<String>,
    /// How long a call must take to be reported.
    pub min_time: Option<Duration>,
    /// Whether the script line of a call is that of the nearest frame, also if it is a library's.
    pub nearest: bool,
    /// A line belongs to the application if its text contains one of these; empty = the path decides.
    pub app: Vec<String>,
    /// Lines that contain one of these are skipped when the application's line is searched for.
    pub skip: Vec<String>,
    /// The percentage of a guest's processor time that hooks may take; beyond it the hottest functions are no longer watched. 100 = no
    /// limit.
    pub budget: u32,
    /// How long a guest's thread waits for room in its ring before it drops a record; zero = it never waits.
    pub most_wait: Duration,
    /// How long a guest may stand still at once while hooks are set and lifted; many functions take several stops.
    pub max_stop: Duration,
    /// Whether only numbers and times of calls are wanted, not each call.
    pub count: bool,
    /// Whether neither times nor bytes of counted calls are wanted.
    pub bare: bool,
    /// Whether the results of a recording's calls are wanted too, so that each must be read. A guest that counts sees them itself.
    pub results: bool,
    /// Whether events are recorded in a file.
    pub record: bool,
    /// The file, if events go there and nowhere else.
    pub recording: Option<Recording>,
    /// The part of a recording that is read.
    pub window: Between,
    /// Characters of a string that are shown.
    pub strings: u32,
    /// The least number of characters of a string that are copied from the guest.
    pub kept_of_strings: u32,
    /// The least number of bytes that are copied of what the calls of [`BEAR_MESSAGES`] send and receive; a tracer copies them of sockets of
    /// netlink only.
    pub kept_of_messages: u32,
    /// Whether the environment of programs that are run is copied.
    pub environment: bool,
    /// Elements of an array that are copied and shown.
    pub array: u32,
    /// Native frames around each call; 0 = none are copied.
    pub frames: usize,
    /// Whether to work as ltrace does where lancet would do otherwise, and send no [`Message`](crate::message::Message) of progress.
    pub ltrace: bool,
    /// Whether each function that cannot be hooked is named with the reason; otherwise those that were not requested by name are only
    /// counted.
    pub verbose: bool,
    /// Which actions of lancet itself are reported, too.
    pub debug: Option<Debug>,
    /// Receives the messages for the user.
    pub messages: Messages,
}

/// The system calls that bear messages of netlink.
pub const BEAR_MESSAGES: [&str; 6] = [
    "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg",
];

/// How long a call may wait for lancet where BPF programs tell it.
const SHORT_WAITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(100);

impl Options {
    /// Whether guests count calls themselves instead of reporting each one. They cannot determine what the calls of a preset have in common
    /// (a statement, a name), which descriptors are open, what is not freed, nor which call is within another, so for a preset that needs
    /// that, and for `in_function`, calls are reported.
    pub fn counts_in_guest(&self) -> bool {
        let tells = |preset: &Preset| {
            let together = |rule: &Rule| rule.by.is_some() || rule.whole;
            preset.descriptors || preset.allocations || preset.rules.iter().any(together)
        };
        let alone = !self.record && !self.results && self.within.is_empty();
        self.count && alone && !self.presets.iter().any(tells)
    }

    /// Whether a tracer, which sees system calls but neither functions nor script lines, can report what is requested.
    pub fn is_for_tracer(&self) -> bool {
        let lines = self.inject.iter().any(|inject| inject.line.is_some());
        let decides = self.condition.is_some() || !self.within.is_empty() || lines;
        self.from_exec && !decides
    }

    /// Whether a process that cannot be hooked may be watched in another way.
    pub fn may_fall_back(&self) -> bool {
        !self.exact && self.is_for_tracer()
    }

    /// Whether a program is seen by ptrace at first and hooked later, where nothing is asked that only hooks tell.
    pub fn leads(&self) -> bool {
        let plain = self.inject.is_empty() && self.frames == 0 && self.presets.is_empty();
        self.may_lead && self.follow && self.may_fall_back() && plain && !self.record
    }

    /// Whether BPF programs see the calls of such a program, if the kernel allows them. Where they are told one by one, nobody can be made to
    /// wait for lancet longer than for moments, so it must be asked that nobody waits long, nor that nobody ever waits.
    pub fn leads_by_bpf(&self) -> bool {
        let leads = self.by == By::Hooks && self.leads() && self.min_time.is_none();
        let waits = SHORT_WAITS.contains(&self.most_wait);
        self.may_lead_by_bpf && leads && (waits || self.counts_in_guest())
    }

    /// Whether a tracer must make the injections; `from_start` = into a process that stands at its exec.
    pub fn injects_by_tracer(&self, from_start: bool) -> bool {
        let mut all = self.inject.iter();
        all.any(|inject| inject.is_for_tracer() || from_start && inject.from_start)
    }

    /// Whether the line of a call decides whether the condition is met.
    pub fn asks_lines_only(&self) -> bool {
        self.min_time.is_none() && self.condition.as_ref().is_none_or(Condition::is_of_lines)
    }

    /// Whether it is wanted what is allocated and not freed.
    pub fn asks_allocations(&self) -> bool {
        self.count && self.presets.iter().any(|preset| preset.allocations)
    }

    /// Whether the list of open descriptors is wanted.
    pub fn asks_descriptors(&self) -> bool {
        self.count && self.presets.iter().any(|preset| preset.descriptors)
    }

    /// Returns the filters by calling module: those of `e`, or all calls from the program itself if nothing else is requested.
    pub fn callers(&self) -> Vec<Filter> {
        // With ltrace, -x does not replace them.
        let entries = !self.x.is_empty() && !self.ltrace || !self.presets.is_empty();
        if self.only || entries || !self.l.is_empty() || !self.e.is_empty() {
            self.e.clone()
        } else {
            vec![Filter::parse("@MAIN").expect("a literal that the grammar knows")]
        }
    }
}
