//! Requests to the kernel over netlink, and their answers. Used by `napi`, `qdisc`, `sockets` and others.
//!
//! ```text
//! nlmsghdr  len:u32 type:u16 flags:u16 seq:u32 pid:u32 | family's header | attributes
//! attribute len:u16 type:u16 payload, padded to 4
//! ```
//!
//! Everything is parsed with bounds checks, so a short or odd message is an error and never a panic.
//! Source: include/uapi/linux/netlink.h; Documentation/userspace-api/netlink/intro.rst.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::descriptor::owned;
use crate::tree::Cannot;

const HEADER: usize = 16;
/// The types of the messages that end an answer: `NLMSG_ERROR`, which with error 0 is an
/// acknowledgement, and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The kernel fills at most 32 KiB per message of a dump.
const RECEIVE: usize = 64 << 10;
/// How long an answer is waited for. The kernel answers at once; this is for one that never does.
static PATIENCE: libc::timeval = libc::timeval {
    tv_sec: 2,
    tv_usec: 0,
};

/// A socket of one netlink protocol, in the network namespace it was made in.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    what: &'static str,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket; `what` names the protocol in errors.
    pub fn open(protocol: i32, what: &'static str) -> Result<Self, Cannot> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is handed over; the call makes the descriptor.
        let socket = unsafe { owned(libc::socket(libc::AF_NETLINK, kind, protocol).into()) };
        let socket = socket.map_err(|error| Cannot::from_io(what, &error))?;
        // SAFETY: the option's value lives across the call, and its size is given.
        let code = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const PATIENCE).cast(),
                size_of::<libc::timeval>() as u32,
            )
        };
        if code < 0 {
            return Err(Cannot::from_io(what, &io::Error::last_os_error()));
        }
        Ok(Self {
            socket,
            what,
            sequence: 0,
        })
    }

    /// Sends a request that has many answers, and returns the bytes behind each answer's header.
    pub fn dump(&mut self, kind: u16, payload: &[u8]) -> Result<Vec<Vec<u8>>, Cannot> {
        self.talk(kind, libc::NLM_F_DUMP as u16, payload)
    }

    /// Sends a request that is answered and then acknowledged.
    pub fn request(
        &mut self,
        kind: u16,
        flags: i32,
        payload: &[u8],
    ) -> Result<Vec<Vec<u8>>, Cannot> {
        self.talk(kind, libc::NLM_F_ACK as u16 | flags as u16, payload)
    }

    fn failed(&self, error: &io::Error) -> Cannot {
        match error.raw_os_error() {
            Some(libc::EPERM) => Cannot::Denied {
                what: self.what.into(),
                right: "CAP_NET_ADMIN",
            },
            _ => Cannot::from_io(self.what, error),
        }
    }

    fn talk(&mut self, kind: u16, flags: u16, payload: &[u8]) -> Result<Vec<Vec<u8>>, Cannot> {
        self.sequence += 1;
        let flags = flags | libc::NLM_F_REQUEST as u16;
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(payload);
        // SAFETY: the message is ours and its length is given.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(self.failed(&io::Error::last_os_error()));
        }
        let mut answers = Vec::new();
        let mut buffer = vec![0u8; RECEIVE];
        loop {
            // SAFETY: the buffer is ours and its length is given.
            let received = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            let Ok(received) = usize::try_from(received) else {
                return Err(self.failed(&io::Error::last_os_error()));
            };
            for (header, body) in messages(&buffer[..received]) {
                if header.sequence != self.sequence {
                    continue;
                }
                match header.kind {
                    ERROR | DONE => match word(body, 0).unwrap_or(0).cast_signed() {
                        0 => return Ok(answers),
                        code => {
                            let error = io::Error::from_raw_os_error(code.saturating_neg());
                            return Err(self.failed(&error));
                        }
                    },
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }
}

struct Header {
    kind: u16,
    sequence: u32,
}

fn messages(mut bytes: &[u8]) -> Vec<(Header, &[u8])> {
    let mut all = Vec::new();
    while let (Some(length), Some(kind), Some(sequence)) =
        (word(bytes, 0), half(bytes, 4), word(bytes, 8))
    {
        let length = length as usize;
        if length < HEADER || length > bytes.len() {
            break;
        }
        all.push((Header { kind, sequence }, &bytes[HEADER..length]));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    all
}

/// Returns the attributes in a range of bytes: type (without its flag bits) and payload.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let (Some(length), Some(kind)) = (half(bytes, 0), half(bytes, 2)) {
        let length = usize::from(length);
        if length < 4 || length > bytes.len() {
            break;
        }
        all.push((kind & 0x3fff, &bytes[4..length]));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    all
}

/// Appends an attribute, padded with zeros to a multiple of 4 bytes.
pub fn attribute(to: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    to.extend(((payload.len() + 4) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(payload);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Returns the 16 bits at an offset, in this machine's byte order.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

/// Returns the 32 bits at an offset, in this machine's byte order.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_went() {
        let mut bytes = Vec::new();
        attribute(&mut bytes, 1, b"fq\0");
        attribute(&mut bytes, 2, &7u32.to_ne_bytes());
        assert_eq!(bytes.len(), 16);
        let read = attributes(&bytes);
        assert_eq!(read[0], (1, &b"fq\0"[..]));
        assert_eq!(word(read[1].1, 0), Some(7));
        // A length that lies ends the list.
        bytes[8] = 200;
        assert_eq!(attributes(&bytes).len(), 1);
    }
}
