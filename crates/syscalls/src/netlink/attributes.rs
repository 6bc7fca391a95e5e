//! Attributes of netlink: `[{nla_len=8, nla_type=IFA_FLAGS}, IFA_F_PERMANENT]` (`struct nlattr` in include/uapi/linux/netlink.h).

use super::{ATTRIBUTE, DEEPEST, chain};
use crate::call::Hex;
use crate::layout::{self, Attribute, Attributes};
use crate::writer::{Unknown, Writer, Written};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Appends attributes; `family` is that of the addresses in them.
pub fn attributes(
    w: &mut Writer,
    at: u64,
    length: u64,
    of: Option<&Attributes>,
    family: u8,
    depth: u32,
) -> Written {
    chain(w, at, length, ATTRIBUTE, |w, at, length| {
        attribute(w, at, length, of, family, depth)
    })
}

fn attribute(
    w: &mut Writer,
    at: u64,
    room: u64,
    of: Option<&Attributes>,
    family: u8,
    depth: u32,
) -> Written {
    /// `NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`
    const MARKS: [(u16, &str); 2] = [(0x8000, "NLA_F_NESTED"), (0x4000, "NLA_F_NET_BYTEORDER")];
    let [length, kind] = [0, 2].map(|offset| w.number(at + offset).map(u16::from_le_bytes));
    let (length, kind) = (length?, kind?);
    let holds = u64::from(length).min(room);
    if holds > ATTRIBUTE {
        w.push("[");
    }
    w.push(&format!("{{nla_len={length}, nla_type="));
    for (bit, name) in MARKS {
        if kind & bit != 0 {
            w.known(bit.into(), name);
            w.push("|");
        }
    }
    let number = u64::from(kind & 0x3fff);
    match of {
        Some(of) => layout::tables().lists[of.list].name(w, number),
        None => w.hexadecimal(number),
    }
    w.push("}");
    if holds > ATTRIBUTE {
        w.push(", ");
        let what = of.and_then(|of| of.types.get(&number).or(of.rest.as_ref()));
        let before = w.out.len();
        let (at, holds) = (at + ATTRIBUTE, holds - ATTRIBUTE);
        let known = what.filter(|_| depth < DEEPEST);
        let written = known.map(|what| held(w, at, holds, what, family, depth));
        if !matches!(written, Some(Ok(()))) {
            w.out.truncate(before);
            unknown(w, at, holds, what.is_some());
        }
        w.push("]");
    }
    Ok(())
}

/// Bytes of an attribute that is too short for its type or has none; the address of those that are not all there.
fn unknown(w: &mut Writer, at: u64, length: u64, has_type: bool) {
    let whole = w.bytes(at, length as usize).len() as u64 == length;
    let before = w.out.len();
    let missing = has_type && !whole;
    if missing || w.buffer_as(at, length as usize, Hex::Always).is_err() {
        w.out.truncate(before);
        w.address(at);
    }
}

/// What an attribute holds; an error if it is too short for it.
fn held(w: &mut Writer, at: u64, length: u64, what: &Attribute, family: u8, depth: u32) -> Written {
    let size = |ty: &layout::Ty| u64::from(ty.layout(layout::tables()).0);
    match what {
        Attribute::Value(ty) if length < size(ty) => Err(Unknown),
        Attribute::Value(ty) => layout::value(w, ty, at, None),
        Attribute::Wide(ty) => {
            if length > 8 || length < size(ty) {
                return Err(Unknown);
            }
            let bytes = w.bytes(at, length as usize);
            if (bytes.len() as u64) < length {
                return Err(Unknown);
            }
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(&bytes);
            layout::passed(w, &ty.widened(), u64::from_le_bytes(word))
        }
        Attribute::String => {
            let bytes = w.bytes(at, length as usize);
            if (bytes.len() as u64) < length {
                return Err(Unknown);
            }
            let end = match bytes.last() {
                Some(0) => bytes.len() - 1,
                _ => bytes.len(),
            };
            let shown = end.min(w.style.strings);
            crate::text::quoted(&bytes[..shown], w.style.hex, w.out);
            if shown < end || end == bytes.len() {
                w.push("...");
            }
            Ok(())
        }
        Attribute::Many(ty) => {
            let count = length / size(ty).max(1);
            if count == 0 {
                return Err(Unknown);
            }
            layout::counted(w, ty, at, count)
        }
        Attribute::Nest(index) => {
            let of = &layout::tables().attributes[*index];
            attributes(w, at, length, Some(of), family, depth + 1)
        }
        Attribute::With(ty, index) => {
            let own = size(ty);
            if length < own {
                return Err(Unknown);
            }
            layout::value(w, ty, at, None)?;
            let offset = own.next_multiple_of(4);
            if length > offset {
                w.push(", ");
                let of = &layout::tables().attributes[*index];
                attributes(w, at + offset, length - offset, Some(of), family, depth + 1)?;
            }
            Ok(())
        }
        Attribute::Address => address(w, at, length, family),
        Attribute::Hardware if length > 32 => Err(Unknown),
        Attribute::Hardware => {
            let bytes = w.bytes(at, length as usize);
            if (bytes.len() as u64) < length {
                return Err(Unknown);
            }
            let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            w.push(&parts.join(":"));
            Ok(())
        }
    }
}

/// An address of the message's family.
fn address(w: &mut Writer, at: u64, length: u64, family: u8) -> Written {
    const INET: u8 = 2;
    const INET6: u8 = 10;
    match (family, length) {
        (INET, 4..) => {
            let address: [u8; 4] = w.number(at)?;
            w.push(&format!("inet_addr(\"{}\")", Ipv4Addr::from(address)));
        }
        (INET6, 16..) => {
            let address: [u8; 16] = w.number(at)?;
            w.push(&format!(
                "inet_pton(AF_INET6, \"{}\")",
                Ipv6Addr::from(address)
            ));
        }
        _ => return Err(Unknown),
    }
    Ok(())
}
