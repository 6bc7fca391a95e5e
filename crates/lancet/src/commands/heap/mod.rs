//! `lancet heap`: who keeps it alive?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`browse`] | the snapshot on the screen |
//! | [`live`] | the snapshot of a running process |
//! | [`ledger`] | what resident memory is used for |
//! | [`when`] | waits until a process has so much in memory |
//! | [`run`](mod@run) | a snapshot, its analysis, and the answer that was asked for |

mod args;
mod browse;
mod ledger;
mod live;
mod run;
pub mod when;

pub use args::HeapArgs;
pub use run::run;
