//! `lancet patch`: replace a function in the live process, and take it back.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | apply, list, undo |

mod args;
mod run;

pub use args::PatchArgs;
pub use run::run;
