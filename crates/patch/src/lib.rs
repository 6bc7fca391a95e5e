//! Functions of a running process replaced by those of a library file, and put back.
//!
//! ```text
//!   us                                       guest
//!   find the functions, decode them,
//!   read the file, resolve its imports       (it runs)
//!   stop every thread ─────────────────────► stands still
//!     are the bytes what was read?
//!     is a thread inside a function?
//!     the mapping of the set ──────────────► journal │ the file's segments, relocated
//!     an island near each function ────────► jump to the replacement │ the function's first instructions, jump back
//!     the journal is whole
//!     one jump at each function ───────────► 5 bytes, last, and read back
//!   let them go; nothing is traced
//! ```
//!
//! There is no agent: what stays in the guest is the *set*, one mapping that begins with the journal, and the islands. The
//! journal says everything that is needed to take a patch out again, so a later lancet lists and undoes what one that was
//! killed has left. Whether a patch is in force is not in the journal: the bytes of the function say it.
//!
//! A set that was in force once is never unmapped. A frame of a fiber that is parked on the heap, or a pointer to a
//! function or a variable of the file that the guest has kept, may lead there for as long as the guest lives, and no search proves
//! that there is none. It is used again when the same file is applied to the same functions again, with its variables as they are by
//! then.
//!
//! # Undo by itself
//!
//! With a time limit the island compares the time-stamp counter with the end of that time, and runs the function as it was from then on.
//! So the time is kept also when lancet is killed, without an agent, a thread or a timer in the guest; the price is one `rdtsc` a call,
//! for patches with a time limit alone. The jump then stays until a later lancet takes it out.
//!
//! | file | what |
//! |---|---|
//! | `guest` | the process: its functions, in the order in which its loader searches them |
//! | `request` | `FUNCTION[@LIB]=FILE:NEW` |
//! | `object` | the file: what is accepted, its segments, its relocations |
//! | `imports` | what its imports resolve to |
//! | `plan`, `planned` | what is to be done, before anything is; of one function |
//! | `inside` | which threads are in a range of code |
//! | `journal` | the layout of a set, written and read |
//! | `search` | where sets are found, before a stop and within it |
//! | `code` | what stands in the guest's code |
//! | `island` | the page of code near a function |
//! | `load` | a set mapped into the stopped guest |
//! | `finder` | how unwinders learn of the new code |
//! | `scripts` | functions of the script itself, which its VM replaces for us |
//! | `remedies/` | repairs that need no file of the user's, one file each |
//! | `setting`, `settings` | settings that remedies change from outside, and their journal |
//! | `unfinished` | what a lancet that was killed had mapped, unmapped |
//! | `apply`, `undo` | the two changes, and the list of what there is |

mod apply;
mod code;
mod error;
mod finder;
mod guest;
#[cfg(feature = "fuzz")]
pub mod image;
mod imports;
mod inside;
mod island;
mod journal;
mod load;
mod object;
mod plan;
mod planned;
mod remedies;
mod request;
mod scripts;
mod search;
mod setting;
mod settings;
mod undo;
mod unfinished;

pub use apply::{Applied, apply, check};
pub use error::{Error, Result};
pub use guest::Guest;
pub use imports::Import;
pub use inside::Inside;
pub use journal::Record;
pub use plan::{Limits, Plan, function, plan};
pub use planned::Planned;
pub use remedies::{Asked, Prepared, REMEDIES, Remedy, plan_remedy};
pub use request::Request;
pub use scripts::{Script, ScriptPatch, ScriptRequest, ScriptState};
pub use search::unsearched;
pub use setting::{Setting, SettingsPlan};
pub use settings::{Stands, apply_settings, list_settings};
pub use undo::{Listed, State, Took, Undone, Which, list, undo};
