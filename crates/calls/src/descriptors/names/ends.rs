//! Names of sockets: the protocol and both ends, from the calls, and from the kernel's tables if the
//! calls do not say them. Used by `names`.

use super::name::{More, Name};
use process::sockets::{Socket, Sockets};
use prototypes::show::{Captures, Memory as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

// include/linux/socket.h
const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;
/// The bits of a type beside `SOCK_NONBLOCK` and `SOCK_CLOEXEC` (include/linux/net.h, `SOCK_TYPE_MASK`).
const KIND: u64 = 0xf;
/// Bytes of `struct sockaddr_storage` (include/uapi/linux/socket.h), in which every address fits.
const LONGEST: u64 = 128;

/// Protocols of netlink, by number (include/uapi/linux/netlink.h).
const TO_KERNEL: [(u32, &str); 13] = [
    (0, "ROUTE"),
    (2, "USERSOCK"),
    (3, "FIREWALL"),
    (4, "SOCK_DIAG"),
    (5, "NFLOG"),
    (6, "XFRM"),
    (7, "SELINUX"),
    (9, "AUDIT"),
    (11, "CONNECTOR"),
    (12, "NETFILTER"),
    (15, "KOBJECT_UEVENT"),
    (16, "GENERIC"),
    (21, "CRYPTO"),
];

/// One end of a connection.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// `TCP`, `UDPv6`, `UNIX-STREAM`, `NETLINK`; empty = not known.
    protocol: String,
    inode: Option<u64>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    /// For a socket of this machine: its path, as it is written.
    path: Option<String>,
    /// For one of a pair: the inode of the other; 0 = there is one with an unknown inode.
    peer: Option<u64>,
    /// For netlink: the number of the protocol.
    number: u32,
    /// For netlink: its port.
    port: Option<u32>,
    /// Whether the kernel may know more than the calls have said.
    ask: bool,
}

impl End {
    /// The end that a call of `socket` or `socketpair` with these arguments makes.
    pub fn new(family: u64, kind: u64, protocol: u64, inode: Option<u64>) -> Self {
        let name = match (family, kind & KIND, protocol) {
            (INET | INET6, 1, 0 | 6) => "TCP",
            (INET | INET6, 2, 0 | 17) => "UDP",
            (INET | INET6, 2, 1 | 58) => "PING",
            (INET | INET6, 2, 136) => "UDPLITE",
            (INET | INET6, 3, _) => "RAW",
            (UNIX, 1, _) => "UNIX-STREAM",
            (UNIX, 2, _) => "UNIX-DGRAM",
            (UNIX, 5, _) => "UNIX-SEQPACKET",
            (NETLINK, ..) => "NETLINK",
            _ => "",
        };
        let six = if family == INET6 { "v6" } else { "" };
        End {
            protocol: format!("{name}{six}"),
            inode,
            number: protocol as u32,
            ..End::default()
        }
    }

    /// The end of a socket that was open before lancet came, which only the kernel knows.
    pub fn found(inode: u64) -> Self {
        End {
            inode: Some(inode),
            ask: true,
            ..End::default()
        }
    }

    /// The end of a connection that this listening socket has accepted.
    pub fn accepted(&self, arguments: &[u64; 6], back: &Captures, inode: Option<u64>) -> Self {
        let mut end = End {
            protocol: self.protocol.clone(),
            local: self.local.filter(|local| !local.ip().is_unspecified()),
            path: self.path.clone(),
            peer: self.protocol.starts_with("UNIX").then_some(0),
            inode,
            ..End::default()
        };
        let mut length = [0; 4];
        if back.read(arguments[2], &mut length) {
            let length = u32::from_le_bytes(length).into();
            end.addressed(back, arguments[1], length, true);
        }
        end.ask = true;
        end
    }

    /// Returns its protocol, if it is a netlink socket.
    pub fn netlink(&self) -> Option<u32> {
        (self.protocol == "NETLINK").then_some(self.number)
    }

    /// Notes the inode of the other end; `None` = there is one with an unknown inode.
    pub fn paired_with(&mut self, peer: Option<u64>) {
        self.peer = Some(peer.unwrap_or(0));
    }

