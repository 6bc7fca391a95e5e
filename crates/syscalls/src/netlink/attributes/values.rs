//! What attributes hold that no type says: text, addresses, next hops, conditions, options. Used by `attributes`.

use crate::call::Hex;
use crate::layout::{self, Ty, network};
use crate::writer::{Unknown, Writer, Written};
use prototypes::digits::decimal;

/// All bytes of an attribute.
fn whole(w: &Writer, at: u64, length: u64) -> Result<Vec<u8>, Unknown> {
    let bytes = w.bytes(at, length as usize);
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(Unknown),
    }
}

/// A number of so many bytes as there are; of more than eight, or of fewer than its type has, nothing is known.
pub fn wide(w: &mut Writer, ty: &Ty, at: u64, length: u64) -> Written {
    let own = u64::from(ty.layout(layout::tables()).0);
    if length > 8 || length < own {
        return Err(Unknown);
    }
    let bytes = whole(w, at, length)?;
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(&bytes);
    layout::passed(w, &ty.widened(), u64::from_le_bytes(word))
}

/// A command of a family of generic netlink, by its name in this list.
pub fn command(w: &mut Writer, at: u64, length: u64, commands: Option<usize>) -> Written {
    if !(4..=8).contains(&length) {
        return Err(Unknown);
    }
    let number = w.u32_at(at)?.into();
    match commands {
        Some(list) => layout::tables().lists[list].name(w, number),
        None => w.hexadecimal(number),
    }
    Ok(())
}

/// Text that ends with NUL: dots stand for one that does not.
pub fn string(w: &mut Writer, at: u64, length: u64) -> Written {
    let bytes = whole(w, at, length)?;
    let end = match bytes.last() {
        Some(0) => bytes.len() - 1,
        _ => bytes.len(),
    };
    shown(w, &bytes[..end], end == bytes.len());
    Ok(())
}

/// Text as far as its NUL.
pub fn text(w: &mut Writer, at: u64, length: u64) -> Written {
    let bytes = whole(w, at, length)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    shown(w, &bytes[..end.unwrap_or(bytes.len())], end.is_none());
    Ok(())
}

fn shown(w: &mut Writer, bytes: &[u8], goes_on: bool) {
    let most = bytes.len().min(w.style.strings);
    crate::text::quoted(&bytes[..most], w.style.hex, w.out);
    if most < bytes.len() || goes_on {
        w.push("...");
    }
}

/// An address of the message's family.
pub fn address(w: &mut Writer, at: u64, length: u64, family: u8) -> Written {
    const INET: u8 = 2;
    const INET6: u8 = 10;
    match (family, length) {
        (INET, 4..) => network::inet(w, at, None),
        (INET6, 16..) => network::inet6(w, at, None),
        _ => Err(Unknown),
    }
}

/// A family and an address of it (`struct rtvia`): `{rtvia_family=AF_INET, rtvia_addr=inet_addr("10.0.0.1")}`.
pub fn via(w: &mut Writer, at: u64, length: u64) -> Written {
    let family = w.number(at).map(u16::from_le_bytes);
    if length < 2 {
        return Err(Unknown);
    }
    let family = family?;
    w.push("{rtvia_family=");
    layout::list("address_families").name(w, family.into());
    if length > 2 {
        let room = length - 2;
        let shown = network::address_bytes(family, room);
        w.push(", ");
        let before = w.out.len();
        if network::address_member(w, "rtvia_addr", family, at.wrapping_add(2), shown).is_err() {
            w.out.truncate(before);
            w.address(at.wrapping_add(2));
        }
    }
    w.push("}");
    Ok(())
}

/// An address of hardware, as long as the attribute.
pub fn hardware(w: &mut Writer, at: u64, length: u64, _: u8) -> Written {
    /// Bytes of the longest address: `MAX_ADDR_LEN` (include/linux/netdevice.h).
    const LONGEST: u64 = 32;
    if length > LONGEST {
        return Err(Unknown);
    }
    let bytes = whole(w, at, length)?;
    network::hardware_bytes(w, &bytes, bytes.len());
    Ok(())
}

