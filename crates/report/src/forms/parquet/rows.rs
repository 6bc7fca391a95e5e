//! Records become rows: an answer is taken record by record, and is at its end what stands in each table. Used by `export` and `form`.

use std::collections::BTreeMap;

use twox_hash::XxHash3_128;

use super::schema::{CAPTURE, COMMONS, Kind, SCHEMA, STACK, TABLES, Table};
use crate::forms::record::{Record, Role, Value};

/// So many rows of an answer are kept. A guest may make what leads to more, and they are in memory until the answer is over, because how much
/// was lost is its last record.
const MOST_ROWS: usize = 100_000;

/// So many sentences of an answer are kept.
const MOST_SENTENCES: usize = 1000;

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Frames(Vec<Frame>),
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<i64>,
}

/// What the answers do not say, by who exports them.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The machine, in the place of what the answer says.
    pub host: Option<String>,
    /// The name of the service.
    pub service: Option<String>,
    /// What of it ran.
    pub release: Option<String>,
}

/// The rows of a table.
#[derive(Debug)]
pub(super) struct Rows {
    pub table: &'static Table,
    pub rows: Vec<Vec<Cell>>,
}

/// A process of an answer, or all of them.
#[derive(Clone, Debug, Default)]
struct Capture {
    pid: Option<i64>,
    program: Option<String>,
    runtime: Option<String>,
    version: Option<String>,
    rows: i64,
    left_out: i64,
    verdicts: Vec<String>,
}

/// What the last record says of the run.
#[derive(Debug, Default)]
struct Run {
    host: Option<String>,
    boot_id: Option<String>,
    lancet: Option<String>,
    began: Option<i64>,
    ended: Option<i64>,
    lost: Option<i64>,
    losses: Vec<String>,
}

/// An answer, as far as it has been read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    captures: Vec<Capture>,
    /// The process that records without one are of, in `captures`; `None`: the sum of several.
    at: Option<usize>,
    table: Option<&'static Table>,
    mark: Option<Record>,
    /// Each with the process that it is of; `None`: of all.
    rows: Vec<(Option<usize>, Vec<Cell>)>,
    stacks: BTreeMap<String, Vec<Frame>>,
    /// Rows for which there is no table, by the kind of the first.
    foreign: Option<String>,
    /// Lines that are no records.
    messages: i64,
    hash: u128,
    run: Run,
}

impl Answer {
    /// Takes the next record.
    pub fn add(&mut self, record: Record) {
        let text = format!("{}{:032x}{}", record.kind, self.hash, record.json());
        self.hash = XxHash3_128::oneshot(text.as_bytes());
        match record.role() {
            Role::Process => self.process(&record),
            Role::Losses => self.losses(&record),
            Role::Rest => self.left_out(&record, count(record.get("rows"))),
            Role::Row | Role::Facts => self.row_or_fact(record),
        }
    }

    /// A line that is no record stood among them.
    pub fn message(&mut self) {
        self.messages += 1;
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.hash == 0
    }

    /// The kind of rows for which there is no table, where there are no others.
    pub fn without_table(&self) -> Option<&str> {
        match self.table {
            None => Some(self.foreign.as_deref().unwrap_or("losses")),
            Some(_) => None,
        }
    }

    fn process(&mut self, record: &Record) {
        let pid = integer(record.get("pid"));
        let Some(pid) = pid else {
            // The sum of those that follow; their own rows would count twice with it.
            self.at = None;
            return;
        };
        let language = record.get("languages").item("0");
        let known = |name: &str| text(language.item(name));
        self.at = Some(self.of_pid(pid));
        let capture = &mut self.captures[self.at.expect("it was just set")];
        capture.program = program(record.get("command"));
        capture.runtime = known("name");
        capture.version = known("version");
    }

    fn of_pid(&mut self, pid: i64) -> usize {
        let known = |one: &Capture| one.pid == Some(pid);
        self.captures.iter().position(known).unwrap_or_else(|| {
            self.captures.push(Capture {
                pid: Some(pid),
                ..Capture::default()
            });
            self.captures.len() - 1
        })
    }

    fn losses(&mut self, record: &Record) {
        let list = record.get("losses").items();
        let run = record.get("run");
        let more = count(record.get("more"));
        let lost = i64::try_from(list.len()).unwrap_or(i64::MAX);
        self.run = Run {
            host: text(run.item("host")),
            boot_id: text(run.item("boot_id")),
            lancet: text(run.item("lancet")),
            began: integer(run.item("began_ns")),
            ended: integer(run.item("ended_ns")),
            lost: Some(lost.saturating_add(more).saturating_add(self.messages)),
            losses: list
                .iter()
                .take(MOST_SENTENCES)
                .filter_map(|one| text(one.item("text")))
                .collect(),
        };
    }

