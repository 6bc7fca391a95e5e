//! Copies done by engines: I/OAT with NET_DMA, and direct cache access. Both are obsolete. Used by `rules`.

use super::rule::{NOTHING, Risk, Rule};
use crate::kconfig::Built;
use crate::machine::Machine;
use crate::tree::Cannot;
use crate::verdict::Outcome;

pub(super) const NET_DMA: Rule = Rule {
    id: "T05",
    title: "I/OAT and NET_DMA",
    of_2009: true,
    reads: "CONFIG_NET_DMA, /proc/sys/net/ipv4/tcp_dma_copybreak, /sys/class/dma, CONFIG_INTEL_IOATDMA",
    why: "Received data was copied to the application by a DMA engine. The copy ran beside a process that could \
          fork or unmap meanwhile: data went to the wrong page. The engine's driver still ships, for storage.",
    source: "marked broken in 3.13-rc5, removed in 3.18 (commit 7bced397510a); CVE-2019-3837 on RHEL 6",
    dated: "2009 advised it; harmful since 2013, gone since 3.18 (2014). Its successor is DSA (idxd)",
    change: "where it is still built in: sysctl net.ipv4.tcp_dma_copybreak=2147483647, then another kernel",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: true,
    counts: false,
    checked: &[("drivers/dma/Kconfig", "INTEL_IOATDMA")],
    check: net_dma,
};

fn net_dma(machine: &Machine) -> Result<Outcome, Cannot> {
    const BREAK: &str = "/proc/sys/net/ipv4/tcp_dma_copybreak";
    let engines = machine.tree.list("/sys/class/dma");
    let tell = |outcome: Outcome| {
        let engines = match &engines {
            Ok(names) => format!("{} channels", names.len()),
            Err(cannot) => cannot.to_string(),
        };
        outcome.saw("/sys/class/dma", engines)
    };
    if let Ok(value) = machine.tree.word(BREAK) {
        let says = "NET_DMA works in this kernel: received data can go to the wrong page";
        return Ok(tell(Outcome::harmful(says).saw(BREAK, value)));
    }
    let missing = "there is no tcp_dma_copybreak";
    let (built, from) = match machine.built("NET_DMA") {
        Ok(built) => built,
        Err(no_config) => {
            return match machine.kernel_is_at_least(3, 18) {
                Some(true) => {
                    let says = format!("gone since 3.18; this is {}", machine.kernel());
                    Ok(tell(Outcome::obsolete(says).saw(BREAK, missing)))
                }
                _ => Err(no_config),
            };
        }
    };
    let outcome = match built {
        Built::In | Built::Module => {
            Outcome::harmful("NET_DMA is built in: received data can go to the wrong page")
        }
        Built::Off => Outcome::good("the kernel knows it and is built without it"),
        Built::Absent | Built::Value(_) => Outcome::obsolete(format!(
            "gone since 3.18: {} knows no such option",
            machine.kernel()
        )),
    };
    let (ioat, ioat_from) = machine.built("INTEL_IOATDMA")?;
    Ok(tell(
        outcome
            .saw(from, built.words())
            .saw(BREAK, missing)
            .saw(ioat_from, ioat.words()),
    ))
}

pub(super) const DCA: Rule = Rule {
    id: "T06",
    title: "direct cache access (DCA)",
    of_2009: true,
    reads: "CONFIG_DCA, /sys/class/dca, vendor and model in /proc/cpuinfo",
    why: "The card's descriptors were tagged with the CPU whose cache should get the data. Since the Xeon E5 (2012) \
          all DMA goes to the last-level cache by itself (DDIO), untagged.",
    source: "Intel 000056796 (DDIO); drivers/dca, still in 6.12",
    dated: "2009 (Xeon 5000 to 5600); obsolete since 2012",
    change: "on CPUs before the Xeon E5: modprobe ioatdma dca; otherwise none",
    undo: NOTHING,
    risk: Risk::Low,
    reboot: false,
    counts: false,
    checked: &[("drivers/dca/Kconfig", "config DCA")],
    check: dca,
};

/// CPU model of Sandy Bridge EP, the first with DDIO.
const FIRST_WITH_DDIO: u32 = 45;

fn dca(machine: &Machine) -> Result<Outcome, Cannot> {
    let text = machine.tree.read("/proc/cpuinfo")?;
    let value = |key: &str| {
        let line = text
            .lines()
            .find(|line| line.split(':').next().map(str::trim) == Some(key))?;
        Some(line.split_once(':')?.1.trim())
    };
    let vendor = value("vendor_id").unwrap_or("no vendor_id");
    let number = |key: &str| value(key).and_then(|word| word.parse::<u32>().ok());
    let (family, model) = (number("cpu family"), number("model"));
    let seen = |outcome: Outcome| {
        let number = |number: Option<u32>| number.map_or("unknown".into(), |it| it.to_string());
        let cpu = format!("{vendor} family {} model {}", number(family), number(model));
        outcome.saw("/proc/cpuinfo", cpu)
    };
    if vendor != "GenuineIntel" {
        return Ok(seen(Outcome::not_applicable(
            "it was a feature of Intel's servers",
        )));
    }
    if family != Some(6) || model.is_none_or(|model| model >= FIRST_WITH_DDIO) {
        let built = machine.built("DCA").map_or_else(
            |cannot| cannot.to_string(),
            |(built, _)| built.words().into(),
        );
        let says = "DDIO has replaced it: nothing is to be set";
        return Ok(seen(Outcome::obsolete(says)).saw("CONFIG_DCA", built));
    }
    let providers = machine.tree.list("/sys/class/dca").unwrap_or_default();
    let outcome = if providers.is_empty() {
        Outcome::consider("this CPU is of the generation it helped, and it is not in use")
    } else {
        Outcome::good(format!("in use: {}", providers.join(" ")))
    };
    Ok(seen(outcome).saw("/sys/class/dca", providers.join(" ")))
}
