//! The rings between a network card and the kernel.

use super::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::net::ethtool::Block;
use crate::net::nic::Nic;
use crate::sample::Moved;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::Outcome;

pub(super) const RINGS: Rule = Rule {
    id: "T16",
    title: "ring size",
    of_2009: false,
    reads: "ioctl ETHTOOL_GRINGPARAM; statistics/rx_missed_errors, rx_fifo_errors, rx_over_errors, twice",
    why: "A ring that runs full loses packets. A longer one holds more, in memory that then falls out of the cache, so \
          only loss is a reason.",
    source: "ENA Linux Best Practices; tuned#2; Red Hat's guide (keep the default unless frames are lost)",
    dated: "stands in 2026",
    change: "ethtool -G DEVICE rx MAX; interrupts the traffic for less than a millisecond on ENA, longer elsewhere",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: true,
    check: |machine| Ok(machine.each_nic(|nic| rings(machine, nic))),
};

const FULL: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

fn rings(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let numbers = machine.ethtool()?.numbers(&nic.name, Block::Ring)?;
    let (now, most) = (numbers.get("rx"), numbers.get("rx-max"));
    let moved = machine.samples.moved(|counters| {
        let of = |name: &str| counters.devices.get(&(nic.name.clone(), name.to_owned()));
        FULL.iter()
            .filter_map(|name| of(name))
            .copied()
            .reduce(|sum, more| sum.saturating_add(more))
    });
    let setting = || Setting::Ring {
        device: nic.name.clone(),
        field: "rx".into(),
    };
    let (outcome, seen) = match moved {
        None => (
            Outcome::cannot_tell("the device counts no lost packets"),
            "no counters".into(),
        ),
        Some(Moved::Never) => (
            Outcome::good(format!("{now} of {most}; never full")),
            "0 since boot".into(),
        ),
        Some(Moved::Still { total }) => (
            Outcome::good(format!("{now} of {most}; not full now")),
            format!("{total} since boot, none in {}", machine.samples.over()),
        ),
        Some(Moved::By { more }) if now < most => (
            Outcome::bad(format!(
                "{more} packets lost in {}, and the ring is {now} of {most}",
                machine.samples.over()
            ))
            .change(setting(), most),
            format!("{more} more"),
        ),
        Some(Moved::By { more }) => (
            Outcome::consider(format!(
                "{more} packets lost, and the ring is as long as it gets"
            )),
            format!("{more} more"),
        ),
        Some(Moved::Unwatched { total }) => (
            Outcome::cannot_tell(format!(
                "{total} packets lost since boot; one look does not show when"
            )),
            format!("{total} since boot"),
        ),
    };
    Ok(outcome
        .saw(
            format!("ETHTOOL_GRINGPARAM {}", nic.name),
            format!("rx {now} of {most}"),
        )
        .saw(
            format!("{}/statistics {}", nic.path(), FULL.join(" + ")),
            seen,
        ))
}
