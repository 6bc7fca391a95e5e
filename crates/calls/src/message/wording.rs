//! The text of each message ([`super::Message`]), which the command line says on standard error. Used by `unreturned`.

use super::{MOST_NAMED, Message, Unhooked, unreturned};
use crate::Error;
use crate::event::time_of_day;
use std::fmt;

/// The text if no function was hooked.
const NOTHING_FITS: &str = "nothing in it fits what was asked for; what libraries bring that it loads from now on is hooked";

/// `a, b and 3 more`
pub(super) struct Few<'a>(pub(super) &'a [String]);

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

impl fmt::Display for Unhooked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [counted, watched] = self.times.map(|time| time.as_secs_f64());
        write!(
            out,
            "{} {}, which the kernel counted in {counted:.1} s",
            self.calls, self.name
        )?;
        // Less than all of the time, not only by what lies between two looks at a clock.
        if counted < watched * 0.9 {
            write!(out, " of {watched:.1} s, so there may be more")?;
        }
        let by = if self.narrow { "ptrace" } else { "bpf" };
        write!(
            out,
            ", where no hook is ({}); --by {by} sees them",
            Few(&self.places)
        )
    }
}

/// Writes the beginning of a message about a process in which nothing is changed.
fn unchanged(out: &mut fmt::Formatter<'_>, pid: i32, why: Option<&Error>) -> fmt::Result {
    match why {
        None => write!(out, "process {pid}: nothing in it is changed, "),
        Some(Error::Tampers) => write!(out, "process {pid}: {}, ", Error::Tampers),
        Some(error) => {
            let why = without_process(pid, error);
            write!(out, "process {pid} cannot be hooked ({why}): ")
        }
    }
}

/// An error behind words that name the process: most errors begin with it, too, and it must not be named twice.
fn without_process(pid: i32, error: &dyn fmt::Display) -> String {
    let (text, named) = (error.to_string(), format!("process {pid}"));
    match text.strip_prefix(&named) {
        Some(rest) if rest.starts_with(": ") => rest[2..].to_owned(),
        Some(rest) if rest.starts_with(' ') => format!("it{rest}"),
        _ => text,
    }
}

