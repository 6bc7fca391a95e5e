//! The network devices of a machine, as sysfs shows them. Used by `machine`, `rules::arrivals`, `rules::devices` and
//! others.
//!
//! A device's interrupts are listed in `msi_irqs` of the PCI function. `device` of a virtio
//! network card is the virtio device, one below: there the list is on the parent, and the interrupts
//! are called `virtio2-input.0`, not `eth0`.
//!
//! Source: Documentation/ABI/testing/sysfs-class-net, sysfs-class-net-queues, sysfs-bus-pci.

use crate::interrupts::Interrupts;
use crate::tree::Tree;

/// The flag that the administrator has turned a device on: `IFF_UP` (include/uapi/linux/if.h).
const UP: u32 = 1;

/// A network device, its queues, and how it is attached to the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The name of the interface: `eth0`.
    pub name: String,
    /// The number of the interface in its network namespace; `None` where sysfs does not say it.
    pub ifindex: Option<u32>,
    /// The kernel driver behind it; `None` for devices of software.
    pub driver: Option<String>,
    /// Names of its receive queues.
    pub rx_queues: Vec<String>,
    /// Names of its transmit queues.
    pub tx_queues: Vec<String>,
    /// The interrupts of its queues, without those that only report a change of configuration.
    pub interrupts: Vec<u32>,
    /// The NUMA node it is attached to, where there is one.
    pub node: Option<usize>,
}

impl Nic {
    /// Returns its directory in sysfs.
    pub fn path(&self) -> String {
        format!("/sys/class/net/{}", self.name)
    }

    /// Returns whether hardware, real or a hypervisor's, is behind it.
    pub fn is_hardware(&self) -> bool {
        self.driver.is_some()
    }
}

/// Returns all devices that are up, without the loopback.
pub fn find(tree: &Tree, interrupts: &Interrupts) -> Vec<Nic> {
    let names = tree.list("/sys/class/net").unwrap_or_default();
    names
        .into_iter()
        .filter(|name| name != "lo" && is_up(tree, name))
        .map(|name| nic(tree, name, interrupts))
        .collect()
}

fn is_up(tree: &Tree, name: &str) -> bool {
    let base = format!("/sys/class/net/{name}");
    let Ok(flags) = tree.word(&format!("{base}/flags")) else {
        // Files such as bonding_masters are in this directory too; in a fixture a device may have no flags.
        return tree.exists(&format!("{base}/queues")) || tree.exists(&format!("{base}/device"));
    };
    u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|flags| flags & UP != 0)
}

fn nic(tree: &Tree, name: String, interrupts: &Interrupts) -> Nic {
    let base = format!("/sys/class/net/{name}");
    let queues = tree.list(&format!("{base}/queues")).unwrap_or_default();
    let of_kind = |kind: &str| -> Vec<String> {
        queues
            .iter()
            .filter(|queue| queue.starts_with(kind))
            .cloned()
            .collect()
    };
    let driver = tree.link(&format!("{base}/device/driver")).ok();
    let node = [
        format!("{base}/device/numa_node"),
        format!("{base}/device/../numa_node"),
    ]
    .iter()
    .find_map(|path| tree.number::<i64>(path).ok());
    Nic {
        ifindex: tree.number(&format!("{base}/ifindex")).ok(),
        driver: driver.map(|link| link.rsplit('/').next().unwrap_or_default().to_owned()),
        rx_queues: of_kind("rx-"),
        tx_queues: of_kind("tx-"),
        interrupts: queue_interrupts(tree, &base, &name, interrupts),
        node: node.and_then(|node| usize::try_from(node).ok()),
        name,
    }
}

fn queue_interrupts(tree: &Tree, base: &str, device: &str, known: &Interrupts) -> Vec<u32> {
    let listed = ["device/msi_irqs", "device/../msi_irqs"]
        .iter()
        .find_map(|place| {
            let names = tree.list(&format!("{base}/{place}")).ok()?;
            let numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
            (!numbers.is_empty()).then_some(numbers)
        });
    let mut numbers = listed.unwrap_or_else(|| {
        let ours = |name: &str| {
            name.strip_prefix(device)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        known
            .iter()
            .filter(|(_, interrupt)| ours(&interrupt.name))
            .map(|(number, _)| *number)
            .collect()
    });
    numbers.retain(|number| {
        known
            .get(number)
            .is_some_and(|interrupt| !is_control(&interrupt.name))
    });
    numbers.sort_unstable();
    numbers
}

/// Returns whether an interrupt carries no packets, by the names that drivers give them.
fn is_control(name: &str) -> bool {
    [
        "config", "mgmnt", "mgmt", "async", "admin", "misc", "asq", "other",
    ]
    .iter()
    .any(|word| name.to_ascii_lowercase().contains(word))
}
