//! Finds the other end of an `AF_UNIX` socket of this machine, which no table shows: the kernel tells it in answer to a netlink request
//! (sock_diag(7), include/uapi/linux/unix_diag.h, net/unix/diag.c). Used by `sockets`.
//!
//! ```text
//! nlmsghdr   len:u32 type:u16 flags:u16 seq:u32 pid:u32
//! request    family:u8 protocol:u8 pad:u16 states:u32 inode:u32 show:u32 cookie:2×u32
//! answer     family:u8 type:u8 state:u8 pad:u8 inode:u32 cookie:2×u32 | attributes
//! attribute  len:u16 type:u16 payload, padded to 4
//! ```

use crate::netlink::Netlink;
use crate::proc_file;
use std::fs;

/// `SOCK_DIAG_BY_FAMILY` (include/uapi/linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
const HEADER: usize = 16;
const REQUEST: usize = 24;
const ANSWER: usize = 16;
/// `UDIAG_SHOW_PEER`, and the attribute that it asks for.
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;

/// Asks the kernel about sockets of one process.
#[derive(Debug)]
pub(super) struct Pairs {
    /// `None` without netlink, or if the process is in another network namespace, of which the kernel would not tell us.
    netlink: Option<Netlink>,
}

impl Pairs {
    pub(super) fn of(pid: i32) -> Pairs {
        let own = fs::read_link("/proc/self/ns/net").ok();
        let same = own.is_some() && own == fs::read_link(proc_file::path(pid, "ns/net")).ok();
        Pairs {
            netlink: same
                .then(|| Netlink::open(libc::NETLINK_SOCK_DIAG))
                .flatten(),
        }
    }

    /// Returns the inode of the other end; 0 = no process has it: the connection was not accepted yet, or it has been closed.
    pub(super) fn peer(&self, inode: u64) -> Option<u64> {
        let inode = u32::try_from(inode).ok()?;
        let netlink = self.netlink.as_ref()?;
        netlink.send(&request(inode))?;
        let mut answer = [0u8; 1024];
        peer_in(netlink.receive(&mut answer)?, inode)
    }
}

fn request(inode: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend_from_slice(&((HEADER + REQUEST) as u32).to_le_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_le_bytes());
    bytes.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[libc::AF_UNIX as u8, 0, 0, 0]);
    // In any state, with this inode and any cookie.
    for word in [u32::MAX, inode, SHOW_PEER, u32::MAX, u32::MAX] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn peer_in(answer: &[u8], inode: u32) -> Option<u64> {
    let half = |at: usize| Some(u16::from_le_bytes(*answer.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*answer.get(at..)?.first_chunk()?));
    let end = usize::try_from(word(0)?).ok()?.min(answer.len());
    (half(4)? == BY_FAMILY && word(HEADER + 4)? == inode).then_some(())?;
    let mut at = HEADER + ANSWER;
    while at + 8 <= end {
        let length = usize::from(half(at)?);
        if half(at + 2)? == PEER && length >= 8 {
            return word(at + 4).map(u64::from);
        }
        at += length.max(4).next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn each_of_a_pair_is_the_others_peer() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let inode = |of: &UnixStream| {
            let path = format!("/proc/self/fd/{}", of.as_raw_fd());
            fs::metadata(path).expect("it is open").ino()
        };
        let pairs = Pairs::of(std::process::id() as i32);
        assert_eq!(pairs.peer(inode(&one)), Some(inode(&other)));
        assert_eq!(pairs.peer(inode(&other)), Some(inode(&one)));
        drop(other);
        assert_eq!(pairs.peer(inode(&one)), Some(0));
        let alone = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        let path = format!("/proc/self/fd/{}", alone.as_raw_fd());
        let inode = fs::metadata(path).expect("it is open").ino();
        assert_eq!(pairs.peer(inode), None);
    }

    #[test]
    fn what_is_no_answer_says_nothing() {
        let mut answer = request(7);
        assert_eq!(peer_in(&answer, 7), None);
        answer[HEADER + 4..HEADER + 8].copy_from_slice(&7u32.to_le_bytes());
        answer.truncate(HEADER + ANSWER);
        assert_eq!(peer_in(&answer, 7), None);
        answer.extend_from_slice(&[0, 0, 9, 0, 8, 0, 2, 0, 77, 0, 0, 0]);
        answer[..4].copy_from_slice(&1000u32.to_le_bytes());
        assert_eq!(peer_in(&answer, 7), Some(77));
        assert_eq!(peer_in(&answer, 8), None);
        for length in 0..answer.len() - 4 {
            assert_eq!(peer_in(&answer[..length], 7), None, "{length}");
        }
    }
}
