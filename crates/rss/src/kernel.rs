//! What the kernel keeps for a process outside of its resident memory. None of it is in the sum.

use process::proc_file;
use process::status_file::StatusFile;
use std::collections::HashSet;

/// The size of a thread's stack in the kernel, x86-64 (`THREAD_SIZE`, `arch/x86/include/asm/page_64_types.h`).
const THREAD: u64 = 16 << 10;
/// The most descriptors that are looked at.
const MOST: usize = 1 << 16;

/// What the kernel keeps for a process. All but the number of sockets is in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSide {
    /// Bytes of its page tables (`VmPTE` in `/proc/PID/status`).
    pub page_tables: u64,
    /// The stacks of its threads in the kernel.
    pub thread_stacks: u64,
    /// Number of sockets that it has open.
    pub sockets: u64,
    /// What waits in those sockets, TCP and UDP, to be sent or to be read. The buffers around it are larger and not known.
    pub queued: u64,
}

impl KernelSide {
    /// Reads it; what cannot be read is 0.
    pub fn of(pid: i32) -> Self {
        let status = StatusFile::of(pid).unwrap_or_default();
        let threads = status.number::<u64>("Threads").unwrap_or(0);
        let sockets = sockets(pid);
        KernelSide {
            page_tables: status.bytes("VmPTE").unwrap_or(0),
            thread_stacks: threads.saturating_mul(THREAD),
            sockets: sockets.len() as u64,
            queued: queued(pid, &sockets),
        }
    }
}

/// The inodes of its sockets.
fn sockets(pid: i32) -> HashSet<u64> {
    let descriptors = proc_file::descriptors(pid).into_iter().flatten();
    let links = descriptors.take(MOST).filter_map(|one| one.target());
    links
        .filter_map(|link| proc_file::inode_of_link(link.to_str()?, "socket"))
        .collect()
}

/// What waits in sockets with these inodes.
fn queued(pid: i32, sockets: &HashSet<u64>) -> u64 {
    if sockets.is_empty() {
        return 0;
    }
    let tables = ["tcp", "tcp6", "udp", "udp6"];
    let texts = tables.map(|table| proc_file::of_process(pid, &format!("net/{table}")));
    let each = texts
        .iter()
        .map(|text| queued_in(text.as_deref().unwrap_or_default(), sockets));
    each.fold(0, u64::saturating_add)
}

/// The state of a TCP socket that listens (`TCP_LISTEN`, `include/net/tcp_states.h`), which no UDP socket has.
const LISTENS: &str = "0A";

/// What waits in the sockets of one table: `tx_queue:rx_queue`, the fifth word of a line, of the socket with the inode in the
/// tenth; its state is the fourth (`net/ipv4/tcp_ipv4.c`, `get_tcp4_sock`; `net/ipv4/udp.c`, `udp4_format_sock`). Of a socket that
/// listens the second is the number of connections that wait (`sk_ack_backlog`), which is no number of bytes.
fn queued_in(table: &str, sockets: &HashSet<u64>) -> u64 {
    let mut sum: u64 = 0;
    for line in table.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, state, queues, _, _, _, _, inode, ..] = words[..] else {
            continue;
        };
        let is_its = inode.parse().is_ok_and(|inode| sockets.contains(&inode));
        if is_its
            && state != LISTENS
            && let Some((sent, read)) = queues.split_once(':')
        {
            let both = [sent, read].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
            sum = sum.saturating_add(both[0]).saturating_add(both[1]);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_wait_are_no_bytes() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000080 00:00000000 00000000     0        0 11 1
   1: 0100007F:1F90 0100007F:A2B4 01 00000010:00000200 00:00000000 00000000     0        0 12 1
   2: 0100007F:1F90 0100007F:A2B6 01 00000010:00000200 00:00000000 00000000     0        0 13 1
";
        assert_eq!(queued_in(table, &[11, 12].into()), 0x210);
    }
}
