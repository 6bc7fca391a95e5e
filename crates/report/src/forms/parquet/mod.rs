//! Answers as Parquet, in one schema from a file to as many as a fleet has: `form` writes the rows of one answer, `export` all tables of saved ones.
//! Used by `forms` and by crate `lancet`.
//!
//! ```text
//! records → rows (by schema) → pages of columns, metadata (by thrift) → file
//! ```

mod any;
mod cells;
mod export;
mod file;
mod form;
mod pages;
mod rows;
mod schema;
mod thrift;

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

pub use export::{File, Flaw, answers, plain};
pub(super) use form::FORM;
pub use rows::Given;
