//! An answer in short, to be pasted into an issue or given to an assistant: of each process what was found first, as sentences, then the
//! beginning of each table, and at the end what was lost. Used by `forms`.
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

use super::form::Form;
use super::lines::{Lines, Show};
use super::record::{Record, Role, Value};
use crate::figures::{grouped, plural};
use table::Table;
use text::{code, prose};

mod cells;
mod table;
mod text;

#[cfg(test)]
mod tests;

/// For an issue.
pub(super) static FORM: Form = Form {
    name: "markdown",
    about: "In short, to be pasted into an issue or given to an assistant",
    says_losses: true,
    is_head: None,
    over: |out| Lines::over(Markdown::default(), out),
};

/// Rows of a table, sentences of a kind, and stacks whose frames are told.
const MOST_ROWS: usize = 10;
/// Processes that are told one by one.
const MOST_SECTIONS: usize = 16;
/// Sentences of verdicts on the others.
const MOST_VERDICTS: usize = 100;

/// The heading of a process.
struct Head {
    pid: Option<i128>,
    text: String,
}

/// What is told of one process, or of several together.
#[derive(Default)]
struct Section {
    heads: Vec<Head>,
    more_heads: u64,
    /// Looks in whose place a later one is.
    earlier: u64,
    tables: Vec<Table>,
    /// Frames of stacks whose frames are not told.
    more_frames: u64,
}

/// All is kept until the answer ends: a later look at a process takes the place of an earlier one.
#[derive(Default)]
struct Markdown {
    sections: Vec<Section>,
    /// The one that records without a process are of; `None`: one that is left out.
    at: Option<usize>,
    /// Processes that are left out, what was found in them, and the verdicts that are left out with them.
    left_out: u64,
    /// The process that is left out now.
    about: String,
    verdicts: Vec<String>,
    more_verdicts: u64,
    losses: Vec<String>,
    more_losses: u64,
}

impl Section {
    fn add(&mut self, record: Record) {
        let title = table::title(&record);
        let known = self.tables.iter().position(|table| table.title == title);
        if known.is_none() && record.kind == "frame" {
            let is_of_frames = |table: &&Table| table.kind == "frame";
            if self.tables.iter().filter(is_of_frames).count() >= MOST_ROWS {
                self.more_frames += 1;
                return;
            }
        }
        let at = known.unwrap_or_else(|| {
            let table = Table::new(record.kind.clone(), title, record.role());
            self.tables.push(table);
            self.tables.len() - 1
        });
        self.tables[at].add(record);
    }

    /// The process is told of once more: a look takes the place of the one before, and all else goes on.
    fn again(&mut self, head: Head) {
        if self.tables.iter().any(|table| table.kind == "look") {
            self.tables.clear();
            self.more_frames = 0;
            self.earlier += 1;
        }
        if let Some(known) = self.heads.iter_mut().find(|known| known.pid == head.pid) {
            // It runs another program now.
            *known = head;
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.heads.is_empty() {
            let more = match self.more_heads {
                0 => String::new(),
                more => format!(", and {} more", grouped(more)),
            };
            let heads: Vec<&str> = self.heads.iter().map(|head| &*head.text).collect();
            writeln!(out, "### {}{more}", heads.join(", "))?;
        }
        self.say(out)?;
        if self.earlier > 0 {
            let earlier = grouped(self.earlier);
            writeln!(
                out,
                "\nThe last look; `--format json` has the {earlier} before it."
            )?;
        }
        let pid = match (&self.heads[..], self.more_heads) {
            ([one], 0) => one.pid,
            _ => None,
        };
        let tables = self.tables.iter();
        let tables = tables.filter(|table| table.sentences().is_none());
        let (rows, facts): (Vec<&Table>, Vec<&Table>) = tables.partition(|table| table.is_of_rows);
        for table in rows {
            table.write(out, pid)?;
        }
        if self.more_frames > 0 {
            let frames = grouped(self.more_frames);
            writeln!(
                out,
                "\n… and {frames} frames of more stacks; `--format json` has all"
            )?;
        }
        facts.iter().try_for_each(|table| table.write(out, pid))
    }

    /// Writes its sentences: what was found before what is to be known of it.
    fn say(&self, out: &mut dyn Write) -> io::Result<()> {
        let said = |are_notes: bool| {
            let tables = self.tables.iter();
            tables.filter(move |table| (table.kind == "note") == are_notes)
        };
        let said = said(false).chain(said(true)).filter_map(Table::sentences);
        let mut before = Some("\n");
        for (number, (texts, left_out)) in said.enumerate() {
            for (at, text) in texts.into_iter().map(prose).enumerate() {
                match (number, at) {
                    (0, 0) => writeln!(out, "\n**{text}**")?,
                    _ => writeln!(out, "{}- {text}", before.take().unwrap_or_default())?,
                }
            }
            more(out, "- ", left_out, 0)?;
        }
        Ok(())
    }
}

/// Says how many are left out, and how many fields of those that are told.
fn more(out: &mut dyn Write, before: &str, count: u64, fields: u64) -> io::Result<()> {
    let of_fields = format!(
        "{} more {}",
        grouped(fields),
        plural(fields, "field", "fields")
    );
    let left_out = match (count, fields) {
        (0, 0) => return Ok(()),
        (0, _) => of_fields,
        (_, 0) => format!("{} more", grouped(count)),
        _ => format!("{} more, and {of_fields}", grouped(count)),
    };
    writeln!(out, "{before}… and {left_out}; `--format json` has all")
}

impl Markdown {
    /// A process, before all else of it.
    fn process(&mut self, record: &Record) {
        let head = Head {
            pid: pid(record),
            text: process(record),
        };
        let known = self.of_process(head.pid);
        let last = self.sections.len().checked_sub(1);
        let is_empty = |at: usize| self.sections[at].tables.is_empty();
        match (known, last.filter(|at| is_empty(*at))) {
            (Some(at), _) => {
                self.at = Some(at);
                self.sections[at].again(head);
            }
            (None, Some(at)) => {
                let section = &mut self.sections[at];
                match section.heads.len() < MOST_ROWS {
                    true => section.heads.push(head),
                    false => section.more_heads += 1,
                }
            }
            (None, None) if self.sections.len() >= MOST_SECTIONS => {
                self.left_out += 1;
                self.about = head.text;
                self.at = None;
            }
            (None, None) => {
                self.at = Some(self.sections.len());
                let heads = vec![head];
                self.sections.push(Section {
                    heads,
                    ..Section::default()
                });
            }
        }
    }