    fn row_or_fact(&mut self, record: Record) {
        let is =
            |(kind, field): (&str, &str)| record.kind == kind && *record.get(field) != Value::Null;
        if let Some(table) = TABLES
            .iter()
            .find(|table| table.marks.iter().copied().any(is))
        {
            self.table.get_or_insert(table);
            self.left_out(&record, count(record.get("rest").item("rows")));
            self.mark = Some(record);
            return;
        }
        match record.kind.as_str() {
            "verdict" => return self.verdict(&record),
            "total" | "growth_total" => {
                return self.left_out(&record, count(record.get("rest").item("rows")));
            }
            _ => {}
        }
        let of = TABLES
            .iter()
            .find(|table| table.rows.iter().copied().any(is));
        match of {
            Some(table) if self.table.is_none_or(|known| known.name == table.name) => {
                self.table = Some(table);
                self.row(table, &record);
            }
            _ if record.role() == Role::Row => {
                self.foreign.get_or_insert(record.kind);
            }
            _ => {}
        }
    }

    /// The process that a record is of; `Err`: it is a sum of several.
    fn of(&mut self, record: &Record) -> Result<Option<usize>, ()> {
        match record.find("pid") {
            None => Ok(self.at.filter(|_| self.captures.len() == 1)),
            Some(Value::Null) => Err(()),
            Some(pid) => Ok(integer(pid).map(|pid| self.of_pid(pid))),
        }
    }

    fn verdict(&mut self, record: &Record) {
        let (Ok(Some(at)), Some(text)) = (self.of(record), text(record.get("text"))) else {
            return;
        };
        let verdicts = &mut self.captures[at].verdicts;
        if verdicts.len() < MOST_SENTENCES {
            verdicts.push(text);
        }
    }

    fn left_out(&mut self, record: &Record, rows: i64) {
        if let Ok(Some(at)) = self.of(record) {
            let sum = &mut self.captures[at].left_out;
            *sum = sum.saturating_add(rows);
        }
    }

    fn row(&mut self, table: &'static Table, record: &Record) {
        let Ok(of) = self.of(record) else { return };
        if self.rows.len() >= MOST_ROWS {
            self.left_out(record, 1);
            return;
        }
        if let Some(at) = of {
            self.captures[at].rows += 1;
        }
        let mut cells = vec![Cell::Null; COMMONS];
        for column in table.columns {
            let value = self.value(record, column.from);
            cells.push(self.cell(column.kind, column.name, record, &value));
        }
        self.rows.push((of, cells));
    }

    /// The first of these fields that is there.
    fn value(&self, record: &Record, from: &[&str]) -> Value {
        let found = from.iter().filter_map(|path| match path.strip_prefix('@') {
            Some(path) => Some(self.mark.as_ref()?.at(path)),
            None => Some(record.at(path)),
        });
        let mut known = found.filter(|value| **value != Value::Null);
        known.next().cloned().unwrap_or(Value::Null)
    }

    fn cell(&mut self, kind: Kind, name: &str, record: &Record, value: &Value) -> Cell {
        let cell = match kind {
            _ if name == "record" => Some(Cell::Text(record.kind.clone())),
            Kind::Text => text(value).map(Cell::Text),
            Kind::Integer => integer(value).map(Cell::Integer),
            Kind::Flag => match value {
                Value::Bool(yes) => Some(Cell::Flag(*yes)),
                _ => None,
            },
            Kind::Texts => match value {
                Value::List(all) => Some(Cell::Texts(all.iter().map(in_short).collect())),
                _ => None,
            },
            Kind::Stack => self.stack(value).map(Cell::Text),
            Kind::Frames => None,
        };
        cell.unwrap_or(Cell::Null)
    }

    /// The number of a stack, which is kept.
    fn stack(&mut self, value: &Value) -> Option<String> {
        let frames: Vec<Frame> = value.items().iter().map(frame).collect();
        if frames.is_empty() {
            return None;
        }
        let id = stack_id(&frames);
        self.stacks.entry(id.clone()).or_insert(frames);
        Some(id)
    }

    /// What stands in each table, that of the answer first. Without the record of the losses it was cut off.
    pub fn end(mut self, given: &Given) -> Vec<Rows> {
        let Some(table) = self.table else {
            return Vec::new();
        };
        let mut programs = self.captures.iter().map(|capture| &capture.program);
        let first = programs.next().cloned().flatten();
        let several = Capture {
            program: first.filter(|name| programs.all(|one| one.as_ref() == Some(name))),
            rows: i64::try_from(self.rows.len()).unwrap_or(i64::MAX),
            ..Capture::default()
        };
        let rows = std::mem::take(&mut self.rows);
        let of_none = rows.iter().any(|(of, _)| of.is_none()) || self.captures.is_empty();
        if of_none {
            self.captures.push(several);
        }
        let last = self.captures.len().saturating_sub(1);
        let common: Vec<Vec<Cell>> = self
            .captures
            .iter()
            .map(|capture| self.common(capture, given))
            .collect();
        let filled = rows.into_iter().map(|(of, mut cells)| {
            cells[..COMMONS].clone_from_slice(&common[of.unwrap_or(last)]);
            cells
        });
        let rows = Rows {
            table,
            rows: filled.collect(),
        };
        let mut all = vec![rows, self.captures_of(table, &common)];
        if !self.stacks.is_empty() {
            all.push(self.stacks_of(&common[last]));
        }
        all
    }

