//! `lancet fleet`: fixed questions to the answers of many hosts, by an engine that the user has (docs/fleet.md).
//!
//! A question is a file of SQL and the words for its rows ([`questions`]); an engine is told which files are its tables ([`engine`]). None is
//! linked: DuckDB alone would be ten times the program.

mod args;
mod engine;
mod questions;
mod run;

pub use args::FleetArgs;
pub use run::run;
