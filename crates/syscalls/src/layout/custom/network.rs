//! Addresses and names of the network.

use crate::layout::list;
use crate::writer::{Writer, Written};
use prototypes::digits::decimal;
use std::net::{Ipv4Addr, Ipv6Addr};

pub fn inet(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 4] = w.number(at)?;
    w.push(&format!("inet_addr(\"{}\")", Ipv4Addr::from(address)));
    Ok(())
}

/// The same as `struct in_addr`.
pub fn in4(w: &mut Writer, at: u64, list: Option<usize>) -> Written {
    w.push("{s_addr=");
    inet(w, at, list)?;
    w.push("}");
    Ok(())
}

pub fn inet6(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 16] = w.number(at)?;
    w.push(&format!(
        "inet_pton(AF_INET6, \"{}\")",
        Ipv6Addr::from(address)
    ));
    Ok(())
}

pub fn mac(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let address: [u8; 6] = w.number(at)?;
    let parts = address.map(|byte| format!("{byte:02x}"));
    w.push(&parts.join(":"));
    Ok(())
}

/// An address of hardware in eight bytes, as long as the two bytes before it say.
pub fn counted_hardware(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let length = w.number(at.wrapping_sub(2)).map(u16::from_le_bytes)?;
    let bytes: [u8; 8] = w.number(at)?;
    let shown = &bytes[..usize::from(length).min(bytes.len())];
    let parts: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut number = Vec::new();
    crate::text::quoted(shown, crate::call::Hex::Always, &mut number);
    let number = String::from_utf8_lossy(&number);
    crate::words::known(&number, &parts.join(":"), w.style.constants, w.out);
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

/// `htons(ETH_P_IP)` (include/uapi/linux/if_ether.h)
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

/// An address of a group of a bridge, whose family stands 16 bytes behind it (`struct br_mdb_entry`).
pub fn bridge_address(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    match w.number(at + 16).map(u16::from_be_bytes)? {
        2 => {
            w.push("{u=");
            inet(w, at, None)?;
        }
        10 => {
            w.push("{u=");
            inet6(w, at, None)?;
        }
        _ => {
            let bytes = w.bytes(at, 16);
            w.push("{u=");
            crate::text::quoted(&bytes, crate::call::Hex::Always, w.out);
        }
    }
    w.push("}");
    Ok(())
}

pub fn bridge_protocol(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let family = w.number(at).map(u16::from_be_bytes)?;
    w.push("htons(");
    list("address_families").name(w, family.into());
    w.push(")");
    Ok(())
}
