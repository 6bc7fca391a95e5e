//! Failures that the kernel counts: datagrams and segments that are thrown away, neighbours that are refused, processes that are
//! killed. What a queue loses is beside its queue (`backlog`). Used by `rules`.

use super::backlog::{doubled, tcp, words};
use super::rule::{NOTHING, Risk, Rule, WRITE_BACK};
use crate::failures::Loser;
use crate::machine::Machine;
use crate::sample::{Counters, Moved, in_sockstat};
use crate::setting::{Setting, sysctl_path};
use crate::tree::Cannot;
use crate::verdict::{Outcome, several};

pub(super) const DATAGRAMS: Rule = Rule {
    id: "T50",
    title: "datagrams thrown away",
    of_2009: false,
    reads: "Udp: RcvbufErrors, SndbufErrors, MemErrors in /proc/net/snmp, and those of /proc/net/snmp6, twice; drops in /proc/net/udp, \
            udp6",
    why: "A datagram that finds the socket's receive buffer full is thrown away, and neither side is told. Either the program \
          reads too slowly, or the buffer is smaller than a burst. The buffer is net.core.rmem_default, or what the program \
          asks for by SO_RCVBUF, cut to net.core.rmem_max. A full send buffer makes the call fail or wait.",
    source: "udp(7), socket(7); __udp_enqueue_schedule_skb and udp_sendmsg in net/ipv4/udp.c",
    dated: "stands in 2026; rmem_max is 212,992 up to 6.16, 4 MiB since",
    change: "sysctl net.core.rmem_default, doubled; for a program that sets SO_RCVBUF its own setting, and net.core.rmem_max",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        ("net/ipv4/udp.c", "UDP_MIB_RCVBUFERRORS"),
        ("net/ipv4/udp.c", "UDP_MIB_SNDBUFERRORS"),
        ("net/core/sock.c", "sysctl_rmem_max"),
    ],
    check: datagrams,
};

/// The largest default for the buffer of every socket that is proposed.
const LARGE: u64 = 4 << 20;

/// Returns how the sum of these UDP counters changed.
fn udp(machine: &Machine, names: &[&str]) -> Option<Moved> {
    let sum = |counters: &Counters| {
        let all = counters.failures.udp.as_ref().ok()?;
        let known = names.iter().filter_map(|name| all.get(*name));
        known.copied().reduce(u64::saturating_add)
    };
    machine.samples.moved(sum)
}

/// Returns the sockets that have lost datagrams between the looks, or at all if there was one look: inode, port and how
/// many, the most first.
fn losers(machine: &Machine) -> Vec<(u32, Loser)> {
    let before = &machine.samples.first.failures.losers;
    let twice = machine.samples.second.is_some();
    let latest = machine.samples.latest().failures.losers.iter();
    let mut all: Vec<(u32, Loser)> = latest
        .map(|(inode, now)| {
            let known = before.get(inode).filter(|_| twice);
            let dropped = now
                .dropped
                .saturating_sub(known.map_or(0, |loser| loser.dropped));
            (*inode, Loser { dropped, ..*now })
        })
        .filter(|(_, loser)| loser.dropped > 0)
        .collect();
    all.sort_by_key(|(_, loser)| std::cmp::Reverse(loser.dropped));
    all
}

fn datagrams(machine: &Machine) -> Result<Outcome, Cannot> {
    if let Err(cannot) = &machine.samples.first.failures.udp {
        return Err(cannot.clone());
    }
    let received = udp(machine, &["RcvbufErrors"]);
    let sent = udp(machine, &["SndbufErrors"]);
    let memory = udp(machine, &["MemErrors"]);
    let over = machine.samples.over();
    let losers = losers(machine);
    let outcome = match (received, sent, memory) {
        (_, _, Some(Moved::By { more })) => Outcome::bad(format!(
            "{more} datagrams thrown away in {over}: UDP has no more memory (net.ipv4.udp_mem)"
        ))
        .failing(),
        (Some(Moved::By { more }), ..) => lost(machine, more, &losers),
        (_, Some(Moved::By { more }), _) => Outcome::bad(format!(
            "{more} datagrams not sent in {over}: a send buffer is full"
        ))
        .failing()
        .then("the path takes less than is sent: send less, or set a larger SO_SNDBUF"),
        (received, sent, _) => before(machine, received, sent),
    };
    let outcome = outcome
        .saw("/proc/net/snmp Udp RcvbufErrors", words(received, &over))
        .saw("/proc/net/snmp Udp SndbufErrors", words(sent, &over))
        .saw("/proc/net/snmp Udp MemErrors", words(memory, &over));
    Ok(losers.iter().take(8).fold(outcome, |outcome, (_, loser)| {
        let place = format!("/proc/net/udp port {}", loser.port);
        outcome.saw(place, several_lost(loser.dropped))
    }))
}

