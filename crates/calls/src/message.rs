//! What the user is told while calls are watched: how hooking went, what could not be done, what got lost.
//!
//! The library only makes these values; whoever drives it decides where they go ([`Messages`]). Their text is one line
//! without the program's name. All wording is in this file, so that it can be read, and changed, in one place.

use crate::Error;
use crate::event::time_of_day;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// How many names a message lists; the rest are counted.
pub const MOST_NAMED: usize = 20;

/// Where messages go. Clones lead to the same place.
#[derive(Clone)]
pub struct Messages(Rc<dyn Fn(&Message)>);

impl Messages {
    /// Calls this for each message, at once.
    pub fn to(take: impl Fn(&Message) + 'static) -> Self {
        Messages(Rc::new(take))
    }

    /// Hands one on.
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
    /// Records in a guest's memory went with it.
    RecordsLost { pid: i32, threads: usize },
    /// We were silent for so long that the hooks of a guest went quiet: times since 1970.
    Silent {
        pid: i32,
        from: Duration,
        to: Duration,
    },
    /// Something failed in a guest that goes on.
    Failed { pid: i32, error: process::Error },
    /// Frames of ours are still on stacks of a guest that was left.
    FramesParked { pid: i32 },
    /// A guest runs another program.
    Executed { pid: i32 },
    /// A guest has ended.
    Ended { pid: i32 },
    /// Functions were hooked for the first time. `system_calls`: at how many places, and how many there are.
    Hooked {
        pid: i32,
        hooked: usize,
        asked: usize,
        system_calls: [usize; 2],
        took: Duration,
        stopped: Duration,
    },
    /// A library brought functions that are asked for.
    LibraryHooked { pid: i32, more: usize },
    /// The script defined functions that are asked for.
    DefinedHooked { pid: i32, more: usize },
    /// Functions that cannot be hooked, for one reason.
    Refused { names: Vec<String>, reason: String },
    /// IFUNCs that have not picked a function yet.
    Awaited { names: Vec<String> },
    /// Why calls will have no script lines.
    NoScriptLines { reason: String },
    /// No module has a function of a preset.
    NothingOfPreset { pid: i32 },
    /// No module has this function.
    NoFunction {
        pid: i32,
        name: String,
        like: Vec<String>,
    },
    /// Nothing fits this pattern of names of the script's language.
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
    /// The condition cannot be decided for this function.
    NotShown { name: String, why: String },
    /// The condition is about a return, and a probe has none.
    ProbeNotShown { name: String },
    /// A recording lacks a function that is asked for.
    NotRecorded { path: PathBuf, name: String },
    /// A recording was made without native frames.
    NoCallersRecorded { path: PathBuf },
    /// A thread that goes to another program could not be followed there.
    ExecNotFollowed { pid: i32, tid: i32 },
    /// A recording can be read up to here only.
    RecordingEnds {
        path: PathBuf,
        error: recording::Error,
    },
    /// What lancet itself does ([`crate::debug`]).
    Debug(String),
}

