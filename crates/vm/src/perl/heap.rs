//! The heap: every SV that lives, how many bytes it takes, and what it refers to.
//!
//! Heads of SVs lie in arenas of some 4 KiB, in which the first head says where the next arena is and how many heads this one has
//! (`visit`, `sv.c`). A head whose type is all ones is free.
//!
//! ```text
//!   PL_sv_arenaroot ──▶ │ any: next arena │ refcnt: heads │ …    │ head │ head │ …
//!                                                                   │
//!                                                                   └▶ │ any: body │ refcnt │ flags │ u: string, array, referent │
//! ```
//!
//! Nothing here needs the process to stand at a certain place: what is half changed is a read that fails, or a word that leads to no SV.

mod arenas;
mod names;
mod references;
mod size;

pub use arenas::{Places, Sort, Sv, is_head};
pub use names::PadNames;
pub use references::{Reference, Slot};
pub use size::Size;
