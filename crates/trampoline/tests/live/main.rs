//! Hooks set in this very process: fixtures compiled by g++, loaded with dlopen, patched, called.
//!
//! The patched text is this process's own, so tests take turns ([`guest::turn`]). The routine stands in the test's text without
//! `.eh_frame`, as unknown to the loader as the agent is in a guest.

mod calls;
mod guest;
mod inline;
mod lines;
#[path = "../modules/mod.rs"]
mod modules;
mod originals;
mod panics;
mod probes;
mod recorded;
mod shapes;
mod signals;
mod unwinding;

/// See [`guest::turn`].
const SMALL: bool = false;
