//! `lancet patch`: replace a function in the live process, and take it back.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`new`](mod@new) | the file to begin with |
//! | [`plan_file`] | `--plan` |
//! | [`run`](mod@run) | apply, list, undo |

mod args;
mod new;
mod plan_file;
mod run;

pub use args::PatchArgs;
pub use run::run;
