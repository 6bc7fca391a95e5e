//! `lancet agent`: looks at the processes of a host again and again, at low cost, and keeps the answers as tables (docs/fleet.md).
//!
//! Nothing of what it looks at is looked at here: each answer is that of another lancet, which is started with the words that a person would type,
//! and each table is written by a `lancet export`. What a process does to them ends at most one of those. This process reads its configuration,
//! sees which processes there are, waits until a task is due and affordable, and counts.
//!
//! | module | for |
//! |---|---|
//! | [`args`] | the flags |
//! | [`config`] | the configuration, and what is wrong with it |
//! | [`choose`] | which processes are chosen |
//! | [`tasks`] | the commands that are run, with their words |
//! | [`triggers`] | whose memory is as large as a task waits for |
//! | [`budget`] | the processor time that may be used |
//! | [`turn`] | which task is next, and what is shed |
//! | [`job`] | one command at work |
//! | [`work`] | what is under way, and what becomes of it |
//! | [`store`] | the folder: the spool, the tables, their bounds |
//! | [`state`] | what is remembered over a restart |
//! | [`told`] | what it tells of itself: table `agent`, and its health |
//! | [`health`] | who asks for that |
//! | [`check`] | `--check` |
//! | [`run`](mod@run) | all of it together |

mod args;
mod budget;
mod check;
mod choose;
mod config;
mod health;
mod job;
mod run;
mod state;
mod store;
mod tasks;
mod told;
mod triggers;
mod turn;
mod work;

pub use args::AgentArgs;
pub use run::run;
