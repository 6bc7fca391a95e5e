//! Events: of processes (the proc connector) and of descriptors (epoll).

use super::{NOTHING, Risk, Rule};
use crate::events::Listening;
use crate::kconfig::Built;
use crate::machine::Machine;
use crate::tree::Cannot;
use crate::verdict::{Outcome, several};

pub(super) const CONNECTOR: Rule = Rule {
    id: "T03",
    title: "process events",
    of_2009: true,
    reads: "a subscription to the proc connector and its acknowledgement; else CONFIG_CONNECTOR, CONFIG_PROC_EVENTS",
    why: "Process supervisors learn of a dead worker at once, and of its exit code and signal, instead of polling. \
          CONFIG_CONNECTOR=m silently drops PROC_EVENTS.",
    source: "drivers/connector/cn_proc.c; coreos/bugs#2537, boot2docker#1137; god#5",
    dated: "2009; stands today (17 of 17 distribution kernels have it built in)",
    change: "a kernel with CONFIG_CONNECTOR=y and CONFIG_PROC_EVENTS=y",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: true,
    counts: false,
    check: connector,
};

fn connector(machine: &Machine) -> Result<Outcome, Cannot> {
    const ASKED: &str = "PROC_CN_MCAST_LISTEN";
    match &machine.events {
        Ok(Listening::Heard) => {
            return Ok(Outcome::good("process events arrive: lancet tune --events")
                .saw(ASKED, "acknowledged"));
        }
        Ok(Listening::Refused(why)) => {
            // Refused by a kernel that has them, it is the namespace.
            let built = machine
                .built("PROC_EVENTS")
                .is_ok_and(|(built, _)| built == Built::In);
            let outcome = match built {
                true => {
                    Outcome::cannot_tell("events are heard in the first network namespace only")
                }
                false => Outcome::bad("no process events"),
            };
            return Ok(outcome.saw(ASKED, why));
        }
        Ok(Listening::Silent(why)) => {
            return Ok(Outcome::cannot_tell(format!("no acknowledgement: {why}")).saw(ASKED, why));
        }
        Err(_) => {}
    }
    let (connector, from) = match machine.built("CONNECTOR") {
        Ok(built) => built,
        // On the live machine the refusal of the socket is the better reason.
        Err(no_config) => match &machine.events {
            Err(Cannot::NeedsLive(_)) | Ok(_) => return Err(no_config),
            Err(cannot) => return Err(cannot.clone()),
        },
    };
    let (events, events_from) = machine.built("PROC_EVENTS")?;
    let outcome = match (&connector, &events) {
        (Built::In, Built::In) => Outcome::good("built in"),
        (Built::Module, _) => {
            Outcome::bad("CONNECTOR is a module, and so there are no process events")
        }
        _ => Outcome::bad("built without process events"),
    };
    Ok(outcome
        .saw(from, connector.words())
        .saw(events_from, events.words()))
}

pub(super) const EPOLL: Rule = Rule {
    id: "T13",
    title: "epoll",
    of_2009: true,
    reads: "/proc/PID/fd, fdinfo (tfd lines), task/*/syscall with -p; else CONFIG_EPOLL",
    why: "select and poll hand every descriptor to the kernel at every call; epoll only those that are ready. \
          select cannot name a descriptor above 1023 at all: FD_SET writes past its set.",
    source: "select(2), epoll(7); measured by examples/bounds.rs: poll with 1,000 idle descriptors takes 50 µs or more, \
             epoll_wait 0.2 µs with any number",
    dated: "2009; stands today",
    change: "in the application: an event library with epoll (EventMachine: EM.epoll; nio4r has it by default)",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    check: epoll,
};

/// The calls that wait for descriptors, by number on x86-64.
const WAITS: [(u64, &str); 9] = [
    (7, "poll"),
    (23, "select"),
    (232, "epoll_wait"),
    (270, "pselect6"),
    (271, "ppoll"),
    (281, "epoll_pwait"),
    (441, "epoll_pwait2"),
    (426, "io_uring_enter"),
    (288, "accept4"),
];
/// FD_SETSIZE
const SELECT_CAN: usize = 1024;
/// From here on one poll costs about what a short request does (examples/bounds.rs).
const MANY: usize = 1000;

fn epoll(machine: &Machine) -> Result<Outcome, Cannot> {
    let Some(guest) = &machine.guest else {
        let (built, from) = machine.built("EPOLL")?;
        return Ok(match built {
            Built::In => Outcome::good("the kernel has it; -p PID shows whether a process uses it"),
            _ => Outcome::bad("the kernel is built without epoll"),
        }
        .saw(from, built.words()));
    };
    let tree = &machine.tree;
    let open = guest.descriptors(tree)?;
    let mut waiting = Vec::new();
    let mut unknown = None;
    for thread in &guest.threads {
        let line = match tree.read(&guest.file(&format!("task/{thread}/syscall"))) {
            Ok(line) => line,
            Err(cannot) => {
                // A thread that ended meanwhile waits for nothing.
                unknown = Some(cannot)
                    .filter(|cannot| !cannot.is_missing())
                    .or(unknown);
                continue;
            }
        };
        let number = line
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        let name = WAITS.iter().find(|(known, _)| Some(*known) == number);
        waiting.extend(name.map(|(_, name)| *name));
    }
    waiting.sort_unstable();
    let within = |names: &[&str]| waiting.iter().any(|name| names.contains(name));
    let outcome = if within(&["select", "pselect6"]) && open.count > SELECT_CAN {
        Outcome::bad(format!(
            "waits in select with {} descriptors; select can name {SELECT_CAN}",
            open.count
        ))
    } else if within(&["poll", "ppoll", "select", "pselect6"]) && open.count > MANY {
        Outcome::consider(format!("waits in poll with {} descriptors", open.count))
    } else if open.epolls.is_empty() {
        Outcome::good(format!(
            "no epoll, but only {}",
            several(open.count, "descriptor")
        ))
    } else {
        Outcome::good(format!("uses epoll; {}", several(open.count, "descriptor")))
    };
    let mut outcome = outcome
        .saw(guest.file("fd"), format!("{} open", open.count))
        .saw(
            guest.file("task/*/syscall"),
            match (waiting.is_empty(), unknown) {
                (false, _) => waiting.join(" "),
                (true, Some(cannot)) => cannot.to_string(),
                (true, None) => "no thread waits for descriptors".into(),
            },
        );
    for number in open.epolls.iter().take(16) {
        let path = guest.file(&format!("fdinfo/{number}"));
        let text = tree.read(&path).unwrap_or_default();
        let watched = text.lines().filter(|line| line.starts_with("tfd:")).count();
        outcome = outcome.saw(path, format!("epoll that watches {watched}"));
    }
    Ok(outcome)
}
