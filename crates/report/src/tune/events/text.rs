//! Process events for people. Used by `lancet::commands::tune::events`.
//!
//! ```text
//! 10:31:02.123  fork     4243  puma             child of 4242
//! 10:31:07.001  exit     4243  puma             killed by SIGKILL, child of 4242
//! ```

use std::io::{self, Write};

use tune::events::{End, Event, LocalTime, Losses, What};

use crate::text::printable;

/// Writes one event of a process whose name is `command`.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn event(out: &mut dyn Write, event: &Event, command: &str) -> io::Result<()> {
    let (kind, words) = match &event.what {
        What::Fork { parent } => ("fork", format!("child of {parent}")),
        What::Exec => ("exec", String::new()),
        What::Name { .. } => ("name", String::new()),
        What::Exit { end, parent } => ("exit", format!("{}, child of {parent}", ended(*end))),
    };
    let text = format!("{kind}  {:>7}  {command:15}  {words}", event.pid);
    let time = clock(LocalTime::of_event(event));
    writeln!(out, "{time}  {}", printable(text.trim_end()))
}

/// Writes that a process ended just now, where nothing else is known.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn end(out: &mut dyn Write, pid: i32) -> io::Result<()> {
    let time = clock(LocalTime::now());
    writeln!(out, "{time}  exit  {pid:>7}  (how is not known)")
}

/// Returns how many events were written and how many were lost, in words.
pub fn summary(events: u64, losses: &Losses) -> String {
    let least = if losses.is_lower_bound() {
        "at least "
    } else {
        ""
    };
    match (losses.missing(), losses.overruns()) {
        (0, 0) => format!("{events} events, none lost"),
        (lost, 1) => {
            format!("{events} events; {least}{lost} messages lost when the buffer was full")
        }
        (lost, overruns) => format!(
            "{events} events; {least}{lost} messages lost in the {overruns} times the buffer was full"
        ),
    }
}

fn clock(time: LocalTime) -> String {
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        time.hour, time.minute, time.second, time.millisecond
    )
}

fn ended(end: End) -> String {
    match end {
        End::Code(code) => format!("code {code}"),
        End::Signal { number, core } => {
            let name = usize::try_from(number)
                .ok()
                .and_then(|number| SIGNALS.get(number));
            let name = name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"));
            format!(
                "killed by {name}{}",
                if core { ", core dumped" } else { "" }
            )
        }
    }
}

/// signal(7), x86-64; 0 is none.
const SIGNALS: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_named() {
        assert_eq!(ended(End::Code(7)), "code 7");
        assert_eq!(
            ended(End::Signal {
                number: 9,
                core: false
            }),
            "killed by SIGKILL"
        );
        assert_eq!(
            ended(End::Signal {
                number: 11,
                core: true
            }),
            "killed by SIGSEGV, core dumped"
        );
        assert_eq!(
            ended(End::Signal {
                number: 40,
                core: false
            }),
            "killed by signal 40"
        );
    }
}
