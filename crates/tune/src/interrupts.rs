//! `/proc/interrupts`, and which CPU takes which interrupt. Used by `sample`, `machine`, `rules::placement` and others.
//!
//! ```text
//!            CPU0       CPU1
//!  38:          0      19211  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
//! LOC:     757470     680912   Local timer interrupts
//! ```
//!
//! Only the numbered lines are interrupts of devices. There may be fewer columns than CPUs
//! (`ERR`, `MIS`) and offline CPUs have none. Source: kernel/irq/proc.c, show_interrupts().

use std::collections::BTreeMap;

use crate::cpus::{Cpus, list};
use crate::tree::{Cannot, Tree};

/// One interrupt of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// How often it came, all CPUs together.
    pub count: u64,
    /// The name of its user, the last word of its line: `eth0-TxRx-3`.
    pub name: String,
}

/// All numbered interrupts, by number.
pub type Interrupts = BTreeMap<u32, Interrupt>;

/// Reads the interrupts of a machine.
pub fn read(tree: &Tree) -> Result<Interrupts, Cannot> {
    Ok(parse(&tree.read("/proc/interrupts")?))
}

fn parse(text: &str) -> Interrupts {
    let mut lines = text.lines();
    let columns = lines
        .next()
        .map_or(0, |head| head.split_whitespace().count());
    lines
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let number = number.trim().parse().ok()?;
            let mut count = 0u64;
            let mut name = "";
            for (at, word) in rest.split_whitespace().enumerate() {
                match word.parse::<u64>() {
                    Ok(more) if at < columns => count = count.saturating_add(more),
                    _ => name = word,
                }
            }
            let name = name.to_owned();
            Some((number, Interrupt { count, name }))
        })
        .collect()
}

/// Returns the file that holds which CPUs may take the interrupt, and by which that is set.
pub fn affinity_file(number: u32) -> String {
    format!("/proc/irq/{number}/smp_affinity_list")
}

/// Returns the CPU that takes the interrupt: `effective_affinity_list` where the kernel has it (4.14 and later), else
/// all that may.
///
/// The file lags behind a write until the next interrupt comes (CONFIG_GENERIC_PENDING_IRQ). A CPU in it that may no
/// longer take the interrupt is such a remainder, and the next interrupt goes to one that may.
pub fn served_by(tree: &Tree, number: u32) -> Result<Cpus, Cannot> {
    let read = |path: String| {
        let text = tree.read(&path)?;
        list(&text).ok_or_else(|| Cannot::odd(&path, &text))
    };
    let effective = read(format!("/proc/irq/{number}/effective_affinity_list"));
    match (effective, read(affinity_file(number))) {
        (Ok(now), Ok(may)) if !now.is_empty() && !now.is_disjoint(&may) => Ok(now),
        (Ok(now), Err(_)) if !now.is_empty() => Ok(now),
        (_, may) => may,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_the_name_is_the_last_word() {
        let text = "           CPU0       CPU1\n 38:   7  5  PCI-MSIX-0000:00:03.0   1-edge   virtio2-input.0\n\
                    LOC:  9 9 Local timer interrupts\nERR: 0\n 9: garbage\n";
        let all = parse(text);
        assert_eq!(all.len(), 2);
        assert_eq!(all[&38].count, 12);
        assert_eq!(all[&38].name, "virtio2-input.0");
        assert_eq!(all[&9].count, 0);
    }
}
