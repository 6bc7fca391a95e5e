//! Messages for the user while calls are watched: how hooking went, what could not be done, what got lost. Used by
//! `filter`, `in_function` and others here, and by crate `lancet`.
//!
//! The library only makes these values; the program that drives it decides where they go ([`Messages`]). Their text is one line without
//! the program's name. All wording is in `wording`, in one place.

mod unreturned;
mod wording;

use crate::Error;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How many names a message lists; the rest are counted.
pub const MOST_NAMED: usize = 20;

/// Receives messages. Clones lead to the same receiver.
#[derive(Clone)]
pub struct Messages(Rc<dyn Fn(&Message)>);

impl Messages {
    /// Calls `take` for each message, at once.
    pub fn to(take: impl Fn(&Message) + 'static) -> Self {
        Messages(Rc::new(take))
    }

    /// Passes a message on.
    pub fn say(&self, message: Message) {
        (self.0)(&message);
    }
}

/// A message; `pid` is always the process that it is about.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are the values in the text")]
pub enum Message {
    /// One of several processes, or a program that a guest executes, could not be opened; the others go on.
    NotOpened(Error),
    /// A process could not be left as it was found.
    NotLeft(process::Error),
    /// A child was found by looking, because no hook saw how it was made.
    ClonedChild { pid: i32, parent: i32 },
    /// Such a child could not be opened.
    NotFollowed { pid: i32, error: Error },
    /// A child could not be opened.
    ChildNotFollowed {
        pid: i32,
        parent: i32,
        error: process::Error,
    },
    /// A child has not made room for rings of its own in time.
    ChildWithoutRings { pid: i32, parent: i32 },
    /// A child went on before it was opened.
    ChildOpenedLate { pid: i32, parent: i32 },
    /// Counts in a guest's memory went with it.
    CountsLost { pid: i32, error: process::Error },
    /// What was lost of a process could not be read when it was over.
    LossesUnknown { pid: i32, error: process::Error },
    /// Records in a guest's memory were lost with it.
    RecordsLost { pid: i32, threads: usize },
    /// Lancet was silent for so long that the hooks of a guest closed the gate: times since 1970.
    Silent {
        pid: i32,
        from: Duration,
        to: Duration,
    },
    /// Something failed in a guest that goes on.
    Failed { pid: i32, error: process::Error },
    /// A guest is left, because a thread of it is about to forbid what hooks do.
    Locked { pid: i32, why: String },
    /// The hook on the unwinder stays in a guest that was left, for this reason.
    HookStays { pid: i32, why: String },
    /// A guest runs another program.
    Executed { pid: i32 },
    /// A guest has ended. `signal`: the signal that ended it, if it is known; `hook`: that was a fault, while a thread of it was in a hook.
    Ended {
        pid: i32,
        signal: Option<i32>,
        hook: bool,
    },
    /// Functions are hooked in several stops: how many are asked for, how many stops that is expected to take, how long each is planned to
    /// be, and all of them.
    Hooking {
        pid: i32,
        asked: usize,
        stops: usize,
        each: Duration,
        all: Duration,
    },
    /// Functions were hooked for the first time. `system_calls`: at how many places, and how many there are.
    Hooked {
        pid: i32,
        hooked: usize,
        asked: usize,
        system_calls: [usize; 2],
        took: Duration,
        stopped: Duration,
        /// How often it stood still, and for how long in all; `None` = what was hooked fits into one stop.
        stops: Option<(u32, Duration)>,
    },
    /// A library brought requested functions.
    LibraryHooked { pid: i32, more: usize },
    /// The script defined requested functions.
    DefinedHooked { pid: i32, more: usize },
    /// Functions that are no longer watched, because hooks took more of the guest's processor time than `budget`: calls of each in a
    /// second. Shares are from 0 to 1.
    TooHot {
        pid: i32,
        share: f64,
        budget: f64,
        functions: Vec<(String, u64)>,
    },
    /// Functions that cannot be hooked, for one reason.
    Refused { names: Vec<String>, reason: String },
    /// The number of functions of a pattern or a preset that cannot be hooked, and the reason of most.
    NotHooked {
        pid: i32,
        count: usize,
        reason: String,
        has_it: usize,
    },
    /// IFUNCs that have not picked a function yet.
    Awaited { names: Vec<String> },
    /// Why calls will have no script lines.
    NoScriptLines { reason: String },
    /// By what script lines are read of a VM without a table, and what that was held against.
    WithoutTable { pid: i32, note: String },
    /// Calls that had not returned when the process was left, and how many of each.
    Unreturned {
        pid: i32,
        calls: Vec<(Unreturned, usize)>,
    },
    /// Why it is not known which calls had not returned.
    UnreturnedUnread { pid: i32, error: frames::Error },
    /// The process is connected to this peer, and no function that a preset names for it is hooked.
    NoDriver { pid: i32, peer: String },
    /// No module has this function; whether a library may bring it (`comes`).
    NoFunction {
        pid: i32,
        name: String,
        like: Vec<String>,
        comes: bool,
    },
    /// Too few of the places where a process makes system calls are hooked, and what is asked for needs hooks, or has begun with them.
    FewPlaces { pid: i32, error: Error },
    /// What hooks do not see of a process's system calls and was not there when that was reported first.
    CameUnseen { pid: i32, unseen: Vec<String> },
    /// The kernel has counted system calls of a process where no hook is, and goes on with that.
    CountedUnseen(Unhooked),
    /// So many system calls of a process were not seen, because no hook is there.
    NoHookThere(Unhooked),
    /// What hooks do not see of a process's system calls.
    Unseen { pid: i32, unseen: Vec<String> },
    /// System calls of a process are seen by tracing it; why it is not hooked: `None` = hooks were not wanted. `refused`: why BPF does
    /// not see it, if that was tried.
    ByTracing {
        pid: i32,
        why: Option<Error>,
        refused: Option<Arc<tracepoint::Refused>>,
    },
    /// Programs are seen by ptrace for so many of their calls, and hooked then.
    Led { calls: u32 },
    /// Programs are seen by ptrace until all together have made so many calls, and by BPF programs then.
    LedByBpf { calls: u32 },
    /// The kernel does not allow these: programs are seen by ptrace for so many of their calls, and hooked then.
    NotByBpf {
        why: Arc<tracepoint::Refused>,
        calls: u32,
    },
    /// System calls of a process are seen by BPF programs.
    ByBpf { pid: i32, why: Option<Error> },
    /// Calls and returns of a thread found no room in the ring buffer of BPF programs.
    NotTold(NotTold),
    /// A process was left because it runs another program.
    Detached { pid: i32 },
    /// Data could not be written to the memory that an argument of a call points to.
    NotPoked {
        pid: i32,
        name: String,
        argument: usize,
        at: u64,
    },
    /// Some of a process that must be seen exactly is not seen, as was found when it was being watched already.
    NotExact { pid: i32, unseen: Vec<String> },
    /// No name of the script's language fits this pattern.
    NothingFits { pid: i32, pattern: String },
    /// This name of the script's language does not exist. `like`: other names, in parentheses.
    NotDefined {
        pid: i32,
        pattern: String,
        why: String,
        like: String,
    },
    /// This name of the script's language can never be hooked.
    NeverHooked {
        pattern: String,
        why: String,
        like: String,
    },
    /// The condition cannot be decided for these functions, for one reason.
    NotShown { names: Vec<String>, why: String },
    /// No call came from a function of this name. `bare` = the name without its class, if some calls came from a function with that name
    /// whose class is unknown.
    NothingWithin { name: String, bare: Option<String> },
    /// No call came from this line of the script.
    NothingAt { place: String },
    /// An injection into these system calls was never applied; `place` = the line that it is limited to.
    NothingInjected {
        names: Vec<String>,
        place: Option<String>,
    },
    /// The condition is about a return, and a probe has none.
    ProbeNotShown { name: String },
    /// A recording lacks a requested function.
    NotRecorded { path: PathBuf, name: String },
    /// A recording was made without native frames.
    NoCallersRecorded { path: PathBuf },
    /// A thread that runs another program could not be followed there.
    ExecNotFollowed { pid: i32, tid: i32 },
    /// A recording can be read up to here only.
    RecordingEnds {
        path: PathBuf,
        error: recording::Error,
    },
    /// More of a recording overlaps in time than is kept in memory.
    Unordered {
        /// The file of the recording.
        path: PathBuf,
        /// Number of segments whose events are not shown in the order of time.
        segments: u64,
    },
    /// An action of lancet itself ([`crate::debug`]).
    Debug(String),
}

