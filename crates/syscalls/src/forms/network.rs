//! Addresses of sockets, messages, pieces of buffers. Used by `forms`, `special::sockets`, `controls` and others.

use super::controls::controls;
use crate::layout::{Ty, fields, list, tables};
use crate::members::Members;
use crate::text;
use crate::types::ty;
use crate::writer::{Overlay, Place, Unknown, Writer, Written};
use prototypes::digits::decimal;
use prototypes::types::Type;

// Families (include/linux/socket.h).
const UNIX: u16 = 1;
const NETLINK: u16 = 16;
/// Stands for a protocol of netlink that is not known.
const ANY_PROTOCOL: u32 = u32::MAX;

/// A socket's address behind a pointer; its length is an argument.
pub fn socket_address(w: &mut Writer, _: &Type, at: Place) -> Written {
    let Place::Memory(at) = at else {
        return Err(Unknown);
    };
    let arguments = w.call.arguments;
    let length = match w.call.name {
        "connect" | "bind" => arguments[2],
        "sendto" => arguments[5],
        "recvfrom" => w.u32_at(arguments[5])?.into(),
        _ => w.u32_at(arguments[2])?.into(),
    };
    address(w, at, length)
}

/// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}`, by the rows of `conf/addresses.conf`.
pub fn address(w: &mut Writer, at: u64, length: u64) -> Written {
    /// Bytes of the longest address: `sizeof(struct sockaddr_storage)` (include/uapi/linux/socket.h).
    const LONGEST: u64 = 128;
    let length = length.min(LONGEST);
    let bytes = w.bytes(at, length as usize);
    if bytes.len() < 2 || (bytes.len() as u64) < length {
        return Err(Unknown);
    }
    let family = u16::from_le_bytes([bytes[0], bytes[1]]);
    w.push("{sa_family=");
    list("address_families").name(w, family.into());
    let mut rows = tables().netlink().addresses.iter();
    let row = rows.find(|(own, lengths, least, _)| {
        *own == family && length >= *least && (lengths.is_empty() || lengths.contains(&length))
    });
    match (family, row) {
        _ if length == 2 => {}
        (UNIX, _) => w.push(&unix(&bytes[2..], w.style.hex)),
        (_, Some((.., of))) => {
            w.push(", ");
            within(w, bytes, of)?;
        }
        _ => w.push(&data(&bytes[2..], w.style.hex)),
    }
    w.push("}");
    Ok(())
}

/// Appends the members of an address, of which zeros stand for what is not there.
fn within(w: &mut Writer, mut bytes: Vec<u8>, of: &Ty) -> Written {
    let size = of.layout(tables()).0 as usize;
    let there = bytes.len() as u64;
    bytes.resize(bytes.len().max(size), 0);
    let outer = w.overlay.replace(Overlay {
        before: bytes.clone(),
        now: bytes,
        there,
    });
    let written = fields(w, of, Overlay::AT);
    w.overlay = outer;
    written
}

/// An address of a family that is not known, or one that is too short for its family.
fn data(bytes: &[u8], hex: crate::call::Hex) -> String {
    let mut shown = Vec::new();
    text::quoted(bytes, hex, &mut shown);
    format!(", sa_data={}", String::from_utf8_lossy(&shown))
}

/// The name of a local socket: a path up to its NUL, or a name without one behind `@`.
fn unix(name: &[u8], hex: crate::call::Hex) -> String {
    /// Bytes of the longest name: `UNIX_PATH_MAX` (include/uapi/linux/un.h).
    const LONGEST: usize = 108;
    let name = &name[..name.len().min(LONGEST)];
    let mut shown = Vec::new();
    match name {
        [] => return String::new(),
        [0, rest @ ..] => {
            shown.push(b'@');
            text::quoted(rest, hex, &mut shown);
        }
        name => {
            let end = name.iter().position(|byte| *byte == 0);
            text::quoted(&name[..end.unwrap_or(name.len())], hex, &mut shown);
        }
    }
    format!(", sun_path={}", String::from_utf8_lossy(&shown))
}

/// A length that is read and written: `[16]`, `[128 => 16]`.
pub fn length(w: &mut Writer, _: &Type, at: Place) -> Written {
    let Place::Memory(at) = at else {
        return Err(Unknown);
    };
    let after = w.u32_at(at)?;
    let before = w.before(|w| w.u32_at(at));
    w.push("[");
    match before {
        Ok(before) if before != after => w.push(&format!("{before} => {after}")),
        _ => decimal(after, w.out),
    }
    w.push("]");
    Ok(())
}

/// One piece of a buffer (`struct iovec`), in a list whose bytes are not counted.
pub fn vector(w: &mut Writer, _: &Type, at: Place) -> Written {
    let Place::Memory(at) = at else {
        return Err(Unknown);
    };
    piece(w, at, &mut None, None)
}

