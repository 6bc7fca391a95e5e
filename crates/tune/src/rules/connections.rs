//! Connections: the ports they leave from, the buffers they have, the table that tracks them. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::net::namespace;
use crate::net::sockets::{Busiest, busiest};
use crate::sample::in_sockstat;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Goal, Outcome};

pub(super) const PORTS: Rule = Rule {
    id: "T23",
    title: "local ports",
    of_2009: false,
    reads: "net.ipv4.ip_local_port_range, ip_local_reserved_ports; inuse and tw in /proc/net/sockstat, sockstat6; where these are high, \
            connections of every state per destination by sock_diag; net.ipv4.tcp_tw_recycle",
    why: "A client has one port per connection to one destination, whatever its state, and keeps it a minute after closing \
          (TIME_WAIT). When none is left, connect() answers EADDRNOTAVAIL. \
          connect() looks at every other port first: past half of the range it goes over all of those, each time, before \
          it finds one. Ports in ip_local_reserved_ports are not given out. A wider range may take the port of a service \
          that is down for a moment; so it is proposed only where nobody listens in what it adds. tcp_tw_recycle, once advised for this, breaks clients behind NAT.",
    source: "ip-sysctl.rst; deepops#354 (tw_recycle); half of the range: net/ipv4/inet_hashtables.c since 4.2 (commit \
             07f4c90062f8), measured by examples/bounds.rs: 15 µs up to 45% in use, 2,600 µs from 50%",
    dated: "stands today; tcp_tw_recycle is harmful and gone since 4.12 (2017)",
    change: "sysctl net.ipv4.ip_local_port_range='10240 60999', net.ipv4.tcp_tw_reuse=1; for connections that stay open a pool, or more \
             addresses of the destination",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/ipv4/inet_hashtables.c", "__inet_hash_connect"),
        ("net/ipv4/sysctl_net_ipv4.c", "ip_local_reserved_ports"),
    ],
    check: ports,
};

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The range that is proposed: below it are the ports that services are given by name, above it those of the kernel's own
/// default, which ends at 60999 to leave some for NAT.
const WIDE: (u32, u32) = (10_240, 60_999);

/// Returns how many ports of a list like `8080,9000-9010` (ip-sysctl.rst) are in a range.
fn within(list: &str, range: std::ops::RangeInclusive<u32>) -> usize {
    let count = |piece: &str| {
        let (from, to) = piece.split_once('-').unwrap_or((piece, piece));
        let from = from.trim().parse::<u32>().ok()?.max(*range.start());
        let to = to.trim().parse::<u32>().ok()?.min(*range.end());
        Some((to + 1).saturating_sub(from) as usize)
    };
    list.split(',').filter_map(count).sum()
}

/// Adds the change to a wider range, if nobody listens in what that adds.
fn widened(machine: &Machine, outcome: Outcome, first: u32, last: u32) -> Outcome {
    let added = WIDE.0..first.max(WIDE.0);
    let taken = machine.listeners().map(|all| {
        let ports = all.iter().map(|one| u32::from(one.port));
        ports.filter(|port| added.contains(port)).count()
    });
    match taken {
        Ok(0) if !added.is_empty() => {
            let range = format!("{} {}", WIDE.0, last.max(WIDE.1));
            outcome.change(Setting::file(RANGE), range)
        }
        Ok(count) if count > 0 => outcome.saw("listeners below the range", count),
        _ => outcome,
    }
}

fn ports(machine: &Machine) -> Result<Outcome, Cannot> {
    const RECYCLE: &str = "/proc/sys/net/ipv4/tcp_tw_recycle";
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
    const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";
    let reserved = machine.tree.word(RESERVED).unwrap_or_default();
    let kept = within(&reserved, first..=last);
    let room = ((last - first + 1) as usize).saturating_sub(kept);
    let (open, waiting) = taken(machine)?;
    let seen = |outcome: Outcome| {
        outcome
            .saw(RANGE, format!("{first} {last}, {room} ports"))
            .saw(RESERVED, format!("{kept} of them kept back"))
            .saw("/proc/net/sockstat and sockstat6, inuse", open)
            .saw("/proc/net/sockstat tw", waiting)
    };
    if open.saturating_add(waiting) <= room / 2 {
        // Not even if all of them went to one destination.
        return Ok(seen(Outcome::good(format!(
            "{open} connections, {waiting} in TIME_WAIT; {room} ports per destination"
        ))));
    }
    if !machine.tree.is_live() {
        return Ok(seen(Outcome::cannot_tell(format!(
            "{open} connections, {waiting} in TIME_WAIT; to where is known only live"
        ))));
    }
    let range = first as u16..=last as u16;
    Ok(seen(match busiest(range)? {
        Some(busiest) if busiest.used > room / 2 => {
            let outcome = widened(machine, crowded(busiest, room), first, last);
            // Only what waits after its end can be used again.
            match busiest.waiting > room / 4 {
                true => outcome.change(Setting::sysctl("net.ipv4.tcp_tw_reuse"), 1),
                false => outcome,
            }
        }
        _ => Outcome::good(format!(
            "{open} connections, {waiting} in TIME_WAIT, to many destinations"
        )),
    }))
}

