//! `lancet mem`: which `file:line:Type` holds the memory?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | running processes, opened and reported on |
//! | [`output`] | the reporter that the flags ask for |
//! | [`live`] | the screen of `--live` |

mod args;
mod live;
mod output;
mod run;

pub use args::MemArgs;
pub use output::reporter;
pub use run::{finish, run};
