//! What can go wrong with a patch, with what the user can do about it. Used by `new`, `run` and `script`.

use patch::Error;

use crate::ui::advice::explain;

/// The error as one line, with the next step.
pub fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}
