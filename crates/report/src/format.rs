//! What a command line needs to know of a format to offer it. Used by `calls::format`, `forms` and others here, and by
//! crate `lancet`.

/// An entry of a command's list of formats.
pub trait FormatEntry: Sync + 'static {
    /// What the answer writes in it.
    fn writes(&self) -> Writes;
}

/// What an answer writes in a format. It is a format by itself where nothing else needs to be known of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// A text of the command's own.
    Text {
        /// What the user writes after `--format`: one lower-case word, unique among the formats of a command.
        name: &'static str,
        /// One line about it for the help, without a full stop.
        about: &'static str,
    },
    /// Records. The user chooses among all forms that show records ([`crate::forms::FORMS`]).
    Records,
    /// The same, of which the rows have a table (docs/schema.md): there is one form more.
    Tables,
    /// Stacks. The user chooses among all forms that show stacks ([`crate::forms::stacks::FORMS`]).
    Stacks,
}

impl Writes {
    /// A text of the command's own.
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Writes::Text { name, about }
    }

    /// Whether it is records.
    pub fn is_records(self) -> bool {
        matches!(self, Writes::Records | Writes::Tables)
    }
}

impl FormatEntry for Writes {
    fn writes(&self) -> Writes {
        *self
    }
}