fn several_lost(count: u64) -> String {
    match count {
        1 => "1 datagram thrown away".into(),
        more => format!("{more} datagrams thrown away"),
    }
}

/// The outcome where `more` datagrams were lost between the looks, by these sockets.
fn lost(machine: &Machine, more: u64, losers: &[(u32, Loser)]) -> Outcome {
    let over = machine.samples.over();
    let what = format!("{} in {over}", several_lost(more));
    let whose = match losers.first() {
        Some((_, loser)) => format!("the receive buffer of port {}", loser.port),
        None => "a receive buffer".into(),
    };
    if let Some(guest) = &machine.guest
        && let Ok(open) = guest.descriptors(&machine.tree)
    {
        let is_own = |inode: u32| open.sockets.iter().any(|(_, own)| *own == inode);
        let own = losers.iter().find(|(inode, _)| is_own(*inode));
        let Some((_, own)) = own else {
            let says = format!("{what}, by no socket of {}", guest.comm);
            return Outcome::consider(says);
        };
        let says = format!(
            "{what}, {} by {}: the receive buffer of port {} is full",
            own.dropped, guest.comm, own.port
        );
        return larger(machine, Outcome::bad(says));
    }
    larger(machine, Outcome::bad(format!("{what}: {whose} is full")))
}

fn larger(machine: &Machine, outcome: Outcome) -> Outcome {
    let outcome = outcome
        .failing()
        .then("restart the program, or have it set SO_RCVBUF: a socket keeps the buffer it has");
    doubled(machine, outcome, "net.core.rmem_default", LARGE)
}

/// The outcome where nothing was lost between the looks, or there was only one.
fn before(machine: &Machine, received: Option<Moved>, sent: Option<Moved>) -> Outcome {
    let total = |moved: Option<Moved>| match moved {
        Some(Moved::Still { total } | Moved::Unwatched { total }) => total,
        _ => 0,
    };
    let lost = total(received).saturating_add(total(sent));
    let all = machine.samples.latest().failures.udp.as_ref();
    let count = |name: &str| all.map_or(0, |all| all.get(name).copied().unwrap_or(0));
    let passed = count("InDatagrams").saturating_add(count("OutDatagrams"));
    let share = format!("{lost} of {} datagrams", passed.saturating_add(lost));
    let over = machine.samples.over();
    match (lost, received, sent) {
        (0, ..) => Outcome::good("no datagram thrown away"),
        // A hundredth is what a program that repeats its question notices.
        (lost, ..) if lost > passed / 100 => Outcome::consider(format!(
            "{share} thrown away since boot, when is not known: {over} shows none"
        )),
        (_, Some(Moved::Unwatched { .. }), _) | (_, _, Some(Moved::Unwatched { .. })) => {
            Outcome::cannot_tell(format!(
                "{share} thrown away since boot; one look does not show when"
            ))
        }
        _ => Outcome::good(format!("{share} thrown away since boot, none in {over}")),
    }
}

pub(super) const SEGMENTS: Rule = Rule {
    id: "T51",
    title: "TCP short of memory",
    of_2009: false,
    reads: "TcpExt: TCPMemoryPressures, TCPAbortOnMemory, RcvPruned, OfoPruned, TCPRcvQDrop, TCPBacklogDrop in /proc/net/netstat, \
            twice; mem of TCP in /proc/net/sockstat; net.ipv4.tcp_mem",
    why: "Above the second number of tcp_mem, in pages for all connections together, every window is made smaller; above the third \
          connections are ended. A segment that arrives for a socket whose own buffer is full is thrown away, although it was \
          acknowledged by nobody: the sender repeats it later.",
    source: "ip-sysctl.rst tcp_mem; tcp_prune_queue and tcp_add_backlog; tcp_enter_memory_pressure in net/ipv4/tcp.c",
    dated: "stands in 2026; tcp_mem is 4.7, 6.2 and 9.4% of the memory since 3.x (2012)",
    change: "sysctl net.ipv4.tcp_mem, each doubled; or fewer and smaller buffers: net.ipv4.tcp_rmem, tcp_wmem",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: true,
    checked: &[
        ("net/ipv4/tcp.c", "LINUX_MIB_TCPMEMORYPRESSURES"),
        ("net/ipv4/tcp_input.c", "LINUX_MIB_RCVPRUNED"),
        ("net/ipv4/tcp_input.c", "LINUX_MIB_TCPRCVQDROP"),
    ],
    check: segments,
};

