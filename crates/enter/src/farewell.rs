//! Why an agent has left by itself. Used by `counted_vm` and `languages::ruby`, and by `births::session::last`.

use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::{ControlPage, Farewell};

/// What is said of an agent that heard nothing for [`DESERTED_AFTER`](crate::DESERTED_AFTER).
const DESERTED: &str = "it heard nothing from us for 5 s";

/// Returns why an agent has left by itself, as a text for `Error::Left`, if it is one of these reasons: those that an agent of this VM has.
///
/// # Errors
/// The control page cannot be read.
pub fn among(
    reasons: &[Farewell],
    agent: &Resident,
    memory: &GuestMemory,
) -> Result<Option<&'static str>> {
    let why = agent.control_page_u32(memory, offset_of!(ControlPage, deserted))?;
    let found = reasons.iter().find(|reason| **reason as u32 == why);
    Ok(found.copied().map(because))
}

/// What is said of this reason.
pub fn because(why: Farewell) -> &'static str {
    match why {
        Farewell::Alone => DESERTED,
        Farewell::Ractor => {
            "the program makes a Ractor, beside which births cannot be watched (docs/versions.md says why)"
        }
        Farewell::Broken => "it found a fault of its own",
        Farewell::Replaced => {
            "another tool has changed the VM's allocators (tracemalloc that was stopped, a profiler of memory?), so that it was not sure any more that births were seen as they are"
        }
    }
}
