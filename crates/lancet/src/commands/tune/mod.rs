//! `lancet tune`: is this machine set up for this process?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | one audit, or one after the other |
//! | [`change`] | `--apply`, `--undo` |
//! | [`events`] | `--events` |

mod args;
mod change;
mod events;
mod run;

pub use args::TuneArgs;
pub use run::run;
