//! Limits of the cloud, which no setting of the machine lifts. Used by `rules`.

use super::rule::{NOTHING, Risk, Rule};
use crate::machine::Machine;
use crate::net::nic::Nic;
use crate::sample::Moved;
use crate::tree::Cannot;
use crate::verdict::Outcome;

pub(super) const ALLOWANCES: Rule = Rule {
    id: "T37",
    title: "provider limits",
    of_2009: false,
    reads: "ioctl ETHTOOL_GSTATS: counters that end in _allowance_exceeded, twice",
    why: "The provider shapes or drops packets above what the instance was sold with: bandwidth, packets a second, \
          connections. It looks like a network fault and no host setting helps.",
    source: "ENA Linux Best Practices. Other clouds have no such counters that we know of",
    dated: "stands in 2026",
    change: "a larger instance, or fewer packets",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: true,
    checked: &[(
        "drivers/net/ethernet/amazon/ena/ena_ethtool.c",
        "bw_in_allowance_exceeded",
    )],
    check: |machine| Ok(machine.each_nic(|nic| allowances(machine, nic))),
};

fn allowances(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    machine.ethtool()?;
    let names: Vec<&(String, String)> = machine
        .samples
        .first
        .devices
        .keys()
        .filter(|(device, name)| *device == nic.name && name.ends_with("_allowance_exceeded"))
        .collect();
    if names.is_empty() {
        return Ok(Outcome::not_applicable("the driver counts no such limits"));
    }
    let moved = |key: &(String, String)| {
        machine
            .samples
            .moved(|counters| counters.devices.get(key).copied())
    };
    let growing: Vec<(&str, u64)> = names
        .iter()
        .filter_map(|key| match moved(key) {
            Some(Moved::By { more }) => Some((key.1.as_str(), more)),
            _ => None,
        })
        .collect();
    let outcome = match growing.first() {
        Some((name, more)) => Outcome::bad(format!(
            "{name} grew by {more} in {}",
            machine.samples.over()
        )),
        None if machine.samples.second.is_none() => {
            Outcome::cannot_tell("one look does not show growth")
        }
        None => Outcome::good("none grows"),
    };
    Ok(names.iter().fold(outcome, |outcome, key| {
        let value = machine
            .samples
            .latest()
            .devices
            .get(*key)
            .copied()
            .unwrap_or(0);
        outcome.saw(format!("ETHTOOL_GSTATS {} {}", key.0, key.1), value)
    }))
}
