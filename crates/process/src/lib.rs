//! A process from outside: who it is, what is mapped and loaded in it, how it is stopped, how one of
//! its threads works for us, how the agent comes into it and is spoken to.
//!
//! | file | question |
//! |---|---|
//! | `guest` | which process is it, can it be opened? |
//! | `maps`, `modules`, `elf`, `symbols`, `linkmap`, `gadgets` | what is where in it? |
//! | `memory` | reading and writing it |
//! | `ptrace`, `stop`, `borrow` | standing still; a thread that finds its way home |
//! | `seccomp` | would a call of ours be the guest's death? |
//! | `image`, `resident` | the agent's file as memory, in the guest |
//! | `ruby` | a Ruby in it, as the agent needs it |
//! | `session`, `heart` | an open guest: ask, be answered, leave |
//! | `functions`, `indirect`, `linkage`, `probes`, `hooks`, `lanes`, `clock` | its functions by name; hooked, and what the hooks say |
//! | `scripted` | functions by the names of the script's language |
//! | `ledger`, `postmortem` | what the agent has counted; the same from a guest that is ending |
//! | `snapshot` | all threads' registers and stacks, copied while it stands still for microseconds |
//! | `program`, `tracee` | a program we start, there from its first instruction |
//! | `seized` | a thread on its way to another program |

pub mod borrow;
pub mod clock;
pub mod elf;
pub mod error;
pub mod functions;
pub mod gadgets;
pub mod guest;
pub mod heart;
pub mod hooks;
pub mod image;
mod indirect;
pub mod lanes;
pub mod ledger;
pub mod linkage;
pub mod linkmap;
pub mod maps;
pub mod memory;
pub mod modules;
mod postmortem;
pub mod probes;
pub mod program;
mod ptrace;
pub mod resident;
pub mod ruby;
pub mod scripted;
mod seccomp;
pub mod seized;
pub mod session;
pub mod snapshot;
pub mod stop;
pub mod symbols;
pub mod tracee;

pub use error::{Error, Result};
pub use image::Image;
pub use session::{Options, Session};