impl Message {
    /// Returns the failure in a guest for which there may be a remedy, which is shown behind the message.
    pub fn remediable(&self) -> Option<&process::Error> {
        match self {
            Message::NotOpened(error) | Message::NotFollowed { error, .. } => error.of_process(),
            Message::ChildNotFollowed { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Calls and returns of one thread that are not told, because the ring buffer of BPF programs had no room for them.
#[derive(Clone, Debug)]
pub struct NotTold {
    /// Id of the process.
    pub pid: i32,
    /// Id of the thread.
    pub tid: i32,
    /// The name of the system call.
    pub name: Arc<str>,
    /// How many: a call and its return are two.
    pub records: u64,
}

/// System calls of one name that a process has made where no hook is, by the kernel's own count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhooked {
    /// The process.
    pub pid: i32,
    /// The name of the system call.
    pub name: String,
    /// Whether it was made in a way of 32-bit code, which BPF programs do not tell from others.
    pub narrow: bool,
    /// How many there were.
    pub calls: u64,
    /// Where they were made.
    pub places: Vec<String>,
    /// How long the kernel has counted, of how long the process was watched.
    pub times: [Duration; 2],
}

/// A call that had not returned when its process was left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreturned {
    /// The function, and the line of the script that has called it.
    pub name: String,
    /// How long ago the function was hooked, if the call was made before that. `None` = it was not, or that is not known.
    pub before: Option<Duration>,
}

/// What a message reports as lost or refused. The program that drives this library must not end as if all had been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A process, or its events from now on.
    Process(Option<i32>),
    /// A process could not be left as it was found.
    Leaving(Option<i32>),
    /// Records of a process.
    Records(i32),
    /// Counts in the memory of a process.
    Counts(i32),
    /// The events of a process during some time.
    Gap(i32),
    /// What followed in a process that a fault ended while a thread of it was in a hook.
    Agent(i32),
    /// Calls of functions that can never be hooked.
    Hooks,
    /// System calls of a process that hooks do not see.
    Unseen(i32),
    /// The rest of a recording.
    Recording,
}

impl Message {
    /// Returns the text of a message that is the same for every process with the same code, without the process.
    pub fn of_every_process(&self) -> Option<String> {
        let text = self.to_string();
        match self {
            Message::Refused { .. } | Message::NoScriptLines { .. } => Some(text),
            Message::NotHooked { pid, .. }
            | Message::Unseen { pid, .. }
            | Message::ByTracing { pid, .. }
            | Message::ByBpf { pid, .. }
            | Message::NotPoked { pid, .. } => {
                let text = text.strip_prefix(&format!("process {pid}"))?;
                Some(text.trim_start_matches([':', ' ']).to_owned())
            }
            _ => None,
        }
    }

