//! Spreading packets over CPUs in software, where the card has too few queues. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::cpus::{Cpus, mask, to_mask};
use crate::interrupts::served_by;
use crate::machine::Machine;
use crate::net::nic::Nic;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome};

pub(super) const RPS: Rule = Rule {
    id: "T18",
    title: "packet steering (RPS, RFS, XPS)",
    of_2009: false,
    reads: "queues/rx-*/rps_cpus, rps_flow_cnt, queues/tx-*/xps_cpus; packets per CPU in /proc/net/softnet_stat, twice",
    why: "With one queue, one CPU takes every packet. RPS hands them on to others, of the same NUMA node and not the \
          sibling of the one that takes the interrupt. With a queue per CPU it only adds work.",
    source: "Documentation/networking/scaling.rst; ENA Linux Best Practices; from 50,000 packets a second: a sixth of what \
             one CPU took when measured (examples/bounds.rs)",
    dated: "2.6.35 (2010); stands today for few queues",
    change: "echo MASK > /sys/class/net/DEVICE/queues/rx-0/rps_cpus",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        (
            "Documentation/networking/scaling.rst",
            "RPS: Receive Packet Steering",
        ),
        ("net/core/net-sysfs.c", "rps_cpus"),
    ],
    check: |machine| Ok(machine.each_nic(|nic| steering(machine, nic))),
};

/// The share of all packets above which one CPU counts as taking all; the rest is what other devices and the loopback
/// add.
const SHARE: f64 = 0.9;
/// Packets a second from which that is worth a change: a sixth of the 300,000 that one CPU of a small virtual machine
/// took (examples/bounds.rs). Below that the CPU has most of its time for others.
const BUSY: f64 = 50_000.0;

fn steering(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let online = machine.topology.online.len();
    if online < 2 {
        return Ok(Outcome::not_applicable("one CPU"));
    }
    let [queue] = nic.rx_queues.as_slice() else {
        return transmit(machine, nic);
    };
    let file = format!("{}/queues/{queue}/rps_cpus", nic.path());
    let text = machine.tree.read(&file)?;
    let spread = mask(&text).ok_or_else(|| Cannot::odd(&file, &text))?;
    let rates = packet_rates(machine);
    let outcome = if !spread.is_empty() {
        Outcome::good(format!(
            "one queue, packets handed on to {} CPUs",
            spread.len()
        ))
    } else {
        let total: f64 = rates.iter().sum();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let saturated = total > BUSY && most > SHARE * total;
        let wished = machine.goal == Some(Goal::Throughput);
        match (saturated, wished) {
            (true, _) => Outcome::consider(format!(
                "one queue: one CPU takes {most:.0} packets a second"
            )),
            (false, true) => Outcome::consider("one queue: one CPU takes every packet"),
            (false, false) => Outcome::good("one queue, and no CPU is busy with packets"),
        }
    };
    let outcome = match outcome.verdict {
        crate::verdict::Verdict::Consider => {
            outcome.change(Setting::file(&file), to_mask(&others(machine, nic)))
        }
        _ => outcome,
    };
    let mut outcome = outcome.saw(&file, text);
    let sending = nic.tx_queues.first();
    let more = [
        Some(format!("{queue}/rps_flow_cnt")),
        sending.map(|queue| format!("{queue}/xps_cpus")),
    ];
    for file in more.into_iter().flatten() {
        let path = format!("{}/queues/{file}", nic.path());
        outcome = match machine.tree.word(&path) {
            Ok(value) => outcome.saw(path, value),
            Err(cannot) => outcome.saw(path, cannot),
        };
    }
    let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    Ok(if rates.is_empty() {
        outcome.saw("packets a second per CPU", "not counted: one look")
    } else {
        outcome.saw(
            format!("packets a second per CPU over {}", machine.samples.over()),
            rates.join(" "),
        )
    })
}

/// Checks a device with many queues: on the way in the card spreads; on the way out each CPU should have a queue of its
/// own.
fn transmit(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let online = &machine.topology.online;
    let mut masks = Vec::new();
    for queue in &nic.tx_queues {
        let file = format!("{}/queues/{queue}/xps_cpus", nic.path());
        match machine.tree.read(&file) {
            Ok(text) => masks.push((mask(&text).ok_or_else(|| Cannot::odd(&file, &text))?, file)),
            // A device with one transmit queue has no choice to make.
            Err(Cannot::Missing(_) | Cannot::Failed { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    let queues = nic.rx_queues.len();
    let free = masks.len() > 1 && masks.iter().all(|(cpus, _)| cpus.is_empty());
    let wished = machine.goal == Some(Goal::Throughput);
    let outcome = if free && wished && masks.len() >= online.len() {
        let says = format!("{} transmit queues, and none belongs to a CPU", masks.len());
        let pairs = masks.iter().zip(online.iter().cycle());
        pairs.fold(Outcome::consider(says), |outcome, ((_, file), cpu)| {
            outcome.change(Setting::file(file), to_mask(&Cpus::from([*cpu])))
        })
    } else {
        Outcome::good(format!("{queues} receive queues for {} CPUs", online.len()))
    };
    let shown = masks.iter().take(64);
    Ok(shown.fold(outcome, |outcome, (cpus, file)| {
        outcome.saw(file, to_mask(cpus))
    }))
}

fn packet_rates(machine: &Machine) -> Vec<f64> {
    let cpus = machine.samples.first.softnet.as_ref().map_or(0, Vec::len);
    let rate = |cpu: usize| {
        machine
            .samples
            .rate(|counters| Some(counters.softnet.as_ref().ok()?.get(cpu)?.processed))
    };
    (0..cpus).filter_map(rate).collect()
}

/// Returns the CPUs of the device's node without the one that takes the interrupt and its sibling; all of them where
/// that leaves none.
fn others(machine: &Machine, nic: &Nic) -> Cpus {
    let topology = &machine.topology;
    let node = nic.node.and_then(|node| topology.nodes.get(node));
    let room = node.unwrap_or(&topology.online);
    let taken: Cpus = nic
        .interrupts
        .iter()
        .filter_map(|number| served_by(&machine.tree, *number).ok())
        .flatten()
        .collect();
    let cores = topology
        .cores
        .iter()
        .filter(|core| !core.is_disjoint(&taken))
        .flatten();
    let busy: Cpus = cores.chain(&taken).copied().collect();
    let free: Cpus = room.difference(&busy).copied().collect();
    if free.is_empty() { room.clone() } else { free }
}
