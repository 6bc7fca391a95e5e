//! What a command line needs to know of a format to offer it.

/// A format that a user chooses by its name.
pub trait Format: Sync + 'static {
    /// What the user writes after `--format`: one lower-case word, unique among the formats of a command.
    fn name(&self) -> &'static str;

    /// One line about it for the help, without a full stop.
    fn about(&self) -> &'static str;

    /// Whether it writes records. The user then chooses among all forms that show records ([`crate::forms`]), and never writes its name.
    fn has_records(&self) -> bool {
        false
    }
}
