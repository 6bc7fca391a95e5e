//! How often a network card may interrupt. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::net::ethtool::{Block, Numbers};
use crate::net::nic::Nic;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome};

pub(super) const THROTTLING: Rule = Rule {
    id: "T09",
    title: "interrupt throttling",
    of_2009: true,
    reads: "ioctl ETHTOOL_GCOALESCE per device, its interrupts per second from /proc/interrupts; \
            InterruptThrottleRate in /etc/modprobe.d and /proc/cmdline",
    why: "Each interrupt costs microseconds; waiting for more packets before one costs latency. Adaptive moderation \
          does the first under load and the second when idle. e1000e takes rx-usecs 0, 1, 3 and 4 as its modes: off, \
          dynamic, dynamic conservative, simplified.",
    source: "Documentation/networking/device_drivers/ethernet/intel/e1000e.rst (its default mode stops at 20,000 a second); \
             tap: commit 5503fcecd49f (32 packets: +17.5%); ENA Linux Best Practices; \
             amzn-drivers#60 (drivers may refuse), #272 (fewer interrupts, the same throughput)",
    dated: "on the list of 2009 as a module option; today e1000e's default is 3, and ethtool -C does it live",
    change: "throughput: ethtool -C DEVICE adaptive-rx on; latency: adaptive-rx off rx-usecs 0",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: true,
    checked: &[
        (
            "Documentation/networking/device_drivers/ethernet/intel/e1000e.rst",
            "20000",
        ),
        (
            "drivers/net/ethernet/intel/e1000e/param.c",
            "InterruptThrottleRate",
        ),
    ],
    check: throttling,
};

/// Interrupts per second of one device above which moderation is worth a thought: where e1000e's default mode stops
/// by itself (e1000e.rst, "increased stepwise to 20000").
const MANY: f64 = 20_000.0;
/// Packets a tap hands up at once. Of the 18.6% that the most the kernel allows (64) brought in the commit's own
/// measurement, 32 brought 17.5, and 16 brought 10.9 (5503fcecd49f, "tun: rx batching").
const TAP_BATCH: u32 = 32;

fn throttling(machine: &Machine) -> Result<Outcome, Cannot> {
    if let Some((mode, from)) = e1000e_option(machine) {
        return Ok(e1000e(machine.goal, &mode).saw(from, format!("InterruptThrottleRate={mode}")));
    }
    Ok(machine.each_nic(|nic| coalescing(machine, nic)))
}

/// Returns the mode with which the module e1000e is loaded, where a file sets it.
fn e1000e_option(machine: &Machine) -> Option<(String, String)> {
    const KEY: &str = "InterruptThrottleRate=";
    let first = |text: &str| text.split(',').next().unwrap_or_default().to_owned();
    let cmdline = machine.tree.read("/proc/cmdline").unwrap_or_default();
    let on_cmdline = cmdline
        .split_whitespace()
        .find_map(|word| word.strip_prefix("e1000e.")?.strip_prefix(KEY));
    if let Some(mode) = on_cmdline {
        return Some((first(mode), "/proc/cmdline".into()));
    }
    let files = machine.tree.list("/etc/modprobe.d").unwrap_or_default();
    files
        .iter()
        .filter(|name| name.ends_with(".conf"))
        .find_map(|name| {
            let path = format!("/etc/modprobe.d/{name}");
            let text = machine.tree.read(&path).ok()?;
            text.lines().find_map(|line| {
                let mut words = line.split_whitespace();
                if (words.next(), words.next()) != (Some("options"), Some("e1000e")) {
                    return None;
                }
                let mode = words.find_map(|word| word.strip_prefix(KEY))?;
                Some((first(mode), path.clone()))
            })
        })
}

