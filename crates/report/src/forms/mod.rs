//! The forms that any answer has which gives records ([`answer`]): a file each, and a line in [`FORMS`]. Used by
//! `calls::summary` and `syscalls::summary`, and by crate `lancet`.
//!
//! An answer writes its records once, an object a line, whatever it is asked for. A form takes these lines and shows them in its own way, so it
//! knows no command, and a command knows no form: where a command's list has an entry that writes records ([`Writes::Records`]), a user
//! chooses among all forms.
//!
//! ```text
//! answer → records, one a line → json:      as they are
//!                              → csv:       the rows as one table
//!                              → markdown:  sentences first, then the beginning of each table
//!                              → parquet:   the rows as columns, where there is a table for them ([`Writes::Tables`])
//! ```
//!
//! An answer that has stacks offers these in the same way to the forms of [`stacks`].
//!
//! Texts of a command's own (tables, lines as strace prints them, pages) need more than records have, or other words; they are written from the
//! answer itself, in the command's folder.

mod csv;
mod form;
mod json;
mod lines;
mod markdown;
pub mod parquet;
mod record;
pub mod stacks;

use crate::{FormatEntry, Writes};
use stacks::{FOLDED, StackForm};

pub use form::Form;

/// The forms, in the order in which help lists them.
pub static FORMS: &[&Form] = &[&json::FORM, &csv::FORM, &markdown::FORM, &parquet::FORM];

/// What shows an answer.
#[derive(Clone, Copy, Debug)]
pub enum ChosenForm {
    /// Text of the command's own, as [`Writes::Text`] has it.
    Text {
        /// What the user writes for it.
        name: &'static str,
        /// One line about it, for the help.
        about: &'static str,
    },
    /// A form of its records.
    Records(&'static Form),
    /// A form of its stacks.
    Stacks(&'static StackForm),
}

/// What a user has chosen with `--format`: an entry of the command's list, and what shows that.
#[derive(Debug)]
pub struct Chosen<F: 'static> {
    /// The entry of the command's list.
    pub format: &'static F,
    /// What shows what it writes.
    pub form: ChosenForm,
}

impl<F> Clone for Chosen<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Chosen<F> {}

impl<F: FormatEntry> Chosen<F> {
    /// This entry of a list. Records are shown as they are, stacks folded.
    pub fn entry(format: &'static F) -> Self {
        let mut all = Self::all_of(format).into_iter();
        all.next().expect("what is written has a form")
    }

    /// All that can be chosen of one entry, in the order of the forms.
    fn all_of(format: &'static F) -> Vec<Self> {
        let shown = |form| Chosen { format, form };
        let forms = || FORMS.iter().copied();
        let of_text = || forms().filter(|form| form.is_text);
        let stacks = || stacks::FORMS.iter().copied().map(ChosenForm::Stacks);
        match format.writes() {
            Writes::Text { name, about } => vec![shown(ChosenForm::Text { name, about })],
            Writes::Records => of_text().map(ChosenForm::Records).map(shown).collect(),
            Writes::Tables => forms().map(ChosenForm::Records).map(shown).collect(),
            Writes::Stacks => stacks().map(shown).collect(),
        }
    }

    /// All that can be chosen of a command's list, in its order.
    pub fn all(formats: &'static [&'static F]) -> impl Iterator<Item = Self> {
        formats.iter().flat_map(|format| Self::all_of(format))
    }

    /// What is chosen where nothing is, the first of the list; with `--json` its records as they are.
    pub fn by_default(formats: &'static [&'static F], json: bool) -> Self {
        let mut all = Self::all(formats);
        all.find(|one| one.records().is_some_and(Form::is_json) == json)
            .expect("a list has a text first, and records")
    }

    /// What was `given`, or else the default.
    pub fn or_default(given: Option<Self>, formats: &'static [&'static F], json: bool) -> Self {
        given.unwrap_or_else(|| Self::by_default(formats, json))
    }

    /// What the user writes for it.
    pub fn name(&self) -> &'static str {
        self.words().0
    }

    /// One line about it, for the help.
    pub fn about(&self) -> &'static str {
        self.words().1
    }

    fn words(&self) -> (&'static str, &'static str) {
        match self.form {
            ChosenForm::Text { name, about } => (name, about),
            ChosenForm::Records(form) => (form.name, form.about),
            ChosenForm::Stacks(form) => (form.name, form.about),
        }
    }

    /// What shows its records; `None`: it writes none.
    pub fn records(&self) -> Option<&'static Form> {
        match self.form {
            ChosenForm::Records(form) => Some(form),
            ChosenForm::Text { .. } | ChosenForm::Stacks(_) => None,
        }
    }

    /// What shows stacks: where it gives none, an answer that is asked for them is folded.
    pub fn stacks(&self) -> &'static StackForm {
        match self.form {
            ChosenForm::Stacks(form) => form,
            ChosenForm::Text { .. } | ChosenForm::Records(_) => &FOLDED,
        }
    }

    /// Whether a form of stacks shows it.
    pub fn has_stacks(&self) -> bool {
        matches!(self.form, ChosenForm::Stacks(_))
    }

    /// Whether it shows what is counted, and nothing that comes one by one.
    pub fn only_counts(&self) -> bool {
        self.has_stacks() || self.records().is_some_and(|form| !form.is_text)
    }

    /// Whether a terminal can show it.
    pub fn is_text(&self) -> bool {
        match self.form {
            ChosenForm::Text { .. } => true,
            ChosenForm::Records(form) => form.is_text,
            ChosenForm::Stacks(form) => form.is_text,
        }
    }

    /// Whether one answer after the other can stand in one file.
    pub fn repeats(&self) -> bool {
        !self.has_stacks() || self.stacks().repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_all_forms_of_what_it_has() {
        const LIST: &[&Writes] = &[
            &Writes::text("table", "Columns"),
            &Writes::Tables,
            &Writes::Stacks,
        ];
        let names: Vec<_> = Chosen::all(LIST).map(|one| one.name()).collect();
        assert_eq!(
            names,
            [
                "table",
                "json",
                "csv",
                "markdown",
                "parquet",
                "folded",
                "speedscope",
                "svg",
                "firefox",
                "pprof",
                "otlp"
            ]
        );
        assert_eq!(Chosen::by_default(LIST, false).name(), "table");
        assert_eq!(Chosen::by_default(LIST, true).name(), "json");
    }
}
