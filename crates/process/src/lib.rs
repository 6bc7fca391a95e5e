//! Reads a process from outside: which one it is, what is mapped and loaded in it, its memory, its functions. It also
//! stops all of its threads for a moment.
//!
//! Nothing here runs code in the process, and nothing changes it but [`memory::GuestMemory::write`]. Crate `inject`
//! runs code in it, and crate `hooks` hooks its functions; this crate knows neither, nor the layouts that they share
//! with the agent. Of our crates it knows only `vm`, for `trait Memory`, through which VMs are read.
//!
//! | file | question |
//! |---|---|
//! | `guest` | Which process is it, is it still the same one, may it be opened? |
//! | `maps` | What is mapped where (`/proc/PID/maps`)? |
//! | `memory`, `pages` | Reading and writing its memory; a cache of whole pages for readers that follow pointers |
//! | `elf` | What does an ELF file say, on disk or in memory? |
//! | `modules`, `linkmap` | Which ELF files are loaded, where, and what does the loader's own list say? |
//! | `symbols`, `linkage` | Names and addresses in one module; the name by which a call went through the PLT |
//! | `functions`, `indirect` | Functions of all modules by name; what IFUNCs (`STT_GNU_IFUNC`) resolved to |
//! | `interpreters` | Does a program that has just begun run scripts? |
//! | `gadgets` | Where are instructions that a remote call can use? |
//! | `ptrace`, `stop` | Registers of a thread; stopping all threads |
//! | `tries` | How often and how long is something tried again that may pass? |
//! | `interrupted` | Which system calls would answer a stop with EINTR, and how they go on instead |
//! | `job_control` | What becomes of a guest that stands still when we are stopped ourselves? |
//! | `asleep` | Which threads sleep in the kernel, so that they can be looked at without being stopped? |
//! | `wait` | What does a thread that sleeps wait for, since when, and which other processes have to do with it? |
//! | `in_turn` | Does the child whose end it waits for wait for it? |
//! | `sockets`, `netlink` | What is a socket connected to, and which socket is its other end? What else the kernel answers by netlink |
//! | `own_proc` | Is `/proc` of our own PID namespace? Else one is mounted for us alone |
//! | `pid_namespace`, `namespaces` | Which process of ours is 12 to a process in a container? In which namespaces is a process? |
//! | `pidfd` | A process held by a descriptor: ended, and waited for |
//! | `processors` | On which processors does lancet look, so as not to take those of the threads it looks at? |
//! | `priority` | How is processor time left to the guest while we work beside it? |
//! | `samples` | Where do its threads spend their time? |
//! | `snapshot` | Registers and stacks of all threads, at one instant |
//! | `pagemap` | Is a page in memory, in swap, or a guard? Where does a stack end? |
//! | `room` | How much of a stack's mapping was ever used, and is there a guard below? |
//! | `rss` | What is its resident memory used for? |
//! | `smaps` | What does the kernel count of each mapping? |
//! | `runs`, `resident_memory` | Which pages are there; memory of which only those are read |
//! | `control_group` | How much memory do the limits of its control groups leave it? |
//! | `limits` | What do its own limits (`/proc/PID/limits`) say of a resource? |
//! | `descriptors` | How many descriptors has lancet itself, and how are files read when none is left? |
//! | `clock` | Time-stamp counter to time of day |
//! | `denial` | Who refuses us a process? |
//! | `error` | What can go wrong, for all crates that work on a process |
//! | `fault` | Panics on demand, for tests |

pub mod asked;
pub mod asleep;
pub mod auxiliary;
pub mod clock;
pub mod control_group;
mod denial;
pub mod descriptors;
pub mod elf;
pub mod ending;
pub mod error;
pub mod fault;
pub mod functions;
pub mod gadgets;
pub mod guest;
pub mod in_turn;
pub mod indirect;
pub mod interpreters;
pub mod interrupted;
pub mod job_control;
pub mod launchers;
pub mod limits;
pub mod linkage;
pub mod linkmap;
pub mod maps;
pub mod memory;
pub mod modules;
pub mod mounts;
pub mod namespaces;
pub mod netlink;
pub mod own_proc;
pub mod pagemap;
pub mod pages;
pub mod pid_namespace;
pub mod pidfd;
pub mod priority;
pub mod proc_file;
pub mod processors;
pub mod programs;
pub mod ptrace;
pub mod refusals;
pub mod resident_memory;
pub mod room;
pub mod rss;
pub mod runs;
pub mod samples;
pub mod shadow_stack;
pub mod smaps;
pub mod snapshot;
pub mod sockets;
pub mod sources;
pub mod standstill;
pub mod status_file;
pub mod stop;
pub mod symbols;
mod threads;
pub mod tries;
pub mod wait;

pub use error::{Afterwards, Denial, Error, Module, Result, Tried};
