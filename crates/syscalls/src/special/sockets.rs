//! Sockets: what a family, a level or a length decides. Used by `special`.

use super::control::named;
use crate::writer::{Unknown, Writer, Written};
use crate::{forms, netlink};
use prototypes::digits::decimal;

const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;

const PACKET: u64 = 17;

/// The protocol of frames, in the order of the network: `htons(ETH_P_ALL)` (include/uapi/linux/if_ether.h).
fn ether(w: &mut Writer, word: u16) {
    let name = match word.swap_bytes() {
        3 => "ETH_P_ALL",
        0x800 => "ETH_P_IP",
        0x806 => "ETH_P_ARP",
        0x86dd => "ETH_P_IPV6",
        0x88cc => "ETH_P_LLDP",
        0x888e => "ETH_P_PAE",
        0 => "0",
        other => return w.push(&format!("htons({other:#x} /* ETH_P_??? */)")),
    };
    w.push(&format!("htons({name})"));
}

pub fn protocol(w: &mut Writer, word: u64) -> Written {
    match w.call.arguments[0] & 0xffff_ffff {
        INET | INET6 => named(w, "inet_protocol", word),
        NETLINK => named(w, "netlink_protocol", word),
        PACKET => ether(w, word as u16),
        _ => decimal(word as u32 as i32, w.out),
    }
    Ok(())
}

/// Messages to netlink.
pub fn sent(w: &mut Writer, at: u64) -> Written {
    let protocol = w.call.netlink_of_first().ok_or(Unknown)?;
    if at == 0 {
        return Err(Unknown);
    }
    netlink::messages(w, at, w.call.arguments[2], protocol)
}

/// What was received, of which a datagram's length (`MSG_TRUNC`) may be more than there was room for.
pub fn received(w: &mut Writer, at: u64) -> Written {
    if at == 0 || w.call.error().is_some() {
        return Err(Unknown);
    }
    let length = w.call.count().min(w.call.arguments[2]);
    match w.call.netlink_of_first() {
        Some(protocol) => netlink::messages(w, at, length, protocol),
        None => w.buffer(at, length as usize),
    }
}

/// An address that the kernel wrote, as long as it said.
pub fn filled_address(w: &mut Writer, at: u64) -> Written {
    if at == 0 || w.call.error().is_some() {
        return Err(Unknown);
    }
    let length = match w.call.name {
        "recvfrom" => w.call.arguments[5],
        _ => w.call.arguments[2],
    };
    let written = w.u32_at(length)?;
    // No more was written than there was room for.
    let room = w.before(|w| w.u32_at(length));
    forms::address(w, at, room.map_or(written, |room| room.min(written)).into())
}

pub fn pieces_read(w: &mut Writer, at: u64) -> Written {
    let (count, data) = (w.call.arguments[2], w.call.count());
    forms::vectors(w, (at, count), Some(data), None)
}

pub fn pieces_written(w: &mut Writer, at: u64) -> Written {
    let count = w.call.arguments[2];
    forms::vectors(w, (at, count), None, None)
}
