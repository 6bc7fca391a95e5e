//! Records of one kind as a table of Markdown, or as a line. Used by `markdown`.

use std::io::{self, Write};

use super::super::record::{Record, Role, Value};
use super::cells::{head, says_something, shown};
use super::text::row;
use super::{MOST_ROWS, more};

/// Columns of a table.
const MOST_COLUMNS: usize = 8;
/// Facts of a record that is no row.
const MOST_FACTS: usize = 24;
/// Fields that only programs can use, or whose content another one has in words. Addresses and points in time are left out too.
const FOR_PROGRAMS: &[&str] = &[
    "changes",
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

/// Records of one kind.
pub struct Table {
    pub kind: String,
    pub title: String,
    pub is_of_rows: bool,
    records: Vec<Record>,
    more: u64,
    /// The process of all its records that name one; `None` within: they differ.
    pid: Option<Option<i128>>,
}

/// What the table of a record is called: of rows that are grouped in several ways, or are of several threads, what they are of.
pub fn title(record: &Record) -> String {
    let of = match record.kind.as_str() {
        "group" => record.text("by").map(|by| format!("by {by}")),
        "frame" => match (record.get("tid"), record.text("parked")) {
            (Value::Number(tid), _) => Some(format!("of thread {tid}")),
            (_, Some(parked)) => Some(format!("of {parked}")),
            _ => None,
        },
        _ => None,
    };
    let kind = record.kind.replace('_', " ");
    of.map_or_else(|| kind.clone(), |of| format!("{kind} {of}"))
}

impl Table {
    pub fn new(kind: String, title: String, role: Role) -> Self {
        Table {
            kind,
            title,
            is_of_rows: role == Role::Row,
            records: Vec::new(),
            more: 0,
            pid: None,
        }
    }

    pub fn add(&mut self, mut record: Record) {
        if !self.is_of_rows {
            record.fields = flat(record.fields);
        }
        let pid = super::pid(&record);
        self.pid = Some(match self.pid {
            Some(known) if known != pid => None,
            _ => pid,
        });
        let is_full = match runs_script(&record) {
            true => {
                self.records
                    .iter()
                    .filter(|&known| runs_script(known))
                    .count()
                    >= MOST_ROWS
            }
            false => self.records.len() >= MOST_ROWS,
        };
        match is_full {
            true => self.more += 1,
            false => self.records.push(record),
        }
    }

    /// The answer has ended. Of a stack with frames that run script code these are told, and the innermost frame, which says what the
    /// thread does: the native frames between are the VM's own, and ten of them would hide what a developer looks for.
    pub fn end(&mut self) {
        if !self.records.iter().any(runs_script) {
            return;
        }
        let all = self.records.len();
        let mut at = 0;
        self.records.retain(|record| {
            at += 1;
            at == 1 || runs_script(record)
        });
        self.more += (all - self.records.len()) as u64;
    }

    /// Its sentences, where its records are some, and how many are left out.
    pub fn sentences(&self) -> Option<(Vec<&str>, u64)> {
        let all = self.records.iter().map(|record| record.text("text"));
        Some((all.collect::<Option<_>>()?, self.more))
    }

    /// Writes it, in a section of this process; `None`: of several.
    pub fn write(&self, out: &mut dyn Write, pid: Option<i128>) -> io::Result<()> {
        let (columns, left_out) = self.columns(pid);
        if columns.is_empty() {
            return Ok(());
        }
        let title = &self.title;
        if let ([one], false) = (&self.records[..], self.is_of_rows) {
            let facts = columns.iter().map(|(name, _)| {
                let value = shown(&self.kind, name, one.get(name));
                format!("{} {value}", head(name))
            });
            writeln!(out, "\n{title}: {}", facts.collect::<Vec<_>>().join(", "))?;
            return more(out, "\n", 0, left_out);
        }
        let heads: Vec<String> = columns.iter().map(|(name, _)| head(name)).collect();
        let rules = columns.iter().map(|(_, is_number)| match is_number {
            true => "--:",
            false => "---",
        });
        let rules = rules.collect::<Vec<_>>().join("|");
        writeln!(out, "\n{title}\n\n{}\n|{rules}|", row(&heads))?;
        for record in &self.records {
            let cells = columns
                .iter()
                .map(|(name, _)| shown(&self.kind, name, record.get(name)));
            writeln!(out, "{}", row(&cells.collect::<Vec<_>>()))?;
        }
        more(out, "\n", self.more, left_out)
    }

    /// The fields that are shown, and whether they are numbers: those that say something in some row; and how many more say something.
    fn columns(&self, pid: Option<i128>) -> (Vec<(String, bool)>, u64) {
        let mut columns: Vec<(String, bool)> = Vec::new();
        for (name, value) in self.records.iter().flat_map(|record| &record.fields) {
            let is_told = !self.is_said(name, pid) && !FOR_PROGRAMS.contains(&name.as_str());
            let is_known = columns.iter().any(|(known, _)| known == name);
            if is_told && !is_known && !is_moment(name) {
                columns.push((name.clone(), false));
            }
            // In the order of the fields, whichever row says something first.
            let known = columns.iter_mut().find(|(known, _)| known == name);
            if let (Some((_, is_number)), Value::Number(_)) = (known, value) {
                *is_number = true;
            }
        }
        columns.retain(|(name, _)| {
            let mut values = self.records.iter().map(|record| record.get(name));
            values.any(says_something)
        });
        let most = match self.is_of_rows {
            true => MOST_COLUMNS,
            false => MOST_FACTS,
        };
        let left_out = columns.len().saturating_sub(most) as u64;
        columns.truncate(most);
        (columns, left_out)
    }

    /// Whether a field has what the title says, or the heading of the section.
    fn is_said(&self, name: &str, pid: Option<i128>) -> bool {
        match name {
            "pid" => pid.is_some() && self.pid == Some(pid),
            "by" => self.kind == "group",
            "tid" | "parked" => self.kind == "frame",
            _ => false,
        }
    }
}

/// Whether it is a native frame that runs frames of a script.
fn runs_script(record: &Record) -> bool {
    let scripts = record.get("scripts");
    record.kind == "frame" && matches!(scripts, Value::List(all) if !all.is_empty())
}

/// The fields, and those of objects among them that are no places: `rows` of `rest` is `rest.rows`.
fn flat(fields: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let each = fields.into_iter().flat_map(|(name, value)| {
        let is_place = value.place().is_some();
        match value {
            Value::Object(inner) if !is_place => {
                let named = inner.into_iter();
                let named = named.map(|(field, value)| (format!("{name}.{field}"), value));
                named.collect()
            }
            value => vec![(name, value)],
        }
    });
    each.collect()
}

/// Whether a field is a point in time.
fn is_moment(name: &str) -> bool {
    ["time_ns", "since_ns", "monotonic_ns"].contains(&name) || name.ends_with("_at_ns")
}