fn e1000e(goal: Option<Goal>, mode: &str) -> Outcome {
    match (mode.parse::<u32>(), goal) {
        (Ok(1), Some(Goal::Throughput)) => Outcome::consider(
            "e1000e in dynamic mode lets small packets interrupt 70,000 times a second; 3 stops at 20,000",
        ),
        (Ok(1), _) => Outcome::good("e1000e in dynamic mode; its default is 3"),
        (Ok(3), Some(Goal::Latency)) => {
            Outcome::consider("e1000e in conservative mode; 1 has the lower latency")
        }
        (Ok(3), _) => Outcome::good("e1000e in conservative mode, its default"),
        (Ok(0), Some(Goal::Latency)) => Outcome::good("e1000e without throttling"),
        (Ok(0), _) => Outcome::consider("e1000e without throttling: one interrupt per packet"),
        (Ok(4), _) => Outcome::good("e1000e in simplified mode"),
        (Ok(rate @ 100..=100_000), _) => Outcome::consider(format!(
            "e1000e at a fixed {rate} interrupts a second, load or none"
        )),
        _ => Outcome::bad(format!(
            "InterruptThrottleRate={mode} is none of 0, 1, 3, 4, 100 to 100000"
        )),
    }
}

fn coalesce(nic: &Nic, field: &str) -> Setting {
    Setting::Coalesce {
        device: nic.name.clone(),
        field: field.into(),
    }
}

fn coalescing(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let ethtool = machine.ethtool()?;
    let numbers = ethtool.numbers(&nic.name, Block::Coalesce)?;
    let driver = ethtool.driver(&nic.name).unwrap_or_default();
    let rate = machine.samples.rate(|counters| {
        let counts = nic
            .interrupts
            .iter()
            .filter_map(|number| counters.interrupts.get(number));
        Some(counts.map(|interrupt| interrupt.count).sum())
    });
    let outcome = match driver.as_str() {
        "tun" => tap(machine.goal, nic, &numbers),
        "e1000e" => e1000e(machine.goal, &numbers.get("rx-usecs").to_string()),
        _ => judged(machine.goal, nic, &numbers, rate),
    };
    let outcome =
        ["adaptive-rx", "rx-usecs", "rx-frames"]
            .iter()
            .fold(outcome, |outcome, field| {
                outcome.saw(
                    format!("ETHTOOL_GCOALESCE {} {field}", nic.name),
                    numbers.get(field),
                )
            });
    let rate = match rate {
        Some(rate) => format!("{rate:.0} a second over {}", machine.samples.over()),
        None => "not counted: one look".into(),
    };
    Ok(outcome.saw(format!("interrupts of {}", nic.name), rate))
}

fn judged(goal: Option<Goal>, nic: &Nic, numbers: &Numbers, rate: Option<f64>) -> Outcome {
    let (adaptive, usecs) = (numbers.get("adaptive-rx"), numbers.get("rx-usecs"));
    let often = rate.is_some_and(|rate| rate > MANY);
    match (goal, adaptive, usecs) {
        (Some(Goal::Latency), 0, 0) => Outcome::good("no waiting for more packets"),
        (Some(Goal::Latency), adaptive, usecs) => {
            let mut outcome = Outcome::consider("waits for more packets before it interrupts");
            if adaptive != 0 {
                outcome = outcome.change(coalesce(nic, "adaptive-rx"), 0);
            }
            if usecs != 0 {
                outcome = outcome.change(coalesce(nic, "rx-usecs"), 0);
            }
            outcome
        }
        (_, 0, 0) if often => Outcome::consider(format!(
            "{:.0} interrupts a second",
            rate.unwrap_or_default()
        ))
        .change(coalesce(nic, "adaptive-rx"), 1),
        (_, 0, 0) => Outcome::good("not moderated, and not needed at this rate"),
        (_, 0, usecs) => Outcome::good(format!("moderated: {usecs} µs")),
        (_, _, _) => Outcome::good("adaptive"),
    }
}

/// Judges a tap, whose only number is how many packets it hands up at once.
fn tap(goal: Option<Goal>, nic: &Nic, numbers: &Numbers) -> Outcome {
    match (goal, numbers.get("rx-frames")) {
        (Some(Goal::Throughput), 0) => Outcome::consider("this tap hands up packets one by one")
            .change(coalesce(nic, "rx-frames"), TAP_BATCH),
        (Some(Goal::Latency), frames) if frames > 0 => {
            Outcome::consider(format!("this tap waits for {frames} packets"))
                .change(coalesce(nic, "rx-frames"), 0)
        }
        (_, frames) => Outcome::good(format!("a tap, batches of {frames}")),
    }
}
