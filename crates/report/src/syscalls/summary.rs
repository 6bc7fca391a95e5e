//! `-c`: how often, how long and how often in vain, by system call and, but for strace's own table, by who makes it: the
//! native function whose code it is (with `-k` those around it, too) and the script line. Used by
//! `lancet::commands::syscalls::args`.

mod table;

use super::{Column, Columns, Figures, Layout, Order, Statuses, native};
use crate::calls::Processes;
use crate::calls::json::line_of_row;
use crate::calls::stacks::{CALLS, TIME, about, at_line, weight};
use crate::figures::plural;
use crate::forms::ChosenForm;
use crate::forms::stacks::{self as forms, Frame};
use crate::text::printable;
use answer::syscalls::Record;
use answer::time::nanos;
use calls::Line;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{Call, CallEdge, Caller, End, Event, EventKind, OfThread};
use calls::source::Count;
use calls::stacks::{Kept, OpenCalls};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// One row: its name, which says who makes the call, and what was counted.
struct Row {
    name: String,
    who: Who,
    /// It is of `execve` or `execveat`, which do not return if they succeed.
    replaces: bool,
    /// It is of `exit` or `exit_group`, which never return.
    ends: bool,
    figures: Figures,
}

/// Which call a row is of, and who makes it.
struct Who {
    system_call: String,
    /// The native function whose code makes the call, and those around it as far as they are asked for.
    functions: Vec<String>,
    line: Option<Line>,
}

impl Who {
    /// A row that is told apart by the call alone.
    fn of_call(name: &str) -> Self {
        Who {
            system_call: name.into(),
            functions: Vec::new(),
            line: None,
        }
    }

    /// `openat ← open ← /srv/app.rb:12 in 'look'`
    fn text(&self) -> String {
        let mut parts = vec![self.system_call.clone()];
        parts.extend(self.functions.iter().cloned());
        parts.extend(self.line.as_ref().map(Line::to_string));
        printable(&parts.join(" ← ")).into_owned()
    }
}

/// Where a call comes from. Equal ones share their parts, so that they are found by the addresses of these.
struct Site {
    edge: Arc<CallEdge>,
    line: Option<Arc<Line>>,
    callers: Vec<Arc<Caller>>,
}

/// The addresses of the parts of a [`Site`].
type Key = (usize, usize, Vec<usize>);

/// Sites that are told apart, at most; a guest may invent stacks without end.
const MOST: usize = 1 << 18;

/// A system call that has not returned.
#[derive(Clone)]
struct Open {
    row: usize,
    began: Duration,
}

impl Kept for Open {
    fn beside(&self) -> usize {
        0
    }
}

/// The table of `-c`, which is written when no more events come.
pub struct Summary {
    /// Which processes are counted.
    processes: Processes,
    /// Since when: what runs, from the beginning of the command on.
    began: (Instant, SystemTime),
    rows: Vec<Row>,
    by_name: HashMap<String, usize>,
    /// The row of each site; the site is kept, so that its addresses stay its own.
    sites: HashMap<Key, (Site, usize)>,
    stacks: OpenCalls<Open>,
    /// Calls were noted one by one.
    are_noted: bool,
    /// How many calls have not returned, but for those that never do.
    unfinished: u64,
    /// The order that was asked for.
    order: Option<Order>,
    columns: Columns,
    /// As strace prints it: no row for each line and function.
    strace: bool,
    /// What shows it: columns, records, or stacks of who makes a call, as far as that is known, then the call.
    form: ChosenForm,
    /// Native frames that a row has, at most.
    frames: usize,
    /// Which calls are counted.
    statuses: Statuses,
    /// Calls that took less are not counted.
    slower: Duration,
    /// Which calls are counted; `None` = all.
    calls: Option<syscalls::Trace>,
    /// Rows are shortened to so many columns.
    width: Option<usize>,
    out: Box<dyn Write>,
}

impl Summary {
    /// Makes the table, without a row yet.
    pub fn new(
        layout: &Layout,
        order: Option<Order>,
        columns: Columns,
        form: ChosenForm,
        out: Box<dyn Write>,
    ) -> Self {
        Summary {
            processes: Processes::default(),
            began: (Instant::now(), SystemTime::now()),
            rows: Vec::new(),
            by_name: HashMap::new(),
            sites: HashMap::new(),
            stacks: OpenCalls::default(),
            are_noted: false,
            unfinished: 0,
            order,
            columns,
            strace: layout.strace,
            form,
            frames: layout.frames,
            statuses: layout.statuses,
            slower: layout.slower,
            calls: layout.calls.clone(),
            width: None,
            out,
        }
    }

    /// Shortens rows to so many columns, where a terminal shows them.
    pub fn within(self, width: Option<usize>) -> Self {
        Summary { width, ..self }
    }

