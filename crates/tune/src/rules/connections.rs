//! Connections: the ports they leave from, the buffers they have, the table that tracks them.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::net::sockets::busiest_time_wait;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome};

pub(super) const PORTS: Rule = Rule {
    id: "T23",
    title: "local ports",
    of_2009: false,
    reads: "net.ipv4.ip_local_port_range; tw in /proc/net/sockstat; where that is high, TIME_WAIT sockets per \
            destination by sock_diag; net.ipv4.tcp_tw_recycle",
    why: "A client has one port per connection to one destination, and keeps it a minute after closing (TIME_WAIT). \
          connect() looks at every other port first: past half of the range it goes over all of those, each time, before \
          it finds one. tcp_tw_recycle, once advised for this, breaks clients behind NAT.",
    source: "ip-sysctl.rst; deepops#354 (tw_recycle); half of the range: net/ipv4/inet_hashtables.c since 4.2 (commit \
             07f4c90062f8), measured by examples/bounds.rs: 15 µs up to 45% in use, 2,600 µs from 50%",
    dated: "stands today; tcp_tw_recycle is harmful and gone since 4.12 (2017)",
    change: "sysctl net.ipv4.ip_local_port_range='10240 60999', net.ipv4.tcp_tw_reuse=1",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    check: ports,
};

fn ports(machine: &Machine) -> Result<Outcome, Cannot> {
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    const RECYCLE: &str = "/proc/sys/net/ipv4/tcp_tw_recycle";
    const SOCKSTAT: &str = "/proc/net/sockstat";
    if machine.tree.word(RECYCLE).is_ok_and(|value| value != "0") {
        return Ok(Outcome::harmful(
            "tcp_tw_recycle is on: clients behind one NAT are dropped at random",
        )
        .saw(RECYCLE, 1)
        .change(Setting::file(RECYCLE), 0));
    }
    let text = machine.tree.read(RANGE)?;
    let mut numbers = text.split_whitespace().map(str::parse::<u32>);
    let (Some(Ok(first)), Some(Ok(last))) = (numbers.next(), numbers.next()) else {
        return Err(Cannot::odd(RANGE, &text));
    };
    if last < first || last > 65_535 {
        return Err(Cannot::odd(RANGE, &text));
    }
    let room = (last - first + 1) as usize;
    let stat = machine.tree.read(SOCKSTAT)?;
    let waiting: usize = stat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))
        .and_then(|line| {
            let mut words = line.split_whitespace();
            words.find(|word| *word == "tw")?;
            words.next()?.parse().ok()
        })
        .ok_or_else(|| Cannot::odd(SOCKSTAT, &stat))?;
    let seen = |outcome: Outcome| {
        outcome
            .saw(RANGE, format!("{first} {last}, {room} ports"))
            .saw(format!("{SOCKSTAT} tw"), waiting)
    };
    let bound = room / 2;
    if waiting <= bound {
        // Not even if all of them went to one destination.
        return Ok(seen(Outcome::good(format!(
            "{waiting} in TIME_WAIT, {room} ports per destination"
        ))));
    }
    if !machine.tree.is_live() {
        return Ok(seen(Outcome::cannot_tell(format!(
            "{waiting} in TIME_WAIT; to where is known only live"
        ))));
    }
    Ok(seen(match busiest_time_wait()? {
        Some((address, port, count)) if count > bound => {
            let used = format!("{count} of {room} ports to {address}:{port} are in TIME_WAIT");
            if count > room / 10 * 9 {
                Outcome::bad(format!("{used}: soon none is left"))
            } else {
                Outcome::consider(format!("{used}: each connect() searches for one"))
            }
            .change(Setting::file(RANGE), "10240 60999")
            .change(Setting::sysctl("net.ipv4.tcp_tw_reuse"), 1)
        }
        _ => Outcome::good(format!("{waiting} in TIME_WAIT, to many destinations")),
    }))
}

