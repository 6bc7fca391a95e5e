//! The values of `--format`: those of a command's list of formats in `report`, and of what has records all forms that show records.
//! Used by `commands::calls::args`, `commands::syscalls::asks`, `commands::heap::args` and others.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use report::FormatEntry;
use report::forms::Chosen;

use crate::exit::Usage;

/// Returns a parser of what can be chosen of these formats. Help and completions list the names in the order of the list, each
/// with what it is.
pub fn one_of<F: FormatEntry>(
    formats: &'static [&'static F],
) -> impl TypedValueParser<Value = Chosen<F>> {
    let value = |one: Chosen<F>| PossibleValue::new(one.name()).help(one.about());
    let names: Vec<PossibleValue> = Chosen::all(formats).map(value).collect();
    PossibleValuesParser::new(names).map(move |name| {
        Chosen::all(formats)
            .find(|one| one.name() == name)
            .expect("the parser lets names of the list through alone")
    })
}

/// Refuses a format that is chosen for an answer which has the first one of the list and records alone, without tables; `what` the answer is.
///
/// # Errors
/// It is another: the error says which there are.
pub fn require_first_or_records<F: FormatEntry>(
    chosen: Chosen<F>,
    formats: &'static [&'static F],
    what: &str,
) -> Result<(), Usage> {
    match lacks_form(chosen, formats, what) {
        Some(text) => Err(Usage(text)),
        None => Ok(()),
    }
}

/// What is wrong where such an answer is asked for in another format.
pub fn lacks_form<F: FormatEntry>(
    chosen: Chosen<F>,
    formats: &'static [&'static F],
    what: &str,
) -> Option<String> {
    let is_records = |one: &Chosen<F>| one.records().is_some() && one.is_text();
    if is_records(&chosen) || std::ptr::eq(chosen.format, formats[0]) {
        return None;
    }
    let first = Chosen::entry(formats[0]).name();
    let others = Chosen::all(formats).filter(is_records);
    let others: Vec<&str> = others.map(|one| one.name()).collect();
    Some(format!(
        "{what} has no --format {}: there are {first}, {}",
        chosen.name(),
        others.join(", ")
    ))
}

/// What is wrong where one of these flags is given that what is chosen has nothing for.
pub fn flaw_of_flags<F: FormatEntry>(chosen: Chosen<F>, flags: &[(bool, &str)]) -> Option<String> {
    let (_, flag) = flags.iter().find(|(given, _)| *given)?;
    Some(format!(
        "--format {} has nothing that {flag} would change: leave one of the two away",
        chosen.name()
    ))
}
