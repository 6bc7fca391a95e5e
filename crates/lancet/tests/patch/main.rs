//! `lancet patch`, the program, on running processes.
//!
//! | file | what |
//! |---|---|
//! | `programs` | the guest and the files that are put into it, compiled |
//! | `asked` | a plan in a file, JSON, several processes |
//! | `changes` | applied, listed, undone; `--for`; `--wait`; what it costs |
//! | `refused` | what is refused, and that nothing has changed then |
//! | `cycles` | again and again on busy threads; killed at any instant |
//! | `settings` | remedies that change settings, and `trim` |
//! | `template` | `--new` |
//! | `scripts` | functions of the script itself |
//! | `served` | the same in servers under load |
//! | `ucontext` | the remedy of that name |
//! | `unwound` | exceptions and backtraces through new code |
//! | `machine` | a function of an interpreter replaced under load |

mod asked;
mod changes;
mod cycles;
mod machine;
mod programs;
mod refused;
mod scripts;
mod served;
mod settings;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod template;
mod ucontext;
mod unwound;