    /// The section whose heading has the process.
    fn of_process(&self, pid: Option<i128>) -> Option<usize> {
        let has = |section: &Section| section.heads.iter().any(|head| head.pid == pid);
        self.sections.iter().position(has)
    }

    fn add(&mut self, record: Record) {
        if self.sections.is_empty() {
            self.sections.push(Section::default());
            self.at = Some(0);
        }
        let of_process = pid(&record).and_then(|pid| self.of_process(Some(pid)));
        match (of_process.or(self.at), record.text("text")) {
            (Some(at), _) => self.sections[at].add(record),
            (None, Some(text)) if record.kind == "verdict" => {
                match self.verdicts.len() < MOST_VERDICTS {
                    true => self
                        .verdicts
                        .push(format!("{}: {}", self.about, prose(text))),
                    false => self.more_verdicts += 1,
                }
            }
            // It is of a process that is counted.
            (None, _) => {}
        }
    }

    fn lost(&mut self, record: &Record) {
        let Value::List(losses) = record.get("losses") else {
            return;
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
}

impl Show for Markdown {
    fn record(&mut self, record: Record, _: &mut dyn Write) -> io::Result<()> {
        match record.role() {
            Role::Process => self.process(&record),
            Role::Losses => self.lost(&record),
            // The report's own losses are among those of the run.
            _ if record.kind == "loss" => {}
            Role::Facts | Role::Row | Role::Rest => self.add(record),
        }
        Ok(())
    }

    fn end(&mut self, is_whole: bool, out: &mut dyn Write) -> io::Result<()> {
        for (number, section) in self.sections.iter_mut().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            section.tables.iter_mut().for_each(Table::end);
            section.write(out)?;
        }
        if self.left_out > 0 {
            let left_out = grouped(self.left_out);
            writeln!(
                out,
                "\n… and {left_out} more processes; `--format json` has all"
            )?;
            for (number, verdict) in self.verdicts.iter().enumerate() {
                let before = if number == 0 { "\n" } else { "" };
                writeln!(out, "{before}- {verdict}")?;
            }
            more(out, "- ", self.more_verdicts, 0)?;
        }
        match (is_whole, self.losses.is_empty() && self.more_losses == 0) {
            (false, _) if self.sections.is_empty() => return Ok(()),
            (false, _) => writeln!(out, "\n**The answer was cut off here.**")?,
            (true, true) => writeln!(out, "\nNothing was lost.")?,
            (true, false) => writeln!(out, "\n**Lost:**\n")?,
        }
        for text in &self.losses {
            writeln!(out, "- {}", prose(text))?;
        }
        more(out, "- ", self.more_losses, 0)
    }
}

/// The process that a record names.
fn pid(record: &Record) -> Option<i128> {
    match record.get("pid") {
        Value::Number(pid) => Some(*pid),
        _ => None,
    }
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
