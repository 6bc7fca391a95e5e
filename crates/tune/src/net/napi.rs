//! NAPI instances of the network devices: who polls which queue, on which interrupt. Used by `machine` and
//! `rules::arrivals`.
//!
//! The generic netlink family `netdev` answers `napi-get` and `queue-get` since Linux 6.8, with timers per instance
//! since 6.13. Older kernels have NAPI all the same and only do not report it.
//!
//! Source: Documentation/netlink/specs/netdev.yaml; include/uapi/linux/netdev.h.

use std::collections::HashMap;

use super::netlink::{Netlink, attribute, attributes, word};
use crate::tree::Cannot;

const GENERIC: i32 = 16;
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const QUEUE_GET: u8 = 10;
const NAPI_GET: u8 = 11;
/// The type of a receive queue: `NETDEV_QUEUE_TYPE_RX`.
const RECEIVE: u32 = 0;

/// An instance of NAPI, which polls queues of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Napi {
    /// The interface number of its device.
    pub ifindex: u32,
    /// Its number, as SO_INCOMING_NAPI_ID gives it.
    pub id: u32,
    /// The interrupt that starts it, where the driver reports it.
    pub irq: Option<u32>,
    /// The id of its thread, if it is threaded.
    pub thread: Option<u32>,
    /// How many empty polls interrupts stay off for.
    pub defer_hard_irqs: Option<u32>,
    /// How long packets may wait to be merged, in nanoseconds.
    pub gro_flush_nanos: Option<u32>,
    /// How long interrupts may stay off while an application polls, in nanoseconds.
    pub irq_suspend_nanos: Option<u32>,
    /// The receive queues that it polls, where the driver reports them.
    pub queues: Vec<u32>,
}

/// Returns all instances in this network namespace.
pub fn instances() -> Result<Vec<Napi>, Cannot> {
    let mut netlink = Netlink::open(GENERIC, "generic netlink")?;
    let family = family(&mut netlink)?;
    // struct genlmsghdr: command, version, reserved
    let answers = netlink.dump(family, &[NAPI_GET, 1, 0, 0])?;
    let mut all: Vec<Napi> = answers.iter().map(|answer| instance(answer)).collect();
    // A kernel that has `napi-get` and not `queue-get` loses only the numbers of the queues.
    for answer in netlink
        .dump(family, &[QUEUE_GET, 1, 0, 0])
        .unwrap_or_default()
    {
        let numbers: HashMap<u16, u32> = attributes(answer.get(4..).unwrap_or_default())
            .into_iter()
            .filter_map(|(kind, payload)| Some((kind, word(payload, 0)?)))
            .collect();
        let number = |kind: u16| numbers.get(&kind).copied();
        let (id, of_kind, napi) = (number(1), number(3), number(4));
        if let (Some(id), Some(RECEIVE)) = (id, of_kind) {
            let poller = all.iter_mut().find(|known| Some(known.id) == napi);
            poller.into_iter().for_each(|known| known.queues.push(id));
        }
    }
    Ok(all)
}

fn family(netlink: &mut Netlink) -> Result<u16, Cannot> {
    let mut payload = vec![GET_FAMILY, 1, 0, 0];
    attribute(&mut payload, FAMILY_NAME, b"netdev\0");
    let unknown = || Cannot::Unsupported {
        what: "netlink family netdev".into(),
        why: "by this kernel; its queries of queues came with 6.8".into(),
    };
    let answers = netlink.request(CONTROL, 0, &payload).map_err(|cannot| {
        if cannot.is_missing() {
            unknown()
        } else {
            cannot
        }
    })?;
    answers
        .iter()
        .flat_map(|answer| attributes(answer.get(4..).unwrap_or_default()))
        .find(|(kind, _)| *kind == FAMILY_ID)
        .and_then(|(_, payload)| super::netlink::half(payload, 0))
        .ok_or_else(unknown)
}

fn instance(answer: &[u8]) -> Napi {
    let mut napi = Napi::default();
    for (kind, payload) in attributes(answer.get(4..).unwrap_or_default()) {
        let value = word(payload, 0);
        match kind {
            1 => napi.ifindex = value.unwrap_or(0),
            2 => napi.id = value.unwrap_or(0),
            3 => napi.irq = value,
            4 => napi.thread = value,
            5 => napi.defer_hard_irqs = value,
            // Unsigned integers of 4 or 8 bytes, the low half first: nanoseconds, far below 4 seconds.
            6 => napi.gro_flush_nanos = value,
            7 => napi.irq_suspend_nanos = value,
            _ => {}
        }
    }
    napi
}