    fn shows(&self, name: &str) -> bool {
        self.calls.as_ref().is_none_or(|calls| calls.has(name))
    }

    /// The row of a call.
    fn row(&mut self, call: Call) -> usize {
        let Call {
            edge,
            line,
            callers,
            ..
        } = call;
        let callers_of = callers.iter().take(self.frames);
        let key = (
            Arc::as_ptr(&edge).addr(),
            line.as_ref().map_or(0, |line| Arc::as_ptr(line).addr()),
            callers_of.map(|one| Arc::as_ptr(one).addr()).collect(),
        );
        if let Some((_, row)) = self.sites.get(&key) {
            return *row;
        }
        if self.sites.len() >= MOST {
            return self.row_of(Who {
                functions: vec!["(too many places)".into()],
                ..Who::of_call(&edge.function.name)
            });
        }
        let site = Site {
            edge,
            line,
            callers,
        };
        let row = self.row_of(self.who(&site));
        self.sites.insert(key, (site, row));
        row
    }

    fn row_of(&mut self, who: Who) -> usize {
        let rows = &mut self.rows;
        *self.by_name.entry(who.text()).or_insert_with_key(|name| {
            rows.push(Row {
                name: name.clone(),
                replaces: ["execve", "execveat"].contains(&&*who.system_call),
                ends: ["exit", "exit_group"].contains(&&*who.system_call),
                who,
                figures: Figures::default(),
            });
            rows.len() - 1
        })
    }

    fn who(&self, site: &Site) -> Who {
        let edge = &site.edge;
        let around = site.callers.iter().take(self.frames);
        let mut around = around.map(|caller| caller.name());
        // The innermost frame is the function that makes the call, where frames were asked for.
        around.next();
        self.made_by(
            &edge.function.name,
            edge.inside.as_deref(),
            around,
            site.line.as_deref(),
        )
    }

    /// The call, and who makes it, as far as rows are told apart by that.
    fn made_by(
        &self,
        call: &str,
        inside: Option<&str>,
        around: impl Iterator<Item = String>,
        line: Option<&Line>,
    ) -> Who {
        if self.strace {
            return Who::of_call(call);
        }
        Who {
            system_call: call.into(),
            functions: native(call, inside).into_iter().chain(around).collect(),
            line: line.cloned(),
        }
    }

    /// Adds what a guest counted itself. It may say any number.
    fn add(&mut self, count: &Count) {
        let counted = &count.counted;
        let time = |cycles: u64| {
            let nanos = cycles as f64 * count.period;
            Duration::from_nanos(nanos as u64)
        };
        let who = self.made_by(
            &count.function.name,
            count.inside.as_deref(),
            std::iter::empty(),
            count.line.as_deref(),
        );
        let left = if self.strace { 0 } else { counted.left };
        let row = self.row_of(who);
        self.note_unfinished(row, counted.left);
        self.rows[row].figures.add(&Figures {
            calls: counted.returned.saturating_add(left),
            returned: counted.returned,
            errors: counted.errors,
            time: time(counted.total),
            shortest: (counted.returned != 0).then(|| time(counted.shortest)),
            longest: time(counted.longest),
        });
    }

    /// Counts a call that did not return.
    fn unfinished(&mut self, open: &Open) {
        self.note_unfinished(open.row, 1);
        // strace counts what returned.
        if self.statuses.unfinished && !self.strace {
            self.rows[open.row].figures.calls += 1;
        }
    }

    fn note_unfinished(&mut self, row: usize, calls: u64) {
        if self.statuses.unfinished && !self.rows[row].ends {
            self.unfinished = self.unfinished.saturating_add(calls);
        }
    }

    fn print(&mut self, end: &SourceEnd) -> io::Result<()> {
        // What only statuses or durations that were not asked for happened to is in no row.
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.retain(|row| row.figures.calls != 0);
        let order = self.order.unwrap_or_else(|| self.columns.order());
        order.sort(&mut rows, |row| (row.figures, row.name.clone()));
        let mut all = Figures::default();
        for row in &rows {
            all.add(&row.figures);
        }
        match self.form {
            ChosenForm::Text { .. } => {}
            ChosenForm::Records(_) => {
                self.processes.write(&mut *self.out)?;
                return print_json(&rows, &all, &mut *self.out);
            }
            ChosenForm::Stacks(form) => {
                let called = Called { rows, table: self };
                let mut text = Vec::new();
                form.write(&called, &mut text)?;
                return self.out.write_all(&text);
            }
        }
        let made = self.made(&rows, end);
        let mut text = String::new();
        // What is no terminal is read by programs, for which the table begins with the first line.
        let is_read_by_people = self.width.is_some();
        if is_read_by_people && !made.is_empty() {
            text = format!("{made}\n");
        }
        self.table(&rows, &all, end.watched, &mut text);
        if !is_read_by_people {
            text += &made;
        }
        if self.unfinished != 0 && !self.strace {
            let words = plural(self.unfinished, "call has", "calls have");
            text += &format!(
                "{} {words} not returned: no time of theirs is in the table\n",
                self.unfinished
            );
        }
        self.out.write_all(text.as_bytes())
    }
}

