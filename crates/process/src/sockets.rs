//! Finds what a socket is connected to, by its inode, in the tables that the kernel shows of a network namespace
//! (`/proc/PID/net/tcp` and its kin; Documentation/networking/proc_net_tcp.rst, `get_tcp4_sock` in net/ipv4/tcp_ipv4.c,
//! `unix_seq_show` in net/unix/af_unix.c). Used by `wait::others` and `wait`, and by `calls::descriptors::names::ends`.

mod pairs;

use crate::proc_file;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::descriptors::open_briefly;
use pairs::Pairs;

/// Limit of the bytes of each table that are read: a machine may have hundreds of thousands of sockets.
const MOST: u64 = 16 << 20;

/// `TCP_ESTABLISHED`, `TCP_SYN_SENT` and `TCP_LISTEN` (include/net/tcp_states.h).
const ESTABLISHED: &[u8; 2] = b"01";
const SYN_SENT: &[u8; 2] = b"02";
const LISTEN: &[u8; 2] = b"0A";

/// `__SO_ACCEPTCON` (include/uapi/linux/net.h).
const ACCEPTS: u32 = 1 << 16;

/// A socket, as the tables show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Of the internet protocols.
    Internet {
        /// `TCP`, `TCPv6`, `UDP`, `UDPv6`.
        protocol: &'static str,
        /// Address and port of the socket itself.
        local: SocketAddr,
        /// The peer's address and port; port 0 without a peer.
        remote: SocketAddr,
        /// Its state, in the form of the table.
        state: [u8; 2],
    },
    /// A socket between processes of this machine (`AF_UNIX`).
    Unix {
        /// `STREAM`, `DGRAM` or `SEQPACKET`.
        kind: &'static str,
        /// Its path, or a name behind `@`; empty = none.
        path: String,
        /// Whether it waits for connections.
        listens: bool,
    },
    /// A socket to the kernel, or to another process that listens to its protocol (`AF_NETLINK`).
    Netlink {
        /// The number of the protocol (include/uapi/linux/netlink.h).
        protocol: u32,
        /// Its port: mostly the id of the process.
        port: u32,
    },
}

impl Socket {
    /// For the internet protocols: whether it is TCP, both ends in a normalised form, and its state.
    fn ends(&self) -> Option<(bool, SocketAddr, SocketAddr, &[u8; 2])> {
        let Socket::Internet {
            protocol,
            local,
            remote,
            state,
        } = self
        else {
            return None;
        };
        let plain = |of: &SocketAddr| SocketAddr::new(of.ip().to_canonical(), of.port());
        let is_tcp = protocol.starts_with("TCP");
        Some((is_tcp, plain(local), plain(remote), state))
    }

    /// Whether it waits for connections at this port of TCP.
    pub fn listens_at(&self, port: u16) -> bool {
        let ends = self.ends();
        ends.is_some_and(|(is_tcp, local, _, state)| {
            is_tcp && state == LISTEN && local.port() == port
        })
    }

    /// Describes what it is connected to: `tcp to 10.0.0.7:3306`.
    fn describe(&self) -> Option<String> {
        if let Some((is_tcp, local, remote, state)) = self.ends() {
            let kind = if is_tcp { "tcp" } else { "udp" };
            return Some(match state {
                LISTEN if is_tcp => format!("{kind} listening on {local}"),
                SYN_SENT if is_tcp => format!("{kind} to {remote}, which does not answer"),
                _ if remote.port() == 0 => format!("{kind} on {local}"),
                _ => format!("{kind} to {remote}"),
            });
        }
        match self {
            Socket::Unix { path, .. } if path.is_empty() => Some("unix socket".into()),
            Socket::Unix { path, listens, .. } => {
                let listening = if *listens { " listening on" } else { "" };
                Some(format!("unix socket{listening} {path}"))
            }
            _ => None,
        }
    }
}

/// The other end of a socket, on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A socket of a process, by its inode, and its path if it has one.
    Socket(u64, Option<String>),
    /// The connection exists but was not accepted yet; the socket that listens for it, if that is known.
    NotAccepted(Option<u64>),
    /// There is no connection; this is the socket that listens there.
    Listens(u64),
}

