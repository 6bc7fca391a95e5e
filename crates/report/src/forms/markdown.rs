//! An answer in short, to be pasted into an issue or given to an assistant: of each process what was found first, as sentences, then the
//! beginning of each table, and at the end what was lost.
//!
//! ```text
//! ### `ruby app.rb` (process 4242, Ruby 3.1.2)
//!
//! **leak: app.rb:12:String grew in each of 4 quarters …**
//!
//! | place | type | live |
//! |---|---|--:|
//! | `app.rb:12` | `String` | 900 |
//!
//! Nothing was lost.
//! ```
//!
//! Texts come from whatever the process was given: a word that Markdown or a site that shows it would take for something else stands in a code
//! span.

use std::io::{self, Write};
use std::time::Duration;

use super::form::Form;
use super::lines::{Lines, Show};
use super::record::{Record, Role, Value};
use crate::figures::{grouped, pause, size};
use crate::text::printable;

/// For an issue.
pub(super) static FORM: Form = Form {
    name: "markdown",
    about: "In short, to be pasted into an issue or given to an assistant",
    over: |out| Lines::over(Markdown::default(), out),
};

/// Rows of a table, and sentences of a kind.
const MOST_ROWS: usize = 10;
/// Processes that are told one by one.
const MOST_SECTIONS: usize = 16;
/// Columns of a table.
const MOST_COLUMNS: usize = 8;
/// Facts of a record that is no row.
const MOST_FACTS: usize = 16;
/// Characters of a cell.
const WIDEST: usize = 80;
/// Fields that only programs can use. Addresses, lists of objects, and points in time are left out too.
const FOR_PROGRAMS: &[&str] = &[
    "depth",
    "ended",
    "from",
    "module",
    "of_2009",
    "registers",
    "schema",
    "why",
    "xmm",
];

/// What is told of one process, or of several together.
#[derive(Default)]
struct Section {
    processes: Vec<String>,
    more_processes: u64,
    tables: Vec<Table>,
}

/// Records of one kind.
struct Table {
    title: String,
    is_of_rows: bool,
    records: Vec<Record>,
    more: u64,
}

#[derive(Default)]
struct Markdown {
    section: Section,
    /// How many sections were written, and how many were left out.
    written: usize,
    left_out: u64,
    losses: Vec<String>,
    more_losses: u64,
}

impl Section {
    fn add(&mut self, mut record: Record) {
        if record.role() == Role::Facts {
            record.fields = flat(record.fields);
        }
        let by = record.text("by").filter(|_| record.kind == "group");
        let title = by.map_or_else(
            || record.kind.clone(),
            |by| format!("{} by {by}", record.kind),
        );
        let is_of_rows = record.role() == Role::Row;
        let known = self.tables.iter().position(|table| table.title == title);
        let at = known.unwrap_or_else(|| {
            self.tables.push(Table {
                title,
                is_of_rows,
                records: Vec::new(),
                more: 0,
            });
            self.tables.len() - 1
        });
        let table = &mut self.tables[at];
        match table.records.len() < MOST_ROWS {
            true => table.records.push(record),
            false => table.more += 1,
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.processes.is_empty() {
            let more = match self.more_processes {
                0 => String::new(),
                more => format!(", and {} more", grouped(more)),
            };
            writeln!(out, "### {}{more}", self.processes.join(", "))?;
        }
        let (said, tables): (Vec<_>, Vec<_>) =
            self.tables.iter().partition(|table| table.is_said());
        // What was found before what is to be known of it.
        let (notes, found): (Vec<&Table>, Vec<&Table>) =
            said.into_iter().partition(|table| table.title == "note");
        let mut before = Some("\n");
        for (number, table) in found.into_iter().chain(notes).enumerate() {
            let texts = table
                .records
                .iter()
                .filter_map(|record| record.text("text"));
            for (at, text) in texts.map(prose).enumerate() {
                match (number, at) {
                    (0, 0) => writeln!(out, "\n**{text}**")?,
                    _ => writeln!(out, "{}- {text}", before.take().unwrap_or_default())?,
                }
            }
            more(out, "- ", table.more)?;
        }
        let (rows, facts): (Vec<&Table>, Vec<&Table>) =
            tables.into_iter().partition(|table| table.is_of_rows);
        for table in rows.into_iter().chain(facts) {
            table.write(
                out,
                self.processes.len() + self.more_processes as usize == 1,
            )?;
        }
        Ok(())
    }
}

impl Table {
    /// Whether its records are sentences.
    fn is_said(&self) -> bool {
        self.records
            .iter()
            .all(|record| record.text("text").is_some())
    }

