//! `mem`: counts every object by the line of Ruby at which it is born, and every block of a Python's allocators ([`python`]).
//!
//! | file | what |
//! |---|---|
//! | `agent` | the state, one static |
//! | `watch` | sets the hook in the VM, and what it calls |
//! | `birth`, `newborns` | books an object at its birth, and looks at it once more |
//! | `accounts`, `door` | births of one thread counted apart; the methods by which that thread begins, reads and ends it |
//! | `summary` | what an account holds, by name |
//! | `rest` | the hook is out while nobody wants to count |
//! | `moves` | heap compaction |
//! | `books`, `slots` | the row of a birth; the row's number for each heap slot |
//! | `census` | the walk over the living |
//! | `heartbeat`, `presence` | whether the command is there; how the agent leaves |
//! | `tally` | what a census has counted |
//! | `python` | the same of a Python, with the books and the tables of numbers that are described here |
//! | `names`, `vmcalls` | the VM's structures as text; the VM's functions |

mod accounts;
pub mod agent;
mod birth;
mod books;
pub mod census;
mod door;
mod heartbeat;
pub mod large;
mod moves;
pub mod names;
mod newborns;
pub mod presence;
pub mod python;
mod rest;
mod slots;
mod summary;
mod tally;
pub mod vmcalls;
mod watch;