/// Structs that begin with their length in two bytes, with what `inside` writes behind each.
pub fn hops(
    w: &mut Writer,
    mut at: u64,
    mut length: u64,
    ty: &Ty,
    mut inside: impl FnMut(&mut Writer, u64, u64) -> Written,
) -> Written {
    let own = u64::from(ty.layout(layout::tables()).0);
    if length < own {
        return Err(Unknown);
    }
    let first = at;
    let mut several = false;
    while let Ok(said) = w.number(at).map(u16::from_le_bytes)
        && w.bytes(at, own as usize).len() as u64 == own
    {
        let here = u64::from(said).min(length);
        if at == first && u64::from(said) < length {
            w.push("[");
            several = true;
        }
        if at > first {
            w.push(", ");
        }
        if here > own {
            w.push("[");
        }
        layout::value(w, ty, at, None)?;
        if here > own {
            w.push(", ");
            inside(w, at.wrapping_add(own), here - own)?;
            w.push("]");
        }
        let step = here.next_multiple_of(4);
        if step == 0 || step >= length {
            if several {
                w.push("]");
            }
            return Ok(());
        }
        (at, length) = (at.wrapping_add(step), length - step);
    }
    if at == first {
        return Err(Unknown);
    }
    w.address(at);
    if several {
        w.push("]");
    }
    Ok(())
}

/// `{code=INET_DIAG_BC_S_COND, yes=1, no=2}, {family=AF_INET, …}`
pub fn conditions(w: &mut Writer, at: u64, length: u64) -> Written {
    const OPERATION: u64 = 4;
    if length < OPERATION {
        return Err(Unknown);
    }
    let operation = layout::ty("inet_diag_bc_op");
    layout::value(w, &operation, at, None)?;
    if length == OPERATION {
        return Ok(());
    }
    let [code] = w.number(at)?;
    let (at, length) = (at.wrapping_add(OPERATION), length - OPERATION);
    w.push(", ");
    let before = w.out.len();
    let (ty, least) = match code {
        2..=5 => (operation, 4),
        7 | 8 => (layout::ty("inet_diag_hostcond"), 8),
        9 => (layout::ty("ifindex"), 4),
        10 => (layout::ty("inet_diag_markcond"), 8),
        _ => {
            return w.buffer_as(at, length as usize, Hex::Always).or_else(|_| {
                w.address(at);
                Ok(())
            });
        }
    };
    let written = match (length < least, code) {
        (true, _) => w.buffer_as(at, length as usize, Hex::Always),
        (false, 7 | 8) => host(w, &ty, at, length),
        _ => layout::value(w, &ty, at, None),
    };
    if written.is_err() {
        w.out.truncate(before);
        w.address(at);
    }
    Ok(())
}

/// A host that is compared with, and its address behind it.
fn host(w: &mut Writer, ty: &Ty, at: u64, length: u64) -> Written {
    const OWN: u64 = 8;
    w.push("{");
    layout::fields(w, ty, at)?;
    if length > OWN {
        let [family] = w.number(at)?;
        let room = length - OWN;
        let shown = network::address_bytes(family.into(), room);
        w.push(", ");
        let before = w.out.len();
        if network::address_member(w, "addr", family.into(), at.wrapping_add(OWN), shown).is_err() {
            w.out.truncate(before);
            w.push("addr=");
            w.address(at.wrapping_add(OWN));
        }
    }
    w.push("}");
    Ok(())
}

/// `{recverr=1, freebind=1}`: bits that are not set are written with `-v` alone.
pub fn options(w: &mut Writer, at: u64, length: u64) -> Written {
    const NAMES: [&str; 11] = [
        "recverr",
        "is_icsk",
        "freebind",
        "hdrincl",
        "mc_loop",
        "transparent",
        "mc_all",
        "nodefrag",
        "bind_address_no_port",
        "recverr_rfc4884",
        "defer_connect",
    ];
    if length < 2 {
        return Err(Unknown);
    }
    let bits = w.number(at).map(u16::from_le_bytes)?;
    w.push("{");
    let mut first = true;
    let mut next = |w: &mut Writer, name: &str| {
        w.push(if std::mem::take(&mut first) { "" } else { ", " });
        w.push(&format!("{name}="));
    };
    for (index, name) in NAMES.iter().enumerate() {
        let bit = bits >> index & 1;
        if bit != 0 || w.style.verbose {
            next(w, name);
            decimal(bit, w.out);
        }
    }
    let rest = bits >> NAMES.len();
    if rest != 0 || w.style.verbose {
        next(w, "unused");
        w.hexadecimal(rest.into());
        w.push(" /* bits 3..8 */");
    }
    w.push("}");
    layout::behind(w, at, 2, length);
    Ok(())
}