    fn write(&self, out: &mut dyn Write, is_of_one: bool) -> io::Result<()> {
        let columns = self.columns(is_of_one);
        if columns.is_empty() {
            return Ok(());
        }
        let title = self.title.replace('_', " ");
        if let ([one], false) = (&self.records[..], self.is_of_rows) {
            let facts = columns.iter().map(|(name, _)| {
                let value = one.get(name);
                format!("{} {}", head(name), shown(name, value))
            });
            return writeln!(out, "\n{title}: {}", facts.collect::<Vec<_>>().join(", "));
        }
        let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let heads = columns.iter().map(|(name, _)| head(name)).collect();
        let rules = columns.iter().map(|(_, is_number)| match is_number {
            true => "--:",
            false => "---",
        });
        let rules = rules.collect::<Vec<_>>().join("|");
        writeln!(out, "\n{title}\n\n{}\n|{rules}|", row(heads))?;
        for record in &self.records {
            let cells = columns
                .iter()
                .map(|(name, _)| shown(name, record.get(name)));
            writeln!(out, "{}", row(cells.collect()))?;
        }
        more(out, "\n", self.more)
    }

    /// The fields that are shown, and whether they are numbers: those that say something in some row.
    fn columns(&self, is_of_one: bool) -> Vec<(String, bool)> {
        let mut columns: Vec<(String, bool)> = Vec::new();
        for (name, value) in self.records.iter().flat_map(|record| &record.fields) {
            // What a title says, or the heading.
            let is_said = is_of_one && name == "pid" || name == "by" && self.title.contains(" by ");
            let is_told = !is_said && !FOR_PROGRAMS.contains(&name.as_str());
            let is_known = columns.iter().any(|(known, _)| known == name);
            if is_told && !is_known && !is_moment(name) && says_something(value) {
                columns.push((name.clone(), matches!(value, Value::Number(_))));
            }
        }
        columns.truncate(match self.is_of_rows {
            true => MOST_COLUMNS,
            false => MOST_FACTS,
        });
        columns
    }
}

/// The fields, and those of objects among them that are no places: `rows` of `rest` is `rest_rows`.
fn flat(fields: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let each = fields.into_iter().flat_map(|(name, value)| match value {
        Value::Object(inner) if is_no_place(&inner) => {
            let named = inner.into_iter();
            let named = named.map(|(field, value)| (format!("{name}_{field}"), value));
            named.collect()
        }
        value => vec![(name, value)],
    });
    each.collect()
}

fn is_no_place(fields: &[(String, Value)]) -> bool {
    !fields.iter().any(|(name, _)| name == "path")
}

/// Says how many are left out.
fn more(out: &mut dyn Write, before: &str, count: u64) -> io::Result<()> {
    match count {
        0 => Ok(()),
        count => writeln!(
            out,
            "{before}… and {} more; `--format json` has all",
            grouped(count)
        ),
    }
}

/// Whether a field is a point in time.
fn is_moment(name: &str) -> bool {
    ["time_ns", "since_ns", "monotonic_ns"].contains(&name) || name.ends_with("_at_ns")
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Number(0) => false,
        Value::Text(text) => !text.is_empty() && !text.starts_with("0x"),
        Value::List(all) => !all.is_empty() && all.iter().all(|one| item(one).is_some()),
        Value::Object(_) => !value.cell().starts_with('{'),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// An item of a list: a text, a number, a place, or the name of what else it is; `None`: it has none.
fn item(value: &Value) -> Option<String> {
    let Value::Object(fields) = value else {
        return matches!(value, Value::Text(_) | Value::Number(_)).then(|| value.cell());
    };
    if !is_no_place(fields) {
        return Some(value.cell());
    }
    let get = |of: &str| fields.iter().find(|(name, _)| name == of);
    let named = [get("name"), get("address")].into_iter().flatten();
    let mut texts = named.map(|(_, value)| value.cell());
    texts.find(|text| !text.is_empty())
}

/// What a column is called.
fn head(name: &str) -> String {
    name.strip_suffix("_ns").unwrap_or(name).replace('_', " ")
}

/// A value as a person reads it.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => figure(name, *number),
        Value::List(all) => {
            let all: Vec<String> = all.iter().filter_map(item).collect();
            code(&all.join(", "))
        }
        other => code(&other.cell()),
    }
}

