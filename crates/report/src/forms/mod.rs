//! The forms that any answer has which gives records ([`answer`]): a file each, and a line in [`FORMS`].
//!
//! An answer writes its records once, an object a line, whatever it is asked for. A form takes these lines and shows them in its own way, so it
//! knows no command, and a command knows no form: where a command's list has an entry that writes records ([`Format::has_records`]), a user
//! chooses among all forms.
//!
//! ```text
//! answer → records, one a line → json:      as they are
//!                              → csv:       the rows as one table
//!                              → markdown:  sentences first, then the beginning of each table
//! ```
//!
//! Texts of a command's own (tables, lines as strace prints them, pages) need more than records have, or other words; they are written from the
//! answer itself, in the command's folder.

mod csv;
mod form;
mod json;
mod lines;
mod markdown;
mod record;

use crate::Format;

pub use form::Form;

/// The forms, in the order in which help lists them.
pub static FORMS: &[&Form] = &[&json::FORM, &csv::FORM, &markdown::FORM];

/// What a user has chosen with `--format`: an entry of the command's list, and where that writes records, the form that shows them.
#[derive(Debug)]
pub struct Chosen<F: 'static> {
    /// The entry of the command's list.
    pub format: &'static F,
    /// What shows its records; `None`: it is a text of the command's own.
    pub form: Option<&'static Form>,
}

impl<F> Clone for Chosen<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Chosen<F> {}

impl<F: Format> Chosen<F> {
    /// All that can be chosen of a command's list, in its order.
    pub fn all(formats: &'static [&'static F]) -> impl Iterator<Item = Self> {
        formats.iter().flat_map(|&format| {
            let forms = FORMS.iter().map(move |form| Chosen {
                format,
                form: Some(form),
            });
            let own = Chosen { format, form: None };
            let records = format.has_records().then_some(forms);
            let own = (!format.has_records()).then_some(own);
            own.into_iter().chain(records.into_iter().flatten())
        })
    }

    /// What is chosen where nothing is, the first of the list; with `--json` its records as they are.
    pub fn by_default(formats: &'static [&'static F], json: bool) -> Self {
        let mut all = Self::all(formats);
        all.find(|one| one.form.is_some_and(Form::is_json) == json)
            .expect("a list has a text first, and records")
    }

    /// What was `given`, or else the default.
    pub fn or_default(given: Option<Self>, formats: &'static [&'static F], json: bool) -> Self {
        given.unwrap_or_else(|| Self::by_default(formats, json))
    }

    /// What the user writes for it.
    pub fn name(&self) -> &'static str {
        self.form
            .map_or_else(|| self.format.name(), |form| form.name)
    }

    /// One line about it, for the help.
    pub fn about(&self) -> &'static str {
        self.form
            .map_or_else(|| self.format.about(), |form| form.about)
    }
}

/// The format of an answer that has one text, and records.
#[derive(Debug)]
pub struct Plain {
    name: &'static str,
    about: &'static str,
    records: bool,
}

impl Plain {
    /// A text of the command's own.
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Plain {
            name,
            about,
            records: false,
        }
    }
}

impl Format for Plain {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn has_records(&self) -> bool {
        self.records
    }
}

/// The entry of such an answer's list that stands for its records.
pub static RECORDS: Plain = Plain {
    name: "records",
    about: "Records",
    records: true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_all_forms_where_it_has_records() {
        static TEXT: Plain = Plain::text("table", "Columns");
        static LIST: &[&Plain] = &[&TEXT, &RECORDS];
        let names: Vec<_> = Chosen::all(LIST).map(|one| one.name()).collect();
        assert_eq!(names, ["table", "json", "csv", "markdown"]);
        assert_eq!(Chosen::by_default(LIST, false).name(), "table");
        assert_eq!(Chosen::by_default(LIST, true).name(), "json");
    }
}