/// How many calls there are, and their time.
fn weights(figures: &Figures) -> [u64; 2] {
    [figures.calls, nanos(figures.time)]
}

/// The rows as stacks.
struct Called<'a> {
    rows: Vec<&'a Row>,
    table: &'a Summary,
}

impl forms::Stacks for Called<'_> {
    fn about(&self) -> forms::About<'_> {
        let asked = match self.table.order {
            Some(Order::By(Column::Calls)) => Some(CALLS),
            Some(Order::By(Column::Total | Column::Share)) => Some(TIME),
            _ => None,
        };
        let rows: Vec<_> = self.rows.iter().map(|row| weights(&row.figures)).collect();
        let one = weight(asked, self.table.are_noted, &rows);
        let (began, at) = self.table.began;
        let times = forms::Times::counted(Some(at), Some(began.elapsed()));
        about(&self.table.processes, times, one)
    }

    fn each(&self, take: &mut dyn FnMut(&forms::Stack<'_>) -> io::Result<()>) -> io::Result<()> {
        self.rows.iter().try_for_each(|Row { who, figures, .. }| {
            let line = who.line.as_ref().map(at_line);
            let functions = who.functions.iter().rev().chain([&who.system_call]);
            let functions = functions.map(|name| Frame::named(&**name));
            take(&forms::Stack {
                frames: line.into_iter().chain(functions).collect(),
                weights: weights(figures).to_vec(),
                ..forms::Stack::default()
            })
        })
    }
}

/// Writes the rows and their sum for programs.
fn print_json(rows: &[&Row], all: &Figures, out: &mut dyn Write) -> io::Result<()> {
    for Row { who, figures, .. } in rows {
        let (place, library) = who.line.as_ref().map_or((None, None), line_of_row);
        let record = answer::syscalls::Count {
            name: &who.system_call,
            functions: &who.functions,
            place,
            library,
            calls: figures.calls,
            returned: figures.returned,
            errors: figures.errors,
            total_ns: nanos(figures.time),
            min_ns: figures.shortest.map(nanos),
            max_ns: nanos(figures.longest),
        };
        crate::json::line(out, &Record::Count(Box::new(record)))?;
    }
    let record = Record::Sum {
        calls: all.calls,
        returned: all.returned,
        errors: all.errors,
        total_ns: nanos(all.time),
    };
    crate::json::line(out, &record)
}

impl Consumer for Summary {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.processes.note(&event);
        let Event { at, kind } = event;
        match kind {
            EventKind::Call(began) if !self.shows(&began.edge.function.name) => {}
            EventKind::Call(mut began) => {
                if self.strace {
                    began.line = None;
                    began.callers.clear();
                }
                self.are_noted = true;
                let open = Open {
                    row: self.row(began),
                    began: at.time,
                };
                let (_, left) = self.stacks.enter(at, open);
                for left in left {
                    self.unfinished(&left.call);
                }
            }
            EventKind::Return(back) => {
                let Some((open, _, inside)) = self.stacks.leave(at) else {
                    return Ok(());
                };
                for left in inside {
                    self.unfinished(&left.call);
                }
                let failed = syscalls::error(back.returned.rax).is_some();
                let took = at.time.saturating_sub(open.began);
                if self.statuses.shows(failed) && took >= self.slower {
                    self.rows[open.row].figures.returned(took, failed);
                }
            }
            EventKind::Forked(child) => self.stacks.fork(at.process, child),
            EventKind::Ended(how) => {
                for open in self.stacks.drain(Some(at.process)) {
                    let row = &mut self.rows[open.row];
                    if how == End::Replaced && row.replaces {
                        let took = at.time.saturating_sub(open.began);
                        row.figures.returned(took, false);
                    } else {
                        self.unfinished(&open);
                    }
                }
            }
            EventKind::Thread(OfThread::Began | OfThread::Stopped(_)) => {}
            EventKind::Thread(_) => {
                for open in self.stacks.drain_ring(at.process, at.tid) {
                    self.unfinished(&open);
                }
            }
            EventKind::Opened(_) | EventKind::Signal(_) => {}
        }
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        for count in &end.counted {
            self.add(count);
        }
        for open in self.stacks.drain(None) {
            self.unfinished(&open);
        }
        self.print(&end)?;
        self.out.flush()
    }

    fn forgotten(&self) -> Forgotten {
        Forgotten::open(self.stacks.forgotten())
    }
}
