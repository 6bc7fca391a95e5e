//! Addresses and names of the network. Used by `custom`, `netlink::attributes::values` and `addresses`.

use crate::call::{Constants, Hex};
use crate::layout::list;
use crate::words;
use crate::writer::{Unknown, Writer, Written};
use prototypes::digits::decimal;
use std::net::{Ipv4Addr, Ipv6Addr};

pub fn inet(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 4] = w.number(at)?;
    let text = format!("inet_addr(\"{}\")", Ipv4Addr::from(address));
    known_bytes(w, &address, &text);
    Ok(())
}

/// Appends what bytes are called, or the bytes, as the style has it.
pub fn known_bytes(w: &mut Writer, bytes: &[u8], text: &str) {
    let mut number = Vec::new();
    crate::text::quoted(bytes, Hex::Always, &mut number);
    let number = String::from_utf8_lossy(&number);
    words::known(&number, text, w.style.constants, w.out);
}

/// Appends an address of hardware: `01:02:03`.
pub fn hardware_bytes(w: &mut Writer, bytes: &[u8], shown: usize) {
    let parts = bytes.iter().take(shown);
    let parts: Vec<String> = parts.map(|byte| format!("{byte:02x}")).collect();
    known_bytes(w, bytes, &parts.join(":"));
}

/// `AF_INET` and `AF_INET6` (include/linux/socket.h).
const INET: u16 = 2;
const INET6: u16 = 10;

/// How many of the bytes in which an address of this family may lie are the address; of a family that is not known, all.
pub fn address_bytes(family: u16, room: u64) -> u64 {
    match family {
        INET if room >= 4 => 4,
        INET6 if room >= 16 => 16,
        _ => room,
    }
}

/// Appends a member that holds an address of `length` bytes of a family.
pub fn address_member(w: &mut Writer, name: &str, family: u16, at: u64, length: u64) -> Written {
    let bytes = w.bytes(at, length as usize);
    if (bytes.len() as u64) < length {
        return Err(Unknown);
    }
    match (family, bytes.len()) {
        (INET, 4..) => {
            let address = Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
            w.push(&format!("{name}="));
            known_bytes(w, &bytes, &format!("inet_addr(\"{address}\")"));
        }
        (INET6, 16..) => {
            let address: [u8; 16] = w.number(at)?;
            let address = Ipv6Addr::from(address);
            if w.style.constants == Constants::Names {
                w.push(&format!("inet_pton(AF_INET6, \"{address}\", &{name})"));
                return Ok(());
            }
            w.push(&format!("{name}="));
            known_bytes(w, &bytes, &format!("inet_pton(AF_INET6, \"{address}\")"));
        }
        _ => {
            w.push(&format!("{name}="));
            w.buffer_as(at, bytes.len(), Hex::Always)?;
        }
    }
    Ok(())
}

/// Both ends of a socket whose addresses are of a family (`struct inet_diag_sockid` in include/uapi/linux/inet_diag.h).
pub fn socket_id(w: &mut Writer, at: u64, family: u8) -> Written {
    w.push("{idiag_sport=");
    let port = crate::layout::ty("n16");
    crate::layout::value(w, &port, at, None)?;
    w.push(", idiag_dport=");
    crate::layout::value(w, &port, at.wrapping_add(2), None)?;
    w.push(", ");
    address_member(w, "idiag_src", family.into(), at.wrapping_add(4), 16)?;
    w.push(", ");
    address_member(w, "idiag_dst", family.into(), at.wrapping_add(20), 16)?;
    w.push(", idiag_if=");
    interface(w, at.wrapping_add(36), None)?;
    let [first, second] = [
        w.u32_at(at.wrapping_add(40))?,
        w.u32_at(at.wrapping_add(44))?,
    ];
    w.push(&format!(", idiag_cookie=[{first}, {second}]}}"));
    Ok(())
}

/// The address of a key of TCP-MD5, whose family stands four bytes before it (`struct tcp_diag_md5sig` in include/uapi/linux/tcp.h).
pub fn key_address(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [family] = w.number(at.wrapping_sub(4))?;
    address_member(w, "tcpm_addr", family.into(), at, 16)
}

/// A family of addresses, or one of those that multicast routing has beside them (the list `rtnl_families`).
pub fn multicast_family(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [family] = w.number(at)?;
    let own = list("rtnl_families");
    match list("address_families").find(family.into()) {
        Some(name) if own.find(family.into()).is_none() => w.known(family.into(), name),
        _ => own.name(w, family.into()),
    }
    Ok(())
}

/// An address of IPv4 as `struct in_addr` is written: `{s_addr=inet_addr("127.0.0.1")}`.
pub fn in4(w: &mut Writer, at: u64, list: Option<usize>) -> Written {
    w.push("{s_addr=");
    inet(w, at, list)?;
    w.push("}");
    Ok(())
}

pub fn inet6(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 16] = w.number(at)?;
    let text = format!("inet_pton(AF_INET6, \"{}\")", Ipv6Addr::from(address));
    known_bytes(w, &address, &text);
    Ok(())
}

pub fn mac(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 6] = w.number(at)?;
    hardware_bytes(w, &address, address.len());
    Ok(())
}

/// An address of hardware in `MAX_ADDR_LEN` bytes (include/linux/netdevice.h).
pub fn mac32(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 32] = w.number(at)?;
    hardware_bytes(w, &address, address.len());
    Ok(())
}

/// An address of hardware in eight bytes, as long as the two bytes before it say.
pub fn counted_hardware(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let length = w.number(at.wrapping_sub(2)).map(u16::from_le_bytes)?;
    let bytes: [u8; 8] = w.number(at)?;
    let shown = &bytes[..usize::from(length).min(bytes.len())];
    hardware_bytes(w, shown, shown.len());
    Ok(())
}

/// `if_nametoindex("lo")`, or the number of an interface that is not there.
pub fn interface(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.u32_at(at)?;
    match nix::net::if_::if_indextoname(number) {
        Ok(name) if !name.is_empty() => {
            let text = format!("if_nametoindex(\"{}\")", name.to_string_lossy());
            w.known_decimal(number.into(), &text);
        }
        _ => decimal(number, w.out),
    }
    Ok(())
}

/// The protocol of a frame, in network byte order: `htons(ETH_P_IP)` (include/uapi/linux/if_ether.h).
pub fn ether(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.number(at).map(u16::from_be_bytes)?;
    w.push("htons(");
    list("ethernet_protocols").name(w, number.into());
    w.push(")");
    Ok(())
}

/// An address of an interface's own kind; the kind lies before it (`struct sockaddr`).
pub fn hardware(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let kind = w.number(at.wrapping_sub(2)).map(u16::from_le_bytes)?;
    let length = match kind {
        1 => 6,
        _ => 14,
    };
    let bytes = w.bytes(at, length);
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    w.push(&parts.join(":"));
    Ok(())
}

/// An address of a group of a bridge and its family, which stands 16 bytes behind it (`struct br_mdb_entry`).
pub fn bridge_address(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let family = w.number(at.wrapping_add(16)).map(u16::from_be_bytes)?;
    w.push("{u=");
    match family {
        2 => inet(w, at, None)?,
        10 => inet6(w, at, None)?,
        _ => w.buffer_as(at, 16, Hex::Always)?,
    }
    w.push(", proto=htons(");
    list("address_families").name(w, family.into());
    w.push(")}");
    Ok(())
}
