//! `lancet tune` on this machine, on machines of files, and in networks of its own.
//!
//! | file | what is held |
//! |---|---|
//! | `machine` | every check on this machine; what it says is what the files and ethtool say; time; no rights |
//! | `watching` | `--watch` ends with the process, with a signal and by itself |
//! | `fixtures` | machines that no test has, as trees of files: their verdicts |
//! | `network` | veth and tap in a network namespace: audit, apply, audit, undo, audit |
//! | `killed` | `kill -9` between any two system calls of an apply or an undo; `--undo` heals |
//! | `changes` | journals, owners, pairs that move each other, on trees of files |
//! | `growing` | counters that grow: queues that run over while it looks |
//! | `failing` | counters of failures, each provoked and named first |
//! | `load` | programs that make work while it looks |
//! | `interrupts` | interrupts of this machine, spread and put back |
//! | `guest` | `-p` on a threaded Ruby server |
//! | `container` | `-p` on a process with files and a network of its own |
//! | `events` | 10,000 processes in a burst; a worker that is killed; without the right to hear them |
//! | `hostile` | broken and hostile trees |
//! | `harness` | the tool, scratch trees, networks |
//!
//! Networks need root and `ip` (iproute2); without them those tests print a line `SKIPPED` and why. `LANCET_BIN`
//! names the lancet to test, in place of this build's.

mod changes;
mod container;
mod events;
mod failing;
mod fixtures;
mod growing;
mod guest;
mod harness;
mod hostile;
mod interrupts;
mod killed;
mod load;
mod machine;
mod network;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod watching;
