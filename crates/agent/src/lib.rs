//! The agent: what lancet runs inside the guest.
//!
//! It is a position-independent program, which crate `inject` maps, relocates and enters from outside. It imports
//! nothing, has no thread, no thread-local data, and uses no allocator of the guest. Of the VM it needs only addresses,
//! which the command writes to `shared::CONFIG` and to `calls` before it runs.
//!
//! | module | what | who calls it |
//! |---|---|---|
//! | `jobs` | the command's requests of `mem` | a thread in a remote call; the VM at a safe point |
//! | `births` | books every birth at its line | the VM at each birth, with its lock |
//! | `scripts` | text in the script's language that the VM evaluates | `jobs`; a Python, which `scripts` enters itself |
//! | `collections` | how long the collector marks | the VM at each step of its collector |
//! | `calls` | hooked functions and system calls | the routine (crate `routine`), on any thread |
//! | `snapshot` | the child that is a copy of the guest and writes out its heap | `jobs`, and in the child itself |
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

mod births;
mod calls;
mod collections;
mod guard;
mod jobs;
mod memory;
mod scripts;
mod shared;
mod snapshot;
