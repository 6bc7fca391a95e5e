//! Messages of netlink: `[{nlmsg_len=20, nlmsg_type=RTM_GETLINK, …}, {ifi_family=AF_UNSPEC, …}]`. Used by `special`.
//!
//! Headers and attributes follow each other, each with its length (include/uapi/linux/netlink.h). What a message holds, and what its
//! attributes are, is said by rows of `conf/netlink.conf`; which protocol a socket speaks, by whoever hands the call.

mod attributes;
mod generic;
mod parts;

use crate::call::Hex;
use crate::layout::{self, Diagnosis, List, list};
use crate::words;
use crate::writer::{Unknown, Writer, Written};
use attributes::{Context, attributes};
use parts::{DEEPEST, HEADER, chain};
use prototypes::digits::decimal;

// Protocols (include/uapi/linux/netlink.h).
const ROUTE: u32 = 0;
const SOCK_DIAG: u32 = 4;
const XFRM: u32 = 6;
const SELINUX: u32 = 7;
const NETFILTER: u32 = 12;
const UEVENT: u32 = 15;
const GENERIC: u32 = 16;
const CRYPTO: u32 = 21;

// Types of all protocols.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FIRST_OWN: u16 = 16;

/// Appends the messages in a buffer.
pub fn messages(w: &mut Writer, at: u64, length: u64, protocol: u32) -> Written {
    if protocol == UEVENT {
        return event(w, at, length);
    }
    chain(w, at, length, HEADER, |w, at, length| {
        message(w, at, length, protocol, 0)
    })
}

/// What udev's processes send each other: a header of their own, and text.
fn event(w: &mut Writer, at: u64, length: u64) -> Written {
    let of = layout::ty("udev_header");
    let size = u64::from(of.layout(layout::tables()).0);
    let begins = w.bytes(at, 8);
    if length < size || begins != b"libudev\0" || (w.bytes(at, size as usize).len() as u64) < size {
        return w.buffer(at, length as usize);
    }
    if length == size {
        return layout::value(w, &of, at, None);
    }
    w.push("[");
    layout::value(w, &of, at, None)?;
    w.push(", ");
    let before = w.out.len();
    if w.buffer(at + size, (length - size) as usize).is_err() {
        w.out.truncate(before);
        w.address(at + size);
    }
    w.push("]");
    Ok(())
}

fn message(w: &mut Writer, at: u64, room: u64, protocol: u32, depth: u32) -> Written {
    let length = w.u32_at(at)?;
    let [kind, flags] = [4, 6].map(|offset| w.number(at + offset).map(u16::from_le_bytes));
    let (kind, flags) = (kind?, flags?);
    let [sequence, port] = [w.u32_at(at + 8)?, w.u32_at(at + 12)?];
    let holds = u64::from(length).min(room);
    if holds > HEADER {
        w.push("[");
    }
    w.push(&format!("{{nlmsg_len={length}, nlmsg_type="));
    message_type(w, kind, protocol);
    w.push(", nlmsg_flags=");
    message_flags(w, flags, kind, protocol);
    w.push(&format!(", nlmsg_seq={sequence}, nlmsg_pid="));
    decimal(port as i32, w.out);
    w.process(port as i32);
    w.push("}");
    if holds > HEADER {
        w.push(", ");
        let before = w.out.len();
        let (at, holds) = (at + HEADER, holds - HEADER);
        if payload(w, at, holds, (kind, flags), protocol, depth).is_err() {
            w.out.truncate(before);
            w.address(at);
        }
        w.push("]");
    }
    Ok(())
}

fn message_type(w: &mut Writer, kind: u16, protocol: u32) {
    let kinds = match protocol {
        _ if kind < FIRST_OWN => "nl_types",
        NETFILTER => return netfilter_type(w, kind),
        ROUTE => "nl_route_types",
        SOCK_DIAG => "nl_sock_diag_types",
        XFRM => "nl_xfrm_types",
        SELINUX => "nl_selinux_types",
        CRYPTO => "nl_crypto_types",
        9 => "nl_audit_types",
        GENERIC => return generic::message_type(w, kind),
        _ => "nl_types",
    };
    list(kinds).name(w, kind.into());
}

/// A subsystem and its own type (include/uapi/linux/netfilter/nfnetlink.h).
fn netfilter_type(w: &mut Writer, kind: u16) {
    let reserved = list("nl_netfilter_types");
    if let Some(name) = reserved.find(kind.into()) {
        return w.known(kind.into(), name);
    }
    let (subsystem, own) = (u64::from(kind >> 8), u64::from(kind & 0xff));
    list("nl_netfilter_subsystems").name(w, subsystem);
    w.push("<<8|");
    match own_types(subsystem) {
        Some(types) => types.name(w, own),
        None => w.hexadecimal(own),
    }
}

