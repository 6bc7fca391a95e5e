//! What a language VM looks like in memory.
//!
//! One reader for every place: the same walker runs in the agent (plain loads in the guest's own
//! address space), from outside (`/proc/PID/mem`), and over a core file. What differs between those
//! places is behind [`Memory`]; what differs between versions of a VM is in that VM's layout table.
//!
//! ```text
//!             agent            outside             core file, test
//!               │ loads           │ pread               │ slices
//!               └─────────────────┼─────────────────────┘
//!                              Memory
//!                                 │
//!       ruby::Ruby, python::Python, perl::Perl, php::Php = memory + layout + facts
//! ```
//!
//! The crate never calls into the VM, never allocates and never trusts what it reads: every loop is
//! bounded and every pointer may turn out unreadable, which is a [`Fault`], not a crash.

#![no_std]
#![forbid(unsafe_code)]

mod bytes;
mod cut;
mod decimal;
mod doors;
mod errors;
mod language;
pub mod library;
mod limits;
mod memory;
mod parked;
pub mod perl;
pub mod php;
mod process;
pub mod python;
pub mod reader;
pub mod ruby;
mod scalar;
mod versions;
mod word;

pub use bytes::Text;
pub use cut::Cut;
pub use doors::{Door, Needs};
pub use language::{Definer, Description, Language};
pub use limits::Limits;
pub use memory::{Fault, Memory};
pub use parked::Parked;
pub use reader::{Error, Found, Reader};
pub use scalar::Scalar;
pub use word::{Role, Word};
