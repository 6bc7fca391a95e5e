//! What a socket is connected to, by its inode: the tables that the kernel shows of a network namespace
//! (`/proc/PID/net/tcp` and its kin; Documentation/networking/proc_net_tcp.rst, `get_tcp4_sock` in
//! net/ipv4/tcp_ipv4.c, `unix_seq_show` in net/unix/af_unix.c).

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of each table that are read: a machine may have hundreds of thousands of sockets.
const MOST: u64 = 16 << 20;

/// `TCP_SYN_SENT` and `TCP_LISTEN` (include/net/tcp_states.h).
const SYN_SENT: &str = "02";
const LISTEN: &str = "0A";

/// The sockets of one network namespace, read when the first is asked for.
pub(super) struct Sockets {
    pid: i32,
    known: Option<HashMap<u64, String>>,
}

impl Sockets {
    pub(super) fn of(pid: i32) -> Sockets {
        Sockets { pid, known: None }
    }

    /// Returns what a socket is connected to: `tcp to 10.0.0.7:3306`.
    pub(super) fn describe(&mut self, inode: u64) -> Option<String> {
        let pid = self.pid;
        let known = self.known.get_or_insert_with(|| read(pid));
        known.get(&inode).cloned()
    }
}

fn read(pid: i32) -> HashMap<u64, String> {
    let mut known = HashMap::new();
    for (table, kind) in [
        ("tcp", "tcp"),
        ("tcp6", "tcp"),
        ("udp", "udp"),
        ("udp6", "udp"),
        ("unix", "unix socket"),
    ] {
        let Ok(file) = File::open(format!("/proc/{pid}/net/{table}")) else {
            continue;
        };
        let lines = BufReader::new(file.take(MOST)).lines().skip(1);
        let parse = if table == "unix" { unix } else { internet };
        known.extend(
            lines
                .map_while(Result::ok)
                .filter_map(|line| parse(kind, &line)),
        );
    }
    known
}

/// Parses a line of `tcp`, `tcp6`, `udp` or `udp6`: number, local address, remote address, state, …, inode.
fn internet(kind: &str, line: &str) -> Option<(u64, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let inode = words.get(9)?.parse().ok()?;
    let (local, remote) = (address(words.get(1)?)?, address(words.get(2)?)?);
    let text = match *words.get(3)? {
        LISTEN if kind == "tcp" => format!("{kind} listening on {local}"),
        SYN_SENT if kind == "tcp" => format!("{kind} to {remote}, which does not answer"),
        _ if remote.port() == 0 => format!("{kind} on {local}"),
        _ => format!("{kind} to {remote}"),
    };
    Some((inode, text))
}

/// Parses `0100007F:0CEA`: words of the address as they lie in memory, on a machine whose lowest byte comes first.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical(),
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Parses a line of `unix`: address, count, protocol, flags, type, state, inode, path. A client has no path of its
/// own, and its peer's is not shown.
fn unix(kind: &str, line: &str) -> Option<(u64, String)> {
    let mut words = line.split_whitespace();
    let inode = words.nth(6)?.parse().ok()?;
    let path: Vec<&str> = words.collect();
    let text = if path.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} {}", path.join(" "))
    };
    Some((inode, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line =
            "   2: 0100007F:A1B2 0700000A:0CEA 01 00000000:00000000 02:000A 00000000 1000 0 4711 2";
        let told = Some((4711, "tcp to 10.0.0.7:3306".to_owned()));
        assert_eq!(internet("tcp", line), told);
        let connecting = line.replace(" 01 ", " 02 ");
        assert_eq!(
            internet("tcp", &connecting).unwrap().1,
            "tcp to 10.0.0.7:3306, which does not answer"
        );
        let listens = "1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:0 0 0 0 12 1";
        assert_eq!(
            internet("tcp", listens).unwrap().1,
            "tcp listening on 0.0.0.0:8080"
        );
        let six = "1: 00000000000000000000000001000000:1F90 0000000000000000FFFF00000700000A:0050 01 0:0 0:0 0 0 0 13 1";
        assert_eq!(internet("tcp", six).unwrap().1, "tcp to 10.0.0.7:80");
        let path = "0000: 00000002 00000000 00010000 0001 01 77 /run/my sql.sock";
        assert_eq!(
            unix("unix socket", path).unwrap().1,
            "unix socket /run/my sql.sock"
        );
        for bad in [
            "",
            "a b",
            "1: x:y z:1 01 0 0 0 0 0 9",
            "1: 0:0 0:0 01 0 0 0 0 0 -1",
        ] {
            assert_eq!(internet("tcp", bad), None, "{bad}");
        }
        for bad in ["", "a b c d e f", "0: 2 0 1 1 1 x /run/x"] {
            assert_eq!(unix("unix socket", bad), None, "{bad}");
        }
    }
}
