//! The flags of `lancet fleet`. Used by `commands` and `run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::questions::{QUESTIONS, Question};
use crate::cli::duration::parse;

/// Options of `lancet fleet`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    /// What to ask
    #[arg(value_name = "QUESTION", value_parser = question())]
    pub question: &'static Question,

    /// The folder of tables that lancet export has written
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,

    /// Only of answers of so long ago at most (90m, 24h)
    #[arg(long, value_name = "DURATION", value_parser = parse)]
    pub since: Option<Duration>,

    /// Only of this release
    #[arg(long, value_name = "NAME")]
    pub release: Option<String>,

    /// Only of this host
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,

    /// Ask Spark at this address (spark://HOST:PORT, or local), by the Python module pyspark
    #[arg(long, value_name = "URL", conflicts_with = "clickhouse")]
    pub spark: Option<String>,

    /// Ask ClickHouse, by the Python module chdb
    #[arg(long)]
    pub clickhouse: bool,

    /// Print the SQL, to be asked by other means
    #[arg(long)]
    pub sql: bool,
}

fn question() -> impl TypedValueParser<Value = &'static Question> {
    let value = |one: &'static Question| PossibleValue::new(one.name).help(one.about);
    PossibleValuesParser::new(QUESTIONS.iter().map(value))
        .map(|name| Question::find(&name).expect("the parser lets names of the list through alone"))
}

const EXAMPLES: &str = "\
Examples:
  lancet fleet leaks --from fleet
  lancet fleet slow --from fleet --since 24h
  lancet fleet tune --from fleet --sql | duckdb

Exit status: 0, 1 could not be done, 2 wrong usage.";