const TCP_MEM: &str = "/proc/sys/net/ipv4/tcp_mem";

/// Returns the pages that all TCP connections of the machine have, and the three bounds of them, where they can be seen.
fn pages(machine: &Machine) -> (Option<u64>, Option<[u64; 3]>) {
    let stat = machine.tree.read("/proc/net/sockstat").unwrap_or_default();
    let used = in_sockstat(&stat, "TCP:", "mem");
    let bounds = machine.tree.read(TCP_MEM).ok().and_then(|text| {
        let numbers = text.split_whitespace().map(|word| word.parse().ok());
        numbers.collect::<Option<Vec<u64>>>()?.try_into().ok()
    });
    (used, bounds)
}

fn segments(machine: &Machine) -> Result<Outcome, Cannot> {
    if let Err(cannot) = &machine.samples.first.tcp {
        return Err(cannot.clone());
    }
    let over = machine.samples.over();
    let pressure = tcp(machine, &["TCPMemoryPressures", "TCPAbortOnMemory"]);
    let pruned = tcp(
        machine,
        &["RcvPruned", "OfoPruned", "TCPRcvQDrop", "TCPBacklogDrop"],
    );
    let (used, bounds) = pages(machine);
    let above = used
        .zip(bounds)
        .filter(|(used, [_, second, _])| used > second);
    let outcome = match (above, pressure, pruned) {
        (Some((used, [_, second, _])), ..) => more_memory(
            Outcome::bad(format!(
                "TCP has {used} pages, above {second}: every window is made smaller"
            )),
            bounds,
        ),
        (_, Some(Moved::By { more }), _) => more_memory(
            Outcome::bad(format!("TCP was short of memory {more} times in {over}")),
            bounds,
        ),
        (.., Some(Moved::By { more })) => Outcome::bad(format!(
            "{more} segments that had arrived thrown away in {over}: a socket's buffer is full"
        ))
        .failing()
        .then("the program reads too slowly, or sets an SO_RCVBUF that is too small"),
        (_, Some(Moved::Still { total } | Moved::Unwatched { total }), _) => {
            let says = format!("TCP was short of memory {total} times since boot");
            Outcome::consider(says)
        }
        (.., Some(Moved::Unwatched { total })) => Outcome::cannot_tell(format!(
            "{total} segments thrown away since boot; one look does not show when"
        )),
        _ => Outcome::good("never short of memory, nothing that arrived thrown away"),
    };
    let outcome = match bounds {
        Some(bounds) => outcome.saw(TCP_MEM, bounds.map(|bound| bound.to_string()).join(" ")),
        None => outcome.saw(TCP_MEM, "not to be seen in this network namespace"),
    };
    let used = used.map_or("not known".into(), |pages| format!("{pages} pages"));
    Ok(outcome
        .saw("/proc/net/sockstat TCP mem", used)
        .saw(
            "TcpExt TCPMemoryPressures + TCPAbortOnMemory",
            words(pressure, &over),
        )
        .saw(
            "TcpExt RcvPruned + OfoPruned + TCPRcvQDrop + TCPBacklogDrop",
            words(pruned, &over),
        ))
}

fn more_memory(outcome: Outcome, bounds: Option<[u64; 3]>) -> Outcome {
    let outcome = outcome.failing();
    match bounds {
        Some(bounds) => {
            let doubled = bounds.map(|bound| bound.saturating_mul(2).to_string());
            outcome.change(Setting::file(TCP_MEM), doubled.join(" "))
        }
        None => outcome,
    }
}

pub(super) const NEIGHBOURS: Rule = Rule {
    id: "T52",
    title: "table of neighbours",
    of_2009: false,
    reads: "table_fulls and entries in /proc/net/stat/arp_cache, ndisc_cache, twice; net.ipv4.neigh.default.gc_thresh1 to 3, \
            net.ipv6.neigh.default.gc_thresh1 to 3; the kernel's log",
    why: "Each address of the same link that is talked to takes an entry. At gc_thresh3, 1,024, a new one is refused: to those \
          addresses nothing can be sent, with ENOBUFS or `No buffer space available`. Hosts of many containers and networks \
          larger than a /22 meet it. There is one table for all network namespaces, and its counters are shown in the first.",
    source: "arp(7); neigh_alloc in net/core/neighbour.c",
    dated: "stands in 2026; gc_thresh3 has been 1,024 since 2.2",
    change: "sysctl net.ipv4.neigh.default.gc_thresh3, gc_thresh2 and gc_thresh1, each four times as large; for IPv6 the same",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        ("net/core/neighbour.c", "neighbor table overflow"),
        ("net/core/neighbour.c", "table_fulls"),
    ],
    check: neighbours,
};

