//! `lancet patch`: replace a function in the live process, and take it back.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | apply, list, undo |
//! | [`script`] | the same for functions of the script |

mod args;
mod run;
mod script;

pub use args::PatchArgs;
pub use run::run;
