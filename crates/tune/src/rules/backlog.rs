//! Queues that run over: of packets per CPU, of connections per listener, of handshakes. Used by `rules`, `failures`
//! and `devices`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::kernel_log;
use crate::machine::Machine;
use crate::net::sockets::Listener;
use crate::sample::{Counters, Moved};
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::{Outcome, several};

pub(super) const SOFTIRQ: Rule = Rule {
    id: "T19",
    title: "softirq budget and backlog",
    of_2009: false,
    reads: "/proc/net/softnet_stat columns 2 and 3, twice",
    why: "Column 2 counts packets dropped because the CPU's backlog was full: loss nobody else reports. Column 3 counts \
          rounds that ended with work left: the budget is short, or the CPU is.",
    source: "net/core/net-procfs.c, net/core/dev.c; Documentation/admin-guide/sysctl/net.rst",
    dated: "stands in 2026",
    change: "drops: sysctl net.core.netdev_max_backlog, doubled; squeezes: net.core.netdev_budget, doubled",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        ("net/core/net-procfs.c", "softnet_seq_show"),
        ("net/core/dev.c", "net_hotdata.max_backlog"),
    ],
    check: softirq,
};

pub(super) fn doubled(machine: &Machine, outcome: Outcome, key: &str, most: u64) -> Outcome {
    let path = crate::setting::sysctl_path(key);
    match machine.tree.number::<u64>(&path) {
        Ok(now) if now > 0 && now < most => outcome
            .saw(&path, now)
            .change(Setting::file(&path), now.saturating_mul(2).min(most)),
        Ok(now) => outcome.saw(&path, now),
        Err(cannot) => outcome.saw(&path, cannot),
    }
}

fn softirq(machine: &Machine) -> Result<Outcome, Cannot> {
    if let Err(cannot) = &machine.samples.first.softnet {
        return Err(cannot.clone());
    }
    let sum = |of: fn(&crate::sample::Softnet) -> u64| {
        machine.samples.moved(|counters| {
            let cpus = counters.softnet.as_ref().ok()?;
            Some(cpus.iter().map(of).fold(0, u64::saturating_add))
        })
    };
    let (dropped, squeezed) = (sum(|cpu| cpu.dropped), sum(|cpu| cpu.squeezed));
    let over = machine.samples.over();
    let outcome = match (dropped, squeezed) {
        (Some(Moved::By { more }), _) => {
            let outcome = Outcome::bad(format!(
                "{more} packets dropped in {over}: the backlog is full"
            ))
            .failing();
            doubled(machine, outcome, "net.core.netdev_max_backlog", 30_000)
        }
        (_, Some(Moved::By { more })) => {
            let outcome =
                Outcome::consider(format!("{more} rounds in {over} ended with work left"));
            doubled(machine, outcome, "net.core.netdev_budget", 2400)
        }
        (Some(Moved::Unwatched { total }), _) => Outcome::cannot_tell(format!(
            "{total} packets dropped since boot; one look does not show when"
        )),
        (_, Some(Moved::Unwatched { total })) => Outcome::cannot_tell(format!(
            "no drops; {total} rounds since boot ended with work left, one look does not show when"
        )),
        (Some(Moved::Still { total }), _) => {
            Outcome::good(format!("nothing dropped in {over} ({total} since boot)"))
        }
        _ => Outcome::good("nothing dropped"),
    };
    Ok(outcome
        .saw(
            "/proc/net/softnet_stat column 2, all CPUs",
            words(dropped, &over),
        )
        .saw(
            "/proc/net/softnet_stat column 3, all CPUs",
            words(squeezed, &over),
        ))
}

/// Returns how a counter changed, as text for evidence.
pub(super) fn words(moved: Option<Moved>, over: &str) -> String {
    match moved {
        None => "not there".into(),
        Some(Moved::Never) => "0 since boot".into(),
        Some(Moved::Still { total }) => format!("{total} since boot, none in {over}"),
        Some(Moved::By { more }) => format!("{more} in {over}"),
        Some(Moved::Unwatched { total }) => format!("{total} since boot"),
    }
}

