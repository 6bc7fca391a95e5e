//! Records become rows: an answer is taken record by record, and is at its end what stands in each table. Used by `export` and `form`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use twox_hash::XxHash3_128;

use super::cells::{
    Cell, Frame, LONGEST_COMMON, cell, count, cut, frame, integer, program, stack_id, text,
};
use super::schema::{CAPTURE, COMMONS, Kind, SCHEMA, STACK, TABLES, Table};
use crate::forms::record::{Record, Role, Value};

/// So many rows of an answer are kept. A guest may make what leads to more, and they are in memory until the answer is over, because how much
/// was lost is its last record.
const MOST_ROWS: usize = 100_000;

/// So many bytes of them, of which no page of a column has more: a page may have 2 GiB (`pages`).
const MOST_BYTES: usize = 1 << 30;

/// So many sentences of an answer are kept.
const MOST_SENTENCES: usize = 1000;

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

impl Rows {
    /// A table without rows.
    pub fn none(table: &'static Table) -> Self {
        Rows {
            table,
            rows: Vec::new(),
        }
    }
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
    /// Where in `captures` a process is.
    pids: HashMap<i64, usize>,
    /// The process that records without one are of, in `captures`; `None`: the sum of several.
    at: Option<usize>,
    table: Option<&'static Table>,
    mark: Option<Record>,
    /// Each with the process that it is of; `None`: of all.
    rows: Vec<(Option<usize>, Vec<Cell>)>,
    /// By the process that they are of, as `rows`, and their number.
    stacks: BTreeMap<(Option<usize>, String), Vec<Frame>>,
    /// How many bytes rows and stacks have.
    bytes: usize,
    /// Rows that are left out, and of no one process.
    left_out: i64,
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

    /// The same, unless the answer has not begun.
    pub fn message_within(&mut self) {
        self.messages += i64::from(!self.is_empty());
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.hash == 0
    }

    /// The kind of rows for which there is no table, where there are no others.
    pub fn without_table(&self) -> Option<&str> {
        let foreign = self.foreign.as_deref();
        foreign.filter(|_| self.table.is_none())
    }

    /// Whether it has no rows, and no record that says in which table they would be.
    pub fn says_nothing(&self) -> bool {
        self.table.is_none() && self.foreign.is_none()
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
        *self.pids.entry(pid).or_insert_with(|| {
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
        let sum = match self.of(record) {
            Ok(Some(at)) => &mut self.captures[at].left_out,
            Ok(None) => &mut self.left_out,
            Err(()) => return,
        };
        *sum = sum.saturating_add(rows);
    }

    fn row(&mut self, table: &'static Table, record: &Record) {
        let Ok(of) = self.of(record) else { return };
        if self.rows.len() >= MOST_ROWS || self.bytes >= MOST_BYTES {
            self.left_out(record, 1);
            return;
        }
        if let Some(at) = of {
            self.captures[at].rows += 1;
        }
        let mut cells = vec![Cell::Null; COMMONS];
        for column in table.columns {
            let value = self.value(record, column.from);
            let cell = match column.kind {
                Kind::Stack => self.stack(of, &value),
                kind => cell(kind, column.name, record, &value),
            };
            cells.push(cell);
        }
        self.bytes += cells.iter().map(Cell::bytes).sum::<usize>();
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

    /// The number of a stack of a process, which is kept.
    fn stack(&mut self, of: Option<usize>, value: &Value) -> Cell {
        let frames: Vec<Frame> = value.items().iter().map(frame).collect();
        if frames.is_empty() {
            return Cell::Null;
        }
        let id = stack_id(&frames);
        let stack = self.stacks.entry((of, id.clone()));
        if let Entry::Vacant(new) = stack {
            self.bytes += new.insert(frames).iter().map(Frame::bytes).sum::<usize>();
        }
        Cell::Text(id)
    }

    /// What stands in each table, that of the answer first. Without the record of the losses it was cut off.
    pub fn end(mut self, given: &Given) -> Vec<Rows> {
        let Some(table) = self.table else {
            return Vec::new();
        };
        let mut programs = self.captures.iter().map(|capture| &capture.program);
        let first = programs.next().cloned().flatten();
        let same = first.filter(|name| programs.all(|one| one.as_ref() == Some(name)));
        let rows = std::mem::take(&mut self.rows);
        let of_none = rows.iter().filter(|(of, _)| of.is_none()).count();
        let several = Capture {
            program: same,
            rows: i64::try_from(of_none).unwrap_or(i64::MAX),
            left_out: self.left_out,
            ..Capture::default()
        };
        if of_none != 0 || self.left_out != 0 || self.captures.is_empty() {
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
            all.push(self.stacks_of(&common));
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
        let text = |text: Option<String>| {
            let text = text.map(|text| cut(&text, LONGEST_COMMON));
            text.map_or(Cell::Null, Cell::Text)
        };
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

    fn stacks_of(&self, common: &[Vec<Cell>]) -> Rows {
        let last = common.len().saturating_sub(1);
        let rows = self.stacks.iter().map(|((of, id), frames)| {
            let own = [Cell::Text(id.clone()), Cell::Frames(frames.clone())];
            let common = common[of.unwrap_or(last)].iter();
            common.cloned().chain(own).collect()
        });
        Rows {
            table: &STACK,
            rows: rows.collect(),
        }
    }
}
