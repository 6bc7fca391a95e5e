//! What the folder of each language provides to the rest of the agent: its row of the table. Used by `languages`,
//! `php`, `python` and others.

use vm::Language;

/// What the agent does in the VM of one language.
pub struct Entry {
    pub language: Language,
    /// Called by a borrowed thread, wherever it was stopped, with the bits of [`wire::control_page::enter`]. It does only what the
    /// command has shown to be safe there (`vm::Door`).
    pub enter: fn(what: u64),
    /// Called by the main thread of a program that lancet has started, when the script is about to begin.
    ///
    /// # Safety
    /// It is the main thread, which is about to run the script and has the VM's lock ([`crate::jobs::at_script`]).
    pub at_script: unsafe fn(),
}
