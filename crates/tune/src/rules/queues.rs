//! How traffic is spread over queues on the way in, and in which order it leaves. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::net::ethtool::Block;
use crate::net::nic::Nic;
use crate::net::qdisc;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome, several};

pub(super) const RSS: Rule = Rule {
    id: "T17",
    title: "receive queues (RSS)",
    of_2009: false,
    reads: "ioctl ETHTOOL_GCHANNELS, ETHTOOL_GRXFHINDIR; thread_siblings_list",
    why: "One queue per physical core is enough: more only add interrupts, and the two threads of a core bring no \
          benefit. The table that sends flows to queues should use all of them alike.",
    source: "Documentation/networking/scaling.rst; ENA Linux Best Practices",
    dated: "stands in 2026",
    change: "ethtool -L DEVICE combined CORES; interrupts the traffic for a moment",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/ethtool/ioctl.c", "ETHTOOL_GCHANNELS"),
        (
            "Documentation/networking/scaling.rst",
            "RSS: Receive Side Scaling",
        ),
    ],
    check: |machine| Ok(machine.each_nic(|nic| rss(machine, nic))),
};

fn rss(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let ethtool = machine.ethtool()?;
    let numbers = ethtool.numbers(&nic.name, Block::Channels)?;
    let cores = machine.cores() as u32;
    let field = match numbers.get("combined") {
        0 => "rx",
        _ => "combined",
    };
    let (now, most) = (numbers.get(field), numbers.get(&format!("max-{field}")));
    if most == 0 {
        return Err(Cannot::Unsupported {
            what: format!("{}: a number of queues", nic.name),
            why: "by its driver".into(),
        });
    }
    let setting = || Setting::Channels {
        device: nic.name.clone(),
        field: field.into(),
    };
    let uneven = ethtool
        .spread(&nic.name)
        .ok()
        .filter(|table| is_uneven(table, now));
    let outcome = if cores > 0 && now > cores {
        Outcome::consider(format!(
            "{now} queues for {cores} cores: more than can work at once"
        ))
        .change(setting(), cores)
    } else if let Some(table) = &uneven {
        Outcome::consider(format!(
            "flows are not spread evenly: {}",
            shares(table, now)
        ))
    } else if machine.goal == Some(Goal::Throughput) && now < cores.min(most) {
        Outcome::consider(format!(
            "{now} queues for {cores} cores; the device has up to {most}"
        ))
        .change(setting(), cores.min(most))
    } else {
        let queues = several(now as usize, "queue");
        let cores = several(cores as usize, "core");
        Outcome::good(format!("{queues} of at most {most}, {cores}"))
    };
    let mut outcome = outcome.saw(
        format!("ETHTOOL_GCHANNELS {}", nic.name),
        format!("{field} {now}, max-{field} {most}"),
    );
    outcome = match ethtool.spread(&nic.name) {
        Ok(table) => outcome.saw(
            format!("ETHTOOL_GRXFHINDIR {}", nic.name),
            shares(&table, now),
        ),
        Err(cannot) => outcome.saw(format!("ETHTOOL_GRXFHINDIR {}", nic.name), cannot),
    };
    Ok(outcome.saw("physical cores", cores))
}

fn per_queue(table: &[u32], queues: u32) -> Vec<usize> {
    let of = |queue| table.iter().filter(|entry| **entry == queue).count();
    (0..queues.min(4096)).map(of).collect()
}

/// Returns whether the entries of the table differ by more than one, which they do not where it was filled in turn.
fn is_uneven(table: &[u32], queues: u32) -> bool {
    let shares = per_queue(table, queues);
    let bounds = shares.iter().min().zip(shares.iter().max());
    bounds.is_some_and(|(least, most)| most - least > 1)
}

fn shares(table: &[u32], queues: u32) -> String {
    let shares: Vec<String> = per_queue(table, queues)
        .iter()
        .map(usize::to_string)
        .collect();
    format!("entries per queue {}", shares.join(" "))
}

