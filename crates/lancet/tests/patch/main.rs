//! `lancet patch`, the program, on running processes.
//!
//! | file | what |
//! |---|---|
//! | `programs` | the guest and the files that are put into it, compiled |
//! | `asked` | a plan in a file, JSON, several processes |
//! | `changes` | applied, listed, undone; `--for`; `--wait`; what it costs |
//! | `closed` | processes that are not opened |
//! | `refused` | what is refused, and that nothing has changed then |
//! | `cycles` | again and again on busy threads; killed at any instant |
//! | `doors` | functions of a VM that are called at a stop: their locks held, or taken by others; signals meanwhile |
//! | `names` | what names of the program a file of the script's uses and defines |
//! | `scripts` | functions of the script itself |
//! | `served` | the same, and functions in C of interpreters, in servers under load |
//! | `settings` | remedies that change settings, and `trim` |
//! | `template` | `--new` |
//! | `ucontext` | the remedy of that name, in a fixture and in a uWSGI |
//! | `unwound` | exceptions and backtraces through new code |
//! | `machine` | a function of a Ruby replaced by C while threads of its script call it |

mod asked;
mod changes;
mod closed;
mod cycles;
mod doors;
mod machine;
mod names;
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