/// Returns how many TCP sockets are open and how many wait in TIME_WAIT in this network namespace.
fn taken(machine: &Machine) -> Result<(usize, usize), Cannot> {
    const SOCKSTAT: &str = "/proc/net/sockstat";
    let stat = machine.tree.read(SOCKSTAT)?;
    // A kernel without IPv6 has no such file.
    let sixth = machine.tree.read("/proc/net/sockstat6").unwrap_or_default();
    let odd = || Cannot::odd(SOCKSTAT, &stat);
    let waiting = in_sockstat(&stat, "TCP:", "tw").ok_or_else(odd)?;
    let open: usize = in_sockstat(&stat, "TCP:", "inuse").ok_or_else(odd)?;
    let open = open.saturating_add(in_sockstat(&sixth, "TCP6:", "inuse").unwrap_or(0));
    Ok((open, waiting))
}

/// Judges a destination that has more than half of the ports.
fn crowded(busiest: Busiest, room: usize) -> Outcome {
    let Busiest {
        address,
        port,
        used,
        waiting,
    } = busiest;
    let states = match waiting {
        0 => "in use".to_owned(),
        waiting if waiting == used => "in TIME_WAIT".to_owned(),
        waiting => format!("in use, {waiting} of them in TIME_WAIT"),
    };
    let says = format!("{used} of {room} ports to {address}:{port} are {states}");
    // Of an odd number of ports connect() leaves one out (`remaining &= ~1U` in __inet_hash_connect).
    let tried = if room > 1 { room & !1 } else { room };
    if used >= tried && waiting == 0 {
        Outcome::bad(format!("{says}: connect() answers EADDRNOTAVAIL")).failing()
    } else if used >= tried {
        Outcome::bad(format!("{says}: connect() finds none or searches for one")).failing()
    } else if used > room / 10 * 9 {
        Outcome::bad(format!("{says}: soon none is left"))
    } else {
        Outcome::consider(format!("{says}: each connect() searches for one"))
    }
}

pub(super) const BUFFERS: Rule = Rule {
    id: "T24",
    title: "TCP buffers",
    of_2009: false,
    reads: "net.ipv4.tcp_rmem, tcp_wmem",
    why: "The third number bounds how much one connection may have under way: bandwidth times delay. 6 MiB fill 1 Gbit/s \
          over 50 ms. The default is 6 MiB for receiving up to 6.15, 32 MiB since 6.16, and 4 MiB for sending, less where \
          memory is small. More helps fast and far transfers; it also lets a queue grow that must be collapsed, which \
          stalls the socket.",
    source: "ip-sysctl.rst; tcp_init in net/ipv4/tcp.c (commit 572be9bf9d0d \"tcp: increase tcp_rmem[2] to 32 \
             MB\"); tuned throughput-performance (16 MiB); Cloudflare 2015 (4 MiB, because of tcp_collapse)",
    dated: "2015; stands today, by goal; since 6.16 (2025) for sending alone",
    change: "throughput goal: sysctl net.ipv4.tcp_rmem, tcp_wmem with a maximum of 16 MiB",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/ipv4/tcp.c", "sysctl_tcp_rmem"),
        ("Documentation/networking/ip-sysctl.rst", "tcp_rmem"),
    ],
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

pub(super) const IDLE_RESTART: Rule = Rule {
    id: "T43",
    title: "slow start after idle",
    of_2009: false,
    reads: "net.ipv4.tcp_slow_start_after_idle",
    why: "A connection that was idle for a retransmission timeout, some 200 ms, begins with ten packets again. Connections that \
          are kept for the next request (keep-alive, a pool to a database) are idle all the time, so each large answer over \
          them takes as many round trips as over a new one. On a path that others fill meanwhile it is a courtesy.",
    source: "ip-sysctl.rst; RFC 2861; tcp_cwnd_restart in net/ipv4/tcp_output.c (since 4.4)",
    dated: "stands in 2026",
    change: "with a goal: sysctl net.ipv4.tcp_slow_start_after_idle=0",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/ipv4/tcp_output.c", "tcp_cwnd_restart"),
        (
            "Documentation/networking/ip-sysctl.rst",
            "tcp_slow_start_after_idle",
        ),
    ],
    check: idle_restart,
};

