//! The form of an answer: the rows of its one table. Used by `forms`.

use std::io::{self, Write};

use super::any::ANY;
use super::file;
use super::rows::{self, Answer, Given};
use crate::forms::form::Form;
use crate::forms::lines::{Lines, Show};
use crate::forms::record::Record;

/// For data bases and whatever else reads Parquet.
pub(in crate::forms) static FORM: Form = Form {
    name: "parquet",
    about: "The rows as a Parquet file, for DuckDB, Spark, ClickHouse and the like (see docs/schema.md)",
    says_losses: false,
    is_text: false,
    is_head: None,
    over: |out| Lines::over(Rows::default(), out),
};

/// All is kept until the answer ends: what it has lost is a column.
#[derive(Default)]
struct Rows {
    answer: Answer,
}

impl Show for Rows {
    fn record(&mut self, record: Record, _: &mut dyn Write) -> io::Result<()> {
        self.answer.add(record);
        Ok(())
    }

    /// A text among the bytes of a file would make it one that nobody can read: it counts as lost.
    fn message(&mut self, _: &[u8], _: &mut dyn Write) -> io::Result<()> {
        self.answer.message();
        Ok(())
    }

    fn end(&mut self, is_whole: bool, out: &mut dyn Write) -> io::Result<()> {
        let answer = std::mem::take(&mut self.answer);
        if let Some(kind) = answer.without_table() {
            return match is_whole {
                true => Err(io::Error::other(format!(
                    "Parquet has no table for records `{kind}`: take --format json, or another question (docs/schema.md has the tables)"
                ))),
                false => Ok(()),
            };
        }
        let first = answer.end(&Given::default()).into_iter().next();
        let first = first.unwrap_or_else(|| rows::Rows::none(&ANY));
        // A whole answer without rows is a file all the same, which a query of many can read. One that was cut off says so in its rows: without any
        // it would read as one that found nothing.
        if !is_whole && first.rows.is_empty() {
            return Ok(());
        }
        out.write_all(&file::bytes(first))
    }
}
