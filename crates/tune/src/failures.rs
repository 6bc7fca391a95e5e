//! Counters of failures that stand in several files: datagrams, the table of neighbours, kills for want of memory. Used
//! by `rules::failures` and `sample`.
//!
//! | file | read | of |
//! |---|---|---|
//! | `/proc/net/snmp`, line `Udp:` | names, then numbers | the network namespace |
//! | `/proc/net/snmp6`, lines `Udp6*` | a name and a number | the network namespace |
//! | `/proc/net/udp`, `/proc/net/udp6` | the last column, `drops`, of each socket | the network namespace |
//! | `/proc/net/stat/arp_cache`, `ndisc_cache` | columns `entries` and `table_fulls`, hexadecimal, a line a CPU | the machine |
//! | `/proc/vmstat` | `oom_kill` | the machine |
//!
//! The kernel has one table of neighbours for all network namespaces, and shows its counters in the first one only.
//! Source: net/ipv4/proc.c, net/ipv6/proc.c, net/ipv4/udp.c (udp4_format_sock), net/core/neighbour.c, mm/vmstat.c.

use std::collections::BTreeMap;

use crate::sample::pairs;
use crate::tree::{Cannot, Tree};

/// Sockets that are looked at in each of the two files, at most.
const SOCKETS: usize = 65_536;

/// A UDP socket that has lost datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loser {
    /// The port that it is bound to.
    pub port: u16,
    /// Datagrams that did not go into its buffer.
    pub dropped: u64,
}

/// The table of neighbours of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Neighbours in the table.
    pub entries: u64,
    /// How often one more was refused because the table was full.
    pub full: u64,
}

/// One look at these counters.
#[derive(Clone, Debug)]
pub struct Failures {
    /// The line `Udp:` of `/proc/net/snmp`, and that of IPv6, added up by name.
    pub udp: Result<BTreeMap<String, u64>, Cannot>,
    /// The UDP sockets that have lost datagrams, by inode.
    pub losers: BTreeMap<u32, Loser>,
    /// The table of neighbours by the name of its file.
    pub neighbours: BTreeMap<&'static str, Neighbours>,
    /// How many processes the kernel has killed for want of memory; not there before Linux 4.13.
    pub killed: Result<u64, Cannot>,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            udp: Ok(BTreeMap::new()),
            losers: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            killed: Ok(0),
        }
    }
}

impl Failures {
    /// Reads these counters now.
    pub fn read(tree: &Tree) -> Self {
        let losers = ["/proc/net/udp", "/proc/net/udp6"]
            .iter()
            .filter_map(|path| tree.read(path).ok())
            .flat_map(|text| losers(&text))
            .collect();
        let neighbours = ["arp_cache", "ndisc_cache"]
            .into_iter()
            .filter_map(|name| {
                let text = tree.read(&format!("/proc/net/stat/{name}")).ok()?;
                Some((name, table(&text)?))
            })
            .collect();
        Self {
            udp: udp(tree),
            losers,
            neighbours,
            killed: killed(tree),
        }
    }
}

fn udp(tree: &Tree) -> Result<BTreeMap<String, u64>, Cannot> {
    let mut all = pairs(&tree.read("/proc/net/snmp")?, "Udp:");
    // A kernel without IPv6 has no such file.
    let sixth = tree.read("/proc/net/snmp6").unwrap_or_default();
    for line in sixth.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(number)) = (words.next(), words.next()) else {
            continue;
        };
        if let (Some(name), Ok(number)) = (name.strip_prefix("Udp6"), number.parse::<u64>()) {
            let sum = all.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(number);
        }
    }
    Ok(all)
}

/// Reads `sl local_address rem_address st … inode ref pointer drops`: the address is `0100007F:14E9`.
fn losers(text: &str) -> Vec<(u32, Loser)> {
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = words.get(1)?.rsplit_once(':')?;
        let dropped: u64 = words.last()?.parse().ok()?;
        let inode = words.get(9)?.parse().ok()?;
        let port = u16::from_str_radix(port, 16).ok()?;
        (dropped > 0 && words.len() >= 13).then_some((inode, Loser { port, dropped }))
    };
    let lines = text.lines().skip(1).take(SOCKETS);
    lines.filter_map(socket).collect()
}

fn table(text: &str) -> Option<Neighbours> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = |name: &str| names.iter().position(|known| *known == name);
    let (entries, full) = (column("entries")?, column("table_fulls")?);
    let mut all = Neighbours::default();
    for line in lines {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(|hex| u64::from_str_radix(hex, 16).unwrap_or(0))
            .collect();
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        // Each CPU's line repeats the number of entries; the rest it has counted itself.
        all.entries = all.entries.max(number(entries));
        all.full = all.full.saturating_add(number(full));
    }
    Some(all)
}

fn killed(tree: &Tree) -> Result<u64, Cannot> {
    const VMSTAT: &str = "/proc/vmstat";
    let text = tree.read(VMSTAT)?;
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    match line {
        Some(number) => {
            let number = number.trim();
            number.parse().map_err(|_| Cannot::odd(VMSTAT, number))
        }
        None => Err(Cannot::Unsupported {
            what: format!("{VMSTAT} oom_kill"),
            why: "since Linux 4.13".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_of_the_kernel() {
        let text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1: 0100007F:14E9 00000000:0000 07 00000000:00000600 00:00000000 00000000     0        0 4711 2 00000000dead 63397\n\
            2: 0100007F:14EA 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 00000000dead 0\n\
            3: short 7\n";
        let one = Loser {
            port: 5353,
            dropped: 63_397,
        };
        assert_eq!(losers(text), [(4711, one)]);
        let text = "entries  allocs   table_fulls\n00000010 000003fa 00000003\n00000010 00000001 0000000a\n";
        let expected = Neighbours {
            entries: 16,
            full: 13,
        };
        assert_eq!(table(text), Some(expected));
        // Where a kernel has no such column, nothing is known.
        assert_eq!(table("entries  allocs\n00000010 00000001\n"), None);
    }
}