/// The sockets of one network namespace, read when the first is asked for.
#[derive(Debug)]
pub struct Sockets {
    pid: i32,
    known: Option<HashMap<u64, Socket>>,
    ends: Option<Ends>,
    pairs: Option<Pairs>,
}

/// Sockets of the internet protocols by their ends: whether it is TCP, the own address, the other address.
#[derive(Debug, Default)]
struct Ends {
    connected: HashMap<(bool, SocketAddr, SocketAddr), u64>,
    /// Those that wait for connections or packets from any address, by whether it is TCP and their port.
    open: HashMap<(bool, u16), Vec<(IpAddr, u64)>>,
}

impl Ends {
    fn of(sockets: &HashMap<u64, Socket>) -> Ends {
        let mut ends = Ends::default();
        for (&inode, socket) in sockets {
            let Some((is_tcp, local, remote, state)) = socket.ends() else {
                continue;
            };
            if remote.port() != 0 {
                ends.connected.insert((is_tcp, local, remote), inode);
            } else if !is_tcp || state == LISTEN {
                let open = ends.open.entry((is_tcp, local.port())).or_default();
                open.push((local.ip(), inode));
            }
        }
        ends
    }

    /// Returns the peer of a connection between these ends, if it is on this machine: at a loopback address, or at the socket's own.
    fn peer(
        &self,
        is_tcp: bool,
        [local, remote]: [SocketAddr; 2],
        state: &[u8; 2],
    ) -> Option<Peer> {
        let connected = self.connected.get(&(is_tcp, remote, local));
        // A connection that was not accepted yet has the inode 0.
        if let Some(inode) = connected.filter(|inode| **inode != 0) {
            return Some(Peer::Socket(*inode, None));
        }
        if remote.port() == 0 || !(remote.ip().is_loopback() || remote.ip() == local.ip()) {
            return None;
        }
        let open = self.open.get(&(is_tcp, remote.port()))?;
        let fits = |ip: &IpAddr| ip.is_unspecified() || *ip == remote.ip();
        let inode = open.iter().find(|(ip, _)| fits(ip))?.1;
        match state {
            _ if !is_tcp => Some(Peer::Socket(inode, None)),
            SYN_SENT => Some(Peer::Listens(inode)),
            ESTABLISHED => Some(Peer::NotAccepted(Some(inode))),
            // The other end is closed.
            _ => None,
        }
    }
}

impl Sockets {
    /// For the network namespace of a process.
    #[must_use]
    pub fn of(pid: i32) -> Sockets {
        Sockets {
            pid,
            known: None,
            ends: None,
            pairs: None,
        }
    }

    /// Returns the other end of a socket, if it is on this machine.
    pub fn peer(&mut self, inode: u64) -> Option<Peer> {
        let pid = self.pid;
        let known = self.known.get_or_insert_with(|| read(pid));
        let socket = known.get(&inode)?;
        if let Some((is_tcp, local, remote, state)) = socket.ends() {
            let ends = self.ends.get_or_insert_with(|| Ends::of(known));
            return ends.peer(is_tcp, [local, remote], state);
        }
        let Socket::Unix { kind, .. } = socket else {
            return None;
        };
        let pairs = self.pairs.get_or_insert_with(|| Pairs::of(pid));
        match pairs.peer(inode)? {
            // A thread does not sleep on a stream whose peer is closed, because reading returns at once.
            0 => (*kind != "DGRAM").then_some(Peer::NotAccepted(None)),
            peer => {
                let path = match known.get(&peer) {
                    Some(Socket::Unix { path, .. }) if !path.is_empty() => Some(path.clone()),
                    _ => None,
                };
                Some(Peer::Socket(peer, path))
            }
        }
    }

    /// Returns what a socket is connected to: `tcp to 10.0.0.7:3306`.
    pub fn describe(&mut self, inode: u64) -> Option<String> {
        self.socket(inode).and_then(Socket::describe)
    }

    /// Returns a socket; `None` = it is in no table, because it has no address yet.
    pub fn socket(&mut self, inode: u64) -> Option<&Socket> {
        let pid = self.pid;
        let known = self.known.get_or_insert_with(|| read(pid));
        known.get(&inode)
    }
}