pub(super) const QDISC: Rule = Rule {
    id: "T20",
    title: "queueing and congestion control",
    of_2009: false,
    reads: "/proc/sys/net/core/default_qdisc, net.ipv4.tcp_congestion_control; rtnetlink RTM_GETQDISC per device; \
            with -p the congestion control of each socket (sock_diag INET_DIAG_CONG)",
    why: "BBR paces what it sends. fq does that per packet in the discipline; without it TCP paces with timers of \
          its own, which works and costs more CPU. A plain pfifo knows no flows: one big one delays all others. \
          A device takes default_qdisc only when it comes up or loses the one it was given.",
    source: "net/ipv4/tcp_bbr.c (4.20: internal pacing); tc-fq(8), tc-pfifo_fast(8)",
    dated: "4.9 (2016) to 4.20 (2018); stands today",
    change: "a pfifo that was put there: tc qdisc del dev DEVICE root; for bbr sysctl net.core.default_qdisc=fq",
    undo: "lancet tune --undo last: kind and options as they were; the kernel's own choice by removing ours",
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/ipv4/tcp_bbr.c", "fq"),
        ("net/sched/sch_api.c", "default_qdisc"),
    ],
    check: queueing,
};

fn queueing(machine: &Machine) -> Result<Outcome, Cannot> {
    const CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    const DEFAULT: &str = "/proc/sys/net/core/default_qdisc";
    let control = machine.tree.word(CONTROL)?;
    // The key exists in the first network namespace only.
    let default = machine.tree.word(DEFAULT);
    let own = machine.congestion();
    // A program may choose another than the system's for its sockets.
    let used = match own {
        Ok(own) if own.contains_key("bbr") => "bbr",
        Ok(own) => own.keys().next().map_or(control.as_str(), String::as_str),
        Err(_) => control.as_str(),
    };
    let outcome = if machine.tree.is_live() {
        machine.each_nic(|nic| device(nic, used))
    } else {
        match (control.as_str(), &default) {
            ("bbr", Ok(default)) if default != "fq" => Outcome::consider(format!(
                "bbr over {default}: TCP paces with timers of its own"
            )),
            (_, Ok(default)) => Outcome::good(format!("{control} over {default}")),
            (_, Err(_)) => Outcome::good(control.clone()),
        }
    };
    let default = default.unwrap_or_else(|cannot| cannot.to_string());
    let outcome = outcome.saw(CONTROL, &control).saw(DEFAULT, default);
    let Some(guest) = &machine.guest else {
        return Ok(outcome);
    };
    let counts = own.map(|own| {
        let counts = own.iter().map(|(name, count)| format!("{count} {name}"));
        counts.collect::<Vec<String>>().join(", ")
    });
    Ok(outcome.saw(
        format!("TCP sockets of {}", guest.comm),
        match counts {
            Ok(none) if none.is_empty() => "none".into(),
            Ok(counts) => counts,
            Err(cannot) => cannot.to_string(),
        },
    ))
}

fn device(nic: &Nic, control: &str) -> Result<Outcome, Cannot> {
    let index = nic
        .ifindex
        .ok_or_else(|| Cannot::Missing(format!("{}/ifindex", nic.path())))?;
    let root = qdisc::read(index)?;
    let setting = || Setting::Qdisc {
        device: nic.name.clone(),
    };
    let kind = root.kind.as_str();
    let outcome = match (kind, control) {
        ("pfifo" | "bfifo", _) => {
            let says = format!("{kind} is one queue for all flows, and not the default here");
            Outcome::consider(says).change(setting(), qdisc::DEFAULT)
        }
        ("fq" | "noqueue" | "mq", _) => Outcome::good(format!("{control} over {kind}")),
        (_, "bbr") => {
            let says = format!("bbr over {kind}: TCP paces with timers of its own; fq would");
            Outcome::consider(says)
        }
        _ => Outcome::good(format!("{control} over {kind}")),
    };
    Ok(outcome.saw(format!("RTM_GETQDISC {}", nic.name), kind))
}

#[cfg(test)]
mod tests {
    use super::is_uneven;

    #[test]
    fn a_table_filled_in_turn_is_even() {
        let even: Vec<u32> = (0..128).map(|entry| entry % 6).collect();
        assert!(!is_uneven(&even, 6));
        assert!(is_uneven(&even, 8));
        assert!(!is_uneven(&[], 0));
    }
}