    /// The columns that all rows of a process have.
    fn common(&self, capture: &Capture, given: &Given) -> Vec<Cell> {
        let run = &self.run;
        let mark = |field: &str| self.mark.as_ref().and_then(|mark| integer(mark.get(field)));
        let host = self.mark.as_ref().and_then(|mark| text(mark.get("host")));
        let taken = mark("taken_at_ns");
        let began = mark("began_at_ns").or(taken).or(run.began);
        let took = began.zip(mark("took_ns"));
        let ended = took.map(|(began, took)| began.saturating_add(took));
        let id = format!("{:032x} {:?}", self.hash, capture.pid);
        let id = format!("{:032x}", XxHash3_128::oneshot(id.as_bytes()));
        let service = given.service.clone().or(capture.program.clone());
        // Never null, so that it can be joined.
        let service = service.or_else(|| Some("unknown".to_owned()));
        let text = |text: Option<String>| text.map_or(Cell::Null, Cell::Text);
        let integer = |number: Option<i64>| number.map_or(Cell::Null, Cell::Integer);
        vec![
            Cell::Text(id),
            text(given.host.clone().or(host).or(run.host.clone())),
            text(run.boot_id.clone()),
            integer(capture.pid),
            text(service),
            text(given.release.clone()),
            text(capture.runtime.clone()),
            text(capture.version.clone()),
            integer(began),
            integer(ended.or(taken).or(run.ended)),
            text(run.lancet.clone()),
            integer(run.lost),
            Cell::Integer(capture.left_out),
        ]
    }

    fn captures_of(&self, table: &Table, common: &[Vec<Cell>]) -> Rows {
        let texts = |texts: &[String]| Cell::Texts(texts.to_vec());
        let rows = self.captures.iter().zip(common).map(|(capture, common)| {
            let own = [
                Cell::Text(table.name.to_owned()),
                Cell::Integer(SCHEMA),
                Cell::Integer(capture.rows),
                texts(&capture.verdicts),
                texts(&self.run.losses),
            ];
            common.iter().cloned().chain(own).collect()
        });
        Rows {
            table: &CAPTURE,
            rows: rows.collect(),
        }
    }

    fn stacks_of(&self, common: &[Cell]) -> Rows {
        let rows = self.stacks.iter().map(|(id, frames)| {
            let own = [Cell::Text(id.clone()), Cell::Frames(frames.clone())];
            common.iter().cloned().chain(own).collect()
        });
        Rows {
            table: &STACK,
            rows: rows.collect(),
        }
    }
}

/// The number of a stack, made of its frames alone, so that it is the same wherever the stack is seen.
fn stack_id(frames: &[Frame]) -> String {
    let mut bytes = Vec::new();
    for frame in frames {
        for text in [&frame.function, &frame.file] {
            // A text and none differ, and no byte of UTF-8 is 0xff.
            bytes.extend_from_slice(text.as_deref().unwrap_or("").as_bytes());
            bytes.push(if text.is_some() { 0xff } else { 0xfe });
        }
        bytes.extend_from_slice(&frame.line.unwrap_or(0).to_le_bytes());
    }
    format!("{:032x}", XxHash3_128::oneshot(&bytes))
}

/// A frame that is a place, or a text.
fn frame(value: &Value) -> Frame {
    match value {
        Value::Text(text) => Frame {
            function: Some(text.clone()),
            ..Frame::default()
        },
        place => Frame {
            function: text(place.item("qualified")).or_else(|| text(place.item("function"))),
            file: text(place.item("path")),
            line: integer(place.item("line")),
        },
    }
}

/// An entry of a list in short: the values of its fields but the address, `hash of Hash`.
fn in_short(value: &Value) -> String {
    let said = |name: &str| text(value.item(name));
    match (said("by"), said("type"), said("from"), said("value")) {
        (Some(by), Some(kind), _, _) => format!("{by} → {kind}"),
        (_, _, Some(from), Some(value)) => format!("{from}: {value}"),
        _ => value.cell(),
    }
}

/// The name of the program, without its arguments, which may have secrets.
fn program(command: &Value) -> Option<String> {
    let words: Vec<String> = command.items().iter().map(Value::cell).collect();
    Some(crate::text::program(&words).to_owned()).filter(|name| !name.is_empty())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// A number; one that is larger than a column can have is as large as that can be.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        _ => None,
    }
}

fn count(value: &Value) -> i64 {
    integer(value).unwrap_or(0)
}