fn own_types(subsystem: u64) -> Option<&'static List> {
    Some(list(match subsystem {
        1 => "nf_ctnetlink",
        2 => "nf_ctnetlink_exp",
        3 => "nf_queue",
        4 => "nf_ulog",
        5 => "nf_osf",
        6 => "nf_ipset",
        7 => "nf_acct",
        8 => "nf_cttimeout",
        9 => "nf_cthelper",
        10 => "nf_nftables",
        11 => "nf_nft_compat",
        12 => "nf_hook",
        _ => return None,
    }))
}

/// Flags that all have, and those that the kind of request gives a meaning.
fn message_flags(w: &mut Writer, flags: u16, kind: u16, protocol: u32) {
    let of_kind = match protocol {
        _ if kind == ERROR => Some("nl_ack_flags"),
        _ if kind < FIRST_OWN => None,
        ROUTE if kind == 49 => Some("nl_get_flags"),
        ROUTE => ["nl_new_flags", "nl_delete_flags", "nl_get_flags"]
            .get(usize::from(kind & 3))
            .copied(),
        SOCK_DIAG | GENERIC => Some("nl_get_flags"),
        _ => by_name(kind, protocol),
    };
    let mut names = list("nl_flags").names().clone();
    if let Some(more) = of_kind {
        names.extend(list(more).names().iter().cloned());
    }
    words::flags_or(flags.into(), &names, "NLM_F_???", w.style.constants, w.out);
}

/// What a type's name says of the request: new, delete, get.
fn by_name(kind: u16, protocol: u32) -> Option<&'static str> {
    let name = match protocol {
        XFRM => list("nl_xfrm_types").find(kind.into()),
        CRYPTO => list("nl_crypto_types").find(kind.into()),
        NETFILTER => own_types((kind >> 8).into())?.find((kind & 0xff).into()),
        _ => None,
    }?;
    let rows = &layout::tables().netlink().requests;
    rows.iter()
        .find(|(known, _)| **known == *name)
        .map(|(_, flags)| match &**flags {
            "new" => "nl_new_flags",
            "delete" => "nl_delete_flags",
            _ => "nl_get_flags",
        })
}

fn payload(
    w: &mut Writer,
    at: u64,
    length: u64,
    (kind, flags): (u16, u16),
    protocol: u32,
    depth: u32,
) -> Written {
    if kind == ERROR {
        return answer(w, at, length, flags, protocol, depth);
    }
    if kind >= FIRST_OWN {
        match protocol {
            ROUTE => return routing(w, at, length, kind),
            NETFILTER => return netfilter(w, at, length, kind),
            SELINUX if matches!(kind, 16 | 17) && length >= 4 => {
                let number = w.u32_at(at)?;
                match kind {
                    16 => w.push(&format!("{{val={}}}", number as i32)),
                    _ => w.push(&format!("{{seqno={number}}}")),
                }
                return Ok(());
            }
            SOCK_DIAG => return diagnosis(w, at, length, kind, flags),
            CRYPTO if kind < FIRST_OWN + 4 => return crypto(w, at, length),
            GENERIC => return generic::message(w, at, length, kind, depth > 0),
            _ => {}
        }
    }
    if kind == DONE && length == 4 {
        let number = w.u32_at(at)? as i32;
        decimal(number, w.out);
        return Ok(());
    }
    w.buffer_as(at, length as usize, Hex::Always)
}

/// `{error=-EPERM, msg=…}`: what was asked, as far as it is there, and attributes (`struct nlmsgerr`).
fn answer(w: &mut Writer, at: u64, length: u64, flags: u16, protocol: u32, depth: u32) -> Written {
    const WHOLE: u64 = 4 + HEADER;
    const CAPPED: u16 = 0x100;
    if length < WHOLE || depth >= DEEPEST {
        return w.buffer_as(at, length as usize, Hex::Always);
    }
    let asked = u64::from(w.u32_at(at + 4)?).max(HEADER);
    let rest = length - 4;
    let holds = rest.min(if flags & CAPPED != 0 { HEADER } else { asked });
    if rest > holds {
        w.push("[");
    }
    w.push("{error=");
    layout::value(w, &layout::ty("error"), at, None)?;
    w.push(", msg=");
    message(w, at + 4, holds, protocol, depth + 1)?;
    w.push("}");
    if rest > holds {
        w.push(", ");
        let of = layout::attributes("nlmsgerr");
        attributes(w, at + 4 + holds, rest - holds, of, Context::default())?;
        w.push("]");
    }
    Ok(())
}

/// Appends a family, and the bytes behind it, of a message of which no more is known.
fn of_family(w: &mut Writer, at: u64, length: u64) -> Written {
    let [family] = w.number(at)?;
    w.push("{family=");
    list("address_families").name(w, family.into());
    if length > 1 {
        w.push(", data=");
        w.buffer_as(at + 1, length as usize - 1, Hex::Always)?;
    }
    w.push("}");
    Ok(())
}

