//! Options of sockets: what a level and a name say of a value, and how long it is. Names and structs: `conf/sockets.conf`.
//! Used by `special`.

use crate::call::Hex;
use crate::layout::{self, list};
use crate::writer::{Unknown, Writer, Written};
use prototypes::digits::decimal;

// Levels (include/linux/socket.h).
const IP: u32 = 0;
const SOCKET: u32 = 1;
const TCP: u32 = 6;
const UDP: u32 = 17;
const IPV6: u32 = 41;
const RAW: u32 = 255;
const PACKET: u32 = 263;
const NETLINK: u32 = 270;

// Options of sockets (include/uapi/asm-generic/socket.h).
const ERROR: u32 = 4;
const LINGER: u32 = 13;
const PEER: u32 = 17;
const FILTER: u32 = 26;
const REUSE_FILTER: u32 = 51;
const HASH: u32 = 74;
/// Those of them whose values are no numbers of 32 bits.
const WIDER: [u32; 28] = [
    3, 20, 21, 22, 23, 24, 25, 28, 31, 38, 39, 47, 48, 50, 52, 55, 57, 59, 61, 62, 66, 67, 71, 72,
    54, 58, 26, 51,
];

// Options of other levels (include/uapi/linux/in.h, in6.h, if_packet.h, netlink.h, icmp.h).
const IP_MEMBERSHIPS: [u32; 2] = [35, 36];
const GROUPS: [u32; 2] = [42, 45];
const IPV6_MEMBERSHIPS: [u32; 4] = [20, 21, 27, 28];
const RINGS: [u32; 2] = [5, 13];
const PACKET_MEMBERSHIPS: [u32; 2] = [1, 2];
const STATISTICS: u32 = 6;
const MEMBERSHIPS: u32 = 9;
const ICMP_FILTER: u32 = 1;

/// Appends the name of an option, by its level.
pub fn name(w: &mut Writer, word: u64) -> Written {
    let word = u64::from(word as u32);
    let asks = w.call.name == "getsockopt";
    let names = match w.call.arguments[1] as u32 {
        SOCKET if word == u64::from(FILTER) => {
            let name = if asks {
                "SO_GET_FILTER"
            } else {
                "SO_ATTACH_FILTER"
            };
            w.known(word, name);
            return Ok(());
        }
        SOCKET => "socket_options",
        IP => "ip_options",
        IPV6 => "ipv6_options",
        TCP => "tcp_options",
        UDP => "udp_options",
        PACKET => "packet_options",
        RAW => "raw_options",
        NETLINK => "netlink_options",
        _ => {
            decimal(word, w.out);
            return Ok(());
        }
    };
    list(names).name(w, word);
    Ok(())
}

/// What an option is set to.
pub fn set(w: &mut Writer, at: u64) -> Written {
    let [_, level, option, _, length, _] = *w.call.arguments;
    let (level, option, length) = (level as u32, option as u32, length as i32);
    if at == 0 {
        return Err(Unknown);
    }
    match (level, option) {
        (SOCKET, LINGER) => least(w, at, length, "linger"),
        (SOCKET, FILTER | REUSE_FILTER) if length == 16 => {
            layout::value(w, &layout::ty("socket_program"), at, None)
        }
        (SOCKET, FILTER | REUSE_FILTER) => Err(Unknown),
        (SOCKET, HASH) => hash(w, at, length),
        (SOCKET, option) if is_number(option) => match length < 4 {
            true => Err(Unknown),
            false => number(w, at),
        },
        (IP, option) if IP_MEMBERSHIPS.contains(&option) => least(w, at, length, "ip_mreq"),
        (IP | IPV6, option) if GROUPS.contains(&option) => least(w, at, length, "group_req"),
        (IPV6, option) if IPV6_MEMBERSHIPS.contains(&option) => least(w, at, length, "ipv6_mreq"),
        (PACKET, option) if RINGS.contains(&option) => exactly(w, at, length, "tpacket_req"),
        (PACKET, option) if PACKET_MEMBERSHIPS.contains(&option) => {
            exactly(w, at, length, "packet_mreq")
        }
        (RAW, ICMP_FILTER) => icmp_filter(w, at, length),
        (NETLINK, _) if length < 4 => Err(Unknown),
        (NETLINK, _) => number(w, at),
        _ => any(w, at, length),
    }
}