/// Returns how the sum of these counters of `TcpExt` changed; `None` if none of them is there.
pub(super) fn tcp(machine: &Machine, names: &[&str]) -> Option<Moved> {
    let sum = |counters: &Counters| {
        let tcp = counters.tcp.as_ref().ok()?;
        names
            .iter()
            .filter_map(|name| tcp.get(*name))
            .copied()
            .reduce(u64::saturating_add)
    };
    machine.samples.moved(sum)
}

pub(super) const ACCEPT: Rule = Rule {
    id: "T21",
    title: "accept queue",
    of_2009: false,
    reads: "net.core.somaxconn in the guest's network namespace; sock_diag listeners; TcpExt ListenOverflows, ListenDrops, twice",
    why: "listen() asks for a queue and is silently cut to somaxconn. When the queue is full, handshakes that are done are \
          dropped and the client waits a second or more. Raising somaxconn helps a service only after it listens again.",
    source: "listen(2); ip-sysctl.rst; burmilla/os#38; Redis' startup warning",
    dated: "the default was 128 until 5.4 (2019) and is 4096 since; advice of before 2019 may lower it today",
    change: "sysctl net.core.somaxconn=4096, in the network namespace of the service; then restart the service",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        ("include/linux/socket.h", "SOMAXCONN"),
        ("net/socket.c", "sysctl_somaxconn"),
        ("include/net/sock.h", "sk_acceptq_is_full"),
    ],
    check: accept,
};

/// The kernel's default of net.core.somaxconn since 5.4.
const SOMAXCONN: u32 = 4096;
const SOMAXCONN_FILE: &str = "/proc/sys/net/core/somaxconn";

fn accept(machine: &Machine) -> Result<Outcome, Cannot> {
    let most: u32 = machine.tree.number(SOMAXCONN_FILE)?;
    let overflows = tcp(machine, &["ListenOverflows"]);
    // This one counts what the other does, and what is dropped for other reasons.
    let drops = tcp(machine, &["ListenDrops"]);
    let over = machine.samples.over();
    let listeners = machine.listeners();
    let mut own: Vec<_> = listeners
        .as_ref()
        .map_or(&[][..], |all| all)
        .iter()
        .collect();
    let mut unknown = listeners.as_ref().err().cloned();
    if let Some(guest) = &machine.guest {
        let open = guest.descriptors(&machine.tree);
        own.retain(|listener| {
            let sockets = open.as_ref().map_or(&[][..], |open| &open.sockets);
            sockets.iter().any(|(_, inode)| *inode == listener.inode)
        });
        unknown = open.err().or(unknown);
    }
    let outcome = judged(
        machine,
        (most, &own),
        (overflows, drops, &over),
        unknown.is_some(),
    );
    let mut outcome = outcome
        .saw(SOMAXCONN_FILE, most)
        .saw("TcpExt ListenOverflows", words(overflows, &over))
        .saw("TcpExt ListenDrops", words(drops, &over));
    if let Some(cannot) = unknown {
        outcome = outcome.saw("listeners", cannot);
    }
    Ok(own.iter().take(32).fold(outcome, |outcome, listener| {
        outcome.saw(
            format!("sock_diag {}:{}", listener.address, listener.port),
            format!("{} of {} wait", listener.waiting, listener.most),
        )
    }))
}

