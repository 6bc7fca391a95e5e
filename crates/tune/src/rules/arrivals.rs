//! Where the packets of the guest's sockets arrive: poller, queue, interrupt, CPU. Used by `placement`.
//!
//! ```text
//! socket ── SO_INCOMING_NAPI_ID ──► NAPI ── queue-get ──► receive queue ── /proc/interrupts ──► interrupt ──► CPU
//!        └─ SO_INCOMING_CPU ──► the CPU that took the last packet
//! ```
//!
//! Where a driver names the interrupt of a NAPI instance itself, that is used; virtio_net does not, and there the
//! queue's number is searched for in the interrupt's name (`virtio2-input.0`).

use std::collections::BTreeMap;

use crate::cpus::{Cpus, to_list};
use crate::interrupts::served_by;
use crate::machine::Machine;
use crate::net::napi::Napi;
use crate::net::nic::Nic;
use crate::verdict::Outcome;

/// Returns the CPUs that took the last packets of the guest's sockets. Sockets whose packets came from this machine do
/// not count, because whichever CPU sent those took them. Where no socket shows a CPU, returns those of the cards'
/// interrupts.
pub(super) fn cpus(machine: &Machine) -> Cpus {
    let sockets = machine.borrowed().unwrap_or_default();
    let from_outside = sockets.iter().filter(|socket| socket.napi.is_some());
    let shown: Cpus = from_outside.filter_map(|socket| socket.cpu).collect();
    if !shown.is_empty() {
        return shown;
    }
    let numbers = machine.nics.iter().flat_map(|nic| &nic.interrupts);
    numbers
        .filter_map(|number| served_by(&machine.tree, *number).ok())
        .flatten()
        .collect()
}

/// Adds what the guest's sockets show as evidence.
pub(super) fn shown(machine: &Machine, outcome: Outcome) -> Outcome {
    let Some(guest) = &machine.guest else {
        return outcome;
    };
    let place = format!("sockets of {}", guest.comm);
    let sockets = match machine.borrowed() {
        Ok([]) => return outcome.saw(place, "none"),
        Ok(sockets) => sockets,
        Err(cannot) => return outcome.saw(place, cannot),
    };
    let mut counts: BTreeMap<(Option<usize>, Option<u32>), usize> = BTreeMap::new();
    for socket in sockets {
        *counts.entry((socket.cpu, socket.napi)).or_default() += 1;
    }
    counts
        .into_iter()
        .fold(outcome, |outcome, ((cpu, napi), count)| {
            let through = match napi {
                Some(napi) => format!("through NAPI {napi}{}", behind(machine, napi)),
                None => "past every NAPI: loopback, not connected, or not TCP".into(),
            };
            let served = match cpu {
                Some(cpu) => format!("{count} served by CPU {cpu}, {through}"),
                None => format!("{count} that nothing arrived at yet"),
            };
            outcome.saw(&place, served)
        })
}

/// Returns what is behind a NAPI number: ` of eth0 (receive queue 0, irq 38 on CPU 1)`.
fn behind(machine: &Machine, id: u32) -> String {
    let all = machine.napi().unwrap_or_default();
    let Some(napi) = all.iter().find(|known| known.id == id) else {
        return String::new();
    };
    let of = |nic: &&Nic| nic.ifindex == Some(napi.ifindex);
    let Some(nic) = machine.nics.iter().find(of) else {
        return format!(" of device {}", napi.ifindex);
    };
    let mut known: Vec<String> = napi
        .queues
        .iter()
        .map(|queue| format!("receive queue {queue}"))
        .collect();
    if let Some(number) = interrupt(machine, nic, napi) {
        let on = served_by(&machine.tree, number).map(|cpus| format!(" on CPU {}", to_list(&cpus)));
        known.push(format!("irq {number}{}", on.unwrap_or_default()));
    }
    if known.is_empty() {
        format!(" of {}", nic.name)
    } else {
        format!(" of {} ({})", nic.name, known.join(", "))
    }
}

fn interrupt(machine: &Machine, nic: &Nic, napi: &Napi) -> Option<u32> {
    napi.irq.or_else(|| {
        let [queue] = napi.queues.as_slice() else {
            return None;
        };
        let known = &machine.samples.latest().interrupts;
        let mut named = nic.interrupts.iter().filter(|number| {
            let name = known.get(number).map_or("", |known| known.name.as_str());
            receives(name, *queue)
        });
        // Where two interrupts fit, none is taken.
        named.next().copied().filter(|_| named.next().is_none())
    })
}

/// Returns whether an interrupt of that name may be one of receive queue `queue`: its last number is that, and its name
/// is not that of a transmit queue.
fn receives(name: &str, queue: u32) -> bool {
    let name = name.to_ascii_lowercase();
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let sends = kind.contains("output") || kind.contains("tx") && !kind.contains("rx");
    name[kind.len()..].parse() == Ok(queue) && !sends
}

#[cfg(test)]
mod tests {
    use super::receives;

    #[test]
    fn names_of_drivers() {
        for name in [
            "virtio2-input.3",
            "eth0-TxRx-3",
            "eth0-rx-3",
            "eth0-Tx-Rx-3",
            "i40e-eth0-TxRx-3",
            "mlx5-3",
        ] {
            assert!(receives(name, 3), "{name}");
            assert!(!receives(name, 0), "{name}");
        }
        for name in ["virtio2-output.3", "eth0-tx-3", "eth0", "", "eth0-TxRx-13"] {
            assert!(!receives(name, 3), "{name}");
        }
    }
}
