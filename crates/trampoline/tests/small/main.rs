//! The tests of `live`, once more: the routine believes that no stack has room, so what it calls runs on its work stacks.

#[path = "../live/calls.rs"]
mod calls;
#[path = "../live/guest.rs"]
mod guest;
#[path = "../modules/mod.rs"]
mod modules;
#[path = "../live/panics.rs"]
mod panics;
#[path = "../live/probes.rs"]
mod probes;
#[path = "../live/shapes.rs"]
mod shapes;
#[path = "../live/unwinding.rs"]
mod unwinding;

/// See [`guest::turn`].
const SMALL: bool = true;