/// Judges the queues of the listeners in `own`, where somaxconn is `most`. The counters of connections that a full queue
/// dropped and of all that were dropped changed so over which time; `unknown` says that some listeners could not be found.
fn judged(
    machine: &Machine,
    (most, own): (u32, &[&Listener]),
    (overflows, drops, over): (Option<Moved>, Option<Moved>, &str),
    unknown: bool,
) -> Outcome {
    // A queue takes one more than its number (sk_acceptq_is_full in include/net/sock.h).
    let full = own.iter().find(|listener| listener.waiting > listener.most);
    let cut = own.iter().filter(|listener| listener.most == most).count();
    let raise = |outcome: Outcome| {
        if most < SOMAXCONN {
            outcome
                .change(Setting::file(SOMAXCONN_FILE), SOMAXCONN)
                .then("restart the service: a queue keeps its length until it listens again")
        } else {
            outcome
        }
    };
    if let Some(full) = full {
        raise(Outcome::bad(format!(
            "port {}: {} {}, and the queue of {} is full",
            full.port,
            full.waiting,
            if full.waiting == 1 { "waits" } else { "wait" },
            full.most
        )))
        .failing()
    } else if let Some(Moved::By { more }) = overflows {
        raise(Outcome::bad(format!(
            "{more} connections dropped in {over}: a queue is full"
        )))
        .failing()
    } else if let Some(Moved::By { more }) = drops {
        Outcome::bad(format!(
            "{more} handshakes dropped in {over}, and no queue is full: no memory, or a filter of the socket"
        ))
        .failing()
    } else if most < SOMAXCONN && cut > 0 {
        let of = match own.len() - cut {
            0 => several(cut, "listener"),
            _ => format!("{cut} of {} listeners", own.len()),
        };
        raise(Outcome::bad(format!(
            "{of} cut to somaxconn {most}; it is {SOMAXCONN} since 5.4"
        )))
    } else if most < SOMAXCONN {
        raise(Outcome::consider(format!(
            "somaxconn {most} is below the default since 5.4, {SOMAXCONN}"
        )))
    } else {
        match (own.len(), &machine.guest) {
            _ if unknown => Outcome::good(format!("somaxconn {most}; who listens is not known")),
            (0, Some(guest)) => Outcome::good(format!(
                "{} listens on no TCP port; somaxconn {most}",
                guest.comm
            )),
            (count, _) => Outcome::good(format!(
                "somaxconn {most}, {}, none full",
                several(count, "listener")
            )),
        }
    }
}

pub(super) const SYN: Rule = Rule {
    id: "T22",
    title: "SYN queue",
    of_2009: false,
    reads: "net.ipv4.tcp_max_syn_backlog, tcp_syncookies; TcpExt TCPReqQFullDrop, TCPReqQFullDoCookies, twice; \
            the kernel's log for the port",
    why: "Half-open connections wait here. When it is full the kernel answers with cookies, which carry fewer TCP \
          options, or drops. Growing counters mean a flood or a queue too short for the traffic. With cookies on, which is \
          the default, a listener's queue is as long as its backlog, the argument of listen() cut to somaxconn, and \
          tcp_max_syn_backlog is not looked at.",
    source: "ip-sysctl.rst; tcp_conn_request in net/ipv4/tcp_input.c, inet_csk_reqsk_queue_is_full in \
             include/net/inet_connection_sock.h (since 4.4); measured: 17 of a backlog of 16, whatever tcp_max_syn_backlog says",
    dated: "stands in 2026; since 4.4 (2016) the queue is the listener's backlog",
    change: "with cookies: a longer backlog in the service, sysctl net.core.somaxconn; without: \
             net.ipv4.tcp_max_syn_backlog, doubled; net.ipv4.tcp_syncookies=1",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[
        ("net/ipv4/tcp_input.c", "int tcp_conn_request("),
        (
            "include/net/inet_connection_sock.h",
            "inet_csk_reqsk_queue_is_full",
        ),
    ],
    check: syn,
};

