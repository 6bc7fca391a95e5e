//! The rows of an answer as a table, for spreadsheets and whatever else reads RFC 4180.
//!
//! ```text
//! record,pid,place,type,born,live,dead,bytes,allocated
//! row,4242,app.rb:12,String,1000,900,100,36000,40000
//! ```
//!
//! The head has the fields of all rows that there are when it is written: of the first [`MOST_WAITING`], or of those that came before the answer
//! was handed on. A later row with another field begins another table, behind an empty line. What is no row (heads, sums, verdicts, losses) is
//! not in it; JSON has all.

use std::io::{self, Write};

use super::form::Form;
use super::lines::{Lines, Show};
use super::record::{Record, Role, Value};
use crate::text::printable;

/// For spreadsheets.
pub(super) static FORM: Form = Form {
    name: "csv",
    about: "The rows as a table of comma-separated values, for spreadsheets",
    over: |out| Lines::over(Csv::default(), out),
};

/// So many rows are looked at for the head.
const MOST_WAITING: usize = 1000;

#[derive(Default)]
struct Csv {
    /// The fields of the table that was begun; empty: none was.
    head: Vec<String>,
    /// Rows that came before it.
    waiting: Vec<Record>,
    /// A table was written before.
    is_next: bool,
}

impl Csv {
    /// Begins a table with the rows that wait.
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        self.head.clear();
        for (name, _) in waiting.iter().flat_map(|row| &row.fields) {
            if !self.head.contains(name) {
                self.head.push(name.clone());
            }
        }
        if std::mem::replace(&mut self.is_next, true) {
            writeln!(out)?;
        }
        let names = self.head.iter().map(|name| format!(",{}", cell(name)));
        writeln!(out, "record{}", names.collect::<String>())?;
        waiting.iter().try_for_each(|row| self.row(row, out))
    }

    fn row(&self, row: &Record, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}", cell(&row.kind))?;
        for name in &self.head {
            let text = match row.get(name) {
                Value::Number(number) => number.to_string(),
                other => cell(&other.cell()),
            };
            write!(out, ",{text}")?;
        }
        writeln!(out)
    }
}

impl Show for Csv {
    fn record(&mut self, record: Record, out: &mut dyn Write) -> io::Result<()> {
        if record.role() != Role::Row {
            return Ok(());
        }
        let is_of_table = |(name, _): &(String, Value)| self.head.contains(name);
        if !self.head.is_empty() && self.waiting.is_empty() && record.fields.iter().all(is_of_table)
        {
            return self.row(&record, out);
        }
        self.waiting.push(record);
        match self.waiting.len() < MOST_WAITING {
            true => Ok(()),
            false => self.begin(out),
        }
    }

    fn rest(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.begin(out)
    }

    fn end(&mut self, _: bool, out: &mut dyn Write) -> io::Result<()> {
        self.begin(out)
    }
}

/// A text as one cell. One that a spreadsheet would compute has an apostrophe in front: texts come from whatever the process was given.
fn cell(text: &str) -> String {
    let text = printable(text);
    let text = match text.starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text.into_owned(),
    };
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::tests::shown;
    use super::*;

    #[test]
    fn rows_of_one_table_have_one_head() {
        let text = shown(
            &FORM,
            &[
                r#"{"record":"process","pid":7}"#,
                r#"{"record":"row","place":{"path":"a.rb","line":3,"function":"f"},"type":"A, \"b\"","live":5}"#,
                r#"{"record":"before","type":"=1+1","live":-2,"list":[1,{"a":null}]}"#,
                r#"{"record":"total","live":3}"#,
                r#"{"record":"losses","losses":[],"more":0}"#,
            ],
        );
        assert_eq!(
            text,
            "record,place,type,live,list\n\
             row,a.rb:3 in f,\"A, \"\"b\"\"\",5,\n\
             before,,'=1+1,-2,\"[1,{\"\"a\"\":null}]\"\n"
        );
    }

    #[test]
    fn another_field_begins_another_table() {
        let row = |number: usize| format!("{{\"record\":\"row\",\"a\":{number}}}");
        let mut lines: Vec<String> = (0..MOST_WAITING).map(row).collect();
        lines.push(row(7));
        lines.push(r#"{"record":"row","b":8}"#.to_owned());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let text = shown(&FORM, &lines);
        assert!(text.starts_with("record,a\nrow,0\n"), "{text}");
        assert!(text.ends_with("row,7\n\nrecord,b\nrow,8\n"), "{text}");
    }
}
