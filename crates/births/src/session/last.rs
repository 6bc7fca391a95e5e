//! How the last count of a guest was made, and the one before a program's first Ractor. Used by `session` and
//! `watched`.

use super::Session;
use crate::analysis::{Loss, Lost};
use crate::ledger::Tally;
use enter::because;
use process::error::{Error, Result};
use std::mem::offset_of;
use wire::{ControlPage, Farewell, State};

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
                "the program made a Ractor, beside which births cannot be watched (docs/versions.md says why): this is what was counted until then, from outside: garbage is included, bytes are those of heap slots alone",
            ),
        };
        Some(Loss {
            what,
            count: None,
            text: text.into(),
        })
    }
}

impl Session {
    /// Counts the objects born before the first Ractor, and lets the program go on.
    pub(super) fn count_before_ractor(&mut self) -> Result<Tally> {
        let counted = self.count_from_outside();
        // It may have waited too long and given up the books meanwhile.
        if self.awaits_last_count()? {
            let state = offset_of!(ControlPage, state);
            self.vm
                .resident()
                .write_control_page(self.vm.memory(), state, State::Quiet as u32)?;
            return counted;
        }
        // Its agent has left, and another command may have claimed it since; then the state is that of the other command.
        let (pid, why) = (self.pid(), because(Farewell::Ractor));
        Err(Error::Left { pid, why })
    }
}