/// A function that parses a line of a table; its first argument is the protocol, for those of the internet.
type Parse = fn(&'static str, &str) -> Option<(u64, Socket)>;

fn read(pid: i32) -> HashMap<u64, Socket> {
    const TABLES: [(&str, &str, Parse); 6] = [
        ("tcp", "TCP", internet),
        ("tcp6", "TCPv6", internet),
        ("udp", "UDP", internet),
        ("udp6", "UDPv6", internet),
        ("unix", "", unix),
        ("netlink", "", netlink),
    ];
    let mut known = HashMap::new();
    for (table, protocol, parse) in TABLES {
        let Ok(file) = open_briefly(proc_file::path(pid, &format!("net/{table}"))) else {
            continue;
        };
        let lines = BufReader::new(file.take(MOST)).lines().skip(1);
        let lines = lines.map_while(Result::ok);
        known.extend(lines.filter_map(|line| parse(protocol, &line)));
    }
    known
}

/// Parses a line of `tcp`, `tcp6`, `udp` or `udp6`: number, local address, remote address, state, …, inode.
fn internet(protocol: &'static str, line: &str) -> Option<(u64, Socket)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let inode = words.get(9)?.parse().ok()?;
    let socket = Socket::Internet {
        protocol,
        local: address(words.get(1)?)?,
        remote: address(words.get(2)?)?,
        state: words.get(3)?.as_bytes().try_into().ok()?,
    };
    Some((inode, socket))
}

/// Parses `0100007F:0CEA`: words of the address as they lie in memory, on a little-endian machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Parses a line of `unix`: address, count, protocol, flags, type, state, inode, path. A client has no path of its
/// own, and its peer's is not shown.
fn unix(_: &str, line: &str) -> Option<(u64, Socket)> {
    let mut words = line.split_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let kind = match words.next()? {
        "0001" => "STREAM",
        "0002" => "DGRAM",
        "0005" => "SEQPACKET",
        _ => return None,
    };
    let inode = words.nth(1)?.parse().ok()?;
    let path: Vec<&str> = words.collect();
    let path = path.join(" ");
    let listens = flags & ACCEPTS != 0;
    Some((
        inode,
        Socket::Unix {
            kind,
            path,
            listens,
        },
    ))
}

/// Parses a line of `netlink`: address, protocol, port, groups, …, inode (`netlink_seq_show` in
/// net/netlink/af_netlink.c).
fn netlink(_: &str, line: &str) -> Option<(u64, Socket)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let inode = words.get(9)?.parse().ok()?;
    let [protocol, port] = [words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?];
    Some((inode, Socket::Netlink { protocol, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line =
            "   2: 0100007F:A1B2 0700000A:0CEA 01 00000000:00000000 02:000A 00000000 1000 0 4711 2";
        let (inode, socket) = internet("TCP", line).unwrap();
        assert_eq!(inode, 4711);
        assert_eq!(socket.describe().unwrap(), "tcp to 10.0.0.7:3306");
        let internet_text = |line: &str| internet("TCP", line).unwrap().1.describe().unwrap();
        let connecting = line.replace(" 01 ", " 02 ");
        assert_eq!(
            internet_text(&connecting),
            "tcp to 10.0.0.7:3306, which does not answer"
        );
        let listens = "1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:0 0 0 0 12 1";
        assert_eq!(internet_text(listens), "tcp listening on 0.0.0.0:8080");
        let six = "1: 00000000000000000000000001000000:1F90 0000000000000000FFFF00000700000A:0050 01 0:0 0:0 0 0 0 13 1";
        assert_eq!(internet_text(six), "tcp to 10.0.0.7:80");
        let listens = "0000: 00000002 00000000 00010000 0001 01 77 /run/my sql.sock";
        let unix_text = |line: &str| unix("", line).unwrap().1.describe().unwrap();
        assert_eq!(
            unix_text(listens),
            "unix socket listening on /run/my sql.sock"
        );
        let connected = listens.replace("00010000", "00000000");
        assert_eq!(unix_text(&connected), "unix socket /run/my sql.sock");
        for bad in [
            "",
            "a b",
            "1: x:y z:1 01 0 0 0 0 0 9",
            "1: 0:0 0:0 01 0 0 0 0 0 -1",
        ] {
            assert_eq!(internet("TCP", bad), None, "{bad}");
        }
        for bad in ["", "a b c d e f", "0: 2 0 1 1 1 x /run/x"] {
            assert_eq!(unix("", bad), None, "{bad}");
        }
    }
}