/// Appends what the kernel says that an option is.
pub fn get(w: &mut Writer, at: u64) -> Written {
    let [_, level, option, _, length, _] = *w.call.arguments;
    if w.call.error().is_some() {
        return Err(Unknown);
    }
    let offered = w.before(|w| w.u32_at(length))? as i32;
    let length = w.u32_at(length)? as i32;
    if at == 0 || offered <= 0 || length <= 0 {
        return Err(Unknown);
    }
    match (level as u32, option as u32) {
        (SOCKET, LINGER) => part(w, at, length, "linger"),
        (SOCKET, PEER) => part(w, at, length, "ucred"),
        (SOCKET, FILTER) if (0..=0xffff).contains(&length) && w.style.verbose => {
            let ty = layout::ty("bpf_instruction_text");
            layout::counted(w, &ty, at, length as u64)
        }
        (SOCKET, FILTER) => Err(Unknown),
        (SOCKET, ERROR) if length < 4 => bytes(w, at, length),
        (SOCKET, ERROR) => {
            let error = w.u32_at(at)? as i32;
            let name = crate::errors::name(error);
            w.push("[");
            match name.starts_with('E') {
                true => w.known_decimal(error.into(), &name),
                false => decimal(error, w.out),
            }
            w.push("]");
            Ok(())
        }
        (SOCKET, HASH) => hash(w, at, length),
        (SOCKET, option) if is_number(option) => match length < 4 {
            true => bytes(w, at, length),
            false => number(w, at),
        },
        (PACKET, STATISTICS) => part(w, at, length, "tpacket_stats"),
        (RAW, ICMP_FILTER) => icmp_filter(w, at, length),
        (NETLINK, MEMBERSHIPS) => {
            let count = offered.min(length) / 4;
            layout::counted(w, &layout::ty("u32"), at, count as u64)
        }
        (NETLINK, _) => number(w, at),
        _ => any(w, at, length),
    }
}

fn is_number(option: u32) -> bool {
    list("socket_options").find(option.into()).is_some() && !WIDER.contains(&option)
}

fn number(w: &mut Writer, at: u64) -> Written {
    let number = w.u32_at(at)? as i32;
    w.push("[");
    decimal(number, w.out);
    w.push("]");
    Ok(())
}

fn any(w: &mut Writer, at: u64, length: i32) -> Written {
    match length {
        4 => number(w, at),
        length => w.buffer(at, length as u32 as usize),
    }
}

fn bytes(w: &mut Writer, at: u64, length: i32) -> Written {
    w.buffer_as(at, length as usize, Hex::Always)
}

/// A struct that must be there whole.
fn least(w: &mut Writer, at: u64, length: i32, name: &str) -> Written {
    let ty = layout::ty(name);
    match i64::from(length) < ty.layout(layout::tables()).0.into() {
        true => Err(Unknown),
        false => layout::value(w, &ty, at, None),
    }
}

/// A struct that has this length and no other.
fn exactly(w: &mut Writer, at: u64, length: i32, name: &str) -> Written {
    let ty = layout::ty(name);
    match i64::from(length) == ty.layout(layout::tables()).0.into() {
        true => layout::value(w, &ty, at, None),
        false => Err(Unknown),
    }
}

/// The members of a struct of which so many bytes are there; of one that is cut, its bytes.
fn part(w: &mut Writer, at: u64, length: i32, name: &str) -> Written {
    let ty = layout::ty(name);
    layout::beginning(w, &ty, at, length as u64)
}

/// The value of `SO_TXREHASH`: `[SOCK_TXREHASH_ENABLED]`.
fn hash(w: &mut Writer, at: u64, length: i32) -> Written {
    if length < 4 {
        return match w.call.name {
            "setsockopt" => Err(Unknown),
            _ => bytes(w, at, length),
        };
    }
    let number = w.u32_at(at)? as i32;
    w.push("[");
    list("socket_hashes").decimal(w, number.into());
    w.push("]");
    Ok(())
}

/// The types of ICMP that are not received: `~[ICMP_ECHO]` where it is most of them.
fn icmp_filter(w: &mut Writer, at: u64, length: i32) -> Written {
    if length <= 0 {
        return Err(Unknown);
    }
    let length = length.min(4) as usize;
    let known = w.bytes(at, length);
    if known.len() < length {
        return Err(Unknown);
    }
    let mut bytes = [0xff; 4];
    bytes[..length].copy_from_slice(&known);
    let mut set = u32::from_le_bytes(bytes);
    if set.count_ones() > 16 {
        set = !set;
        w.push("~");
    }
    w.push("[");
    let mut first = true;
    for bit in (0..32).filter(|bit| set >> bit & 1 != 0) {
        if !std::mem::take(&mut first) {
            w.push(" ");
        }
        list("icmp_types").name(w, bit);
    }
    w.push("]");
    Ok(())
}

/// The length of an option that was asked for: `[4]`, `[4 => 1]`.
pub fn length(w: &mut Writer, at: u64) -> Written {
    if at == 0 {
        return Err(Unknown);
    }
    let before = w.before(|w| w.u32_at(at))? as i32;
    w.push("[");
    decimal(before, w.out);
    let after = w.u32_at(at).map(|after| after as i32);
    if let Ok(after) = after
        && w.call.error().is_none()
        && after != before
    {
        w.push(&format!(" => {after}"));
    }
    w.push("]");
    Ok(())
}
