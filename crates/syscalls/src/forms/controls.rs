//! What goes beside the data of a message: descriptors, credentials, times, addresses (`struct cmsghdr` in include/linux/socket.h).
//! Used by `network`.

use super::network::address;
use crate::layout::{counted, list, tables, ty, value};
use crate::writer::{Unknown, Writer, Written};

const HEAD: u64 = 16;
const SOCKET: u32 = 1;
const IP: u32 = 0;

/// Bytes that are looked at, at most (`sysctl_optmem_max` in net/core/sock.c: the kernel takes no more).
const MOST: u64 = 20 << 10;

/// Appends all of it; an error if not all of it was copied.
pub fn controls(w: &mut Writer, at: u64, size: u64) -> Written {
    let most = size.min(MOST);
    if most < HEAD || (w.bytes(at, most as usize).len() as u64) < most {
        return Err(Unknown);
    }
    w.push("[");
    let mut left = most;
    while left >= HEAD {
        let here = at.wrapping_add(most - left);
        let length = w.u64_at(here)?;
        if left < most {
            w.push(", ");
        }
        let own = length.min(left);
        control(w, here, length, own.saturating_sub(HEAD))?;
        if own < HEAD {
            left -= HEAD;
            break;
        }
        // CMSG_ALIGN
        left = left.saturating_sub(length.checked_next_multiple_of(8).unwrap_or(left));
    }
    if left > 0 {
        let here = at.wrapping_add(most - left);
        w.push(&format!(", ... /* {here:#x} */"));
    } else if most < size {
        w.push(", ...");
    }
    w.push("]");
    Ok(())
}

fn control(w: &mut Writer, here: u64, said: u64, length: u64) -> Written {
    let [level, kind] = [8, 12].map(|offset| w.u32_at(here.wrapping_add(offset)));
    let (level, kind) = (level?, kind?);
    w.push(&format!("{{cmsg_len={said}, cmsg_level="));
    list("socket_layers").name(w, level.into());
    w.push(", cmsg_type=");
    match level {
        SOCKET => list("control_socket").name(w, kind.into()),
        IP => list("control_ip").name(w, kind.into()),
        _ => w.hexadecimal(kind.into()),
    }
    let before = w.out.len();
    w.push(", cmsg_data=");
    let at = here.wrapping_add(HEAD);
    match data(w, level, kind, at, length) {
        Ok(true) => {}
        Ok(false) => w.out.truncate(before),
        Err(Unknown) => return Err(Unknown),
    }
    w.push("}");
    Ok(())
}

/// Appends what it holds; false where its type or its length says nothing of that.
fn data(w: &mut Writer, level: u32, kind: u32, at: u64, length: u64) -> Result<bool, Unknown> {
    let several = |w: &mut Writer, of: &str| {
        let ty = ty(of);
        let size = u64::from(ty.layout(tables()).0).max(1);
        counted(w, &ty, at, length / size)
    };
    let whole = |w: &mut Writer, of: &str, count: u64| {
        let ty = ty(of);
        let size = u64::from(ty.layout(tables()).0);
        match (length < size * count, count) {
            (true, _) => w.push("?"),
            (false, 1) => return value(w, &ty, at, None),
            (false, count) => return counted(w, &ty, at, count),
        }
        Ok(())
    };
    match (level, kind, length) {
        (SOCKET, 1, 4..) => several(w, "fd")?,
        (SOCKET, 2, 12..) => whole(w, "ucred", 1)?,
        (SOCKET | IP, 3, 1..) => {
            let bytes = w.bytes(at, length as usize);
            crate::text::quoted(&bytes, w.style.hex, w.out);
        }
        (SOCKET, 29 | 63, 1..) => whole(w, "control_timeval", 1)?,
        (SOCKET, 35 | 64, 1..) => whole(w, "control_timespec", 1)?,
        (SOCKET, 37 | 65, 1..) => whole(w, "control_timespec", 3)?,
        (IP, 8, 12..) => whole(w, "in_pktinfo", 1)?,
        (IP, 2 | 23, 4..) => several(w, "u32")?,
        (IP, 1 | 6 | 7, 1..) => several(w, "x8")?,
        (IP, 11, 32..) => whole(w, "sock_extended_err", 1)?,
        (IP, 20, 16..) => address(w, at, length)?,
        _ => return Ok(false),
    }
    Ok(true)
}
