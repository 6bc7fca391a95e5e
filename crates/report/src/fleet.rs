//! The answer of `lancet fleet`: a sentence first, then the rows that an engine has found. Used by crate
//! `lancet`.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::Style;
use crate::columns::{Line, Tone, aligned};
use crate::figures::{grouped, pause, size, span};
use crate::text::printable;

/// A row as the engine has it, by the names of its columns.
pub type Row = Map<String, Value>;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// How many.
    Count,
    /// Bytes.
    Size,
    /// Nanoseconds.
    Time,
    /// A share.
    Percent,
    /// A text.
    Text,
}

/// A column that stands in front of what a row is about.
#[derive(Debug)]
pub struct Column {
    /// Its name in the row.
    pub name: &'static str,
    /// Its heading.
    pub head: &'static str,
    /// What a value is.
    pub unit: Unit,
}

/// How rows are told.
#[derive(Debug)]
pub struct Words {
    /// The sentence on the first row: `{hosts}` is the value of a column as the table has it, `{place}` the file and line.
    pub verdict: &'static str,
    /// What is said where there is no row.
    pub none: &'static str,
    /// The columns in front.
    pub columns: &'static [Column],
    /// What a row is about, with the same signs.
    pub about: &'static str,
}

/// Writes the verdict, and the rows in the engine's order.
///
/// # Errors
/// Those of the output.
pub fn write(out: &mut dyn Write, words: &Words, rows: &[Row], style: &Style) -> io::Result<()> {
    let Some(first) = rows.first() else {
        return writeln!(out, "{}", words.none);
    };
    writeln!(out, "{}\n", filled(words, words.verdict, first))?;
    let heads = words.columns.iter().map(|column| column.head.to_owned());
    let mut lines = vec![Line::words(heads.collect(), "", Tone::Head)];
    for row in rows {
        let cells = words.columns.iter().map(|column| cell(row, column));
        let about = filled(words, words.about, row);
        lines.push(Line::row(cells.collect(), about, Tone::Plain, Vec::new()));
    }
    aligned(out, &lines, style)
}

/// A text with the values of a row in it.
fn filled(words: &Words, text: &str, row: &Row) -> String {
    let mut parts = text.split('{');
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let known = words.columns.iter().find(|column| column.name == name);
        made += &match (name, known) {
            ("place", _) => place(row),
            (_, Some(column)) => cell(row, column),
            (name, None) => plain(row.get(name)),
        };
        made += rest;
    }
    made
}

/// The file and line, as far as they are known.
fn place(row: &Row) -> String {
    match (row.get("file"), row.get("line")) {
        (Some(Value::String(file)), Some(Value::Number(line))) => {
            printable(&format!("{file}:{line}")).into_owned()
        }
        (Some(Value::String(file)), _) => printable(file).into_owned(),
        _ => "(no line)".to_owned(),
    }
}

fn cell(row: &Row, column: &Column) -> String {
    let value = row.get(column.name);
    let Some(number) = value.and_then(Value::as_f64) else {
        return plain(value);
    };
    let whole = number.max(0.0) as u64;
    match column.unit {
        Unit::Count => grouped(whole),
        Unit::Size => size(whole),
        Unit::Time if whole >= 1_000_000_000 => span(number / 1e9),
        Unit::Time => pause(Duration::from_nanos(whole)),
        Unit::Percent => format!("{number:.1} %"),
        Unit::Text => plain(value),
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => printable(text).into_owned(),
        None | Some(Value::Null) => "(not known)".to_owned(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words = Words {
        verdict: "{place} {type} leaks on {hosts} hosts since {release}",
        none: "nothing leaks",
        columns: &[
            Column {
                name: "hosts",
                head: "HOSTS",
                unit: Unit::Count,
            },
            Column {
                name: "bytes",
                head: "BYTES",
                unit: Unit::Size,
            },
        ],
        about: "{place} {type}",
    };

    fn shown(rows: &str) -> String {
        let rows: Vec<Row> = serde_json::from_str(rows).expect("JSON");
        let mut out = Vec::new();
        write(&mut out, &WORDS, &rows, &Style::default()).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_first_row_is_a_sentence() {
        let rows = r#"[{"file":"app.rb","line":12,"type":"String","hosts":1200,"bytes":4096,"release":null},
            {"file":null,"line":null,"type":"\u001b[2J","hosts":1,"bytes":7}]"#;
        let text = shown(rows);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "app.rb:12 String leaks on 1,200 hosts since (not known)",
                "",
                "HOSTS    BYTES",
                "1,200  4.0 KiB  app.rb:12 String",
                "1      7 B  (no line) \\x1b[2J",
            ]
        );
    }

    #[test]
    fn no_row_is_a_sentence_too() {
        assert_eq!(shown("[]"), "nothing leaks\n");
    }
}
