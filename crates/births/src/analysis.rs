//! Answers from counts: which `file:line:Type` holds the memory, and which one grew.
//!
//! A [`Census`] is what one look at one guest gave: how many objects each place made and how many
//! of them still live. Everything else here is arithmetic on it:
//!
//! ```text
//!  Census ──┬── merge ──► Census of all workers
//!           ├── Report::new(view)  ──► rows, remainder, totals      "who holds the memory?"
//!           ├── Growth::new(older, newer, view) ──► the same, signed  "who is growing?"
//!           └── Verdict, in both ──► rows that keep objects of every interval   "which one leaks?"
//! ```
//!
//! The module reads no process and prints nothing, so that the same answers can come from a live
//! guest, a recording or a test. One rule holds everywhere: **nothing is dropped silently**. What
//! a view leaves out is in its remainder ([`Rest`]) or in its `hidden` count, and rows plus
//! remainder are always the total; the property tests hold it to that.

mod census;
mod growth;
mod leak;
mod merge;
mod report;
mod view;

pub use census::{
    Alive, BLOCK, Census, Counts, Delta, Frame, Loss, Lost, Memory, Resident, SiteCount, TypeCount,
    Unit,
};
pub use growth::{Error, Growth, GrowthRest, GrowthRow};
pub use leak::{Growing, LEAST_INTERVALS, LEAST_SECONDS, Leak, Trend, Verdict, leaks};
pub use merge::{MERGED_PID, merge};
pub use report::{Report, Rest, Row};
pub use view::{By, Fold, Key, Order, View};
pub use wire::ledger::Uncollected;