    /// Returns it in a few words, if it is about what is hooked and what is not seen: behind a table, which is what was asked for, together with
    /// others. With how many it is about; 0: with none. Those in the same words are added up; no words: others say it.
    pub fn brief(&self) -> Option<(usize, String)> {
        let of = |count: usize, words: &str| Some((count, words.to_owned()));
        match self {
            Message::Hooked { stopped, .. } => {
                let milliseconds = stopped.as_secs_f64() * 1e3;
                of(0, &format!("it stood still for {milliseconds:.1} ms"))
            }
            Message::NotHooked { count, .. } => of(*count, "functions and places not hooked"),
            Message::Refused { names, .. } => of(names.len(), "functions and places not hooked"),
            Message::Unseen { unseen, .. } => of(unseen.len(), "kinds of calls not seen"),
            Message::Awaited { .. } => of(0, ""),
            Message::NoScriptLines { reason } => of(0, &format!("no lines of scripts: {reason}")),
            _ => None,
        }
    }

    /// Returns how much is lost, where that is known.
    pub fn count(&self) -> Option<u64> {
        match self {
            Message::NoHookThere(unhooked) => Some(unhooked.calls),
            Message::NotTold(not_told) => Some(not_told.records),
            _ => None,
        }
    }

    /// Returns what is lost or refused, if the message is about that.
    pub fn lost(&self) -> Option<Lost> {
        use Message as M;
        Some(match self {
            M::NotOpened(error) => Lost::Process(error.of_process().and_then(process::Error::pid)),
            M::NotLeft(error) => Lost::Leaving(error.pid()),
            M::HookStays { pid, .. } => Lost::Leaving(Some(*pid)),
            M::ClonedChild { pid, .. }
            | M::NotFollowed { pid, .. }
            | M::ChildNotFollowed { pid, .. }
            | M::ChildWithoutRings { pid, .. }
            | M::ChildOpenedLate { pid, .. }
            | M::ExecNotFollowed { pid, .. }
            | M::Locked { pid, .. }
            | M::Failed { pid, .. } => Lost::Process(Some(*pid)),
            M::CountsLost { pid, .. } | M::LossesUnknown { pid, .. } => Lost::Counts(*pid),
            M::RecordsLost { pid, .. } | M::NotTold(NotTold { pid, .. }) => Lost::Records(*pid),
            M::Ended {
                pid, hook: true, ..
            } => Lost::Agent(*pid),
            M::Silent { pid, .. } => Lost::Gap(*pid),
            M::NotExact { pid, .. } => Lost::Gap(*pid),
            M::FewPlaces { pid, .. }
            | M::CameUnseen { pid, .. }
            | M::NoHookThere(Unhooked { pid, .. }) => Lost::Unseen(*pid),
            M::NeverHooked { .. } | M::TooHot { .. } => Lost::Hooks,
            M::RecordingEnds { .. } => Lost::Recording,
            M::Unordered { .. }
            | M::Executed { .. }
            | M::Unreturned { .. }
            | M::UnreturnedUnread { .. }
            | M::Ended { .. }
            | M::Hooking { .. }
            | M::Hooked { .. }
            | M::LibraryHooked { .. }
            | M::DefinedHooked { .. }
            | M::Refused { .. }
            | M::NotHooked { .. }
            | M::Awaited { .. }
            | M::NoScriptLines { .. }
            | M::WithoutTable { .. }
            | M::NoDriver { .. }
            | M::NoFunction { .. }
            | M::Unseen { .. }
            | M::CountedUnseen(_)
            | M::Led { .. }
            | M::LedByBpf { .. }
            | M::NotByBpf { .. }
            | M::ByTracing { .. }
            | M::ByBpf { .. }
            | M::Detached { .. }
            | M::NotPoked { .. }
            | M::NothingFits { .. }
            | M::NotDefined { .. }
            | M::NotShown { .. }
            | M::NothingWithin { .. }
            | M::NothingAt { .. }
            | M::NothingInjected { .. }
            | M::ProbeNotShown { .. }
            | M::NotRecorded { .. }
            | M::NoCallersRecorded { .. }
            | M::Debug(_) => return None,
        })
    }
}
