//! Machine code for hooks: what to steal at a function's entry, the stub, the routine that calls through.
//!
//! Nothing here reads or writes another process, and nothing is recorded: crate `process` writes what is planned here, crate
//! `agent` says what happens at a call. Three steps:
//!
//! ```text
//!   outside   Targets::of(text), Pads::of(text)                 once per module
//!             plan(function) ──► Plan                           or a Refusal, with the reason in words
//!             plan.stub(at, destination) ──► Stub               written into an island first
//!             plan.patches(stub.at) ──► [Patch]                 written last, while all threads are stopped;
//!                                                               a thread at a pc that stub.moved() knows is moved
//!   inside    routines! { enter, leave, probe, gate }           the code between a stub and the function
//! ```
//!
//! | file | what |
//! |---|---|
//! | `plan`, `refusal` | the decision, by decoding |
//! | `targets`, `pads` | what a module's code jumps to; padding between functions |
//! | `relocate`, `stub` | the stolen instructions at their new address |
//! | `frame`, `routine`, `unwind` | what runs in the guest |
//! | `exempt` | functions that get no frame, or no hook |
//! | `caller` | calls made from one module: operands and GOT slots rewritten |
//! | `usdt` | static probes |

#![no_std]

#[cfg(feature = "plan")]
extern crate alloc;

pub mod frame;
mod routine;
pub mod unwind;

#[cfg(feature = "plan")]
pub mod caller;
pub mod exempt;
#[cfg(feature = "plan")]
mod pads;
#[cfg(feature = "plan")]
mod plan;
#[cfg(feature = "plan")]
mod refusal;
#[cfg(feature = "plan")]
mod relocate;
#[cfg(feature = "plan")]
mod stub;
#[cfg(feature = "plan")]
mod targets;
#[cfg(feature = "plan")]
pub mod usdt;

pub use frame::{Descriptor, Frame, ProbeFrame, Results};

#[cfg(feature = "plan")]
pub use pads::Pads;
#[cfg(feature = "plan")]
pub use plan::{Function, Kind, Options, Patch, Plan, plan};
#[cfg(feature = "plan")]
pub use refusal::Refusal;
#[cfg(feature = "plan")]
pub use stub::{Destination, Stub};
#[cfg(feature = "plan")]
pub use targets::{Branch, Read, Targets};
