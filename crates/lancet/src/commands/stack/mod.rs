//! `lancet stack`: what is on the stack, and how many bytes is each frame?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | which of the following is meant |
//! | [`live`] | the stacks of running processes and in core files; many looks at them ([`crate::sampling`]) |
//! | [`measure`] | collections of a running process, timed |
//! | [`files`] | programs and libraries: found, opened, ranked |

mod args;
mod files;
mod live;
mod measure;
mod run;

pub use args::StackArgs;
pub use run::run;