    /// Handles a call that gives it an address, its own or that of its peer.
    pub fn addressed(&mut self, copies: &Captures, at: u64, length: u64, is_peer: bool) {
        self.ask = true;
        let mut bytes = vec![0; length.min(LONGEST) as usize];
        if at == 0 || bytes.len() < 2 || !copies.read(at, &mut bytes) {
            return;
        }
        let family = u64::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        match family {
            UNIX if is_peer => self.peer = self.peer.or(Some(0)),
            UNIX => self.path = path(&bytes[2..]),
            NETLINK if !is_peer => {
                let port = bytes.get(4..8).and_then(|port| port.try_into().ok());
                self.port = port.map(u32::from_le_bytes).filter(|port| *port != 0);
            }
            _ => {
                let address = internet(family, &bytes).filter(|of| of.port() != 0);
                match is_peer {
                    true => self.remote = address.or(self.remote),
                    false => self.local = address.or(self.local),
                }
            }
        }
    }

    /// Handles a call in which the kernel may give it an address.
    pub fn may_be_bound(&mut self) {
        self.ask |= self.local.is_none();
    }

    /// Returns its name; the kernel can be asked about `process`, if there is one.
    pub fn name(&mut self, process: Option<i32>) -> Name {
        if std::mem::take(&mut self.ask)
            && let (Some(process), Some(inode)) = (process, self.inode)
        {
            self.complete(Sockets::of(process).socket(inode));
        }
        let number = self.number_text();
        Name {
            link: format!("socket:[{number}]"),
            deleted: false,
            more: self.text().map(More::Socket),
        }
    }

    /// Fills in from the kernel's tables what the calls have not said.
    fn complete(&mut self, known: Option<&Socket>) {
        match known {
            Some(Socket::Internet {
                protocol,
                local,
                remote,
                ..
            }) => {
                if self.protocol.is_empty() {
                    (*protocol).clone_into(&mut self.protocol);
                }
                self.local = self.local.or(Some(*local)).filter(|of| of.port() != 0);
                let unspecified = self.local.is_some_and(|of| of.ip().is_unspecified());
                if unspecified && remote.port() != 0 {
                    self.local = Some(*local);
                }
                self.remote = self.remote.or(Some(*remote)).filter(|of| of.port() != 0);
            }
            Some(Socket::Unix { kind, path, .. }) => {
                if self.protocol.is_empty() {
                    self.protocol = format!("UNIX-{kind}");
                }
                if self.path.is_none() && !path.is_empty() {
                    self.path = Some(format!("\"{path}\""));
                }
            }
            Some(Socket::Netlink { protocol, port }) => {
                "NETLINK".clone_into(&mut self.protocol);
                self.number = *protocol;
                self.port = Some(*port).filter(|port| *port != 0);
            }
            None => {}
        }
    }

    fn number_text(&self) -> String {
        self.inode.map_or("?".into(), |inode| inode.to_string())
    }

    /// Returns its text, `TCP:[127.0.0.1:4000->127.0.0.1:80]`; `None` = the protocol is not known.
    fn text(&self) -> Option<String> {
        let number = self.number_text();
        let inside = match self.protocol.as_str() {
            "" => return None,
            "NETLINK" => {
                let known = TO_KERNEL.iter().find(|(of, _)| *of == self.number);
                match (known, self.port) {
                    (Some((_, name)), Some(port)) => format!("{name}:{port}"),
                    (None, Some(port)) => format!("{}:{port}", self.number),
                    _ => number,
                }
            }
            protocol if protocol.starts_with("UNIX") => {
                let peer = match self.peer {
                    None | Some(0) => String::new(),
                    Some(peer) => format!("->{peer}"),
                };
                let path = self.path.as_deref().map(|path| format!(",{path}"));
                format!("{number}{peer}{}", path.unwrap_or_default())
            }
            _ => match (self.local, self.remote) {
                (Some(local), Some(remote)) => format!("{local}->{remote}"),
                (None, Some(remote)) => format!("?->{remote}"),
                (Some(local), None) => local.to_string(),
                (None, None) => number,
            },
        };
        Some(format!("{}:[{inside}]", self.protocol))
    }
}

/// Parses an address of the internet protocols (include/uapi/linux/in.h, in6.h).
fn internet(family: u64, bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let ip: IpAddr = match family {
        INET => Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?).into(),
        INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Writes a path up to its NUL, or an abstract name behind `@`, in quotes.
fn path(name: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0);
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        bytes.escape_ascii().to_string()
    };
    Some(match name {
        [] => return None,
        [0, rest @ ..] => format!("@\"{}\"", text(rest)),
        name => format!("\"{}\"", text(name)),
    })
}
