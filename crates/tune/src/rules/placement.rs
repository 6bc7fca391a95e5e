//! Where things run: interrupts, the guest's threads, memory. Used by `rules`.

use std::collections::BTreeMap;

use super::arrivals;
use super::rule::{Risk, Rule, WRITE_BACK};
use crate::cpus::{Cpus, to_list};
use crate::interrupts::{affinity_file, served_by};
use crate::machine::Machine;
use crate::net::nic::Nic;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome, Verdict, several};

pub(super) const AFFINITY: Rule = Rule {
    id: "T10",
    title: "IRQ and process affinity",
    of_2009: true,
    reads: "msi_irqs of the device or its parent, /proc/interrupts, /proc/irq/N/effective_affinity_list; topology \
            in /sys/devices/system; with -p Cpus_allowed_list, stat field 39, SO_INCOMING_CPU and \
            SO_INCOMING_NAPI_ID of its sockets, and netlink netdev queue-get for the queue and interrupt behind them",
    why: "A packet is touched first by the CPU that took the interrupt. All queues on one CPU make that CPU the limit; \
          a CPU of another NUMA node reads each packet across the link; a program that shares no cache with it fetches \
          every byte again.",
    source: "Documentation/networking/scaling.rst; ENA Linux Best Practices; chef-bcpc#2115 (10 to 20%)",
    dated: "2009; stands today",
    change: "echo CPU > /proc/irq/N/smp_affinity_list, one queue per CPU of the card's node",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/irq/proc.c", "effective_affinity"),
        (
            "Documentation/core-api/irq/irq-affinity.rst",
            "smp_affinity",
        ),
    ],
    check: affinity,
};

fn affinity(machine: &Machine) -> Result<Outcome, Cannot> {
    let outcome = machine.each_nic(|nic| placed(machine, nic));
    let Some(guest) = &machine.guest else {
        return Ok(outcome);
    };
    let served = arrivals::cpus(machine);
    let apart = !served.is_empty() && !machine.topology.share_cache(&guest.allowed, &served);
    let outcome = match outcome.verdict {
        Verdict::Good | Verdict::NotApplicable if apart => Outcome {
            verdict: Verdict::Consider,
            says: format!(
                "{} runs on CPUs {}, its packets arrive on {}: they share no cache",
                guest.comm,
                to_list(&guest.allowed),
                to_list(&served)
            ),
            ..outcome
        }
        .change(
            Setting::Affinity {
                pid: guest.pid,
                started: guest.started,
            },
            to_list(&machine.topology.beside(&served)),
        ),
        _ => outcome,
    };
    Ok(arrivals::shown(machine, outcome)
        .saw(
            guest.file("status Cpus_allowed_list"),
            to_list(&guest.allowed),
        )
        .saw(
            guest.file("task/*/stat, last CPUs"),
            to_list(&guest.last_cpus),
        ))
}

/// Checks where the interrupts of one card go.
fn placed(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    if nic.interrupts.is_empty() {
        return Ok(if nic.is_hardware() {
            Outcome::cannot_tell("no interrupts of its queues were found")
        } else {
            Outcome::not_applicable("a device of software has no interrupts")
        });
    }
    let mut serving: BTreeMap<u32, Cpus> = BTreeMap::new();
    for number in &nic.interrupts {
        serving.insert(*number, served_by(&machine.tree, *number)?);
    }
    let all: Cpus = serving.values().flatten().copied().collect();
    let topology = &machine.topology;
    let home = nic.node.and_then(|node| topology.nodes.get(node));
    let home = home.filter(|_| topology.nodes.len() > 1);
    let room = home.unwrap_or(&topology.online);
    let strangers = serving
        .values()
        .filter(|cpus| home.is_some_and(|home| cpus.is_disjoint(home)))
        .count();
    let outcome = if all.len() == 1 && serving.len() > 2 && room.len() > 1 {
        let says = format!("all {} interrupts on CPU {}", serving.len(), to_list(&all));
        spread(Outcome::bad(says), nic, room)
    } else if strangers > 0 {
        let node = nic.node.unwrap_or_default();
        let says = format!(
            "{strangers} of {} interrupts served off its NUMA node {node}",
            serving.len()
        );
        spread(Outcome::bad(says), nic, room)
    } else {
        let interrupts = several(serving.len(), "interrupt");
        Outcome::good(format!("{interrupts} on CPUs {}", to_list(&all)))
    };
    Ok(serving.iter().fold(outcome, |outcome, (number, cpus)| {
        let known = machine.samples.latest().interrupts.get(number);
        let name = known.map_or("", |interrupt| interrupt.name.as_str());
        outcome.saw(
            format!("/proc/irq/{number} {name}"),
            format!("CPU {}", to_list(cpus)),
        )
    }))
}

