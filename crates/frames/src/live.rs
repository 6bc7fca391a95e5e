//! Reads what is on the stacks of a process, frame by frame.
//!
//! | file | question |
//! |---|---|
//! | `loaded` | which files are mapped where, what is at an address? |
//! | `unwind` | who called whom, and where does each frame begin and end? |
//! | `scripts` | which script frames does a native frame run? Each language's reader is in crate `languages` |
//! | `pages` | memory read by whole pages, for readers that follow pointers |
//! | `merge` | which native frame runs which script frames? |
//! | `stack` | both together, with bytes |
//! | `repeats` | which rows of a stack come again and again? |
//! | `state` | what does a thread do: the kernel's account, the VM's, and that of its native frames |
//! | `owners` | whose lock of the C library does a thread wait for? |
//! | `sleepers` | which threads sleep, and do they sleep on? |
//! | `activity` | all of that put together: which thread waits for which? |
//! | `circles` | who waits in a circle, and who holds others up? |
//! | `gathered` | which threads wait in one function, and who is further in its caller? |
//! | `name_lookup` | which name does a thread ask a name server for? |
//! | `recorder` | which memory does a reader ask for? |
//! | `look` | what one look tells |
//! | `open` | one process, looked at |
//! | `stopped` | its threads that run, stopped and copied |
//! | `running` | the same without a stop: copied on their processors |
//! | `beside` | these and those that sleep, read |
//! | `on_processors` | what must be copied with them? |
//! | `earlier` | what did threads do just before? |
//! | `thread_list`, `marks` | of many threads, which are there, and which have run since? |
//! | `whole`, `noted` | does a copy of these hold all that is asked for? |
//! | `core` | the same from a core file |
//!
//! All of it reads copies (`process::snapshot`), because the guest runs on meanwhile.

pub mod activity;
mod beside;
mod between_looks;
pub mod circles;
pub mod core;
mod earlier;
pub mod gathered;
pub mod loaded;
mod look;
mod marks;
mod merge;
mod name_lookup;
mod noted;
mod on_processors;
pub mod open;
mod owners;
mod recorder;
pub mod repeats;
mod running;
pub mod scripts;
mod sleepers;
pub mod stack;
mod standstill;
pub mod state;
mod stopped;
mod thread_list;
pub mod unwind;
mod whole;
