//! The agent: what lancet runs inside the guest.
//!
//! It is a position-independent program, which crate `inject` maps, relocates and enters from outside. It imports
//! nothing, has no thread, no thread-local data, and uses no allocator of the guest. Of the VM it needs only addresses,
//! which the command writes to `shared::CONFIG` and to `calls` before it runs.
//!
//! | module | what | who calls it |
//! |---|---|---|
//! | `jobs` | where a thread comes in to do what the command requests | a thread in a remote call |
//! | `at_work` | that one thread at a time does it | `languages` |
//! | `languages` | what is done inside the VM of each language, a folder a language | `jobs`; the VM at a safe point, at each birth |
//! | `births` | the books in which every birth is entered | `languages` |
//! | `scripts` | the answer of a text that the VM evaluates | `languages` |
//! | `calls` | hooked functions and system calls | the routine (crate `routine`), on any thread |
//! | `snapshot` | the child that is a copy of the guest and writes out its heap | `jobs`, `languages`, and in the child itself |
//! | `shared` | the statics that the command reads and writes | |
//! | `guard` | what a panic does: leaves the agent, never the guest | the compiler |
//! | `memory` | system calls, tables, reading the guest: what a program without libc brings along | |

//!
//! The program is `main.rs`, which has nothing but this library. The library is tested on the host, where it is built with the
//! standard library; `memory`'s functions of libc's names and `guard`'s panic handler are then not those that the compiler calls.

#![no_std]

// The agent that guests get is built with `panic = "abort"` (profile `agent`). Otherwise it is checked or tested, and a
// program that unwinds needs the standard library for that.
#[cfg(panic = "unwind")]
extern crate std;

mod at_work;
mod births;
mod calls;
mod guard;
mod jobs;
mod languages;
mod memory;
mod scripts;
mod shared;
mod snapshot;
