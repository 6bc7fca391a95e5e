//! Polling in place of interrupts: NAPI, and sockets that poll for themselves. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::kconfig::Built;
use crate::machine::Machine;
use crate::net::nic::Nic;
use crate::setting::{Setting, sysctl_path};
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome, Verdict, several};

pub(super) const NAPI: Rule = Rule {
    id: "T07",
    title: "NAPI",
    of_2009: true,
    reads: "netlink netdev napi-get; threaded, napi_defer_hard_irqs, gro_flush_timeout in /sys/class/net/DEVICE; \
            CONFIG_E1000_NAPI and its kin in old kernels",
    why: "After the first interrupt the driver polls until the queue is empty. In 2009 it was an option of some \
          drivers; today it is the only way. What can be set: polling in threads of its own, and leaving interrupts \
          off (napi_defer_hard_irqs) for as long as a timer (gro_flush_timeout) allows. The first without the timer \
          does nothing.",
    source: "Documentation/networking/napi.rst; drivers/net/Kconfig of 2.6.28",
    dated: "2009; always on since the drivers lost the option (2.6.3x). Threads 5.12 (2021), IRQ suspension 6.13 (2025)",
    change: "latency goal: echo 1 > threaded; both timers together or none",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("Documentation/networking/napi.rst", "threaded"),
        ("net/core/net-sysfs.c", "gro_flush_timeout"),
    ],
    check: napi,
};

/// Drivers that had NAPI as an option.
const OPTIONS: [&str; 4] = ["E1000_NAPI", "E100_NAPI", "IXGB_NAPI", "R8169_NAPI"];

fn napi(machine: &Machine) -> Result<Outcome, Cannot> {
    if let Ok(config) = machine.config() {
        let off = OPTIONS.iter().find(|name| config.get(name) == Built::Off);
        if let Some(name) = off {
            let says = format!("this kernel's driver is built without NAPI: CONFIG_{name} is off");
            return Ok(
                Outcome::bad(says).saw(format!("{} CONFIG_{name}", config.from), "is not set")
            );
        }
        if let Some(name) = OPTIONS.iter().find(|name| config.get(name) == Built::In) {
            let from = format!("{} CONFIG_{name}", config.from);
            return Ok(Outcome::good("built with NAPI").saw(from, "y"));
        }
    }
    Ok(machine.each_nic(|nic| Ok(instances(machine, nic))))
}

fn instances(machine: &Machine, nic: &Nic) -> Outcome {
    let tree = &machine.tree;
    let file = |name: &str| format!("{}/{name}", nic.path());
    let value = |name: &str| tree.number::<u64>(&file(name)).ok();
    let (threaded, defer, flush) = (
        value("threaded"),
        value("napi_defer_hard_irqs"),
        value("gro_flush_timeout"),
    );
    let own: Vec<_> = machine
        .napi()
        .unwrap_or_default()
        .iter()
        .filter(|napi| Some(napi.ifindex) == nic.ifindex)
        .collect();
    let mut outcome = match (defer, flush) {
        (Some(defer), Some(0)) if defer > 0 => {
            Outcome::bad("napi_defer_hard_irqs without gro_flush_timeout: it does nothing")
        }
        _ if machine.goal == Some(Goal::Latency) && threaded == Some(0) && !own.is_empty() => {
            Outcome::consider("polled in softirq: whichever thread runs there pays for it")
                .change(Setting::file(file("threaded")), "1")
        }
        _ if threaded == Some(1) => Outcome::good("always on; polled by threads of its own"),
        _ => Outcome::good("always on"),
    };
    for name in ["threaded", "napi_defer_hard_irqs", "gro_flush_timeout"] {
        outcome = match tree.word(&file(name)) {
            Ok(value) => outcome.saw(file(name), value),
            Err(cannot) => outcome.saw(file(name), cannot),
        };
    }
    match machine.napi() {
        Err(cannot) => outcome.saw("napi-get", cannot),
        Ok(_) if own.is_empty() => outcome.saw(format!("napi-get {}", nic.name), "no instance"),
        Ok(_) => own.into_iter().fold(outcome, |outcome, napi| {
            let or_dash = |value: Option<u32>| value.map_or("-".into(), |value| value.to_string());
            let text = format!(
                "irq {}, thread {}, defer {}, flush {} ns, suspend {} ns",
                or_dash(napi.irq),
                or_dash(napi.thread),
                or_dash(napi.defer_hard_irqs),
                or_dash(napi.gro_flush_nanos),
                or_dash(napi.irq_suspend_nanos)
            );
            outcome.saw(format!("napi-get {} id {}", nic.name, napi.id), text)
        }),
    }
}