/// A duration in milliseconds.
fn in_ms(duration: &std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
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
            M::NotFollowed { pid, error } => write!(
                out,
                "process {pid} is not followed: {}",
                without_process(*pid, error)
            ),
            M::ChildNotFollowed { pid, parent, error } => {
                write!(
                    out,
                    "process {pid}, a child of {parent}, is not followed: {}",
                    without_process(*pid, error)
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
                write!(
                    out,
                    "what process {pid} had counted is lost: {}",
                    without_process(*pid, error)
                )
            }
            M::LossesUnknown { pid, error } => write!(
                out,
                "how much was lost of process {pid} is not known: {}",
                without_process(*pid, error)
            ),
            M::NotTold(of) => write!(
                out,
                "process {}: {} calls and returns of {} in thread {} are not told, because the process made them faster than lancet could read them, or lancet did not get the processor: name fewer calls (-e), count with -c, or have each wait with --by ptrace",
                of.pid, of.records, of.name, of.tid
            ),
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
            M::Failed { pid, error } => {
                let text = error.to_string();
                match text.starts_with(&format!("process {pid}")) {
                    true => out.write_str(&text),
                    false => write!(out, "process {pid}: {text}"),
                }
            }
            M::Locked { pid, why } => write!(
                out,
                "process {pid}: {why}, and the kernel would end it there: lancet leaves it, and it goes on alone; lancet syscalls --no-modify watches such programs"
            ),
            M::HookStays { pid, why } => write!(
                out,
                "process {pid}: the unwinder's hook stays ({}): {why}; the next lancet that opens the process takes it out if it can",
                routine::unwind::FIND_FDE
            ),
            M::Unreturned { pid, calls } => unreturned::write(out, *pid, calls),
            M::UnreturnedUnread { pid, error } => write!(
                out,
                "process {pid}: which calls have not returned could not be looked at: {}",
                without_process(*pid, error)
            ),
            M::Executed { pid } => write!(out, "process {pid} runs another program now (exec)"),
            M::Ended {
                pid, signal: None, ..
            } => write!(out, "process {pid} ended"),
            M::Ended {
                pid,
                signal: Some(signal),
                hook,
            } => {
                let name = crate::signals::signal_name(*signal);
                write!(out, "process {pid} was ended by {name}")?;
                if *hook {
                    out.write_str(
                        ", and a thread of it was in a hook of lancet's then: unless the program does that by itself, please report this",
                    )?;
                }
                Ok(())
            }
            M::Hooking {
                pid,
                asked,
                stops,
                each,
                all,
            } => write!(
                out,
                "{asked} functions of process {pid} are to be hooked, in some {stops} stops of {:.1} ms each, {:.0} ms in all; it runs in between (--max-stop)",
                in_ms(each),
                in_ms(all)
            ),
            M::Hooked { .. } | M::LibraryHooked { .. } | M::DefinedHooked { .. } => {
                self.hooked(out)
            }
            M::TooHot {
                pid,
                share,
                budget,
                functions,
            } => {
                let count = functions.len();
                let rate = |(name, rate): &(String, u64)| format!("{name} ({rate} calls/s)");
                let names: Vec<String> = functions.iter().map(rate).collect();
                let functions = if count == 1 {
                    "function is"
                } else {
                    "functions are"
                };
                write!(
                    out,
                    "process {pid}: hooks took {:.0} % of its processor time, --budget allows {:.0} %: {count} {functions} not watched any more, what was seen of them until now is shown: {}",
                    share * 100.0,
                    budget * 100.0,
                    Few(&names)
                )
            }
            M::Refused { names, reason } => write!(out, "not hooked: {}: {reason}", Few(names)),
            M::NotHooked {
                pid,
                count,
                reason,
                has_it,
            } => {
                let functions = match count {
                    1 => "1 function is",
                    _ => &format!("{count} functions are"),
                };
                let of_them = match count == has_it {
                    true => String::new(),
                    false => format!(", {has_it} of them"),
                };
                write!(
                    out,
                    "process {pid}: {functions} not hooked{of_them}: {reason}; -v names each, with its reason"
                )
            }
            M::Awaited { names } => write!(
                out,
                "hooked when they are called for the first time (IFUNC): {}",
                Few(names)
            ),
            M::NoScriptLines { reason } => write!(
                out,
                "calls are shown without the line of a script: {reason}"
            ),
            M::WithoutTable { pid, note } => write!(
                out,
                "process {pid}: {note}; a call whose line cannot be read so is shown without one"
            ),
            M::NoDriver { pid, peer } => write!(
                out,
                "process {pid} is connected to a server ({peer}), and none of the functions of the preset speaks to it: its driver is written in the script's language (PyMySQL, redis-py, Net::HTTP) or speaks the protocol itself (Go, Java); what it sends, and from which line: lancet syscalls -e trace=%network -s 400 -p {pid}"
            ),
            M::CountedUnseen(unhooked) => write!(
                out,
                "process {}: not seen by hooks: {unhooked}; the kernel goes on counting them",
                unhooked.pid
            ),
            M::NoHookThere(unhooked) => {
                write!(
                    out,
                    "process {}: not seen by hooks: {unhooked}",
                    unhooked.pid
                )
            }
            M::Unseen { pid, unseen } => {
                write!(out, "process {pid}: not seen: {}", unseen.join("; "))
            }
            M::FewPlaces { error, .. } => {
                write!(out, "{error}: what is asked for there is not seen")
            }
            M::CameUnseen { pid, unseen } => write!(
                out,
                "process {pid}: not seen, because it came after the process was hooked: {}",
                unseen.join("; ")
            ),
            M::NotExact { pid, unseen } => write!(
                out,
                "process {pid}: --require exact does not hold any more, not seen: {}",
                unseen.join("; ")
            ),
            M::ByTracing { pid, why, refused } => {
                unchanged(out, *pid, why.as_ref())?;
                out.write_str(
                    "its system calls are seen by ptrace, two stops each, which cost it about 5 µs a call; not told: script lines, native functions and frames",
                )?;
                match refused {
                    None => Ok(()),
                    Some(refused) => write!(
                        out,
                        "; by BPF they would cost it a tenth of that: {refused}"
                    ),
                }
            }
            M::Led { calls } => write!(
                out,
                "programs that are followed are seen by ptrace for their first {calls} calls, at about 5 µs each, and hooked then, because hooking costs as much as these; not told until then: native functions. Those that run {} are hooked from their start; --by hooks has all hooked",
                vm::Language::any()
            ),
            M::LedByBpf { calls } => write!(
                out,
                "programs that are followed are seen by ptrace for their first {calls} calls in all, at about 5 µs each, and then by BPF programs, which cost them about 0.5 µs a call, and all other processes of the machine about 0.2 µs a call as long as lancet is there; not told: native functions. Those that run {} are hooked from their start; --by hooks has all hooked",
                vm::Language::any()
            ),
            M::NotByBpf { why, calls } => write!(
                out,
                "programs that are followed are seen by ptrace for their first {calls} calls, and hooked then; by BPF they would cost a tenth of that: {why}"
            ),
            M::ByBpf { pid, why } => {
                unchanged(out, *pid, why.as_ref())?;
                out.write_str(
                    "its system calls are seen by BPF programs, which cost it about 0.5 µs a call, and all other processes of the machine about 0.2 µs a call as long as lancet is there; not told: script lines, native functions and frames",
                )
            }
            M::Detached { pid } => write!(out, "Process {pid} detached"),
            M::NotPoked {
                pid,
                name,
                argument,
                at,
            } => write!(
                out,
                "process {pid}: {name}: argument {argument} ({at:#x}) points to nothing that can be written: nothing was injected there"
            ),
            M::NoFunction {
                pid,
                name,
                like,
                comes,
            } => {
                let yet = if *comes { " yet" } else { "" };
                write!(out, "process {pid} has no function {name}{yet}")?;
                if !like.is_empty() {
                    write!(out, " (like it: {})", like.join(", "))?;
                }
                match comes {
                    true => out.write_str("; it is hooked when a library brings it"),
                    false => Ok(()),
                }
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
                "process {pid} has no {pattern} yet: {why}{like}; it is hooked if it comes and is written in C"
            ),
            M::NeverHooked { pattern, why, like } => {
                write!(out, "not hooked: {pattern}: {why}{like}")
            }
            M::NotShown { names, why } => match &names[..] {
                [name] => write!(out, "no call of {name} is shown: {why}"),
                [first, ..] => write!(
                    out,
                    "no call of {} functions is shown ({first} and others), because of each is true: {why}",
                    names.len()
                ),
                [] => Ok(()),
            },
            M::NothingWithin { name, bare } => {
                let nothing = "no call came from a function of this name";
                write!(out, "--in {name}: {nothing}")?;
                match bare {
                    Some(bare) => write!(
                        out,
                        "; some came from {bare}, of which no class is known here: --in {bare}"
                    ),
                    None => Ok(()),
                }
            }
            M::NothingAt { place } => write!(out, "--at {place}: no call came from this line"),
            M::NothingInjected { names, place } => {
                write!(out, "nothing was injected into {}", Few(names))?;
                match place {
                    Some(place) => write!(out, ": none was called from {place}"),
                    None => Ok(()),
                }
            }
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
            M::Unordered { path, segments } => write!(
                out,
                "{}: so many threads called at the same time, from so many places, that {segments} segments of it were shown without merging them with other threads by time; each thread's calls are all there in their order: choose a shorter time with --since and --until, or count with -c",
                path.display()
            ),
            M::Debug(text) => write!(out, "debug: {text}"),
        }
    }
}

impl Message {
    /// Writes the text about what was hooked.
    fn hooked(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Hooked {
                pid,
                hooked,
                asked,
                system_calls: [places, all],
                took,
                stopped,
                stops,
            } => {
                write!(out, "process {pid}: ")?;
                let [took, stopped] = [took, stopped].map(in_ms);
                let stood = match stops {
                    None => format!("it stood still for {stopped:.1} ms"),
                    Some((stops, all)) => format!(
                        "it stood still {stops} times, for {stopped:.1} ms at most and {:.1} ms in all",
                        in_ms(all)
                    ),
                };
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
mod tests;
