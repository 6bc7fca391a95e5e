//! `lancet patch`, the program, on running processes.
//!
//! | file | what |
//! |---|---|
//! | `programs` | the guest and the files that are put into it, compiled |
//! | `changes` | applied, listed, undone; `--for`; `--wait`; what it costs |
//! | `refused` | what is refused, and that nothing has changed then |
//! | `cycles` | again and again on busy threads; killed at any instant |
//! | `scripts` | functions of the script itself |
//! | `served` | the same in servers under load |
//! | `ucontext` | the remedy of that name |
//! | `unwound` | exceptions and backtraces through new code |
//! | `machine` | a function of an interpreter replaced under load |

mod changes;
mod cycles;
mod machine;
mod programs;
mod refused;
mod scripts;
mod served;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod ucontext;
mod unwound;
