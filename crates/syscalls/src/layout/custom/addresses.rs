//! Members of addresses of sockets that no type says. They lie where the address begins and are read from what stands for all of it
//! (`Overlay`), whose length some of them follow. Used by `custom`.

use super::network;
use crate::call::{Constants, Hex};
use crate::layout::{fields, list, ty};
use crate::text;
use crate::words;
use crate::writer::{Overlay, Writer, Written};

/// A port in the order of the network: `htons(80)`.
pub fn port(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let bytes: [u8; 2] = w.number(at)?;
    network::known_bytes(w, &bytes, &format!("htons({})", u16::from_be_bytes(bytes)));
    Ok(())
}

pub fn flow(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let bytes: [u8; 4] = w.number(at)?;
    network::known_bytes(w, &bytes, &format!("htonl({})", u32::from_be_bytes(bytes)));
    Ok(())
}

/// The scope of an address of IPv6: that of a link is an interface.
pub fn scope(w: &mut Writer, at: u64, list: Option<usize>) -> Written {
    let [first, second] = w.number(Overlay::AT + 8)?;
    let of_link = first == 0xfe && second & 0xc0 == 0x80 || first == 0xff && second & 0xf == 2;
    match of_link {
        true => network::interface(w, at, list),
        false => {
            let number = w.u32_at(at)?;
            w.push(&number.to_string());
            Ok(())
        }
    }
}

/// How many bytes of the address there are.
fn there(w: &Writer) -> u64 {
    w.overlay.as_ref().map_or(0, |of| of.there)
}

/// The protocol of frames: `htons(ETH_P_ALL)`.
pub fn frames(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let bytes: [u8; 2] = w.number(at)?;
    let number = u64::from(u16::from_be_bytes(bytes));
    let names = list("ethernet_protocols");
    let name = match names.find(number) {
        Some(name) => name.to_owned(),
        None => format!("{} /* {} */", words::plain(number), names.unknown),
    };
    network::known_bytes(w, &bytes, &format!("htons({name})"));
    Ok(())
}

/// A hardware address: its length is the byte before it; only the bytes that are present are shown.
pub fn hardware(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [length] = w.number(at.wrapping_sub(1))?;
    let left = there(w).saturating_sub(at.wrapping_sub(Overlay::AT));
    w.push("[");
    for index in 0..u64::from(length) {
        if index > 0 {
            w.push(", ");
        }
        if index >= left {
            w.push("...");
            break;
        }
        let [byte] = w.number(at.wrapping_add(index)).unwrap_or_default();
        match byte {
            0 => w.push("00"),
            byte => w.push(&format!("{byte:#x}")),
        }
    }
    w.push("]");
    Ok(())
}

/// The name of a cipher: what is left of the address.
pub fn cipher(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let left = there(w).saturating_sub(at.wrapping_sub(Overlay::AT));
    let bytes = w.bytes(at, left as usize);
    let end = bytes.iter().position(|byte| *byte == 0);
    let shown = end.unwrap_or(bytes.len().saturating_sub(1));
    text::quoted(&bytes[..shown], w.style.hex, w.out);
    if end.is_none() {
        w.push("...");
    }
    Ok(())
}

/// A number of Bluetooth, in the order of little-endian machines: `htobs(1)`.
pub fn little(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let number = w.number(at).map(u16::from_le_bytes)?;
    w.push(&format!("htobs({number})"));
    Ok(())
}

/// The same with names, above some of which numbers are given out: `htobs(L2CAP_PSM_DYN_START + 3)`.
pub fn l2cap(w: &mut Writer, at: u64, names: &str, ranges: &[(u64, u64, &str)]) -> Written {
    let number = u64::from(w.number(at).map(u16::from_le_bytes)?);
    let names = list(names);
    let range = ranges
        .iter()
        .find(|(from, to, _)| (*from..=*to).contains(&number));
    let name = match (names.find(number), range) {
        (Some(name), _) => Some(name.to_owned()),
        (None, Some((from, _, name))) => Some(format!("{name}+{}", number - from)),
        (None, None) => None,
    };
    w.push("htobs(");
    let unknown = match names.find(7).is_some() {
        true => "L2CAP_CID_???",
        false => "L2CAP_PSM_???",
    };
    match name {
        Some(name) => w.known(number, &name),
        None => words::nameless(words::plain(number), unknown, w.style.constants, w.out),
    }
    w.push(")");
    Ok(())
}

