//! Is this machine set up for this process?
//!
//! ```text
//!  tree, mounts ── files below a root   ┐
//!  net  ── ethtool, netlink, namespaces │──► machine ──► rules ──► findings ──► the command prints
//!  guest, sample, kconfig, cpus …       ┘                  │
//!                                                          └─► wishes ──► owners? ──► journal ──► setting.write
//! ```
//!
//! A [`rules::Rule`] is one thing that is looked at, with its verdict's reason, source and date. A
//! [`setting::Setting`] is one thing that can be written and written back. Between them stands
//! [`apply`], which puts every value on disk before it changes it.
//!
//! The advice began as a list of kernel and driver settings of 2009; what has become of each entry is
//! part of the answer. No other program's output is parsed: files, ioctls and netlink only.

pub mod apply;
pub mod cpus;
mod descriptor;
pub mod events;
mod failures;
mod first_thread;
mod groups;
pub mod guest;
pub mod interrupts;
pub mod journal;
mod kconfig;
mod kernel_log;
pub mod machine;
mod mounts;
pub mod net;
pub mod owners;
mod process;
pub mod rules;
mod sample;
pub mod setting;
pub mod tree;
pub mod verdict;
