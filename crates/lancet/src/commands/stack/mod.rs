//! `lancet stack`: what is on the stack, and how many bytes is each frame?
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`run`](mod@run) | which of the following is meant |
//! | [`live`] | the stacks of running processes and in core files |
//! | [`sample`] | many looks at running processes, folded |
//! | [`watched`] | the processes that are looked at again and again, or a program that is started |
//! | [`measure`] | collections of a running process, timed |
//! | [`files`] | programs and libraries: found, opened, ranked |

mod args;
mod files;
mod live;
mod measure;
mod run;
mod sample;
mod watched;

pub use args::StackArgs;
pub use run::run;
