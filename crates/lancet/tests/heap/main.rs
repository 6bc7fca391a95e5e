//! `lancet heap -p PID`, the program, on running processes.
//!
//! | file | what |
//! |---|---|
//! | `taken` | a snapshot taken and read |
//! | `unseen` | what the program notices |
//! | `truth` | the same objects and references as `ObjectSpace.dump_all` writes |

#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod taken;
mod truth;
mod unseen;
