//! Events: of processes (the proc connector) and of descriptors (epoll). Used by `rules` and `process`.

use super::rule::{NOTHING, Risk, Rule};
use crate::events::Listening;
use crate::guest::Guest;
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
    checked: &[
        ("drivers/connector/cn_proc.c", "cn_proc_mcast_ctl"),
        ("drivers/connector/Kconfig", "PROC_EVENTS"),
    ],
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
            // Where a kernel that has them refuses, the reason is the namespace.
            let built = machine
                .built("PROC_EVENTS")
                .is_ok_and(|(built, _)| built == Built::In);
            let outcome = if built {
                Outcome::cannot_tell("events are heard in the first network namespace only")
            } else {
                Outcome::bad("no process events")
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
        // On the live machine the error of the socket is the better reason.
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
    reads: "with -p /proc/PID/fd, fdinfo (tfd lines), and task/*/syscall: in which call each thread waits, for how many; \
            else CONFIG_EPOLL",
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
    checked: &[
        ("fs/eventpoll.c", "ep_poll"),
        ("fs/select.c", "do_select"),
        ("include/uapi/linux/posix_types.h", "__FD_SETSIZE\t1024"),
    ],
    check: epoll,
};

/// A system call that waits for descriptors.
struct Wait {
    /// Its number on x86-64.
    number: u64,
    name: &'static str,
    /// The argument that holds the number of descriptors, where all are passed at each call.
    count: Option<usize>,
}

const fn wait(number: u64, name: &'static str, count: Option<usize>) -> Wait {
    Wait {
        number,
        name,
        count,
    }
}

const WAITS: [Wait; 9] = [
    wait(7, "poll", Some(1)),
    wait(23, "select", Some(0)),
    wait(232, "epoll_wait", None),
    wait(270, "pselect6", Some(0)),
    wait(271, "ppoll", Some(1)),
    wait(281, "epoll_pwait", None),
    wait(441, "epoll_pwait2", None),
    wait(426, "io_uring_enter", None),
    wait(288, "accept4", None),
];

/// Parses `/proc/PID/task/TID/syscall` (number and arguments, proc_pid_syscall(5)): the name of a call that waits, and
/// for how many descriptors.
fn waits(line: &str) -> Option<(&'static str, Option<u64>)> {
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let known = WAITS.iter().find(|known| known.number == number)?;
    let count = known.count.and_then(|at| {
        let word = words.nth(at)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    });
    Some((known.name, count))
}

/// Descriptors that select can wait for: FD_SETSIZE.
pub(super) const SELECT_CAN: usize = 1024;
/// From this many descriptors on one poll costs about what a short request does (examples/bounds.rs).
const MANY: u64 = 1000;

/// Returns the calls by which threads of a process wait for descriptors now, each with how many, and why that is not
/// known of some thread.
fn waiting(machine: &Machine, guest: &Guest) -> (Vec<(&'static str, Option<u64>)>, Option<Cannot>) {
    let (mut waiting, mut unknown) = (Vec::new(), None);
    for thread in &guest.threads {
        match machine
            .tree
            .read(&guest.file(&format!("task/{thread}/syscall")))
        {
            Ok(line) => waiting.extend(waits(&line)),
            // A thread that ended meanwhile waits for nothing.
            Err(cannot) if cannot.is_missing() => {}
            Err(cannot) => unknown = Some(cannot),
        }
    }
    waiting.sort_unstable();
    (waiting, unknown)
}

/// Returns whether a thread of a process waits in select now, and its language does not make the sets as large as
/// necessary.
pub(super) fn uses_select(machine: &Machine, guest: &Guest) -> bool {
    let (waiting, _) = waiting(machine, guest);
    let enlarges = guest.language(&machine.tree, |language| language.enlarges_sets);
    waiting.iter().any(|(name, _)| name.contains("select")) && enlarges.is_none()
}

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
    let (waiting, unknown) = waiting(machine, guest);
    let most = waiting.iter().filter_map(|(_, count)| *count).max();
    let all = several(open.count, "descriptor");
    let outcome = if open.count > SELECT_CAN && uses_select(machine, guest) {
        Outcome::bad(format!(
            "waits in select and has {all}; FD_SET can name {SELECT_CAN}"
        ))
    } else if let Some(most @ MANY..) = most {
        Outcome::consider(format!(
            "hands {most} descriptors to the kernel each time it waits"
        ))
    } else if open.epolls.is_empty() {
        Outcome::good(format!("no epoll, {all}"))
    } else {
        Outcome::good(format!("uses epoll; {all}"))
    };
    let names: Vec<String> = waiting
        .iter()
        .map(|(name, count)| match count {
            Some(count) => format!("{name} for {count}"),
            None => (*name).to_owned(),
        })
        .collect();
    let mut outcome = outcome
        .saw(guest.file("fd"), format!("{} open", open.count))
        .saw(
            guest.file("task/*/syscall"),
            match (names.is_empty(), unknown) {
                (false, _) => names.join(", "),
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

#[cfg(test)]
mod tests {
    use super::waits;

    #[test]
    fn a_wait_says_for_how_many() {
        assert_eq!(
            waits("7 0x7ffc00 0x7d0 0xffffffff 0x0"),
            Some(("poll", Some(2000)))
        );
        assert_eq!(waits("270 0x11 0x7ffc00 0x0"), Some(("pselect6", Some(17))));
        assert_eq!(waits("232 0x5 0x7ffc00 0x400"), Some(("epoll_wait", None)));
        assert_eq!(waits("7"), Some(("poll", None)));
        for line in ["running", "0 0x3", "-1 0x7ffc 0x0", ""] {
            assert_eq!(waits(line), None, "{line}");
        }
    }
}
