//! Events of running guests.
//!
//! | file | what |
//! |---|---|
//! | `family` | [`Family`]: all processes that are traced, and their events in the order of time |
//! | `guest` | one traced process: hooked as the selection says, read, left |
//! | `known` | what numbers and addresses in a guest's records mean |
//! | `names` | functions that are selected by their names in a script's language |
//! | `callers` | the native frames around a call |
//! | `mapped` | which stack an address is on |
//! | `pace` | how much of each ring is read at once |
//! | `unadopted` | children that no hook has reported, which are found by looking |

mod callers;
mod family;
mod guest;
mod known;
mod mapped;
mod names;
mod pace;
mod unadopted;

pub use family::Family;
