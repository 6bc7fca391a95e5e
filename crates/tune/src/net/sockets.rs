//! TCP sockets of this network namespace, through sock_diag as ss(8) does. Used by `machine`, `rules::connections` and
//! `rules::backlog`.
//!
//! `/proc/net/tcp` does not show how long a listen queue may get; `INET_DIAG` does: for a listener,
//! `rqueue` is how many connections wait and `wqueue` how many may (net/ipv4/tcp_diag.c). Nor does it show each
//! socket's congestion control, which a program may choose; the attribute INET_DIAG_CONG does, to everybody.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::netlink::{Netlink, attributes, word};
use crate::tree::Cannot;

const BY_FAMILY: u16 = 20;
const SOCK_DIAG: i32 = 4;
const TCP: u8 = 6;
/// States as bits: include/net/tcp_states.h.
const LISTEN: u32 = 1 << 10;
const TIME_WAIT: u32 = 1 << 6;
/// All states: TCP_ESTABLISHED (1) to TCP_NEW_SYN_RECV (12).
const EVERY: u32 = 0xfff << 1;
/// The states of a whole socket: neither TIME_WAIT (6) nor a half-open one (3 and 12).
const WHOLE: u32 = 0xfff & !TIME_WAIT & !(1 << 3);
const INET_DIAG_CONG: u16 = 4;
/// Bytes of a struct inet_diag_msg.
const MESSAGE: usize = 72;

/// A socket that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address that it listens at: 0.0.0.0 or :: for every address of the machine.
    pub address: IpAddr,
    /// The port that it listens at.
    pub port: u16,
    /// Connections that wait for accept().
    pub waiting: u32,
    /// How many may wait: the argument of listen(), cut to somaxconn.
    pub most: u32,
    /// The socket's inode, as `/proc/PID/fd` shows it.
    pub inode: u32,
}

struct Message {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    queues: (u32, u32),
    inode: u32,
    congestion: Option<String>,
}

/// Returns all sockets that listen.
pub fn listeners() -> Result<Vec<Listener>, Cannot> {
    let all = sockets(LISTEN, 0)?;
    Ok(all
        .into_iter()
        .map(|message| Listener {
            address: message.local.0,
            port: message.local.1,
            waiting: message.queues.0,
            most: message.queues.1,
            inode: message.inode,
        })
        .collect())
}

/// Returns the congestion control of every socket that has one, by inode.
pub fn congestion() -> Result<HashMap<u32, String>, Cannot> {
    let all = sockets(WHOLE, 1 << (INET_DIAG_CONG - 1))?;
    Ok(all
        .into_iter()
        .filter_map(|message| Some((message.inode, message.congestion?)))
        .collect())
}

/// What the connections from one local address to one destination take of the local ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busiest {
    /// The address of the destination.
    pub address: IpAddr,
    /// The port of the destination.
    pub port: u16,
    /// Local ports that are taken.
    pub used: usize,
    /// Those of them whose connection is closed and waits (TIME_WAIT).
    pub waiting: usize,
}

/// Returns the destination that takes the most of the local ports in `range`, whatever the states of the connections.
pub fn busiest(range: RangeInclusive<u16>) -> Result<Option<Busiest>, Cannot> {
    type Ports = HashMap<u16, bool>;
    let mut per_destination: HashMap<(IpAddr, (IpAddr, u16)), Ports> = HashMap::new();
    for (state, waits) in [(TIME_WAIT, true), (EVERY & !TIME_WAIT & !LISTEN, false)] {
        for message in sockets(state, 0)? {
            let (address, port) = message.local;
            if message.remote.1 == 0 || !range.contains(&port) {
                continue;
            }
            // An IPv6 socket that talks IPv4 takes a port of the same address.
            let remote = (message.remote.0.to_canonical(), message.remote.1);
            let ports = per_destination.entry((address.to_canonical(), remote));
            ports.or_default().insert(port, waits);
        }
    }
    let busiest = per_destination
        .into_iter()
        .max_by_key(|(_, ports)| ports.len());
    Ok(busiest.map(|((_, (address, port)), ports)| Busiest {
        address,
        port,
        used: ports.len(),
        waiting: ports.values().filter(|waits| **waits).count(),
    }))
}

fn sockets(states: u32, attributes: u8) -> Result<Vec<Message>, Cannot> {
    let mut netlink = Netlink::open(SOCK_DIAG, "sock_diag")?;
    let mut all = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        // struct inet_diag_req_v2: family, protocol, ext, pad, states, and an empty socket id
        let mut payload = vec![family as u8, TCP, attributes, 0];
        payload.extend(states.to_ne_bytes());
        payload.resize(8 + 48, 0);
        let answers = netlink.dump(BY_FAMILY, &payload)?;
        all.extend(answers.iter().filter_map(|answer| message(answer)));
    }
    Ok(all)
}

/// Parses a struct inet_diag_msg: family, state, timer, retrans; sport, dport, src\[4\], dst\[4\], if, cookie\[2\];
/// expires, rqueue, wqueue, uid, inode.
fn message(bytes: &[u8]) -> Option<Message> {
    let family = *bytes.first()?;
    let port = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| -> Option<IpAddr> {
        let raw: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
        let [a, b, c, d, ..] = raw;
        Some(match i32::from(family) {
            libc::AF_INET => Ipv4Addr::new(a, b, c, d).into(),
            _ => Ipv6Addr::from(raw).into(),
        })
    };
    Some(Message {
        local: (address(8)?, port(4)?),
        remote: (address(24)?, port(6)?),
        queues: (word(bytes, 56)?, word(bytes, 60)?),
        inode: word(bytes, 68)?,
        congestion: attributes(&bytes[MESSAGE..])
            .into_iter()
            .find(|(kind, _)| *kind == INET_DIAG_CONG)
            .map(|(_, name)| {
                String::from_utf8_lossy(name)
                    .trim_end_matches('\0')
                    .to_owned()
            }),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_is_cut_short_is_no_socket() {
        let mut bytes = vec![libc::AF_INET as u8; MESSAGE];
        bytes.extend([9, 0, 4, 0]);
        bytes.extend(b"reno\0");
        assert_eq!(message(&bytes).unwrap().congestion.as_deref(), Some("reno"));
        for length in 0..bytes.len() {
            let read = message(&bytes[..length]);
            assert_eq!(read.is_some(), length >= MESSAGE, "{length}");
        }
    }

    #[test]
    fn a_connection_shows_its_congestion_control() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let name = "reno";
        // SAFETY: the name lives across the call, and its length is given.
        let code = unsafe {
            libc::setsockopt(
                client.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as u32,
            )
        };
        assert_eq!(code, 0);
        let inode = std::fs::read_link(format!("/proc/self/fd/{}", client.as_raw_fd())).unwrap();
        let inode = inode
            .to_str()
            .unwrap()
            .trim_matches(|c: char| !c.is_ascii_digit());
        let all = congestion().unwrap();
        assert_eq!(
            all.get(&inode.parse().unwrap()).map(String::as_str),
            Some(name)
        );
    }

    #[test]
    fn a_listener_shows_its_queue() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: no memory is handed over.
        assert_eq!(unsafe { libc::listen(socket.as_raw_fd(), 7) }, 0);
        let port = socket.local_addr().unwrap().port();
        let _client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let found = listeners().unwrap();
        let ours = found.iter().find(|listener| listener.port == port).unwrap();
        assert_eq!((ours.most, ours.waiting), (7, 1));
        assert_eq!(ours.address, IpAddr::from(Ipv4Addr::LOCALHOST));
    }
}