/// The file of counters of each family, and its name in /proc/sys/net.
const TABLES: [(&str, &str); 2] = [("arp_cache", "ipv4"), ("ndisc_cache", "ipv6")];

fn neighbours(machine: &Machine) -> Result<Outcome, Cannot> {
    let latest = &machine.samples.latest().failures.neighbours;
    if latest.is_empty() {
        machine.tree.list("/proc/net/stat")?;
        return Ok(Outcome::cannot_tell(
            "the table's counters are shown in the machine's first network namespace only",
        ));
    }
    let over = machine.samples.over();
    let mut all = Vec::new();
    for (file, family) in TABLES {
        let Some(now) = latest.get(file) else {
            continue;
        };
        let key =
            |number: u32| sysctl_path(&format!("net.{family}.neigh.default.gc_thresh{number}"));
        let most = machine.tree.number::<u64>(&key(3));
        let of = |counters: &Counters| Some(counters.failures.neighbours.get(file)?.full);
        let full = machine.samples.moved(of);
        let entries = now.entries;
        let raised = |outcome: Outcome| {
            (1..=3).rev().fold(outcome, |outcome, number| {
                match machine.tree.number::<u64>(&key(number)) {
                    Ok(now) => outcome.change(Setting::file(key(number)), now.saturating_mul(4)),
                    Err(_) => outcome,
                }
            })
        };
        let outcome = match (full, &most) {
            (Some(Moved::By { more }), _) => raised(
                Outcome::bad(format!(
                    "{more} neighbours refused in {over}: the table is full"
                ))
                .failing(),
            ),
            (_, Ok(most)) if entries.saturating_mul(4) > most.saturating_mul(3) => {
                raised(Outcome::consider(format!(
                    "{entries} of {most}: more are refused when it is full"
                )))
            }
            (Some(Moved::Still { total } | Moved::Unwatched { total }), _) => raised(
                Outcome::consider(format!("{total} neighbours refused since boot")),
            ),
            (_, Ok(most)) => Outcome::good(format!("{entries} of {most}")),
            (_, Err(_)) => Outcome::good(format!(
                "{}, none refused",
                several(entries as usize, "neighbour")
            )),
        };
        let most = most.map_or_else(|cannot| cannot.to_string(), |most| most.to_string());
        let place = format!("/proc/net/stat/{file}");
        let outcome = outcome
            .saw(format!("{place} entries"), entries)
            .saw(format!("{place} table_fulls"), words(full, &over))
            .saw(key(3), most);
        all.push((family.replace("ipv", "IPv"), outcome));
    }
    let outcome = Outcome::of_devices(all);
    Ok(machine.logged(
        outcome,
        &["neighbor table overflow", "neighbour table overflow"],
    ))
}

pub(super) const KILLS: Rule = Rule {
    id: "T53",
    title: "killed for want of memory",
    of_2009: false,
    reads: "oom_kill in /proc/vmstat, twice; the kernel's log for `Killed process`",
    why: "When no page can be freed, the kernel kills the process it holds for the largest, and its parent sees SIGKILL and no \
          reason. On the whole machine that is the end of memory and swap; in a control group it is memory.max. Only the \
          kernel's log names the process.",
    source: "Documentation/filesystems/proc.rst; oom_kill_process in mm/oom_kill.c; the counter since 4.13 (2017)",
    dated: "stands in 2026",
    change: "find what grows: lancet mem -p PID; or more memory, a larger memory.max, fewer workers",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        ("mm/oom_kill.c", "count_vm_event(OOM_KILL)"),
        ("mm/oom_kill.c", "Killed process"),
    ],
    check: kills,
};

fn kills(machine: &Machine) -> Result<Outcome, Cannot> {
    if let Err(cannot) = &machine.samples.latest().failures.killed {
        return Err(cannot.clone());
    }
    let killed = machine
        .samples
        .moved(|counters| counters.failures.killed.clone().ok());
    let over = machine.samples.over();
    let were = |count: u64| match count {
        1 => "1 process was killed".to_owned(),
        more => format!("{more} processes were killed"),
    };
    let outcome = match killed {
        Some(Moved::By { more }) => Outcome::bad(format!("{} in {over}", were(more))).failing(),
        Some(Moved::Still { total } | Moved::Unwatched { total }) => {
            Outcome::consider(format!("{} since boot", were(total)))
        }
        Some(Moved::Never) | None => Outcome::good("nobody since boot"),
    };
    let outcome = outcome.saw("/proc/vmstat oom_kill", words(killed, &over));
    Ok(machine.logged(outcome, &["Killed process", "oom-kill:constraint"]))
}
