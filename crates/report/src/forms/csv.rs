//! The rows of an answer as a table, for spreadsheets and whatever else reads RFC 4180. Used by `forms`.
//!
//! ```text
//! record,pid,place,type,born,live,dead,bytes,allocated
//! row,4242,app.rb:12,String,1000,900,100,36000,40000
//! ```
//!
//! The head has the fields of all rows that there are when it is written: of the first [`MOST_WAITING`], or of those that came before the answer
//! was handed on. A later row with another field begins another table, behind an empty line. What is no row is
//! not in it (docs/output.md lists it) but for how many rows were cut off, and what was lost is told beside it; JSON has all.

use std::io::{self, Write};

use super::form::Form;
use super::lines::{Lines, Show};
use super::record::{Record, Role, Value};
use crate::text::printable;

/// For spreadsheets.
pub(super) static FORM: Form = Form {
    name: "csv",
    about: "The rows as a table of comma-separated values, for spreadsheets",
    says_losses: false,
    is_text: true,
    is_head: Some(|line| line.starts_with(b"record,")),
    over: |out| Lines::over(Csv::default(), out),
};

/// So many rows are looked at for the head.
const MOST_WAITING: usize = 1000;

/// Rows of which `--top` and `--min` cut some off. How many is known behind the last one, when the head of a long table was written.
const CUT: &[&str] = &[
    "row",
    "before",
    "growth",
    "holder",
    "group",
    "garbage",
    "equal_texts",
    "same_name",
    "sparse",
    "way",
];

/// The fields of what was cut off that no row has.
const REST: &[&str] = &["of", "rows"];

#[derive(Default)]
struct Csv {
    /// The fields of the table that was begun; empty: none was.
    head: Vec<String>,
    /// Rows that came before it.
    waiting: Vec<Record>,
    /// Fields that its head has whether a row has them or not.
    reserved: &'static [&'static str],
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
        for name in std::mem::take(&mut self.reserved) {
            if !self.head.iter().any(|known| known == name) {
                self.head.push((*name).to_owned());
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
        let record = match record.role() {
            Role::Row | Role::Rest => record,
            _ => match rest(record) {
                Some(rest) => rest,
                None => return Ok(()),
            },
        };
        let is_of_table = |(name, _): &(String, Value)| self.head.contains(name);
        if !self.head.is_empty() && self.waiting.is_empty() && record.fields.iter().all(is_of_table)
        {
            return self.row(&record, out);
        }
        self.waiting.push(record);
        if self.waiting.len() < MOST_WAITING {
            return Ok(());
        }
        let is_cut = |row: &Record| CUT.contains(&row.kind.as_str());
        if self.waiting.iter().any(is_cut) {
            self.reserved = REST;
        }
        self.begin(out)
    }

    fn rest(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.begin(out)
    }

    fn end(&mut self, _: bool, out: &mut dyn Write) -> io::Result<()> {
        self.begin(out)
    }
}

/// The row with the sum of those that were cut off, if a record that is no row says it.
fn rest(mut record: Record) -> Option<Record> {
    let at = record.fields.iter().position(|(name, _)| name == "rest")?;
    let Value::Object(sum) = record.fields.swap_remove(at).1 else {
        return None;
    };
    let pid = record.fields.into_iter().filter(|(name, _)| name == "pid");
    Some(Record {
        kind: "rest".to_owned(),
        fields: pid.chain(sum).collect(),
    })
}

/// A text as one cell. One that a spreadsheet would compute has an apostrophe in front: texts come from whatever the process was given.
fn cell(text: &str) -> String {
    let text = printable(text);
    let text = match is_computed(&text) {
        true => format!("'{text}"),
        false => text.into_owned(),
    };
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Whether a spreadsheet might compute a text. A number is what it is, and so are results with their errors, `-1 ENOENT (No such file)`, and
/// lines of a script of the command line, `-e:1`: they neither refer to cells nor name functions.
fn is_computed(text: &str) -> bool {
    let number = text.strip_prefix("-e:").or(text.strip_prefix('-'));
    let Some(number) = number else {
        return text.starts_with(['=', '+', '-', '@']);
    };
    let digits = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < number.len();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " .,_:".contains(c);
    let rest = match digits.split_once(" (") {
        Some((error, text)) => error.to_owned() + text.strip_suffix(')').unwrap_or("("),
        None => digits.to_owned(),
    };
    !is_number || !rest.starts_with([' ', '.']) && !rest.is_empty() || !rest.chars().all(is_plain)
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
    fn what_was_cut_off_is_a_row() {
        let text = shown(
            &FORM,
            &[
                r#"{"record":"row","pid":7,"live":5}"#,
                r#"{"record":"total","pid":7,"live":9,"rest":{"rows":12,"live":4}}"#,
                r#"{"record":"total","pid":8,"live":9,"rest":null}"#,
                r#"{"record":"rest","of":"types","rows":3,"objects":null}"#,
            ],
        );
        assert_eq!(
            text,
            "record,pid,live,rows,of,objects\nrow,7,5,,,\nrest,7,4,12,,\nrest,,,3,types,\n"
        );
    }

    #[test]
    fn what_was_cut_off_of_a_long_table_is_a_row_of_it() {
        let row = |number: usize| format!("{{\"record\":\"row\",\"live\":{number}}}");
        let mut lines: Vec<String> = (0..=MOST_WAITING).map(row).collect();
        lines.push(r#"{"record":"total","live":9,"rest":{"rows":12,"live":4}}"#.to_owned());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let text = shown(&FORM, &lines);
        assert!(text.starts_with("record,live,of,rows\nrow,0,,\n"), "{text}");
        assert!(text.ends_with("row,1000,,\nrest,4,,12\n"), "{text}");
    }

    #[test]
    fn a_number_is_none_that_would_be_computed() {
        for text in [
            "-1",
            "-1 ENOENT (No such file or directory)",
            "-e:1 in f",
            "-1.5",
        ] {
            assert_eq!(cell(text), text);
        }
        for text in [
            "-1+cmd|'/C calc'!A0",
            "-A1",
            "-e",
            "-1 A(1)",
            "-2-3",
            "=1",
            "+1",
            "@SUM(1)",
            "-1 (a(b))",
        ] {
            assert_eq!(cell(text), format!("'{text}"));
        }
        let row = r#"{"record":"syscall","result":"-1 ENOENT (No such file or directory)","place":{"path":"-e","line":1,"function":null}}"#;
        assert_eq!(
            shown(&FORM, &[row]),
            "record,result,place\nsyscall,-1 ENOENT (No such file or directory),-e:1\n"
        );
    }

    #[test]
    fn another_field_begins_another_table() {
        let row = |number: usize| format!("{{\"record\":\"place\",\"a\":{number}}}");
        let mut lines: Vec<String> = (0..MOST_WAITING).map(row).collect();
        lines.push(row(7));
        lines.push(r#"{"record":"place","b":8}"#.to_owned());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let text = shown(&FORM, &lines);
        assert!(text.starts_with("record,a\nplace,0\n"), "{text}");
        assert!(text.ends_with("place,7\n\nrecord,b\nplace,8\n"), "{text}");
    }
}
