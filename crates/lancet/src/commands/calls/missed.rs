//! What could not be told. Every loss of a run comes through here: it is said on standard error, and it is in the exit
//! code. Nothing else decides about [`LOST`].

use crate::exit::LOST;
use calls::Losses;

/// The losses of a run so far.
#[derive(Debug, Default)]
pub struct Missed {
    any: bool,
}

impl Missed {
    /// Something was lost or refused, and whoever saw it has said so.
    pub fn note(&mut self, any: bool) {
        self.any |= any;
    }

    /// What the rings of a process have lost.
    pub fn in_process(&mut self, pid: i32, losses: &Losses) {
        if losses.sum() == 0 {
            return;
        }
        self.any = true;
        tell!(
            "process {pid}: lost: {} records that found no room in time, {} calls of threads without a ring, {} counts",
            losses.records,
            losses.without_ring,
            losses.uncounted
        );
        if losses.panics != 0 {
            tell!(
                "process {pid}: lancet's own code in it failed and was switched off: what it called after that is missing; \
                 please report this"
            );
        }
    }

    /// Lines that nobody has read in time.
    pub fn in_output(&mut self, lines: u64) {
        if lines != 0 {
            self.any = true;
            tell!("lost: {lines} lines of output that nobody has read in time");
        }
    }

    /// The exit code of a run that would end with `code`.
    pub fn exit_code(&self, code: u8) -> u8 {
        if code == 0 && self.any { LOST } else { code }
    }
}