fn idle_restart(machine: &Machine) -> Result<Outcome, Cannot> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    let value: u32 = machine.tree.number(FILE)?;
    let outcome = match (value, machine.goal) {
        (0, _) => Outcome::good("off: a kept connection keeps its speed"),
        (_, None) => Outcome::good("on, the default"),
        (_, Some(_)) => Outcome::consider("on: a kept connection begins slowly after each pause")
            .change(Setting::file(FILE), 0),
    };
    Ok(outcome.saw(FILE, value))
}

pub(super) const CONNTRACK: Rule = Rule {
    id: "T25",
    title: "connection tracking",
    of_2009: false,
    reads: "net.netfilter.nf_conntrack_count, nf_conntrack_max, nf_conntrack_buckets; the kernel's log for `table full`",
    why: "When the table is full, packets of new connections are dropped, and only the kernel's log says so. Each packet \
          walks the chain of one bucket, so a longer table wants as many more buckets: the kernel's default is one for each \
          connection since 5.15, for each four before. Each connection is in the table twice, once for each direction.",
    source: "Documentation/networking/nf_conntrack-sysctl.rst, nf_conntrack_init_start in net/netfilter/nf_conntrack_core.c (since 4.8); \
             the bound of 75%: node_exporter's node-mixin, \
             NodeHighNumberConntrackEntriesUsed",
    dated: "stands in 2026",
    change: "sysctl net.netfilter.nf_conntrack_buckets and nf_conntrack_max, both doubled",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("net/netfilter/nf_conntrack_core.c", "nf_conntrack_max"),
        (
            "net/netfilter/nf_conntrack_standalone.c",
            "nf_conntrack_buckets",
        ),
    ],
    check: conntrack,
};

/// The table has each connection twice: as it was opened, and as its replies come.
const TIMES: u64 = 2;
/// Entries of a bucket that are not worth a line: those of a full table by the kernel's default before 5.15.
const LONGEST: u64 = 4 * TIMES;

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
    const BUCKETS: &str = "/proc/sys/net/netfilter/nf_conntrack_buckets";
    let max: u64 = machine.tree.number(MAX)?;
    let buckets = machine.tree.number::<u64>(BUCKETS);
    let chains = buckets
        .clone()
        .map_or_else(|cannot| cannot.to_string(), |count| count.to_string());
    let outcome = match max {
        0 => Outcome::good(format!("{count} connections, no bound")),
        max if count.saturating_mul(4) > max.saturating_mul(3) => {
            let outcome = Outcome::consider(format!(
                "{count} of {max}: new connections are dropped when it is full"
            ));
            // Before the table: for a moment the chains are shorter than before, never longer.
            let outcome = match buckets {
                Ok(buckets) => outcome.change(Setting::file(BUCKETS), buckets.saturating_mul(2)),
                Err(_) => outcome,
            };
            outcome.change(Setting::file(MAX), max.saturating_mul(2))
        }
        max => match buckets {
            Ok(buckets) if max.saturating_mul(TIMES) > buckets.saturating_mul(LONGEST) => Outcome::consider(format!(
                "{max} connections on {buckets} buckets: when the table is full, a packet walks a chain of {} entries",
                max.saturating_mul(TIMES) / buckets.max(1)
            ))
            .change(Setting::file(BUCKETS), max),
            _ => Outcome::good(format!("{count} of {max}")),
        },
    };
    let outcome = outcome.saw(COUNT, count).saw(MAX, max).saw(BUCKETS, chains);
    Ok(logged_full(
        machine,
        outcome,
        count.saturating_mul(4) > max.saturating_mul(3),
    ))
}

/// Adds the last line of the kernel's log about a full table. Each network namespace has a table of its own, and the log is
/// the machine's: newer kernels name the namespace in the line; of others it is shown only where this table is nearly full.
fn logged_full(machine: &Machine, outcome: Outcome, nearly: bool) -> Outcome {
    let own = namespace::number().filter(|_| machine.tree.is_live());
    let named = "table full in netns ";
    match (machine.log(), own) {
        (Ok(log), Some(own)) if log.contains(named) => {
            machine.logged(outcome, &[&format!("{named}{own},")])
        }
        (Ok(_), Some(_)) if !nearly => outcome,
        _ => machine.logged(outcome, &["table full, dropping packet", named]),
    }
}
