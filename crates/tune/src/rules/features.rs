//! Features of TCP that somebody has switched off. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::setting::{Setting, sysctl_path};
use crate::tree::Cannot;
use crate::verdict::{Outcome, Verdict};

pub(super) const OFF: Rule = Rule {
    id: "T54",
    title: "TCP features switched off",
    of_2009: false,
    reads: "net.ipv4.tcp_window_scaling, tcp_sack, tcp_timestamps, tcp_moderate_rcvbuf, tcp_dsack, tcp_recovery, tcp_frto, \
            tcp_early_retrans, tcp_abort_on_overflow, tcp_autocorking, ip_no_pmtu_disc",
    why: "Without window scaling no connection has more than 64 KiB under way, 5 Mbit/s over 100 ms. Without SACK one lost segment \
          is found in each round trip. Without timestamps round trips are measured seldom, and sequence numbers wrap unnoticed \
          at 4 GiB. Without moderation a buffer stays at its beginning. Lists of advice for local networks of before 2005, and \
          for SACK the hole of 2019 (CVE-2019-11477, mended that year), switch them off.",
    source: "ip-sysctl.rst; RFC 7323 (window scaling, timestamps), RFC 2018 (SACK), RFC 8985 (RACK)",
    dated: "stands in 2026; all of these have been on since 2.6 or since they came",
    change: "sysctl: each to the kernel's default",
    undo: WRITE_BACK,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[
        ("net/ipv4/tcp_ipv4.c", "sysctl_tcp_window_scaling = 1"),
        ("net/ipv4/tcp_ipv4.c", "sysctl_tcp_sack = 1"),
        (
            "Documentation/networking/ip-sysctl.rst",
            "tcp_moderate_rcvbuf",
        ),
    ],
    check: off,
};

/// A feature: its key in /proc/sys, the value that is good, whether another value is it too, how bad it is without it, and what it
/// is without it.
struct Feature {
    key: &'static str,
    usual: u32,
    on: fn(u32) -> bool,
    verdict: Verdict,
    without: &'static str,
}

const fn feature(key: &'static str, verdict: Verdict, without: &'static str) -> Feature {
    Feature {
        key,
        usual: 1,
        on: |value| value != 0,
        verdict,
        without,
    }
}

/// One line adds a feature; the worst stand first.
const FEATURES: [Feature; 11] = [
    feature(
        "net.ipv4.tcp_window_scaling",
        Verdict::Bad,
        "at most 64 KiB under way on each connection",
    ),
    feature(
        "net.ipv4.tcp_sack",
        Verdict::Bad,
        "one lost segment is repeated in each round trip",
    ),
    feature(
        "net.ipv4.tcp_moderate_rcvbuf",
        Verdict::Bad,
        "a receive buffer never grows beyond the second number of tcp_rmem",
    ),
    feature(
        "net.ipv4.tcp_timestamps",
        Verdict::Consider,
        "round trips are measured seldom, and old segments are taken for new ones",
    ),
    Feature {
        // Bit 0 is RACK.
        on: |value| value & 1 != 0,
        ..feature(
            "net.ipv4.tcp_recovery",
            Verdict::Consider,
            "a lost repetition is found by the timer only",
        )
    },
    Feature {
        usual: 3,
        ..feature(
            "net.ipv4.tcp_early_retrans",
            Verdict::Consider,
            "a loss at the end of an answer is found by the timer only",
        )
    },
    Feature {
        usual: 2,
        ..feature(
            "net.ipv4.tcp_frto",
            Verdict::Consider,
            "a delay is taken for a loss, and sending slows down",
        )
    },
    feature(
        "net.ipv4.tcp_dsack",
        Verdict::Consider,
        "the sender does not learn that it repeated too early",
    ),
    feature(
        "net.ipv4.tcp_autocorking",
        Verdict::Consider,
        "small writes go out as small packets",
    ),
    Feature {
        usual: 0,
        on: |value| value == 0,
        ..feature(
            "net.ipv4.tcp_abort_on_overflow",
            Verdict::Consider,
            "it is on: a queue that is full for a moment resets the client, which would have tried again",
        )
    },
    Feature {
        usual: 0,
        on: |value| value != 1,
        ..feature(
            "net.ipv4.ip_no_pmtu_disc",
            Verdict::Consider,
            "it is on: the largest packet of a path is not found out",
        )
    },
];

fn off(machine: &Machine) -> Result<Outcome, Cannot> {
    let mut missing = Vec::new();
    let mut known = 0;
    let mut seen = Vec::new();
    for feature in &FEATURES {
        let path = sysctl_path(feature.key);
        match machine.tree.number::<u32>(&path) {
            Ok(value) => {
                known += 1;
                seen.push((path, value.to_string()));
                if !(feature.on)(value) {
                    missing.push(feature);
                }
            }
            // Not every kernel has every feature.
            Err(cannot) if cannot.is_missing() => {}
            Err(cannot) => return Err(cannot),
        }
    }
    if known == 0 {
        machine.tree.list("/proc/sys/net/ipv4")?;
        return Err(Cannot::Missing("every file of these features".into()));
    }
    let outcome = match missing.as_slice() {
        [] => Outcome::good(format!("{known} features, none switched off")),
        [first, rest @ ..] => {
            let name = |feature: &Feature| {
                let name = feature.key.rsplit('.').next();
                name.unwrap_or_default().to_owned()
            };
            let more = match rest {
                [] => String::new(),
                rest => {
                    let rest: Vec<String> = rest.iter().map(|feature| name(feature)).collect();
                    format!("; also {}", rest.join(", "))
                }
            };
            let worst = missing.iter().map(|feature| feature.verdict).min();
            let says = format!("{}: {}{more}", name(first), first.without);
            Outcome::new(worst.unwrap_or(Verdict::Consider), says)
        }
    };
    let outcome = missing.iter().fold(outcome, |outcome, feature| {
        outcome.change(Setting::sysctl(feature.key), feature.usual)
    });
    Ok(seen
        .into_iter()
        .fold(outcome, |outcome, (path, value)| outcome.saw(path, value)))
}
