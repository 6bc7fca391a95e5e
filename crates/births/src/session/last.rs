//! How the last count of a guest was made.

use crate::analysis::{Loss, Lost};

/// How a guest's last tally came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// By the agent, when the main program had ended.
    Counted,
    /// From outside, when the VM could no longer run code: garbage is included, and sizes are those of
    /// the slots.
    Seen,
    /// From outside, before the program's first Ractor was made: what came after that is not known.
    BeforeRactor,
}

impl Last {
    /// Returns what the report lacks because of this.
    pub fn loss(self) -> Option<Loss> {
        let (what, text) = match self {
            Last::Counted => return None,
            Last::Seen => (
                Lost::Heap,
                "the process ended without its VM's end procedures, so it was counted from outside: garbage is included, bytes are those of heap slots alone",
            ),
            Last::BeforeRactor => (
                Lost::Births,
                "the program made a Ractor, and its VM crashes or loses births when there is one while births are watched (bugs 18464, 19112): this is what was counted until then, from outside: garbage is included, bytes are those of heap slots alone",
            ),
        };
        Some(Loss {
            what,
            count: None,
            text: text.into(),
        })
    }
}