/// Messages of the kernel's ciphers (`struct crypto_user_alg` in include/uapi/linux/cryptouser.h).
fn crypto(w: &mut Writer, at: u64, length: u64) -> Written {
    let of = layout::ty("crypto_user_alg");
    let size = u64::from(of.layout(layout::tables()).0);
    if length < size {
        return w.buffer(at, length as usize);
    }
    layout::value(w, &of, at, None)?;
    if length > size {
        w.push(", ");
        let of = layout::attributes("cryptocfga");
        attributes(w, at + size, length - size, of, Context::default())?;
    }
    Ok(())
}

/// Requests and answers about sockets, by their family.
fn diagnosis(w: &mut Writer, at: u64, length: u64, kind: u16, flags: u16) -> Written {
    const REQUEST: u16 = 1;
    /// The types of requests from before `SOCK_DIAG_BY_FAMILY`: `TCPDIAG_GETSOCK`, `DCCPDIAG_GETSOCK`
    /// (include/uapi/linux/inet_diag.h).
    const OLDER: [u16; 2] = [18, 19];
    let [family] = w.number(at)?;
    let what = match flags & REQUEST {
        0 => Diagnosis::Answer,
        _ if OLDER.contains(&kind) => Diagnosis::OlderRequest,
        _ => Diagnosis::Request,
    };
    let rows = &layout::tables().netlink().diagnoses;
    let row = rows.get(&(family, what)).or_else(|| match what {
        Diagnosis::OlderRequest => rows.get(&(family, Diagnosis::Request)),
        _ => None,
    });
    match row {
        Some((of, attributes_of)) if length > 1 => described(w, at, length, of, *attributes_of),
        _ => of_family(w, at, length),
    }
}

fn routing(w: &mut Writer, at: u64, length: u64, kind: u16) -> Written {
    /// `RTM_GETNEIGH` of bridges is answered and asked as `RTM_GETLINK` is (net/core/rtnetlink.c, `rtnl_fdb_dump`).
    const GET_NEIGHBOUR: u16 = 30;
    const GET_LINK: u16 = 18;
    const BRIDGE: u8 = 7;
    let [family] = w.number(at)?;
    let kind = match (kind, family) {
        (GET_NEIGHBOUR, BRIDGE) => GET_LINK,
        (kind, _) => kind,
    };
    match layout::tables().netlink().messages.get(&kind) {
        Some((of, attributes_of)) => described(w, at, length, of, Some(*attributes_of)),
        None => of_family(w, at, length),
    }
}

/// A struct that begins with a family, and attributes behind it; of one that is cut, the family alone.
fn described(
    w: &mut Writer,
    at: u64,
    length: u64,
    of: &layout::Ty,
    attributes_of: Option<usize>,
) -> Written {
    let [family] = w.number(at)?;
    let size = u64::from(of.layout(layout::tables()).0);
    w.push("{");
    let before = w.out.len();
    let written = match length < size {
        true => Err(Unknown),
        false => layout::fields(w, of, at),
    };
    if written.is_err() {
        w.out.truncate(before);
        let name = layout::first_name(of).ok_or(Unknown)?;
        w.push(&format!("{name}="));
        list("address_families").name(w, family.into());
        w.push(", ");
        match length < size {
            true => w.push("..."),
            false => w.address(at + 1),
        }
        w.push("}");
        return Ok(());
    }
    w.push("}");
    let offset = size.next_multiple_of(4);
    if let Some(index) = attributes_of
        && length > offset
    {
        w.push(", ");
        let of = &layout::tables().netlink().attributes[index];
        let before = w.out.len();
        let (at, length) = (at + offset, length - offset);
        if attributes(w, at, length, Some(of), Context::of_family(family)).is_err() {
            w.out.truncate(before);
            w.address(at);
        }
    }
    Ok(())
}

/// `struct nfgenmsg` (include/uapi/linux/netfilter/nfnetlink.h), and attributes that each subsystem numbers for itself.
fn netfilter(w: &mut Writer, at: u64, length: u64, kind: u16) -> Written {
    const TABLES: u16 = 10;
    const BATCH: [u16; 2] = [16, 17];
    if length < 4 {
        return w.buffer_as(at, length as usize, Hex::Always);
    }
    let [family, version, high, low]: [u8; 4] = w.number(at)?;
    w.push("{nfgen_family=");
    list("address_families").name(w, family.into());
    w.push(", version=");
    list("netfilter_versions").name(w, version.into());
    w.push(", res_id=");
    let (network, host) = (
        u16::from_be_bytes([high, low]),
        u16::from_le_bytes([high, low]),
    );
    match kind >> 8 == TABLES {
        true if network == TABLES => w.known(host.into(), "htons(NFNL_SUBSYS_NFTABLES)"),
        true if host == TABLES => w.known(host.into(), "NFNL_SUBSYS_NFTABLES"),
        _ => w.push(&format!("htons({network})")),
    }
    w.push("}");
    if length > 4 {
        w.push(", ");
        if BATCH.contains(&kind) {
            return w.buffer_as(at + 4, length as usize - 4, Hex::Always);
        }
        attributes(w, at + 4, length - 4, None, Context::default())?;
    }
    Ok(())
}
