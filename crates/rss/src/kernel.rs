//! What the kernel keeps for a process outside of its resident memory. None of it is in the sum.

use std::collections::HashSet;
use std::fs;

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
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let number = |name: &str| {
            let mut fields = status.lines().filter_map(|line| line.strip_prefix(name));
            fields
                .next()?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        };
        let sockets = sockets(pid);
        KernelSide {
            page_tables: number("VmPTE:").unwrap_or(0).saturating_mul(1024),
            thread_stacks: number("Threads:").unwrap_or(0).saturating_mul(THREAD),
            sockets: sockets.len() as u64,
            queued: queued(pid, &sockets),
        }
    }
}

/// The inodes of its sockets.
fn sockets(pid: i32) -> HashSet<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return HashSet::new();
    };
    let links = entries
        .take(MOST)
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| {
            link.to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?
                .parse()
                .ok()
        })
        .collect()
}

/// What waits in sockets: `tx_queue:rx_queue`, the fifth word of a line, of the socket with the inode in the tenth
/// (`net/ipv4/tcp_ipv4.c`, `get_tcp4_sock`; `net/ipv4/udp.c`, `udp4_format_sock`).
fn queued(pid: i32, sockets: &HashSet<u64>) -> u64 {
    if sockets.is_empty() {
        return 0;
    }
    let mut sum: u64 = 0;
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(queues), Some(inode)) = (words.get(4), words.get(9)) else {
                continue;
            };
            if inode
                .parse()
                .is_ok_and(|inode: u64| sockets.contains(&inode))
                && let Some((sent, read)) = queues.split_once(':')
            {
                let both = [sent, read].map(|text| u64::from_str_radix(text, 16).unwrap_or(0));
                sum = sum.saturating_add(both[0]).saturating_add(both[1]);
            }
        }
    }
    sum
}
