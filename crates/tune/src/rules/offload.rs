//! Work that the network card takes over, or that the kernel batches: segmentation out, merging in. Used by `rules`.

use super::rule::{Risk, Rule, WRITE_BACK};
use crate::machine::Machine;
use crate::net::ethtool::Features;
use crate::net::nic::Nic;
use crate::setting::Setting;
use crate::tree::Cannot;
use crate::verdict::Outcome;

pub(super) const SEGMENTATION: Rule = Rule {
    id: "T04",
    title: "segmentation offload (TSO, GSO)",
    of_2009: true,
    reads: "ioctl ETHTOOL_GFEATURES per device",
    why: "Without it each segment of 1,448 bytes goes through the whole stack by itself; with it a piece of up to \
          64 KiB goes through once and is cut by the card (TSO) or just before it (GSO). Both need scatter-gather.",
    source: "Documentation/networking/segmentation-offloads.rst",
    dated: "2009; stands today. GSO is in every kernel since 2.6.18",
    change: "ethtool -K DEVICE sg on tso on gso on, in this order",
    undo: "lancet tune --undo last: the wanted bits, in the opposite order of the changes",
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        (
            "Documentation/networking/segmentation-offloads.rst",
            "TCP Segmentation Offload",
        ),
        ("net/core/dev.c", "netdev_fix_features"),
    ],
    check: |machine| Ok(machine.each_nic(|nic| segmentation(machine, nic))),
};

const SG: &str = "tx-scatter-gather";
const TSO: &str = "tx-tcp-segmentation";
const TSO6: &str = "tx-tcp6-segmentation";
const GSO: &str = "tx-generic-segmentation";
const GRO: &str = "rx-gro";
const LRO: &str = "rx-lro";

fn shown(outcome: Outcome, nic: &Nic, features: &Features, names: &[&str]) -> Outcome {
    names.iter().fold(outcome, |outcome, name| {
        let words = features
            .get(name)
            .map_or("unknown to this kernel", |it| it.words());
        outcome.saw(format!("ETHTOOL_GFEATURES {} {name}", nic.name), words)
    })
}

fn turn_on(outcome: Outcome, nic: &Nic, name: &str) -> Outcome {
    let setting = Setting::Feature {
        device: nic.name.clone(),
        name: name.into(),
    };
    outcome.change(setting, "on")
}

fn segmentation(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let features = machine.ethtool()?.features(&nic.name)?;
    let off = |name: &&str| features.get(name).is_some_and(|it| !it.active && !it.fixed);
    let off: Vec<&str> = [TSO, TSO6, GSO].into_iter().filter(off).collect();
    // A feature that is requested and yet off lacks something that it needs.
    let (blocked, unasked): (Vec<&str>, Vec<&str>) = off
        .iter()
        .partition(|name| features.get(name).is_some_and(|it| it.requested));
    let scatter = features.get(SG).filter(|sg| !sg.active);
    let names = off.join(" and ");
    let mut outcome = match (off.is_empty(), scatter) {
        (true, _) => match features.get(TSO).filter(|tso| !tso.active) {
            Some(_) => Outcome::good("GSO on; TSO is not offered by this device"),
            None => Outcome::good("on"),
        },
        (false, Some(_)) => {
            Outcome::bad(format!("{names} off: needs scatter-gather, which is off"))
        }
        (false, None) if unasked.is_empty() => Outcome::consider(format!(
            "{} asked for and off: what is behind the device does not take it",
            blocked.join(" and ")
        )),
        (false, None) => Outcome::bad(format!("{names} off, though the device can")),
    };
    if !off.is_empty() && scatter.is_some_and(|sg| !sg.fixed) {
        outcome = turn_on(outcome, nic, SG);
    }
    let outcome = unasked
        .iter()
        .fold(outcome, |outcome, name| turn_on(outcome, nic, name));
    Ok(shown(outcome, nic, &features, &[SG, TSO, TSO6, GSO]))
}

pub(super) const RECEIVE: Rule = Rule {
    id: "T15",
    title: "receive merging (GRO, LRO)",
    of_2009: false,
    reads: "ioctl ETHTOOL_GFEATURES per device; net.ipv4.ip_forward",
    why: "GRO hands up merged segments so that the stack is walked once for many. LRO merges so that the original \
          packets cannot be restored: on a machine that forwards it breaks connections. A veth is handed merged packets; with GRO \
          it polls, which costs latency, so there it is only proposed with a goal.",
    source: "Documentation/networking/segmentation-offloads.rst; ip-sysctl.rst (ip_forward turns LRO off)",
    dated: "GRO since 2.6.29 (2009); stands today",
    change: "ethtool -K DEVICE gro on; where packets are forwarded lro off",
    undo: WRITE_BACK,
    risk: Risk::Medium,
    reboot: false,
    counts: false,
    checked: &[
        ("net/core/gro.c", "dev_gro_receive"),
        ("net/ipv4/devinet.c", "dev_disable_lro"),
        ("drivers/net/veth.c", "veth_set_features"),
    ],
    check: |machine| Ok(machine.each_nic(|nic| receive(machine, nic))),
};

fn receive(machine: &Machine, nic: &Nic) -> Result<Outcome, Cannot> {
    let features = machine.ethtool()?.features(&nic.name)?;
    let forwards = machine
        .tree
        .word("/proc/sys/net/ipv4/ip_forward")
        .is_ok_and(|word| word == "1");
    let gro = features.get(GRO);
    let lro = features.get(LRO);
    let outcome = if lro.is_some_and(|lro| lro.active) && forwards {
        let setting = Setting::Feature {
            device: nic.name.clone(),
            name: LRO.into(),
        };
        Outcome::bad("LRO is on, and this machine forwards packets").change(setting, "off")
    } else if gro.is_some_and(|gro| !gro.active && !gro.fixed) {
        // A veth or tap gets merged packets from its peer already. With GRO a veth polls (veth_set_features in
        // drivers/net/veth.c, 6.12): each packet then takes a softirq more.
        match (nic.is_hardware(), machine.goal) {
            (true, _) => turn_on(
                Outcome::bad("GRO is off: every segment walks the stack by itself"),
                nic,
                GRO,
            ),
            (false, None) => {
                Outcome::good("GRO off, as devices of software begin: nothing is to be merged")
            }
            (false, Some(_)) => turn_on(
                Outcome::consider(
                    "GRO is off: it pays where packets come in unmerged, and costs a softirq each",
                ),
                nic,
                GRO,
            ),
        }
    } else {
        Outcome::good("GRO on")
    };
    let outcome = shown(outcome, nic, &features, &[GRO, LRO]);
    Ok(outcome.saw("/proc/sys/net/ipv4/ip_forward", u8::from(forwards)))
}
