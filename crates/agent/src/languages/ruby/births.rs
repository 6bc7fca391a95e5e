//! `mem` of a Ruby: counts every object by the line at which it is born.
//!
//! | file | what |
//! |---|---|
//! | `agent` | the state, one static |
//! | `watch` | sets the hook in the VM, and what it calls |
//! | `birth` | books an object at its birth, and looks at it once more |
//! | `door` | the methods by which a thread begins, reads and ends its account |
//! | `rest` | the hook is out while nobody wants to count |
//! | `compaction` | objects that heap compaction moves |
//! | `census`, `large` | the walk over the living; the largest of them |
//! | `presence` | how the agent leaves |
//! | `names` | the VM's structures as text |

pub mod agent;
mod birth;
pub mod census;
mod compaction;
mod door;
pub mod large;
pub mod names;
pub mod presence;
mod rest;
mod watch;
