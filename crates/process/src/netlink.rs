//! Questions to the kernel by netlink(7): a socket of one protocol, and the names of the families of generic netlink. Used by `sockets::pairs`,
//! and by the crates `calls` and `report`.
//!
//! ```text
//! nlmsghdr   len:u32 type:u16 flags:u16 seq:u32 pid:u32
//! generic    command:u8 version:u8 reserved:u16 | attributes
//! attribute  len:u16 type:u16 payload, padded to 4
//! ```
//!
//! Layouts: include/uapi/linux/netlink.h, genetlink.h.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use crate::proc_file;

/// Bytes of the header of a message, of generic netlink's own, and of an attribute's.
const HEADER: usize = 16;
const GENERIC: usize = 4;
const ATTRIBUTE: usize = 4;

/// `NLMSG_ERROR` and `NLMSG_DONE`, which end an answer, and `GENL_ID_CTRL`, the family that knows all families.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const CONTROL: u16 = 16;
/// `CTRL_CMD_GETFAMILY`, and the attributes `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME`.
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// The kernel fills at most 32 KiB for each message of an answer (net/netlink/af_netlink.c, `netlink_dump`).
const RECEIVED: usize = 32 << 10;
/// So many are read of an answer: no machine has so many families.
const MOST: usize = 64;

/// How long an answer is waited for; the kernel normally answers at once.
static PATIENCE: libc::timeval = libc::timeval {
    tv_sec: 1,
    tv_usec: 0,
};

/// Whether a descriptor of a process is a socket of netlink, whichever protocol it speaks. One that is closed or cannot be asked about is none.
#[must_use]
pub fn is_netlink(pid: i32, number: i32) -> bool {
    /// What `sockfs_xattr_get` in net/socket.c says of such a socket.
    const NAME: &[u8] = b"NETLINK\0";
    let path = proc_file::path(pid, &format!("fd/{number}"));
    let Ok(path) = CString::new(path.into_os_string().into_vec()) else {
        return false;
    };
    let mut name = [0_u8; 32];
    // SAFETY: both texts end with a NUL, and the kernel writes at most as much as the buffer of this frame holds.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"system.sockprotoname".as_ptr(),
            name.as_mut_ptr().cast(),
            name.len(),
        )
    };
    usize::try_from(length).is_ok_and(|length| &name[..length] == NAME)
}

/// A socket of one protocol.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// Opens one; `None`: the kernel does not have or allow it.
    pub(crate) fn open(protocol: i32) -> Option<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes integers only.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        (fd >= 0).then_some(())?;
        // SAFETY: the kernel has just made this descriptor for us, and nothing else has it.
        let netlink = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the option's value lives through the call, which only reads it; its size is passed with it.
        let done = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const PATIENCE).cast(),
                size_of::<libc::timeval>() as u32,
            )
        };
        (done == 0).then_some(Netlink(netlink))
    }

    /// Sends a request, as a whole.
    pub(crate) fn send(&self, request: &[u8]) -> Option<()> {
        let netlink = self.0.as_raw_fd();
        // SAFETY: `request` lives through the call, which reads its bytes only; its length is passed with it.
        let sent = unsafe { libc::send(netlink, request.as_ptr().cast(), request.len(), 0) };
        (sent == request.len() as isize).then_some(())
    }

    /// Receives what comes next, into a buffer.
    pub(crate) fn receive<'b>(&self, into: &'b mut [u8]) -> Option<&'b [u8]> {
        let netlink = self.0.as_raw_fd();
        // SAFETY: `into` is a live buffer, to which the call writes at most the length that is passed.
        let got = unsafe { libc::recv(netlink, into.as_mut_ptr().cast(), into.len(), 0) };
        into.get(..usize::try_from(got).ok()?)
    }
}

/// Returns the names of the families of generic netlink, by the numbers that the kernel has given them since it was started: no header has these.
/// Empty if it does not tell them.
#[must_use]
pub fn families() -> HashMap<u16, String> {
    let mut known = HashMap::new();
    let mut ask = || {
        let netlink = Netlink::open(libc::NETLINK_GENERIC)?;
        netlink.send(&request())?;
        let mut buffer = vec![0; RECEIVED];
        for _ in 0..MOST {
            let answer = netlink.receive(&mut buffer)?;
            if answer.is_empty() || read(answer, &mut known) {
                break;
            }
        }
        Some(())
    };
    // What was told before an error is true.
    let _ = ask();
    known
}

fn request() -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = ((HEADER + GENERIC) as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&CONTROL.to_le_bytes());
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[GET_FAMILY, 1, 0, 0]);
    bytes
}

/// Reads the messages of a part of the answer; true behind its end.
fn read(mut bytes: &[u8], known: &mut HashMap<u16, String>) -> bool {
    while let Some(length) = word(bytes, 0) {
        let kind = half(bytes, 4).unwrap_or(DONE);
        let message = bytes.get(..length as usize);
        let Some(message) = message.filter(|message| message.len() >= HEADER) else {
            return true;
        };
        if matches!(kind, ERROR | DONE) {
            return true;
        }
        let attributes = message.get(HEADER + GENERIC..);
        if let Some((number, name)) = attributes.and_then(family) {
            known.insert(number, name);
        }
        bytes = bytes
            .get((length as usize).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    false
}

/// The number and the name of a family, of its attributes.
fn family(mut bytes: &[u8]) -> Option<(u16, String)> {
    let (mut number, mut name) = (None, None);
    while let (Some(length), Some(kind)) = (half(bytes, 0), half(bytes, 2)) {
        let length = usize::from(length);
        let payload = bytes.get(ATTRIBUTE..length)?;
        match kind {
            FAMILY_ID => number = half(payload, 0),
            FAMILY_NAME => {
                let text = payload.split(|byte| *byte == 0).next();
                name = text.map(|text| String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    number.zip(name)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel with generic netlink has the family that tells of the others.
    #[test]
    fn the_kernel_tells_its_families() {
        let known = families();
        assert_eq!(
            known.get(&CONTROL).map(String::as_str),
            Some("nlctrl"),
            "{known:?}"
        );
    }

    #[test]
    fn what_is_no_answer_says_nothing() {
        let mut message = vec![0; HEADER + GENERIC];
        message[4..6].copy_from_slice(&CONTROL.to_le_bytes());
        message.extend_from_slice(&[6, 0, 1, 0, 21, 0, 0, 0, 12, 0, 2, 0]);
        message.extend_from_slice(b"ethtool\0");
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_le_bytes());
        let mut known = HashMap::new();
        assert!(!read(&message, &mut known));
        assert_eq!(known.get(&21).map(String::as_str), Some("ethtool"));
        // Lengths that lie end it.
        for at in [0, HEADER + GENERIC] {
            for lie in [0, 3, 200] {
                let mut message = message.clone();
                message[at] = lie;
                let mut known = HashMap::new();
                read(&message, &mut known);
                assert!(known.is_empty(), "{at}: {lie}");
            }
        }
        let mut known = HashMap::new();
        message[4] = 2;
        assert!(read(&message, &mut known) && known.is_empty());
    }
}
