//! Sets of CPUs in the two ways the kernel writes them, and which CPUs belong together. Used by `rules::placement`,
//! `rules::steering`, `setting` and others.
//!
//! ```text
//! cpulist   0-3,8          smp_affinity_list, cpulist, Cpus_allowed_list
//! cpumask   00000001,ff    rps_cpus, xps_cpus: groups of 32 bits, the highest first
//! ```
//!
//! Source: Documentation/admin-guide/cputopology.rst, lib/bitmap-str.c.

use std::collections::BTreeSet;

use crate::tree::Tree;

/// More CPUs than any kernel is built for (NR_CPUS is at most 8192 on x86-64). A list from a file that claims more is
/// nonsense, and must not make lancet allocate for it.
const MOST: usize = 8192;

/// A set of CPU numbers.
pub type Cpus = BTreeSet<usize>;

/// Reads `0-3,8`; `None` for what is no list.
pub fn list(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = last.trim().parse().ok()?;
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Reads `00000001,ffffffff`; `None` for what is no mask.
pub fn mask(text: &str) -> Option<Cpus> {
    let groups: Vec<&str> = text.trim().split(',').collect();
    if groups.len() * 32 > MOST {
        return None;
    }
    let mut cpus = Cpus::new();
    for (at, group) in groups.iter().rev().enumerate() {
        let bits = u32::from_str_radix(group, 16).ok()?;
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| at * 32 + bit),
        );
    }
    Some(cpus)
}

/// Writes a list of CPUs as the kernel does, `0-3,8`.
pub fn to_list(cpus: &Cpus) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let written: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    written.join(",")
}

/// Writes a mask in groups of 32 bits.
pub fn to_mask(cpus: &Cpus) -> String {
    let groups = cpus.last().map_or(1, |last| last / 32 + 1);
    let mut bits = vec![0u32; groups];
    for cpu in cpus {
        bits[cpu / 32] |= 1 << (cpu % 32);
    }
    let written: Vec<String> = bits
        .iter()
        .rev()
        .map(|bits| format!("{bits:08x}"))
        .collect();
    written.join(",")
}

/// Which CPUs there are, and how they share cores, caches and memory.
#[derive(Debug, Default)]
pub struct Topology {
    /// The CPUs that are online.
    pub online: Cpus,
    /// One set per physical core; empty if the machine does not say.
    pub cores: BTreeSet<Cpus>,
    /// One set per last-level cache; empty if the machine does not say.
    pub caches: BTreeSet<Cpus>,
    /// The CPUs of each NUMA node.
    pub nodes: Vec<Cpus>,
}

impl Topology {
    /// Reads the topology from sysfs; what is not there stays empty.
    pub fn read(tree: &Tree) -> Self {
        let cpus_in = |path: String| tree.read(&path).ok().and_then(|text| list(&text));
        let online = cpus_in("/sys/devices/system/cpu/online".into()).unwrap_or_default();
        let mut topology = Self {
            online,
            ..Self::default()
        };
        for cpu in &topology.online {
            let base = format!("/sys/devices/system/cpu/cpu{cpu}");
            topology
                .cores
                .extend(cpus_in(format!("{base}/topology/thread_siblings_list")));
            // The highest index is the last level (cacheinfo.rst); L3 on servers, L2 on small ones.
            let last = tree.list(&format!("{base}/cache")).ok().and_then(|names| {
                names
                    .iter()
                    .filter_map(|name| name.strip_prefix("index")?.parse::<u32>().ok())
                    .max()
            });
            if let Some(last) = last {
                topology
                    .caches
                    .extend(cpus_in(format!("{base}/cache/index{last}/shared_cpu_list")));
            }
        }
        let nodes = cpus_in("/sys/devices/system/node/online".into()).unwrap_or_default();
        topology.nodes = nodes
            .iter()
            .filter_map(|node| cpus_in(format!("/sys/devices/system/node/node{node}/cpulist")))
            .collect();
        topology
    }

    /// Returns the CPUs that share a last-level cache with some of these.
    pub fn beside(&self, cpus: &Cpus) -> Cpus {
        let near = self.caches.iter().filter(|cache| !cache.is_disjoint(cpus));
        near.flatten().copied().collect()
    }

    /// Returns whether some CPU of the one set shares a last-level cache with some of the other. True where the machine
    /// does not say: what is not known is no reason to complain.
    pub fn share_cache(&self, one: &Cpus, other: &Cpus) -> bool {
        self.caches.is_empty() || !self.beside(one).is_disjoint(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_come_back_as_they_went() {
        for text in ["0", "0-3,8", "1,3,5-6", "31-33,64"] {
            let cpus = list(text).unwrap();
            assert_eq!(to_list(&cpus), text);
            assert_eq!(mask(&to_mask(&cpus)).unwrap(), cpus);
        }
        assert_eq!(to_mask(&list("0-1").unwrap()), "00000003");
        assert_eq!(to_mask(&list("32").unwrap()), "00000001,00000000");
        assert_eq!(mask("3").unwrap(), list("0-1").unwrap());
    }

    #[test]
    fn nonsense_is_no_set() {
        for text in ["3-1", "x", "0-99999999999", "-1", "4294967295"] {
            assert_eq!(list(text), None, "{text}");
        }
        assert_eq!(mask("zz"), None);
        assert_eq!(list("").unwrap(), Cpus::new());
    }
}
