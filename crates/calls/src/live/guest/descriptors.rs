//! Notes which descriptors a guest has when it is left. Used by `life::watched`.

use super::{Guest, open_descriptors};
use crate::descriptors::Held;

impl Guest {
    /// Notes which descriptors it has while its hooks are still there.
    pub(super) fn note_leaving(&mut self) {
        if let Some(held) = &mut self.held {
            held.leaving = open_descriptors::numbers(self.tracing.pid()).unwrap_or_default();
        }
    }

    /// Notes which descriptors it has now that its hooks are out.
    pub fn note_descriptors(&mut self) {
        if let Some(held) = &mut self.held {
            held.after = open_descriptors::after(self.tracing.pid(), &**self.tracing.memory());
        }
    }

    /// Returns its descriptors, if requested.
    pub fn held(&mut self) -> Option<Held> {
        self.held.take()
    }
}
