//! The rings between a network card and the kernel. Used by `rules`.

use super::backlog::words;
use super::rule::{Risk, Rule, WRITE_BACK};
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
    checked: &[("net/ethtool/ioctl.c", "ETHTOOL_GRINGPARAM")],
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
    let over = machine.samples.over();
    let outcome = judged(&nic.name, (now, most), moved, &over);
    Ok(outcome
        .saw(
            format!("ETHTOOL_GRINGPARAM {}", nic.name),
            format!("rx {now} of {most}"),
        )
        .saw(
            format!("{}/statistics {}", nic.path(), FULL.join(" + ")),
            words(moved, &over),
        ))
}

fn judged(device: &str, (now, most): (u32, u32), lost: Option<Moved>, over: &str) -> Outcome {
    match lost {
        None => Outcome::cannot_tell("the device counts no lost packets"),
        Some(Moved::Never) => Outcome::good(format!("{now} of {most}; never full")),
        Some(Moved::Still { .. }) => Outcome::good(format!("{now} of {most}; not full now")),
        Some(Moved::By { more }) if now < most => {
            let setting = Setting::Ring {
                device: device.into(),
                field: "rx".into(),
            };
            Outcome::bad(format!(
                "{more} packets lost in {over}, and the ring is {now} of {most}"
            ))
            .change(setting, most)
        }
        Some(Moved::By { more }) => Outcome::consider(format!(
            "{more} packets lost in {over}, and the ring is as long as it gets"
        )),
        Some(Moved::Unwatched { total }) => Outcome::cannot_tell(format!(
            "{total} packets lost since boot; one look does not show when"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    #[test]
    fn only_loss_is_a_reason_for_a_longer_ring() {
        let judged = |ring, lost| judged("eth0", ring, lost, "1.0 s");
        let lost = Some(Moved::By { more: 7 });
        let short = judged((256, 4096), lost);
        assert_eq!(short.verdict, Verdict::Bad);
        assert_eq!(short.changes[0].value, "4096");
        assert_eq!(
            short.changes[0].setting.command("4096"),
            "ethtool -G eth0 rx 4096"
        );
        let longest = judged((4096, 4096), lost);
        assert_eq!(longest.verdict, Verdict::Consider);
        assert!(longest.changes.is_empty());
        for quiet in [Moved::Never, Moved::Still { total: 7 }] {
            assert_eq!(judged((256, 4096), Some(quiet)).verdict, Verdict::Good);
        }
        let once = judged((256, 4096), Some(Moved::Unwatched { total: 7 }));
        assert_eq!(once.verdict, Verdict::CannotTell);
    }
}