/// What a connection of RxRPC goes by: an address of IPv4 or IPv6, or what is there.
pub fn transport(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let family = w.number(at).map(u16::from_le_bytes)?;
    let said = w.number(at.wrapping_sub(2)).map(u16::from_le_bytes)?;
    let left = there(w).saturating_sub(at.wrapping_sub(Overlay::AT));
    let length = u64::from(said).min(left);
    let bytes = w.bytes(at, length as usize);
    let rest = bytes.get(2..).unwrap_or_default().to_vec();
    let (label, member, of, least) = match family {
        2 => ("sin={", "sin_family", "sockaddr_in", 16),
        10 => ("sin6={", "sin6_family", "sockaddr_in6", 24),
        _ => ("", "family", "", 0),
    };
    w.push(&format!("{{{label}{member}="));
    list("address_families").name(w, family.into());
    if least > 0 && said >= least {
        w.push(", ");
        let size = 28.max(bytes.len());
        let mut whole = w.bytes(at, size);
        whole.resize(size, 0);
        let inner = Overlay {
            before: whole.clone(),
            now: whole,
            there: length,
        };
        let outer = w.overlay.replace(inner);
        let written = fields(w, &ty(of), Overlay::AT);
        w.overlay = outer;
        written?;
    } else if !rest.is_empty() {
        w.push(", ");
        text::quoted(&rest, w.style.hex, w.out);
    }
    w.push(if least > 0 { "}}" } else { "}" });
    Ok(())
}

/// An address of AX.25: a call sign, and those of the stations that pass it on (include/uapi/linux/ax25.h).
pub fn amateur(w: &mut Writer, _: u64, _: Option<usize>) -> Written {
    const CALL: u64 = 7;
    const FIRST: u64 = 16;
    const MOST: u64 = 8;
    let length = there(w);
    let stations = w.u32_at(Overlay::AT + 12)? as i32;
    let full = stations != 0 || length > FIRST;
    if full {
        w.push("fsa_ax25={");
    }
    w.push("sax25_call=");
    call_sign(w, Overlay::AT + 2)?;
    w.push(&format!(", sax25_ndigis={stations}"));
    if !full {
        return Ok(());
    }
    w.push("}");
    let there = ((length - FIRST.min(length)) / CALL).min(MOST);
    let wanted = (stations.max(0) as u64).min(MOST);
    if wanted > 0 {
        w.push(", fsa_digipeater=[");
        for index in 0..there.min(wanted) {
            w.push(if index > 0 { ", " } else { "" });
            call_sign(w, Overlay::AT + FIRST + CALL * index)?;
        }
        if wanted > there {
            w.push(if there > 0 { ", ..." } else { "..." });
        }
        w.push("]");
    }
    if length > there * CALL + FIRST {
        w.push(", ...");
    }
    Ok(())
}

/// `N0CALL-1`; as bytes where it is none, or both where it is an odd one.
fn call_sign(w: &mut Writer, at: u64) -> Written {
    let bytes: [u8; 7] = w.number(at)?;
    let (sign, last) = (&bytes[..6], bytes[6]);
    let characters = sign.iter().map(|byte| byte >> 1);
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'*' | b'/');
    let usual = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b' ';
    let text: Vec<u8> = characters.collect();
    let end = text
        .iter()
        .rposition(|byte| *byte != b' ')
        .map_or(0, |at| at + 1);
    let odd = sign.iter().any(|byte| byte & 1 != 0)
        || !text.iter().all(|byte| usual(*byte))
        || text[..end].contains(&b' ')
        || last & !0x1e != 0
        || end == 0 && last != 0;
    let raw = !text.iter().all(|byte| printable(*byte));
    let style = match (w.style.constants, odd) {
        _ if raw => Constants::Numbers,
        (Constants::Names, true) => Constants::Both,
        (style, _) => style,
    };
    let shown = match (end, last >> 1 & 15) {
        (0, 0) => "*".into(),
        (end, station) => format!("{}-{station}", String::from_utf8_lossy(&text[..end])),
    };
    let mut number = Vec::from(b"{ax25_call=");
    text::quoted(&bytes, Hex::Always, &mut number);
    number.push(b'}');
    words::known(String::from_utf8_lossy(&number), &shown, style, w.out);
    Ok(())
}