/// `{iov_base="…", iov_len=4096}`; `left` says how many bytes of what was read are not in earlier pieces, `None` that it does not matter. `protocol`:
/// what is there are messages of netlink.
fn piece(w: &mut Writer, at: u64, left: &mut Option<u64>, protocol: Option<u32>) -> Written {
    let [base, length] = [w.u64_at(at)?, w.u64_at(at + 8)?];
    let shown = left.map_or(length, |left| left.min(length));
    if let Some(left) = left {
        *left -= shown;
    }
    w.push("{iov_base=");
    let before = w.out.len();
    let empty = w.late && left.is_some() && w.call.error().is_some();
    let mut held = || match (protocol, w.messages) {
        _ if base == 0 || empty => Err(Unknown),
        (Some(protocol), Some(messages)) => messages(w, base, shown, protocol),
        _ => w.buffer(base, shown as usize),
    };
    if held().is_err() {
        w.out.truncate(before);
        w.address(base);
    }
    w.push(", iov_len=");
    decimal(length, w.out);
    w.push("}");
    Ok(())
}

/// A list of so many pieces; `data` says how many bytes of them were read, `protocol` that they are messages of netlink.
pub fn vectors(
    w: &mut Writer,
    (at, count): (u64, u64),
    data: Option<u64>,
    protocol: Option<u32>,
) -> Written {
    if at == 0 {
        w.push("NULL");
        return Ok(());
    }
    let mut left = data;
    w.push("[");
    for index in 0..count {
        let before = w.out.len();
        if index > 0 {
            w.push(", ");
        }
        let here = at.wrapping_add(16 * index);
        if index >= w.style.strings as u64 {
            // One more than is shown was copied: memory may end there.
            match w.bytes(here, 16).len() {
                16 => w.push("..."),
                _ => w.push(&format!("... /* {here:#x} */")),
            }
            break;
        }
        if piece(w, here, &mut left, protocol).is_err() {
            if index == 0 {
                return Err(Unknown);
            }
            w.out.truncate(before);
            w.push(&format!(", ... /* {here:#x} */"));
            break;
        }
    }
    w.push("]");
    Ok(())
}

/// `{msg_name=NULL, msg_namelen=0, msg_iov=[…], msg_iovlen=1, msg_controllen=0, msg_flags=0}`
pub fn message(w: &mut Writer, of: &Type, at: Place) -> Written {
    if w.late && w.call.error().is_some() {
        // Nothing came: what the kernel was offered room for is all that is known.
        let members = Members::begin(w, of, at)?;
        let length = members.word("msg_namelen")?;
        members.w.push("msg_namelen=");
        decimal(length, members.w.out);
        return members.end();
    }
    let data = w.late.then(|| w.call.count());
    header(w, of, at, data)
}

fn header(w: &mut Writer, of: &Type, at: Place, data: Option<u64>) -> Written {
    let mut members = Members::begin(w, of, at)?;
    let name = members.word("msg_name")?;
    let name_length = members.word("msg_namelen")?;
    members.label("msg_name");
    let mut family = None;
    if name == 0 || name_length == 0 {
        members.w.address(name);
    } else {
        // No more was written than there was room for.
        let (length_at, _) = members.find("msg_namelen")?;
        let room = members.w.before(|w| w.u32_at(length_at));
        let length = room.map_or(name_length, |room| name_length.min(room.into()));
        let before = members.w.out.len();
        if address(members.w, name, length).is_err() {
            members.w.out.truncate(before);
            members.w.address(name);
        } else {
            family = members.w.number(name).map(u16::from_le_bytes).ok();
        }
    }
    let (length_at, _) = members.find("msg_namelen")?;
    let before = members.w.before(|w| w.u32_at(length_at));
    members.label("msg_namelen");
    if let Ok(before) = before.as_ref().copied()
        && u64::from(before) != name_length
    {
        members.w.push(&format!("{before} => "));
    }
    decimal(name_length, members.w.out);
    let [list, count] = [members.word("msg_iov")?, members.word("msg_iovlen")?];
    members.label("msg_iov");
    let protocol = protocol_of(members.w, family);
    vectors(members.w, (list, count), data, protocol)?;
    members.members(&["msg_iovlen"])?;
    let [control, size] = [
        members.word("msg_control")?,
        members.word("msg_controllen")?,
    ];
    if size != 0 {
        members.label("msg_control");
        let before = members.w.out.len();
        if controls(members.w, control, size).is_err() {
            members.w.out.truncate(before);
            members.w.address(control);
        }
    }
    members.members(&["msg_controllen"])?;
    let (at, _) = members.find("msg_flags")?;
    members.label("msg_flags");
    members.w.value(&ty("message_flags"), Place::Memory(at))?;
    members.end()
}

/// The protocol of netlink by which what a message holds is written: its address says that it is such a message, or else its socket.
fn protocol_of(w: &Writer, family: Option<u16>) -> Option<u32> {
    let of_socket = w.call.netlink_of_first();
    match family {
        None => of_socket,
        Some(NETLINK) if w.call.netlink.is_some() => Some(of_socket.unwrap_or(ANY_PROTOCOL)),
        Some(_) => None,
    }
}

/// Several messages at once: `{msg_hdr={…}, msg_len=5}`.
pub fn counted_message(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    let (at, header_type) = members.find("msg_hdr")?;
    let length = members.word("msg_len")?;
    members.label("msg_hdr");
    let reads = members.w.late && members.w.call.name == "recvmmsg";
    let data = reads.then_some(length);
    header(members.w, &header_type, Place::Memory(at), data)?;
    if members.w.late && members.w.call.error().is_none() {
        members.members(&["msg_len"])?;
    }
    members.end()
}
