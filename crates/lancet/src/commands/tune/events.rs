//! `--events`: processes as they come and go.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use export::text::printable;
use serde::Serialize;
use tune::events::{Connector, End, Event, Exits, Losses, What};

use super::super::LOST;
use super::report::line;
use crate::cli::TuneArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Room for some 40,000 events that come while we write.
const BUFFER: usize = 32 << 20;
/// How long Ctrl-C may go unnoticed.
const WAIT: Duration = Duration::from_millis(100);

/// Tells until Ctrl-C, the end of the time, or the end of all that are followed.
pub fn run(args: &TuneArgs) -> anyhow::Result<u8> {
    if args.root.is_some() {
        bail!("events happen on a live machine: leave out --root");
    }
    interrupt::catch();
    let mut sink = Sink::open(None, Stream::Stdout)?;
    let begin = Instant::now();
    let go_on =
        || !interrupt::asked() && args.watch_for.is_none_or(|limit| begin.elapsed() < limit);
    let mut connector = match Connector::open(BUFFER) {
        Ok(connector) => connector,
        Err(cannot) if args.pids.is_empty() => {
            bail!(
                "{cannot}: run lancet as root on the host, or name processes with -p PID to see them end"
            );
        }
        Err(cannot) => {
            let exits = Exits::of(&args.pids)?;
            eprintln!("lancet: {cannot}; only the end of the named processes is told, and not how");
            return ends(exits, args, &mut sink, go_on);
        }
    };
    let mut teller = Teller::new(args);
    eprintln!("lancet: listening for process events");
    while go_on() && !teller.is_done() {
        for event in connector.receive(WAIT)?.events {
            teller.tell(&mut sink, &event)?;
        }
        sink.out.flush()?;
    }
    // Whatever was lost last shows only when something comes behind it.
    connector.hear_every_cpu()?;
    for event in connector.receive(Duration::ZERO)?.events {
        teller.tell(&mut sink, &event)?;
    }
    teller.finish(&mut sink, connector.losses())
}

/// Without the connector: only that a process ended.
fn ends(
    mut exits: Exits,
    args: &TuneArgs,
    sink: &mut Sink,
    go_on: impl Fn() -> bool,
) -> anyhow::Result<u8> {
    while go_on() && !exits.is_done() {
        for pid in exits.receive(WAIT)? {
            match args.json {
                true => line(
                    sink,
                    &Ended {
                        record: "event",
                        event: "exit",
                        pid,
                    },
                )?,
                false => writeln!(
                    sink.out,
                    "{}  exit  {pid:>7}  (how is not known)",
                    clock(Duration::ZERO)
                )?,
            }
        }
        sink.out.flush()?;
    }
    Ok(0)
}

#[derive(Serialize)]
struct Ended {
    record: &'static str,
    event: &'static str,
    pid: i32,
}

#[derive(Serialize)]
struct Record<'a> {
    record: &'static str,
    #[serde(flatten)]
    event: &'a Event,
    command: &'a str,
}

#[derive(Serialize)]
struct Summary {
    record: &'static str,
    events: u64,
    lost: u64,
    lost_is_lower_bound: bool,
    overruns: u64,
}

struct Teller {
    json: bool,
    /// The processes told of, and their descendants; empty for all.
    followed: HashSet<i32>,
    everyone: bool,
    names: HashMap<i32, String>,
    told: u64,
}

impl Teller {
    fn new(args: &TuneArgs) -> Self {
        let mut followed: HashSet<i32> = args.pids.iter().copied().collect();
        if !followed.is_empty() {
            add_descendants(&mut followed);
        }
        Self {
            json: args.json,
            everyone: followed.is_empty(),
            followed,
            names: HashMap::new(),
            told: 0,
        }
    }

    fn is_done(&self) -> bool {
        !self.everyone && self.followed.is_empty()
    }

    fn name(&mut self, pid: i32) -> String {
        let read = || {
            let text = fs::read_to_string(format!("/proc/{pid}/comm"));
            text.map_or("?".to_owned(), |text| text.trim().to_owned())
        };
        self.names.entry(pid).or_insert_with(read).clone()
    }