impl Message {
    /// What failed in a guest and may have a remedy, which belongs behind the message.
    pub fn remediable(&self) -> Option<&process::Error> {
        match self {
            Message::NotOpened(error) | Message::NotFollowed { error, .. } => error.of_process(),
            Message::ChildNotFollowed { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// What a message says is lost or refused. Whoever drives this library must not end as if all had been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A process, or what happens in it from now on.
    Process(Option<i32>),
    /// A process could not be left as it was found.
    Leaving(Option<i32>),
    /// Its records.
    Records(i32),
    /// What it had counted.
    Counts(i32),
    /// What happened in it for a time.
    Gap(i32),
    /// Calls of functions that can never be hooked.
    Hooks,
    /// The rest of a recording.
    Recording,
}

impl Message {
    /// What is lost or refused, if that is what the message is about.
    pub fn lost(&self) -> Option<Lost> {
        use Message as M;
        Some(match self {
            M::NotOpened(error) => Lost::Process(error.of_process().and_then(process::Error::pid)),
            M::NotLeft(error) => Lost::Leaving(error.pid()),
            M::ClonedChild { pid, .. }
            | M::NotFollowed { pid, .. }
            | M::ChildNotFollowed { pid, .. }
            | M::ChildWithoutRings { pid, .. }
            | M::ChildOpenedLate { pid, .. }
            | M::ExecNotFollowed { pid, .. }
            | M::Failed { pid, .. } => Lost::Process(Some(*pid)),
            M::CountsLost { pid, .. } => Lost::Counts(*pid),
            M::RecordsLost { pid, .. } => Lost::Records(*pid),
            M::Silent { pid, .. } => Lost::Gap(*pid),
            M::NeverHooked { .. } => Lost::Hooks,
            M::RecordingEnds { .. } => Lost::Recording,
            M::FramesParked { .. }
            | M::Executed { .. }
            | M::Ended { .. }
            | M::Hooked { .. }
            | M::LibraryHooked { .. }
            | M::DefinedHooked { .. }
            | M::Refused { .. }
            | M::Awaited { .. }
            | M::NoScriptLines { .. }
            | M::NothingOfPreset { .. }
            | M::NoFunction { .. }
            | M::NothingFits { .. }
            | M::NotDefined { .. }
            | M::NotShown { .. }
            | M::ProbeNotShown { .. }
            | M::NotRecorded { .. }
            | M::NoCallersRecorded { .. }
            | M::Debug(_) => return None,
        })
    }
}

/// In the place of how many functions were hooked.
const NOTHING_FITS: &str =
    "nothing in it fits what was asked for; libraries that it loads are looked at";

/// `a, b and 3 more`
struct Few<'a>(&'a [String]);

impl fmt::Display for Few<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(MOST_NAMED)];
        out.write_str(&shown.join(", "))?;
        match self.0.len() - shown.len() {
            0 => Ok(()),
            more => write!(out, " and {more} more"),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Message as M;
        match self {
            M::NotOpened(error) => write!(out, "{error}"),
            M::NotLeft(error) => write!(out, "{error}"),
            M::ClonedChild { pid, parent } => write!(
                out,
                "process {pid}, a child of {parent}, was made by clone, not by fork: it is opened late, without its first calls"
            ),
            M::NotFollowed { pid, error } => write!(out, "process {pid} is not followed: {error}"),
            M::ChildNotFollowed { pid, parent, error } => {
                write!(
                    out,
                    "process {pid}, a child of {parent}, is not followed: {error}"
                )
            }
            M::ChildWithoutRings { pid, parent } => write!(
                out,
                "process {pid}, a child of {parent}, is not followed: it has no memory for rings of its own"
            ),
            M::ChildOpenedLate { pid, parent } => write!(
                out,
                "process {pid}, a child of {parent}, was opened too late for its first calls"
            ),
            M::CountsLost { pid, error } => {
                write!(out, "what process {pid} had counted is lost: {error}")
            }
            M::RecordsLost { pid, threads } => write!(
                out,
                "process {pid}: what {threads} of its threads told last is lost with its memory"
            ),
            M::Silent { pid, from, to } => write!(
                out,
                "process {pid}: lancet stood still (stopped, frozen or suspended), and the hooks went quiet: calls from {} to {} ({:.1} s) are missing",
                time_of_day(*from),
                time_of_day(*to),
                to.saturating_sub(*from).as_secs_f64()
            ),
            M::Failed { pid, error } => write!(out, "process {pid}: {error}"),
            M::FramesParked { pid } => write!(
                out,
                "process {pid}: calls are still to return through our frames (a blocked call, a parked fiber); the unwinder's hook stays for them"
            ),
            M::Executed { pid } => write!(out, "process {pid} runs another program now (exec)"),
            M::Ended { pid } => write!(out, "process {pid} ended"),
            M::Hooked { .. } | M::LibraryHooked { .. } | M::DefinedHooked { .. } => {
                self.hooked(out)
            }
            M::Refused { names, reason } => write!(out, "not hooked: {}: {reason}", Few(names)),
            M::Awaited { names } => write!(
                out,
                "hooked when they are called for the first time (IFUNC): {}",
                Few(names)
            ),
            M::NoScriptLines { reason } => write!(out, "no script lines: {reason}"),
            M::NothingOfPreset { pid } => write!(
                out,
                "process {pid} has no function of the preset yet; they are hooked when a library brings them"
            ),
            M::NoFunction { pid, name, like } => {
                write!(out, "process {pid} has no function {name} yet")?;
                if !like.is_empty() {
                    write!(out, " (like it: {})", like.join(", "))?;
                }
                out.write_str("; it is hooked when a library brings it")
            }
            M::NothingFits { pid, pattern } => write!(
                out,
                "process {pid} has no {pattern} yet; what a library brings of it is hooked then"
            ),
            M::NotDefined {
                pid,
                pattern,
                why,
                like,
            } => write!(
                out,
                "process {pid} has no {pattern} yet: {why}{like}; it is hooked when it is defined"
            ),
            M::NeverHooked { pattern, why, like } => {
                write!(out, "not hooked: {pattern}: {why}{like}")
            }
            M::NotShown { name, why } => write!(out, "no call of {name} is shown: {why}"),
            M::ProbeNotShown { name } => write!(
                out,
                "{name} is not shown: a probe returns nothing and takes no time"
            ),
            M::NotRecorded { path, name } => {
                write!(out, "{} holds no call of {name}", path.display())
            }
            M::NoCallersRecorded { path } => write!(
                out,
                "{} holds no callers: they are recorded with -w",
                path.display()
            ),
            M::ExecNotFollowed { pid, tid } => write!(
                out,
                "process {pid}: its thread {tid} went to another program (exec) before it could be followed"
            ),
            M::RecordingEnds { path, error } => write!(out, "{}: {error}", path.display()),
            M::Debug(text) => write!(out, "debug: {text}"),
        }
    }
}

