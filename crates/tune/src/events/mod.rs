//! Processes that come and go, reported by the kernel as it happens.
//!
//! ```text
//!  kernel ──► proc connector (netlink, multicast) ──► Connector::receive ──► Event, Event, …
//!                                                        └► Losses: gaps in the numbers per CPU
//! ```
//!
//! Three things are easy to get wrong here, and all are about the listener count in the kernel:
//!
//! - A socket that goes away without PROC_CN_MCAST_IGNORE leaves the count raised for ever, and every
//!   fork on the machine goes on building messages (the fix, c46bfba1337d, was reverted in
//!   2024). So [`Connector`] unsubscribes when it is dropped; only `kill -9` can prevent that.
//! - Messages are numbered per CPU. A full buffer loses them silently but for one ENOBUFS; the gaps in
//!   the numbers say how many.
//! - In another PID or user namespace the subscription is ignored without an answer. So the
//!   acknowledgement is waited for, and its absence is an answer of its own.
//!
//! Source: drivers/connector/cn_proc.c; include/uapi/linux/cn_proc.h.

mod clock;
mod connector;
mod exits;
mod followed;
mod losses;
mod message;

pub use clock::LocalTime;
pub use connector::{Batch, Connector, Listening};
pub use exits::Exits;
pub use followed::Followed;
pub use losses::Losses;
pub use message::{End, Event, What};
