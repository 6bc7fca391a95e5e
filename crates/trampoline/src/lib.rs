//! Machine code for hooks: which instructions to steal at a function's entry, the stub, and probes in mid-function.
//!
//! Nothing here reads or writes another process, and nothing is recorded: crate `hooks` writes the code that is planned
//! here, and crate `agent` decides what happens at a call. The steps:
//!
//! ```text
//!   outside   Targets::of(text), Pads::of(text)                 once per module
//!             plan(function) ──► Plan                           or a Refusal, with the reason in words
//!             plan.stub(at, destination) ──► Stub               written into an island first
//!             plan.patches(stub.at) ──► [Patch]                 written last, while all threads are stopped;
//!                                                               a thread at a pc in stub.moves is moved
//!   inside    crate `routine`                      the code between a stub and the function
//! ```
//!
//! | file | what |
//! |---|---|
//! | `plan`, `refusal` | the decision, by decoding |
//! | `targets`, `pads` | what a module's code jumps to; padding between functions |
//! | `relocate`, `stub` | the stolen instructions at their new address |
//! | `arguments` | how many bytes of stack arguments a function may read |
//! | `hook_policy` | functions that get no frame, or no hook |
//! | `inline` | stubs that count or record a system call by themselves |
//! | `probe`, `usdt` | probes in mid-function; static ones |
//! | `system_call` | where a function makes system calls |
//! | `vfork` | where its two returns pass |
//! | `returns` | where calls in a piece of code return to |
//! | `flow` | functions that neither symbols nor unwinding rules describe, by what code leads to |
//! | `code_references` | functions without a symbol, by the memory they work on |

#![no_std]

extern crate alloc;

mod arguments;
pub mod code_references;
mod flow;
pub mod hook_policy;
mod inline;
mod pads;
mod plan;
pub mod probe;
mod refusal;
mod relocate;
mod returns;
mod stub;
pub mod system_call;
mod targets;
pub mod usdt;
pub mod vfork;

pub use routine::{Descriptor, Frame, ProbeFrame, Results, Rooms, Vectors};

pub use arguments::{Stack, Stacks};
pub use flow::Flow;
pub use inline::{Inline, Recorded};
pub use pads::Pads;
pub use plan::{Function, Kind, Options, Patch, Plan, plan};
pub use refusal::Refusal;
pub use returns::{Return, returns};
pub use stub::{Destination, Stub, Until};
pub use targets::{Branch, Read, Targets};