pub(super) const BUSY_POLL: Rule = Rule {
    id: "T08",
    title: "busy polling of sockets",
    of_2009: false,
    reads: "/proc/sys/net/core/busy_poll, busy_read; with -p SO_BUSY_POLL of its sockets",
    why: "A thread that waits for a packet polls the card itself for so many microseconds before it sleeps. Saves the \
          wake-up, burns the CPU meanwhile.",
    source: "tuned network-latency (50), ENA Linux Best Practices (70); Documentation/networking/napi.rst",
    dated: "3.11 (2013); stands today for the latency goal alone",
    change: "latency goal: sysctl net.core.busy_poll=50 net.core.busy_read=50; otherwise 0",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/core/sysctl_net_core.c", "busy_poll"),
        ("Documentation/networking/napi.rst", "Busy polling"),
    ],
    check: busy_poll,
};

fn busy_poll(machine: &Machine) -> Result<Outcome, Cannot> {
    const KEYS: [&str; 2] = ["net.core.busy_poll", "net.core.busy_read"];
    let wanted = match machine.goal {
        Some(Goal::Latency) => 50,
        Some(Goal::Throughput) | None => 0,
    };
    let read = |key| machine.tree.number::<u32>(&sysctl_path(key));
    let outcome = match (read(KEYS[0]), read(KEYS[1])) {
        (Ok(poll), Ok(read)) => by_sysctl([poll, read], wanted),
        // The keys exist in the first network namespace only.
        (Err(Cannot::Missing(_)), _) if machine.tree.exists("/proc/sys/net/core") => {
            Outcome::not_applicable("not in this network namespace: it is set in the first one")
        }
        (Err(cannot), _) | (_, Err(cannot)) => return Err(cannot),
    };
    let outcome = KEYS.iter().fold(outcome, |outcome, key| match read(key) {
        Ok(value) if outcome.verdict == Verdict::Consider && value != wanted => outcome
            .saw(*key, value)
            .change(Setting::sysctl(key), wanted),
        Ok(value) => outcome.saw(*key, value),
        Err(cannot) => outcome.saw(*key, cannot),
    });
    let Some(guest) = &machine.guest else {
        return Ok(outcome);
    };
    let place = format!("SO_BUSY_POLL of sockets of {}", guest.comm);
    let sockets = match machine.borrowed() {
        Ok(sockets) => sockets,
        Err(cannot) => return Ok(outcome.saw(place, cannot)),
    };
    let polling: Vec<u32> = sockets
        .iter()
        .map(|socket| socket.busy_poll)
        .filter(|micros| *micros > 0)
        .collect();
    let (Some(least), Some(most)) = (polling.iter().min(), polling.iter().max()) else {
        return Ok(outcome.saw(place, format!("0, all {} of them", sockets.len())));
    };
    let micros = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    let seen = format!(
        "{micros} µs, {} of {} of them",
        polling.len(),
        sockets.len()
    );
    // What the program asks for itself comes before the system's default for new sockets.
    Ok(match (outcome.verdict, wanted) {
        (Verdict::Good | Verdict::NotApplicable, 0) => Outcome {
            verdict: Verdict::Consider,
            says: format!(
                "{} polls in {} for up to {most} µs: whoever waits there burns CPU",
                guest.comm,
                several(polling.len(), "socket")
            ),
            ..outcome
        },
        _ => outcome,
    }
    .saw(place, seen))
}

/// `busy_poll` is for poll and select, `busy_read` for blocking reads and the default of new sockets.
fn by_sysctl(values: [u32; 2], wanted: u32) -> Outcome {
    let [poll, read] = values;
    match (values, wanted) {
        ([0, 0], 50) => Outcome::consider("off; for the latency goal 50 µs are advised"),
        ([0, 0], _) => Outcome::good("off"),
        (_, 50) => Outcome::good(format!("{poll} and {read} µs")),
        _ => Outcome::consider(format!("{poll} and {read} µs: threads that wait burn CPU")),
    }
}
