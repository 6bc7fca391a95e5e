//! Births of one thread, counted separately from those of all others, for a program that measures a block or a request of its own
//! (`Memprof.trace`). Used by `ledger`, and by the crates `agent`, `births` and `inject`.
//!
//! ```text
//!   Ledger::accounts    thread │ wanted │ counting │ used │ rows ──► AccountRow: site, born   in the order of first birth
//!                         ▲        ▲                                      ▲
//!   the agent finds it at ┘        │             places ──► u16: number of a row plus one, by hash of the site
//!   the thread's next birth        │
//!                                  the thread says by a method of the agent's: births count from now on
//! ```
//!
//! The command gives a thread its account once ([`Account::tid`]). From then on the command takes no part: the thread calls methods of its
//! VM that are functions of the agent ([`Config::door`](crate::Config::door)) and write the number of the account that it begins into
//! [`Account::wanted`]; the agent counts the thread's births on that same thread, and returns the rows to it. As only that thread changes
//! an account in use, no account is ever seen half-written.

/// Threads that can have an account at the same time.
pub const ACCOUNTS: usize = 64;

/// Rows of one account: lines and types of one request. Births at further ones are counted in [`Account::lost`].
pub const ROWS: usize = 8192;

/// Places of the table by which the row of a site is found; at most half of them are taken.
pub const PLACES: usize = 2 * ROWS;

/// In [`Ledger::epoch`](crate::Ledger::epoch): a thread has an account, so each birth checks for an account of its own thread.
pub const OPEN: u64 = 1 << 32;

/// The account of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Account {
    /// The kernel's id of the thread, in the guest's own namespace; 0 = the account is free. Written by the command; the agent clears it
    /// when the thread has ended and another one has its thread pointer.
    pub tid: u64,
    /// The number of the account that the thread wants; 0 = none: births are not counted. Written by the agent, as all that follows, when the thread calls it.
    pub wanted: u64,
    /// The thread's pointer (the word at its `fs` base); 0 = it has made no object since it has this account.
    pub thread: u64,
    /// The number of the account that the rows belong to.
    pub counting: u64,
    /// The number of rows in use, from the first of those at `rows`.
    pub used: u64,
    /// Births that found no row.
    pub lost: u64,
    /// Address of [`ROWS`] [`AccountRow`] records; 0 = not mapped.
    pub rows: u64,
    /// Address of [`PLACES`] numbers of 16 bits, for the agent alone.
    pub places: u64,
}

impl Account {
    /// An account that belongs to no thread and has no memory.
    pub const NONE: Account = Account {
        tid: 0,
        wanted: 0,
        thread: 0,
        counting: 0,
        used: 0,
        lost: 0,
        rows: 0,
        places: 0,
    };
}

/// Births of a thread at one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AccountRow {
    /// Number of the site: its index in [`Ledger::sites`](crate::Ledger::sites).
    pub site: u32,
    /// How many objects were made.
    pub born: u32,
}
