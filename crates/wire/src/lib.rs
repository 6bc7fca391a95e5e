//! What the command and the agent say to each other.
//!
//! The agent is mapped into the guest from outside and never opens a file or a socket there, so
//! everything the two sides share is memory of the guest: the command reads and writes it through
//! `/proc/PID/mem`, the agent with plain loads and stores.
//!
//! ```text
//!   guest memory, one mapping made by crate `process`
//!   ┌──────────────┐ r--  Header       who is here: magic, versions, where the rest is
//!   ├──────────────┤ r--  agent image: constants
//!   ├──────────────┤ r-x               code
//!   ├──────────────┤ rw-               data: Config, Ledger
//!   ├──────────────┤ rw-  Board        one page, MADV_WIPEONFORK: a child finds zeros
//!   └──────────────┘
//!   elsewhere, mapped by the agent when it needs them: segments of sites, frames, kinds, text
//! ```
//!
//! The one definition of every shared layout is this crate; [`VERSION`] changes with any of them and
//! is checked at each attach.

#![no_std]
#![forbid(unsafe_code)]

pub mod arrival;
pub mod board;
pub mod calls;
pub mod ledger;
pub mod notices;
pub mod slots;

pub use arrival::Arrival;
pub use board::{Board, Config, Farewell, Header, Reply, Request, State};
pub use ledger::{Collection, Counts, Entry, Frame, Kind, Ledger, Segments, Site, Stack};
pub use slots::SlotPath;

/// Version of every layout in this crate. An agent of another version is left quiet and a new one
/// is mapped beside it.
pub const VERSION: u32 = 6;

/// The first eight bytes of a [`Header`].
pub const MAGIC: [u8; 8] = *b"\x7fLANCET\n";

/// Page size of Linux on x86-64; the [`Board`] fills one page.
pub const PAGE: usize = 4096;
