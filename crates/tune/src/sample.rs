//! Counters, read twice: a figure that only ever rises says something about the present only as a difference over a
//! stated time. Used by `rules::backlog`, `rules::failures`, `machine` and others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::failures::Failures;
use crate::interrupts::{self, Interrupts};
use crate::net::ethtool::Ethtool;
use crate::net::nic::Nic;
use crate::tree::{Cannot, Tree};

/// One CPU's line of `/proc/net/softnet_stat`: columns 1 to 3, hexadecimal (net/core/net-procfs.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Packets that were processed.
    pub processed: u64,
    /// Packets dropped because the backlog was full.
    pub dropped: u64,
    /// How often the budget ran out with work left.
    pub squeezed: u64,
}

/// One look at all counters that are judged.
#[derive(Clone, Debug)]
pub struct Counters {
    /// The counters of each CPU.
    pub softnet: Result<Vec<Softnet>, Cannot>,
    /// `TcpExt` of `/proc/net/netstat`, by name.
    pub tcp: Result<BTreeMap<String, u64>, Cannot>,
    /// Counters of datagrams, of neighbours and of kills for want of memory.
    pub failures: Failures,
    /// The counters of each interrupt.
    pub interrupts: Interrupts,
    /// Counters of devices by device and name: `statistics/NAME`, and the driver's own.
    pub devices: BTreeMap<(String, String), u64>,
    /// Timer ticks and the time in nanoseconds, from `/proc/timer_list`.
    pub ticks: Option<(u64, u64)>,
}

/// The counters of a device in sysfs that mean lost packets.
const LOST: [&str; 4] = [
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_over_errors",
    "rx_dropped",
];

impl Counters {
    /// Reads every counter now. One that cannot be read has its error in its place, or is left out.
    pub fn read(tree: &Tree, nics: &[Nic], ethtool: Option<&Ethtool>) -> Self {
        let mut devices = BTreeMap::new();
        for nic in nics {
            for name in LOST {
                if let Ok(value) = tree.number(&format!("{}/statistics/{name}", nic.path())) {
                    devices.insert((nic.name.clone(), name.to_owned()), value);
                }
            }
            let own = ethtool.and_then(|ethtool| ethtool.counters(&nic.name).ok());
            for (name, value) in own.unwrap_or_default() {
                devices.insert((nic.name.clone(), name), value);
            }
        }
        Self {
            softnet: tree
                .read("/proc/net/softnet_stat")
                .map(|text| softnet(&text)),
            tcp: tree
                .read("/proc/net/netstat")
                .map(|text| pairs(&text, "TcpExt:")),
            failures: Failures::read(tree),
            interrupts: interrupts::read(tree).unwrap_or_default(),
            devices,
            ticks: tree
                .read("/proc/timer_list")
                .ok()
                .and_then(|text| ticks(&text)),
        }
    }
}

fn softnet(text: &str) -> Vec<Softnet> {
    text.lines()
        .map(|line| {
            let mut columns = line
                .split_whitespace()
                .map(|hex| u64::from_str_radix(hex, 16).unwrap_or(0));
            let mut next = || columns.next().unwrap_or(0);
            Softnet {
                processed: next(),
                dropped: next(),
                squeezed: next(),
            }
        })
        .collect()
}

/// Parses the pair of lines of a group, names and then numbers, each beginning with its name and a colon.
pub(crate) fn pairs(text: &str, group: &str) -> BTreeMap<String, u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else {
        return BTreeMap::new();
    };
    names
        .split_whitespace()
        .zip(numbers.split_whitespace())
        .skip(1)
        .filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)))
        .collect()
}

