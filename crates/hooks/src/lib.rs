//! Hooks in a guest: set in one stop, or many of them in several, read through rings, and lifted in the same way.
//!
//! ```text
//!   us                                   guest
//!   symbols → plans (it runs)
//!   stop every thread ─────────────────► stands still
//!     hooks, stubs, their list ────────► written where nothing leads yet
//!     threads within changed bytes ────► moved into the stub
//!     jumps ───────────────────────────► 5 bytes each
//!   let them go; nothing is traced
//!   read rings ◄──────────────────────── records
//!   close the gate ────────────────────► hooks fall through
//!   stop, put the bytes back, go ──────► as it was; stubs stay, for frames that may return into them
//! ```
//!
//! If we die, the hooks stay, and fall through as soon as nobody reads (`agent::calls::ring`). The next
//! attach finds them in the list and lifts them or uses them again.
//!
//! | file | what |
//! |---|---|
//! | `tracing` | [`Tracing`], the front: a process whose calls are traced, made of the next four |
//! | `target` | which process: its memory, the agent in it, its functions, how it is stopped |
//! | `inline`, `needs` | which stubs of system calls do the agent's work by themselves; what the routine must do for a hook |
//! | `patcher`, `set`, `planned`, `lifting` | hooks planned, written and taken out |
//! | `layers` | hooks of several commands in the same code |
//! | `limits` | bounds on what is read from a process |
//! | `rings`, `pool` | records of calls, read; the memory for them that we share with the process |
//! | `scripts`, `state`, `scripted` | the VM in it, and functions by the names of the script's language |
//! | `table` | which hooks there are, what they are for, whether they are set |
//! | `wanted`, `policy` | what is asked of a hook; what may be asked of which function |
//! | `text`, `change` | code decoded, and what is changed in it |
//! | `areas`, `standstill`, `threads`, `parked` | memory for stubs; one stop; threads and frames that are in the way |
//! | `blocks` | blocks of native allocators, counted in the process |
//! | `batches`, `bound` | many hooks in several short stops |
//! | `open` | how a tracing begins: a process that runs, one at its exec, the child of a traced one |
//! | `own_hooks`, `notices`, `ifuncs`, `vforks`, `locks` | hooks for ourselves, and what they tell: loads, ends, execs, forks, IFUNCs, rights given up |
//! | `replaced` | the plan of a jump that has no hook behind it: crate `patch` |
//! | `named`, `system_calls`, `probes` | functions by a script's names, system calls, static probes |

mod areas;
mod batches;
mod blocks;
mod bound;
mod built;
mod change;
mod first_stack;
mod ids;
mod ifuncs;
#[cfg(feature = "fuzz")]
pub mod image;
mod inline;
mod layers;
mod lifting;
mod limits;
mod locks;
mod named;
mod needs;
mod notices;
mod open;
mod open_calls;
mod own_hooks;
mod parked;
mod patcher;
mod planned;
pub mod policy;
mod pool;
pub mod probes;
mod replaced;
pub mod rings;
mod script_start;
pub mod scripted;
mod scripts;
mod set;
mod standstill;
mod state;
mod system_calls;
mod table;
mod target;
mod text;
mod threads;
mod tracing;
mod vforks;
mod wanted;

pub use areas::map_near;
pub use blocks::Wrapper;
pub use bound::{Cost, MAX_STOP};
pub use lifting::{lift_left, mend};
pub use notices::{Notice, Says};
pub use parked::{Stays, leads_into};
pub use replaced::plan_replacement;
pub use script_start::{Progress, ScriptStart};
pub use standstill::{Standstill, Threads};
pub use state::Script;
pub use text::may_enter_kernel;
pub use tracing::{Arrives, Tracing};
pub use wanted::{CALL_THROUGH, OTHERS, Options, PROBE, Reason, Refused, Role, Wanted};
