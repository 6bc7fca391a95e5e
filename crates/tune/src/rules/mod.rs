//! The rules: one file per family, one line each in the list below. Used by the crates `lancet` and `report`.
//!
//! A rule is data that explains itself (`--explain`) and a function that looks and answers. Its id is never given to
//! another rule. `?` on a [`Cannot`](crate::tree::Cannot) inside a check is the answer "cannot tell", with the reason.

mod arrivals;
mod backlog;
mod connections;
mod defaults;
mod devices;
mod dma;
mod events;
mod failures;
mod features;
mod group;
mod memory;
mod moderation;
mod offload;
mod placement;
mod polling;
mod power;
mod process;
mod profiling;
mod provider;
mod queues;
mod rule;
mod runtime;
mod security;
mod shares;
mod steering;
mod storage;
mod sysctls;
mod ticks;

pub use rule::{Finding, KERNEL, Risk, Rule};
pub(crate) use sysctls::lines as sysctl_lines;

use crate::machine::Machine;
use crate::verdict::Verdict;

/// All rules; those of the list of 2009 come first.
pub const RULES: &[&Rule] = &[
    &ticks::TICKLESS,
    &ticks::HZ,
    &events::CONNECTOR,
    &offload::SEGMENTATION,
    &dma::NET_DMA,
    &dma::DCA,
    &polling::NAPI,
    &moderation::THROTTLING,
    &placement::AFFINITY,
    &profiling::OPROFILE,
    &events::EPOLL,
    &polling::BUSY_POLL,
    &placement::IRQBALANCE,
    &ticks::CLOCKSOURCE,
    &offload::RECEIVE,
    &devices::RINGS,
    &queues::RSS,
    &steering::RPS,
    &backlog::SOFTIRQ,
    &queues::QDISC,
    &backlog::ACCEPT,
    &backlog::SYN,
    &connections::PORTS,
    &connections::BUFFERS,
    &connections::CONNTRACK,
    &memory::THP,
    &memory::SWAP,
    &memory::OVERCOMMIT,
    &process::DESCRIPTORS,
    &process::ALLOCATOR,
    &power::GOVERNOR,
    &power::IDLE,
    &placement::NUMA,
    &security::MITIGATIONS,
    &sysctls::DEAD,
    &profiling::DEBUGGING,
    &provider::ALLOWANCES,
    &group::CPU,
    &group::MEMORY,
    &group::TASKS,
    &group::PRESSURE,
    &memory::DEFRAG,
    &connections::IDLE_RESTART,
    &process::WATCHES,
    &storage::DIRTY,
    &storage::SCHEDULER,
    &runtime::YJIT,
    &runtime::DEBUGGING,
    &runtime::OPCACHE,
    &failures::DATAGRAMS,
    &failures::SEGMENTS,
    &failures::NEIGHBOURS,
    &failures::KILLS,
    &features::OFF,
    &shares::SHARES,
    &shares::FOREIGN,
    // It lists what those before it have not looked at, so it is the last.
    &defaults::FAR,
];

impl Rule {
    /// Returns the rule of that id, in either case.
    pub fn find(id: &str) -> Option<&'static Self> {
        RULES
            .iter()
            .copied()
            .find(|rule| rule.id.eq_ignore_ascii_case(id))
    }
}

/// Checks the rules, in this order, and returns their findings.
pub fn audit(machine: &Machine, rules: &[&'static Rule]) -> Vec<Finding> {
    rules.iter().map(|rule| rule.check(machine)).collect()
}

/// Returns how many findings have each verdict, the worst first.
pub fn count(findings: &[Finding]) -> Vec<(Verdict, usize)> {
    let of = |verdict| {
        let same = |finding: &&Finding| finding.outcome.verdict == verdict;
        findings.iter().filter(same).count()
    };
    Verdict::ALL
        .into_iter()
        .map(|verdict| (verdict, of(verdict)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_is_there_once() {
        let ids: BTreeSet<String> = RULES.iter().map(|rule| rule.id.to_owned()).collect();
        let wanted = (1..=RULES.len())
            .map(|number| format!("T{number:02}"))
            .collect();
        assert_eq!(ids, wanted);
    }

    #[test]
    fn every_rule_explains_itself() {
        for rule in RULES {
            for text in [
                rule.title,
                rule.reads,
                rule.why,
                rule.source,
                rule.dated,
                rule.change,
                rule.undo,
            ] {
                assert!(!text.is_empty(), "{}", rule.id);
            }
            // A rule is dated by a year or by a version.
            assert!(
                rule.dated.contains(|c: char| c.is_ascii_digit()),
                "{}: {}",
                rule.id,
                rule.dated
            );
        }
    }

    #[test]
    fn those_of_2009_come_first() {
        let first = RULES.iter().take_while(|rule| rule.of_2009).count();
        assert_eq!(first, RULES.iter().filter(|rule| rule.of_2009).count());
        assert_eq!(first, 11);
    }
}