/// Proposes to spread the interrupts of a card over CPUs, one after the other.
fn spread(outcome: Outcome, nic: &Nic, over: &Cpus) -> Outcome {
    let pairs = nic.interrupts.iter().zip(over.iter().cycle());
    pairs.fold(outcome, |outcome, (number, cpu)| {
        outcome.change(Setting::file(affinity_file(*number)), cpu)
    })
}

pub(super) const IRQBALANCE: Rule = Rule {
    id: "T11",
    title: "irqbalance",
    of_2009: false,
    reads: "/proc/*/comm; drivers of the network devices; /proc/irq/N/smp_affinity_list",
    why: "It moves interrupts by load. With interrupts pinned by hand it may undo the pins. On ENA the driver gives no \
          hints, and after a device reset all queues come back on one CPU: there it is wanted.",
    source: "Documentation/networking/scaling.rst; haproxy#1194 (remove it); ENA Linux Best Practices (keep it); \
             irqbalance#236, #346",
    dated: "contested; looked at in 2026",
    change: "with pins: IRQBALANCE_BANNED_CPULIST, or stop the unit; on ENA without pins: start it",
    undo: "put the unit back as it was",
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[("Documentation/networking/scaling.rst", "irqbalance")],
    check: irqbalance,
};

fn irqbalance(machine: &Machine) -> Result<Outcome, Cannot> {
    if machine.topology.online.len() == 1 {
        return Ok(Outcome::not_applicable("one CPU"));
    }
    machine.tree.list("/proc")?;
    let running = machine.process_named(&["irqbalance"]);
    let default = machine.tree.word("/proc/irq/default_smp_affinity").ok();
    let default = default
        .and_then(|text| crate::cpus::mask(&text))
        .unwrap_or_default();
    let numbers = machine.nics.iter().flat_map(|nic| &nic.interrupts);
    let pinned = numbers
        .filter_map(|number| machine.tree.read(&affinity_file(*number)).ok())
        .filter(|text| crate::cpus::list(text).is_some_and(|cpus| cpus.len() < default.len()))
        .count();
    let ena = machine
        .nics
        .iter()
        .any(|nic| nic.driver.as_deref() == Some("ena"));
    let outcome = match (running, pinned, ena) {
        (Some(_), pinned, _) if pinned > 0 => Outcome::consider(format!(
            "runs, and {pinned} interrupts look pinned: by hand, or by itself"
        )),
        (Some(_), ..) => Outcome::good("runs"),
        (None, 0, true) => {
            Outcome::consider("is not seen running, and the ENA driver gives no hints")
        }
        (None, 0, false) => {
            Outcome::good("is not seen running; the kernel and the drivers place interrupts")
        }
        (None, pinned, _) => Outcome::good(format!(
            "is not seen running; {pinned} interrupts are pinned"
        )),
    };
    let seen = running.map_or("none of that name".into(), |(pid, _)| format!("PID {pid}"));
    Ok(outcome
        .saw("/proc/*/comm irqbalance", seen)
        .saw("interrupts narrower than the default", pinned))
}

pub(super) const NUMA: Rule = Rule {
    id: "T33",
    title: "NUMA balancing",
    of_2009: false,
    reads: "/proc/sys/kernel/numa_balancing, /sys/devices/system/node/online; with -p Cpus_allowed_list",
    why: "It unmaps pages to see who uses them and moves them there. A process pinned to one node gains nothing and \
          pays for the faults.",
    source: "Documentation/admin-guide/sysctl/kernel.rst; tuned network-latency (0)",
    dated: "3.13 (2014); stands today",
    change: "latency goal, pinned process: sysctl kernel.numa_balancing=0",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("kernel/sched/core.c", "numa_balancing"),
        (
            "Documentation/admin-guide/sysctl/kernel.rst",
            "numa_balancing",
        ),
    ],
    check: numa,
};

fn numa(machine: &Machine) -> Result<Outcome, Cannot> {
    const KEY: &str = "/proc/sys/kernel/numa_balancing";
    let nodes = machine.topology.nodes.len();
    let seen = format!("{nodes} nodes");
    if nodes < 2 {
        machine.tree.list("/sys/devices/system")?;
        return Ok(Outcome::not_applicable("one NUMA node").saw("/sys/devices/system/node", seen));
    }
    let value: u32 = machine.tree.number(KEY)?;
    let pinned = machine.guest.as_ref().is_some_and(|guest| {
        machine
            .topology
            .nodes
            .iter()
            .any(|node| guest.allowed.is_subset(node))
    });
    let outcome = match (value, machine.goal, pinned) {
        (0, ..) => Outcome::good("off"),
        (_, Some(Goal::Latency), true) => {
            Outcome::consider("on, and the process is pinned to one node already")
                .change(Setting::file(KEY), 0)
        }
        _ => Outcome::good("on, the default"),
    };
    Ok(outcome
        .saw(KEY, value)
        .saw("/sys/devices/system/node", seen))
}