/// Returns the number behind `name` in the line of `/proc/net/sockstat` or `sockstat6` that begins with `line`: `TCP: inuse 27 orphan 0 …`.
pub(crate) fn in_sockstat<T: std::str::FromStr>(text: &str, line: &str, name: &str) -> Option<T> {
    let line = text.lines().find_map(|found| found.strip_prefix(line))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

fn ticks(text: &str) -> Option<(u64, u64)> {
    let after = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let nanos = after("now at ")?.split_whitespace().next()?.parse().ok()?;
    Some((after("jiffies: ")?.trim().parse().ok()?, nanos))
}

/// How a counter changed between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is 0: it has counted nothing since boot.
    Never,
    /// It has counted before, but not between the looks.
    Still {
        /// The value of the counter.
        total: u64,
    },
    /// It rose between the looks.
    By {
        /// The difference between the two looks.
        more: u64,
    },
    /// It is not 0, and there was no second look.
    Unwatched {
        /// The value of the counter.
        total: u64,
    },
}

/// The counters at two looks, or at one.
#[derive(Debug)]
pub struct Samples {
    /// The counters at the first look.
    pub first: Counters,
    /// The counters at the second look, and the time between the two.
    pub second: Option<(Counters, Duration)>,
}

impl Samples {
    /// Returns the latest look.
    pub fn latest(&self) -> &Counters {
        self.second
            .as_ref()
            .map_or(&self.first, |(second, _)| second)
    }

    /// Returns how the counter that `of` picks has changed; `None` if it is not there.
    pub fn moved(&self, of: impl Fn(&Counters) -> Option<u64>) -> Option<Moved> {
        let first = of(&self.first)?;
        let Some((second, _)) = &self.second else {
            return Some(match first {
                0 => Moved::Never,
                total => Moved::Unwatched { total },
            });
        };
        Some(match of(second)? {
            0 => Moved::Never,
            now if now > first => Moved::By { more: now - first },
            total => Moved::Still { total },
        })
    }

    /// Returns how often per second it counted; `None` without a second look.
    pub fn rate(&self, of: impl Fn(&Counters) -> Option<u64>) -> Option<f64> {
        let (second, over) = self.second.as_ref()?;
        let more = of(second)?.saturating_sub(of(&self.first)?);
        Some(more as f64 / over.as_secs_f64())
    }

    /// Returns the time between the looks as text, `1.0 s`, or why there is none.
    pub fn over(&self) -> String {
        match &self.second {
            Some((_, over)) => format!("{:.1} s", over.as_secs_f64()),
            None => "one look".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_pairs_are_read() {
        let cpus = softnet("0000000a 00000001 00000002 0\n00000000\n");
        assert_eq!(
            (cpus[0].processed, cpus[0].dropped, cpus[0].squeezed),
            (10, 1, 2)
        );
        assert_eq!(cpus[1], Softnet::default());
        let text = "TcpExt: A ListenOverflows\nTcpExt: 1 7\nIpExt: B\nIpExt: 2\n";
        assert_eq!(pairs(text, "TcpExt:")["ListenOverflows"], 7);
        assert_eq!(ticks("now at 4000 nsecs\njiffies: 17\n"), Some((17, 4000)));
    }

    #[test]
    fn a_counter_is_judged_by_its_change() {
        let look = |drops| Counters {
            softnet: Ok(vec![Softnet {
                dropped: drops,
                ..Softnet::default()
            }]),
            tcp: Ok(BTreeMap::new()),
            failures: Failures::default(),
            interrupts: Interrupts::new(),
            devices: BTreeMap::new(),
            ticks: None,
        };
        let moved = |first, second: Option<u64>| {
            let second = second.map(|drops| (look(drops), Duration::from_secs(1)));
            Samples {
                first: look(first),
                second,
            }
            .moved(|counters| Some(counters.softnet.as_ref().ok()?[0].dropped))
        };
        assert_eq!(moved(0, None), Some(Moved::Never));
        assert_eq!(moved(3, None), Some(Moved::Unwatched { total: 3 }));
        assert_eq!(moved(3, Some(3)), Some(Moved::Still { total: 3 }));
        assert_eq!(moved(3, Some(8)), Some(Moved::By { more: 5 }));
    }
}
