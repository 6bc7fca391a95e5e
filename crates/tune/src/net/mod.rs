//! Settings of network devices and sockets, read through the kernel's own interfaces.
//!
//! | module | interface | for |
//! |---|---|---|
//! | [`nic`] | sysfs | which devices there are, their queues and interrupts |
//! | [`ethtool`] | ioctl SIOCETHTOOL | offloads, coalescing, rings, channels, driver counters |
//! | [`netlink`] | AF_NETLINK | the messages of the three below |
//! | [`napi`] | generic netlink `netdev` | NAPI instances, their interrupts and queues |
//! | [`sockets`] | sock_diag | listen queues, congestion control, local ports by destination |
//! | [`borrowed`] | pidfd_getfd, getsockopt | the CPU and poller that serve a process's sockets; busy polling |
//! | [`qdisc`] | rtnetlink | queueing disciplines |
//! | [`namespace`] | setns, fsmount | the network of another process |

pub mod borrowed;
pub mod ethtool;
pub mod namespace;
pub mod napi;
pub mod netlink;
pub mod nic;
pub mod qdisc;
pub mod sockets;
