//! `lancet patch`: replace a function in the live process, and take it back.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`explained`](mod@explained) | errors |
//! | [`new`](mod@new) | the file to begin with |
//! | [`plan_file`] | `--plan` |
//! | [`run`](mod@run) | apply, list, undo |
//! | [`script`] | the same for functions of the script |

mod args;
mod explained;
mod new;
mod plan_file;
mod run;
mod script;

pub use args::PatchArgs;
pub use run::run;