pub(super) const BUFFERS: Rule = Rule {
    id: "T24",
    title: "TCP buffers",
    of_2009: false,
    reads: "net.ipv4.tcp_rmem, tcp_wmem",
    why: "The third number bounds how much one connection may have under way: bandwidth times delay. 6 MiB, the default, \
          fills 1 Gbit/s over 50 ms. More helps fast and far transfers; it also lets a queue grow that \
          must be collapsed, which stalls the socket.",
    source: "ip-sysctl.rst; tuned throughput-performance (16 MiB); Cloudflare 2015 (4 MiB, because of tcp_collapse)",
    dated: "2015; stands today, by goal",
    change: "throughput goal: sysctl net.ipv4.tcp_rmem, tcp_wmem with a maximum of 16 MiB",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    check: buffers,
};

const FAR: u64 = 16 << 20;

fn buffers(machine: &Machine) -> Result<Outcome, Cannot> {
    let mut outcome: Option<Outcome> = None;
    let mut seen = Vec::new();
    let mut maxima = Vec::new();
    for key in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        let path = crate::setting::sysctl_path(key);
        let text = machine.tree.read(&path)?;
        let numbers: Vec<i64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let &[least, usual, most] = numbers.as_slice() else {
            return Err(Cannot::odd(&path, &text));
        };
        if least < 1 || usual < least || most < usual {
            let says = format!("{key} is {least} {usual} {most}: not in rising order");
            outcome = Some(Outcome::bad(says));
        } else if machine.goal == Some(Goal::Throughput) && most.unsigned_abs() < FAR {
            let so_far = outcome.take().unwrap_or_else(|| {
                Outcome::consider(
                    "one connection cannot have 16 MiB under way; matters fast and far only",
                )
            });
            outcome = Some(so_far.change(Setting::file(&path), format!("{least} {usual} {FAR}")));
        }
        maxima.push(format!("{:.1}", most as f64 / f64::from(1 << 20)));
        seen.push((path, text));
    }
    let usual = format!("at most {} MiB per connection", maxima.join(" and "));
    let outcome = outcome.unwrap_or_else(|| Outcome::good(usual));
    Ok(seen
        .into_iter()
        .fold(outcome, |outcome, (path, text)| outcome.saw(path, text)))
}

pub(super) const CONNTRACK: Rule = Rule {
    id: "T25",
    title: "connection tracking",
    of_2009: false,
    reads: "net.netfilter.nf_conntrack_count, nf_conntrack_max; the kernel's log for `table full`",
    why: "When the table is full, packets of new connections are dropped, and only the kernel's log says so.",
    source: "Documentation/networking/nf_conntrack-sysctl.rst; the bound of 75%: node_exporter's node-mixin, \
             NodeHighNumberConntrackEntriesUsed",
    dated: "stands in 2026",
    change: "sysctl net.netfilter.nf_conntrack_max, doubled",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    check: conntrack,
};

fn conntrack(machine: &Machine) -> Result<Outcome, Cannot> {
    const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
    const MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
    let count: u64 = match machine.tree.number(COUNT) {
        Ok(count) => count,
        Err(missing) if missing.is_missing() => {
            machine.tree.list("/proc/sys/net")?;
            return Ok(
                Outcome::not_applicable("connections are not tracked").saw(COUNT, "not there")
            );
        }
        Err(other) => return Err(other),
    };
    let max: u64 = machine.tree.number(MAX)?;
    let outcome = match max {
        0 => Outcome::good(format!("{count} connections, no bound")),
        max if count.saturating_mul(4) > max.saturating_mul(3) => Outcome::consider(format!(
            "{count} of {max}: new connections are dropped when it is full"
        ))
        .change(Setting::file(MAX), max.saturating_mul(2)),
        max => Outcome::good(format!("{count} of {max}")),
    };
    let outcome = outcome.saw(COUNT, count).saw(MAX, max);
    Ok(machine.logged(outcome, &["table full, dropping packet"]))
}