impl Message {
    /// The text of what was hooked.
    fn hooked(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Hooked {
                pid,
                hooked,
                asked,
                system_calls: [places, all],
                took,
                stopped,
            } => {
                write!(out, "process {pid}: ")?;
                let (took, stopped) = (took.as_secs_f64() * 1e3, stopped.as_secs_f64() * 1e3);
                let stood = format_args!("it stood still for {stopped:.1} ms");
                match (*asked, *all) {
                    (0, 0) => return write!(out, "{NOTHING_FITS}; {stood}"),
                    (0, _) => {}
                    _ => write!(out, "{hooked} of {asked} functions")?,
                }
                if *asked != 0 && *all != 0 {
                    out.write_str(" and ")?;
                }
                if *all != 0 {
                    write!(out, "system calls at {places} of {all} places")?;
                }
                write!(out, " hooked in {took:.1} ms; {stood}")
            }
            Message::LibraryHooked { pid, more } => write!(
                out,
                "process {pid} has loaded a library: {more} more functions hooked"
            ),
            Message::DefinedHooked { pid, more } => write!(
                out,
                "process {pid} has defined what is asked for: {more} more functions hooked"
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooked(asked: usize, system_calls: [usize; 2]) -> String {
        let message = Message::Hooked {
            pid: 7,
            hooked: asked,
            asked,
            system_calls,
            took: Duration::from_micros(1250),
            stopped: Duration::from_micros(340),
        };
        message.to_string()
    }

    #[test]
    fn what_was_hooked_is_named_once() {
        let end = "hooked in 1.2 ms; it stood still for 0.3 ms";
        assert_eq!(
            hooked(0, [0, 0]),
            format!("process 7: {NOTHING_FITS}; it stood still for 0.3 ms")
        );
        assert_eq!(
            hooked(0, [3, 4]),
            format!("process 7: system calls at 3 of 4 places {end}")
        );
        assert_eq!(
            hooked(2, [3, 4]),
            format!("process 7: 2 of 2 functions and system calls at 3 of 4 places {end}")
        );
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names = |count: usize| (0..count).map(|at| at.to_string()).collect();
        let reason = || "too short".to_owned();
        let all = Message::Refused {
            names: names(MOST_NAMED),
            reason: reason(),
        };
        assert!(all.to_string().ends_with("18, 19: too short"), "{all}");
        let cut = Message::Refused {
            names: names(MOST_NAMED + 2),
            reason: reason(),
        };
        assert!(
            cut.to_string().ends_with("18, 19 and 2 more: too short"),
            "{cut}"
        );
    }
}
