//! `lancet heap`: who keeps it alive?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`live`] | the snapshot of a running process |
//! | [`run`](mod@run) | a snapshot, its analysis, and the answer that was asked for |

mod args;
mod live;
mod run;

pub use args::HeapArgs;
pub use run::run;