fn figure(name: &str, number: i128) -> String {
    let sign = if number < 0 { "-" } else { "" };
    let number = u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX);
    let is_size = ["pss", "resident", "retained", "rss", "swap"].contains(&name);
    let text = match name {
        "pid" | "tid" | "line" => number.to_string(),
        _ if name.ends_with("_ns") => pause(Duration::from_nanos(number)),
        _ if is_size || name.ends_with("bytes") => size(number),
        _ => grouped(number),
    };
    format!("{sign}{text}")
}

/// A text as one cell: what it holds is no Markdown there.
fn code(text: &str) -> String {
    let text = printable(text);
    let mut text: String = match text.chars().count() > WIDEST {
        true => text.chars().take(WIDEST - 1).chain(['…']).collect(),
        false => text.into_owned(),
    };
    if text.is_empty() {
        return text;
    }
    // The one character that ends a cell within a code span too.
    text = text.replace('|', "\\|");
    match text.contains('`') {
        true => format!("`` {} ``", text.replace("``", "` `")),
        false => format!("`{text}`"),
    }
}

/// A sentence, of which words that are no plain ones stand in code spans.
fn prose(text: &str) -> String {
    let special = |c: char| {
        matches!(
            c,
            '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '@' | '#' | '|' | '~' | '&' | '!'
        )
    };
    let text = printable(text);
    let words = text.split(' ').map(|word| match word.contains(special) {
        true => code(word),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Which process it is.
fn process(record: &Record) -> String {
    let command = match record.get("command") {
        Value::List(words) => words.iter().map(Value::cell).collect::<Vec<_>>().join(" "),
        other => other.cell(),
    };
    let mut about = Vec::new();
    if let Value::Number(pid) = record.get("pid") {
        about.push(format!("process {pid}"));
    }
    if let Value::List(languages) = record.get("languages") {
        about.extend(languages.iter().filter_map(|language| match language {
            Value::Object(fields) => {
                let fields = fields.iter().map(|(_, value)| value.cell());
                Some(prose(fields.collect::<Vec<_>>().join(" ").trim_end()))
            }
            _ => None,
        }));
    }
    match about.is_empty() {
        true => code(&command),
        false => format!("{} ({})", code(&command), about.join(", ")),
    }
}

impl Markdown {
    /// Writes what was told until now, and begins anew.
    fn next(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let section = std::mem::take(&mut self.section);
        if section.processes.is_empty() && section.tables.is_empty() {
            return Ok(());
        }
        if self.written >= MOST_SECTIONS {
            self.left_out += 1;
            return Ok(());
        }
        if self.written > 0 {
            writeln!(out)?;
        }
        self.written += 1;
        section.write(out)
    }
}

impl Show for Markdown {
    fn record(&mut self, record: Record, out: &mut dyn Write) -> io::Result<()> {
        match record.role() {
            Role::Process => {
                if !self.section.tables.is_empty() {
                    self.next(out)?;
                }
                match self.section.processes.len() < MOST_ROWS {
                    true => self.section.processes.push(process(&record)),
                    false => self.section.more_processes += 1,
                }
            }
            Role::Losses => {
                let Value::List(losses) = record.get("losses") else {
                    return Ok(());
                };
                for loss in losses {
                    let Value::Object(fields) = loss else {
                        continue;
                    };
                    let text = fields.iter().find(|(name, _)| name == "text");
                    match text.filter(|_| self.losses.len() < MOST_ROWS) {
                        Some((_, text)) => self.losses.push(text.cell()),
                        None => self.more_losses += 1,
                    }
                }
                if let Value::Number(more) = record.get("more") {
                    self.more_losses += u64::try_from(*more).unwrap_or(0);
                }
            }
            // The report's own losses are among those of the run.
            _ if record.kind == "loss" => {}
            Role::Facts | Role::Row => self.section.add(record),
        }
        Ok(())
    }

    fn end(&mut self, is_whole: bool, out: &mut dyn Write) -> io::Result<()> {
        self.next(out)?;
        if self.left_out > 0 {
            writeln!(
                out,
                "\n… and {} more processes or looks; `--format json` has all",
                grouped(self.left_out)
            )?;
        }
        match (is_whole, self.losses.is_empty()) {
            (false, _) if self.written == 0 => return Ok(()),
            (false, _) => writeln!(out, "\n**The answer was cut off here.**")?,
            (true, true) => writeln!(out, "\nNothing was lost.")?,
            (true, false) => writeln!(out, "\n**Lost:**\n")?,
        }
        for text in &self.losses {
            writeln!(out, "- {}", prose(text))?;
        }
        more(out, "- ", self.more_losses)
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::tests::shown;
    use super::*;

    const PROCESS: &str = r#"{"record":"process","schema":2,"pid":7,"command":["ruby","a|b.rb"],"languages":[{"name":"Ruby","version":"3.1.2"}]}"#;
    #[test]
    fn what_was_found_comes_first_and_what_was_lost_last() {
        let text = shown(
            &FORM,
            &[
                PROCESS,
                r#"{"record":"note","pid":7,"text":"a note"}"#,
                r#"{"record":"row","pid":7,"place":{"path":"a.rb","line":3,"function":"__init__"},"address":"0x7f","mean_ns":1500000,"bytes":2048,"failed":0}"#,
                r#"{"record":"total","calls":1234}"#,
                r#"{"record":"verdict","text":"leak: @cache of <main>"}"#,
                r#"{"record":"losses","losses":[{"pid":7,"what":"gap","count":null,"text":"a gap"}],"more":2}"#,
            ],
        );
        assert_eq!(
            text,
            "### `ruby a\\|b.rb` (process 7, Ruby 3.1.2)\n\n\
             **leak: `@cache` of `<main>`**\n\n\
             - a note\n\n\
             row\n\n\
             | place | mean | bytes |\n|---|--:|--:|\n| `a.rb:3 in __init__` | 1.5 ms | 2.0 KiB |\n\n\
             total: calls 1,234\n\n\
             **Lost:**\n\n- a gap\n- … and 2 more; `--format json` has all\n"
        );
    }

    #[test]
    fn tables_and_processes_are_bounded_and_what_is_left_out_is_numbered() {
        let mut lines = Vec::new();
        for _ in 0..MOST_SECTIONS + 2 {
            lines.push(PROCESS);
            lines.extend([r#"{"record":"row","live":5}"#; MOST_ROWS + 3]);
        }
        lines.push(r#"{"record":"losses","losses":[],"more":0}"#);
        let text = shown(&FORM, &lines);
        let count = |of: &str| text.matches(of).count();
        assert_eq!(
            (count("### "), count("| 5 |")),
            (MOST_SECTIONS, MOST_SECTIONS * MOST_ROWS)
        );
        assert_eq!(count("… and 3 more; "), MOST_SECTIONS);
        assert!(
            text.ends_with(
                "… and 2 more processes or looks; `--format json` has all\n\nNothing was lost.\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn an_answer_that_is_cut_off_says_so() {
        let row = r#"{"record":"row","live":5}"#;
        assert!(shown(&FORM, &[row]).ends_with("**The answer was cut off here.**\n"));
        assert_eq!(shown(&FORM, &[]), "");
    }
}