    fn tell(&mut self, sink: &mut Sink, event: &Event) -> anyhow::Result<()> {
        // Threads come and go with every request of some servers; this is about processes.
        if event.thread != event.pid {
            return Ok(());
        }
        let known = self.everyone || self.followed.contains(&event.pid);
        // A child that ended before the children were looked up is known by its parent.
        let of_known = match event.what {
            What::Fork { parent } | What::Exit { parent, .. } => self.followed.contains(&parent),
            What::Exec | What::Name { .. } => false,
        };
        if !known && !of_known {
            return Ok(());
        }
        let words = match &event.what {
            What::Fork { parent } => {
                // It has its parent's name until it execs; nothing of it needs to be there any more.
                let name = self.name(*parent);
                self.names.insert(event.pid, name);
                if !self.everyone {
                    self.followed.insert(event.pid);
                }
                format!("child of {parent}")
            }
            What::Exec => {
                self.names.remove(&event.pid);
                String::new()
            }
            What::Name { name } => {
                self.names.insert(event.pid, name.clone());
                String::new()
            }
            What::Exit { end, parent } => format!("{}, child of {parent}", ended(*end)),
        };
        let command = self.name(event.pid);
        self.told += 1;
        if self.json {
            line(
                sink,
                &Record {
                    record: "event",
                    event,
                    command: &command,
                },
            )?;
        } else {
            let kind = match event.what {
                What::Fork { .. } => "fork",
                What::Exec => "exec",
                What::Name { .. } => "name",
                What::Exit { .. } => "exit",
            };
            let text = format!("{kind}  {:>7}  {command:15}  {words}", event.pid);
            writeln!(
                sink.out,
                "{}  {}",
                clock(age(event.nanos)),
                printable(text.trim_end())
            )?;
        }
        if matches!(event.what, What::Exit { .. }) {
            self.names.remove(&event.pid);
            self.followed.remove(&event.pid);
        }
        Ok(())
    }

    fn finish(self, sink: &mut Sink, losses: &Losses) -> anyhow::Result<u8> {
        let lost = losses.missing();
        if self.json {
            line(
                sink,
                &Summary {
                    record: "end",
                    events: self.told,
                    lost,
                    lost_is_lower_bound: losses.is_lower_bound(),
                    overruns: losses.overruns(),
                },
            )?;
        }
        sink.out.flush()?;
        let least = if losses.is_lower_bound() {
            "at least "
        } else {
            ""
        };
        match (lost, losses.overruns()) {
            (0, 0) => eprintln!("lancet: {} events, none lost", self.told),
            (lost, 1) => eprintln!(
                "lancet: {} events; {least}{lost} messages lost when the buffer was full",
                self.told
            ),
            (lost, overruns) => eprintln!(
                "lancet: {} events; {least}{lost} messages lost in the {overruns} times the buffer was full",
                self.told
            ),
        }
        Ok(if lost > 0 || losses.overruns() > 0 {
            LOST
        } else {
            0
        })
    }
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

/// How long ago something of CLOCK_MONOTONIC was.
fn age(nanos: u64) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives across the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
    now.saturating_sub(Duration::from_nanos(nanos))
}

/// The local time so long ago, `10:31:02.123`.
fn clock(ago: Duration) -> String {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_sub(ago);
    let seconds = since.as_secs().cast_signed();
    // SAFETY: `tm` is plain data, for which all zeros is a value; both live across the call.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut local);
        local
    };
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        since.subsec_millis()
    )
}

/// Children that are there already, their children, and so on.
fn add_descendants(of: &mut HashSet<i32>) {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .context("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((pid, parent))
        })
        .collect();
    loop {
        let before = of.len();
        let children = parents
            .iter()
            .filter(|(_, parent)| of.contains(parent))
            .map(|(pid, _)| *pid);
        let children: Vec<i32> = children.collect();
        of.extend(children);
        if of.len() == before {
            return;
        }
    }
}

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
