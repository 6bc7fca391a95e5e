//! The memory that the command and the agent share, layout by layout.
//!
//! The agent opens no file and no socket in the guest. The command reads and writes the guest's memory through
//! `/proc/PID/mem`, the agent reads and writes the same memory with plain loads and stores. One mapping is shared as a
//! file too: the pool, a memfd in which rings lie ([`calls::Pool`]), so that what they hold can be read when the guest
//! is gone.
//!
//! ```text
//!   guest memory, one mapping made by crate `inject`
//!   ┌──────────────┐ r--  Header        magic, versions, where the rest is
//!   ├──────────────┤ r--  agent image   constants
//!   ├──────────────┤ r-x                code
//!   ├──────────────┤ rw-                data: Config, Ledger, Calls
//!   ├──────────────┤ rw-  ControlPage   one page, MADV_WIPEONFORK: a child finds zeros
//!   └──────────────┘
//!   mapped by the agent when it needs them     mem: sites, frames, kinds, text    calls: rings that found no room in the pool
//!   mapped by the command                      calls: the pool, Hooks, programs of what to copy, islands of stubs
//!   changed by the command                     calls: the first bytes of each hooked function, until the command leaves
//! ```
//!
//! | module | who writes | who reads |
//! |---|---|---|
//! | `control_page` | each field says so | both |
//! | `ledger`, `slots` | the agent | the command |
//! | `accounts` | the command, the agent and threads of the guest, each its fields | the same |
//! | `calls`: `Calls`, `Hook` | the command; counters the agent | both |
//! | `calls`: `Ring`, records, `Count` | the agent; `Ring::taken` the command | the command |
//! | `script` | the command; the answer the agent | both |
//! | `snapshot` | each field says so; the stream the child | both; the stream the command |
//! | `notices` | the agent fills a slot, the command frees it | both |
//!
//! The one definition of every shared layout is this crate; [`VERSION`] changes with any of them and is checked at each
//! attach. What the command reads here was written in a guest, so it is input: nothing in it may be trusted.

#![no_std]
#![forbid(unsafe_code)]

pub mod accounts;
pub mod calls;
pub mod control_page;
pub mod ledger;
pub mod notices;
pub mod script;
pub mod slots;
pub mod snapshot;

pub use accounts::{Account, AccountRow};
pub use control_page::{
    Config, ControlPage, Farewell, Header, Purpose, ROUTINES, Reply, Request, State,
};
pub use ledger::{Collection, Counts, Entry, Frame, Kind, Large, Ledger, Segments, Site, Stack};
pub use script::Script;
pub use slots::SlotPath;
pub use snapshot::Snapshot;

/// Version of every layout in this crate. An agent of another version is left quiet and a new one
/// is mapped beside it.
pub const VERSION: u32 = 38;

/// Limit of the pages of a process that are searched for an agent's header. Read-only anonymous mappings are few and small, except lancet's
/// tables of hooks, which the kernel may merge with the agent's mapping above them: 60,000 hooks are 5,000 pages. The search must be long
/// enough, because hooks of a killed session stay forever if its agent is not found.
pub const HEADER_PAGES: usize = 1 << 17;

/// The first eight bytes of a [`Header`].
pub const MAGIC: [u8; 8] = *b"\x7fLANCET\n";

/// Page size of Linux on x86-64; the [`ControlPage`] fills one page.
pub const PAGE: usize = 4096;

/// The multiplier of [`mix`]: odd, with half of its bits set.
pub const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Mixes words into a hash whose low bits are well distributed.
#[inline]
pub const fn mix(hash: u64, word: u64) -> u64 {
    let product = ((hash ^ word) as u128).wrapping_mul(FACTOR);
    (product as u64) ^ (product >> 64) as u64
}
