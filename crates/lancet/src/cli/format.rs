//! The values of `--format`, taken from the list of a command's formats in `report`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use report::Format;

/// Returns a parser of the names of these formats. Help and completions list the names in the order of the list, each
/// with what it is.
pub fn one_of<F: Format>(
    formats: &'static [&'static F],
) -> impl TypedValueParser<Value = &'static F> {
    let value = |format: &&F| PossibleValue::new(format.name()).help(format.about());
    let names: Vec<PossibleValue> = formats.iter().map(value).collect();
    PossibleValuesParser::new(names).map(move |name| {
        let named = formats.iter().find(|format| format.name() == name);
        *named.expect("the parser lets names of the list through alone")
    })
}
