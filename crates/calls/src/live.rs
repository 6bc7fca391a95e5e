//! Events of running guests, and how each is watched.
//!
//! | file | what |
//! |---|---|
//! | `family` | [`Family`]: all processes that are traced, and their events in the order of time |
//! | `process` | one of them: hooked, or seen by BPF programs or its tracer alone |
//! | `guest` | one traced process: hooked as the selection says, read, left |
//! | `lookup` | what numbers and addresses in a guest's records mean |
//! | `names` | functions that are selected by their names in a script's language |
//! | `callers` | the native frames around a call |
//! | `mapped` | which stack an address is on |
//! | `pace` | how much of each ring is read at once |
//! | `traced` | system calls that a tracer sees: of a program before it can be hooked |
//! | `stepped` | and of a process in which nothing is changed |
//! | `hooked_later` | and of a process that is hooked later |
//! | `leads` | what all such processes share, and when BPF programs see them |
//! | `bpf` | the same, seen by BPF programs at the kernel's tracepoints |
//! | `kernel_count` | the kernel's own count of system calls, taken beside hooks |
//! | `unadopted` | children that no hook has reported, which are found by looking |
//! | `unreturned` | calls that have not returned when their process is left |
//! | `unseen` | what hooks do not see of a process's system calls |

mod bpf;
mod callers;
mod family;
mod guest;
mod hooked_later;
mod kernel_count;
mod leads;
mod lookup;
mod mapped;
mod names;
mod pace;
mod process;
mod stepped;
mod traced;
mod unadopted;
mod unreturned;
mod unseen;

pub use family::Family;
pub use unseen::is_of_kernel;
