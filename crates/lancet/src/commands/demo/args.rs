//! The flags of `lancet demo`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use vm::Language;

/// Options of `lancet demo`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0, 1 something could not be shown, 2 wrong usage.")]
pub struct DemoArgs {
    /// The language of the server [default: the first of which an interpreter is in the PATH]
    #[arg(long, value_name = "LANGUAGE", value_parser = language())]
    pub language: Option<Language>,
}

fn language() -> impl TypedValueParser<Value = Language> {
    let names = Language::ALL.iter().map(|one| one.description().prefix);
    PossibleValuesParser::new(names).map(|name| {
        Language::of_prefix(&name).expect("the parser lets names of the list through alone")
    })
}