/// The queue is cut to somaxconn; a longer argument of listen() than that needs both.
fn longer_backlog(machine: &Machine, outcome: Outcome) -> Outcome {
    const RESTART: &str =
        "give listen() a longer backlog in the service's own settings, and restart it";
    match machine.tree.number::<u32>(SOMAXCONN_FILE) {
        Ok(most) if most < SOMAXCONN => outcome
            .saw(SOMAXCONN_FILE, most)
            .change(Setting::file(SOMAXCONN_FILE), SOMAXCONN)
            .then(RESTART),
        Ok(most) => outcome.saw(SOMAXCONN_FILE, most).then(RESTART),
        Err(cannot) => outcome.saw(SOMAXCONN_FILE, cannot),
    }
}

fn syn(machine: &Machine) -> Result<Outcome, Cannot> {
    const COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";
    let backlog: u64 = machine
        .tree
        .number("/proc/sys/net/ipv4/tcp_max_syn_backlog")?;
    let cookies = machine.tree.number::<u32>(COOKIES);
    let full = tcp(machine, &["TCPReqQFullDrop", "TCPReqQFullDoCookies"]);
    let over = machine.samples.over();
    let outcome = match (full, &cookies) {
        (Some(Moved::By { more }), Ok(0)) => {
            let outcome = Outcome::bad(format!("full {more} times in {over}, without SYN cookies"))
                .failing()
                .change(Setting::file(COOKIES), 1);
            doubled(machine, outcome, "net.ipv4.tcp_max_syn_backlog", 65_536)
        }
        (Some(Moved::By { more }), _) => {
            let says = format!("full {more} times in {over}: as long as the listener's backlog");
            longer_backlog(machine, Outcome::bad(says).failing())
        }
        (_, Ok(0)) => Outcome::consider(format!(
            "no SYN cookies: a flood of {backlog} half-open connections shuts the port"
        ))
        .change(Setting::file(COOKIES), 1),
        (Some(Moved::Unwatched { total }), _) => Outcome::cannot_tell(format!(
            "full {total} times since boot; one look does not show when"
        )),
        _ => Outcome::good("never full while looked at; as long as each listener's backlog"),
    };
    let cookies = cookies.map_or_else(|cannot| cannot.to_string(), |value| value.to_string());
    let outcome = outcome
        .saw("net.ipv4.tcp_max_syn_backlog", backlog)
        .saw("net.ipv4.tcp_syncookies", cookies)
        .saw(
            "TcpExt TCPReqQFullDrop + TCPReqQFullDoCookies",
            words(full, &over),
        );
    Ok(flooding(machine, outcome))
}

/// Adds the last line of the kernel's log about a flood that can be about this network. The log is the machine's, and does
/// not name the network namespace: of those lines only one about a port at which somebody listens here is shown.
fn flooding(machine: &Machine, outcome: Outcome) -> Outcome {
    const WORDS: &str = "ossible SYN flooding on port ";
    let log = match machine.log() {
        Ok(log) => log,
        Err(cannot) => return outcome.saw("the kernel's log", cannot),
    };
    let known = machine.listeners();
    let listens = |line: &str| {
        let rest = line.split_once(WORDS).map_or("", |(_, rest)| rest);
        // `port 443. Sending cookies.` or, since 5.15, `port 0.0.0.0:443. Sending cookies.` and `port [::]:443. `
        let place = rest.split(". ").next().unwrap_or("");
        let port = place.rsplit(':').next();
        let port = port.and_then(|port| port.parse::<u16>().ok());
        match (&known, port) {
            (Ok(all), Some(port)) => all.iter().any(|listener| listener.port == port),
            // Below --root there is one network, and nobody can be asked.
            _ => !machine.tree.is_live(),
        }
    };
    let about: String = log
        .lines()
        .filter(|line| line.contains(WORDS))
        .filter(|line| listens(line))
        .map(|line| format!("{line}\n"))
        .collect();
    match kernel_log::last(&about, &[WORDS]) {
        Some(line) => outcome.saw("the kernel's log, of any network namespace", line),
        None => outcome.saw("the kernel's log", "nothing about a port of this network"),
    }
}
