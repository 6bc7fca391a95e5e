//! What can go wrong, in words.

use patch::Error;

use crate::ui::advice::explain;

/// The error as one line, with the next step.
pub fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}
