//! Addresses of sockets, messages, pieces of buffers.

use crate::members::Members;
use crate::text;
use crate::types::ty;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::Type;
use prototypes::digits::decimal;
use std::net::{Ipv4Addr, Ipv6Addr};

// Families (include/linux/socket.h).
const UNIX: u16 = 1;
const INET: u16 = 2;
const INET6: u16 = 10;
const NETLINK: u16 = 16;

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

/// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}`; layouts: include/uapi/linux/in.h,
/// in6.h, un.h, netlink.h.
pub fn address(w: &mut Writer, at: u64, length: u64) -> Written {
    /// `struct sockaddr_storage`
    const LONGEST: u64 = 128;
    let length = length.min(LONGEST);
    let bytes = w.bytes(at, length as usize);
    if bytes.len() < 2 {
        return Err(Unknown);
    }
    let family = u16::from_le_bytes([bytes[0], bytes[1]]);
    w.push("{sa_family=");
    w.plain(&ty("address_family"), Place::Word(family.into()))?;
    let part = |from: usize, count: usize| bytes.get(from..from + count);
    let port = part(2, 2).map(|port| u16::from_be_bytes([port[0], port[1]]));
    let is_whole = match family {
        INET => length >= 16,
        INET6 => length >= 24,
        NETLINK => length >= 12,
        _ => true,
    };
    let text = match family {
        _ if !is_whole => data(&bytes[2..], w.style.hex),
        UNIX => {
            w.push(&unix(&bytes[2..], w.style.hex));
            String::new()
        }
        INET => {
            let address: [u8; 4] = part(4, 4)
                .and_then(|of| of.try_into().ok())
                .ok_or(Unknown)?;
            let (port, address) = (port.ok_or(Unknown)?, Ipv4Addr::from(address));
            format!(", sin_port=htons({port}), sin_addr=inet_addr(\"{address}\")")
        }
        INET6 => {
            let word = |from| part(from, 4).and_then(|of| of.try_into().ok());
            let flow = word(4).map(u32::from_be_bytes).ok_or(Unknown)?;
            let address: [u8; 16] = part(8, 16)
                .and_then(|of| of.try_into().ok())
                .ok_or(Unknown)?;
            let scope = word(24).map(u32::from_le_bytes).unwrap_or_default();
            let (port, address) = (port.ok_or(Unknown)?, Ipv6Addr::from(address));
            format!(
                ", sin6_port=htons({port}), sin6_flowinfo=htonl({flow}), \
                 inet_pton(AF_INET6, \"{address}\", &sin6_addr), sin6_scope_id={scope}"
            )
        }
        NETLINK => {
            let word = |from| part(from, 4).and_then(|of| of.try_into().ok());
            let pid = word(4).map(u32::from_le_bytes).ok_or(Unknown)?;
            let groups = word(8).map(u32::from_le_bytes).ok_or(Unknown)?;
            format!(", nl_pid={pid}, nl_groups={groups:08x}")
        }
        _ => data(&bytes[2..], w.style.hex),
    };
    w.push(&text);
    w.push("}");
    Ok(())
}

/// An address of a family that is not known, or one that is too short for its family.
fn data(bytes: &[u8], hex: crate::call::Hex) -> String {
    let mut shown = Vec::new();
    text::quoted(bytes, hex, &mut shown);
    format!(", sa_data={}", String::from_utf8_lossy(&shown))
}

/// The name of a local socket: a path up to its NUL, or a name without one behind `@`.
fn unix(name: &[u8], hex: crate::call::Hex) -> String {
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

/// One piece of a buffer, in a list of which the sum does not matter.
pub fn vector(w: &mut Writer, _: &Type, at: Place) -> Written {
    let Place::Memory(at) = at else {
        return Err(Unknown);
    };
    piece(w, at, &mut None)
}

/// `{iov_base="…", iov_len=4096}`: of what was read only so many bytes are left.
fn piece(w: &mut Writer, at: u64, left: &mut Option<u64>) -> Written {
    let [base, length] = [w.u64_at(at)?, w.u64_at(at + 8)?];
    let shown = left.map_or(length, |left| left.min(length));
    if let Some(left) = left {
        *left -= shown;
    }
    w.push("{iov_base=");
    let before = w.out.len();
    let empty = w.late && left.is_some() && w.call.error().is_some();
    if base == 0 || empty || w.buffer(base, shown as usize).is_err() {
        w.out.truncate(before);
        w.address(base);
    }
    w.push(", iov_len=");
    decimal(length, w.out);
    w.push("}");
    Ok(())
}

/// A list of pieces; `data` says how many bytes of them were read.
pub fn vectors(w: &mut Writer, at: u64, count: u64, data: Option<u64>) -> Written {
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
        if piece(w, here, &mut left).is_err() {
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
    vectors(members.w, list, count, data)?;
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

/// What goes beside the data: descriptors, credentials (`struct cmsghdr` in include/linux/socket.h).
fn controls(w: &mut Writer, at: u64, size: u64) -> Written {
    const HEAD: u64 = 16;
    const SOCKET: u32 = 1;
    const RIGHTS: u32 = 1;
    const CREDENTIALS: u32 = 2;
    w.push("[");
    let mut from = 0;
    while from + HEAD <= size {
        let here = at + from;
        let length = w.u64_at(here)?;
        let [level, kind] = [w.u32_at(here + 8)?, w.u32_at(here + 12)?];
        if length < HEAD {
            break;
        }
        if from > 0 {
            w.push(", ");
        }
        w.push(&format!("{{cmsg_len={length}, cmsg_level="));
        w.plain(&ty("socket_level"), Place::Word(level.into()))?;
        w.push(", cmsg_type=");
        let data = here + HEAD;
        match (level, kind) {
            (SOCKET, RIGHTS) => {
                w.push("SCM_RIGHTS, cmsg_data=[");
                for index in 0..(length - HEAD) / 4 {
                    if index > 0 {
                        w.push(", ");
                    }
                    let fd = w.u32_at(data + 4 * index)? as i32;
                    decimal(fd, w.out);
                    w.name_of(fd);
                }
                w.push("]");
            }
            (SOCKET, CREDENTIALS) => {
                let [pid, uid, gid] = [w.u32_at(data)?, w.u32_at(data + 4)?, w.u32_at(data + 8)?];
                w.push(&format!(
                    "SCM_CREDENTIALS, cmsg_data={{pid={pid}, uid={uid}, gid={gid}}}"
                ));
            }
            _ => {
                w.hexadecimal(kind.into());
                w.push(", cmsg_data=");
                w.buffer(data, (length - HEAD) as usize)?;
            }
        }
        w.push("}");
        // CMSG_ALIGN
        from += length.next_multiple_of(8);
    }
    w.push("]");
    Ok(())
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
