//! What BPF programs see of all processes of a run: the programs, their ring buffer and their counts, and which process each record
//! is of.

use crate::Function;
use crate::live::traced::{Table, Told};
use crate::options::Options;
use crate::source::Count;
use hooks::rings::{Counted, Losses};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tracepoint::{Figures, Lost, Record, Refused, Tells, Watch};

/// The programs, once they are wanted, or why there are none. All processes of a run share them.
#[derive(Default)]
pub struct Programs(RefCell<Option<Result<Rc<Seen>, Arc<Refused>>>>);

impl Programs {
    /// Loads them, if they are not there yet.
    pub fn get(
        &self,
        args: &Options,
        table: impl FnOnce() -> Table,
    ) -> Result<Rc<Seen>, Arc<Refused>> {
        let mut programs = self.0.borrow_mut();
        let programs = programs.get_or_insert_with(|| {
            let seen = Seen::begin(args, table());
            seen.map(Rc::new).map_err(Arc::new)
        });
        programs.clone()
    }
}

/// What the programs see of all processes.
pub struct Seen {
    watch: RefCell<Watch>,
    table: Table,
    counts: bool,
    /// What was read of a process that has not had its turn.
    unread: RefCell<HashMap<i32, Vec<Record>>>,
    /// Children that no process of ours stands for yet.
    children: RefCell<Vec<i32>>,
    /// What was handed on of counts and losses.
    taken: RefCell<(HashMap<u64, Figures>, Lost)>,
}

impl Seen {
    fn begin(args: &Options, table: Table) -> Result<Self, Refused> {
        let counts = args.counts_in_guest();
        let texts = |number| Some(table.told(number)?.texts());
        let tells = match counts {
            true => Tells::Counts,
            false => Tells::Calls(&texts),
        };
        let watch = Watch::begin(&tells, args.follow)?;
        Ok(Seen {
            watch: watch.into(),
            table,
            counts,
            unread: RefCell::default(),
            children: RefCell::default(),
            taken: RefCell::default(),
        })
    }

    /// Watches a process from now on.
    pub fn add(&self, pid: i32) -> Result<(), Refused> {
        self.unread.borrow_mut().entry(pid).or_default();
        self.watch.borrow().add(pid)
    }

    /// Watches it no more. What was told before can still be read.
    pub fn remove(&self, pid: i32) {
        self.watch.borrow().remove(pid);
    }

    /// Forgets what was told of a process and not read.
    pub fn forget(&self, pid: i32) {
        self.unread.borrow_mut().remove(&pid);
    }

    /// What was told of a process and not read.
    pub fn unread(&self, pid: i32) -> Vec<Record> {
        let mut unread = self.unread.borrow_mut();
        unread.get_mut(&pid).map(std::mem::take).unwrap_or_default()
    }

    /// Children that are watched, and that no process of ours stands for yet.
    pub fn children(&self) -> Vec<i32> {
        self.children.take()
    }

    /// What is told of calls of a number.
    pub fn told(&self, number: u64) -> Option<&Rc<Told>> {
        self.table.told(number)
    }

    /// A time of a record as one since 1970.
    pub fn wall(&self, time: u64) -> Duration {
        self.watch.borrow().wall(time)
    }

    /// Reads what there is, for all processes. Whether there was anything.
    pub fn read(&self) -> bool {
        let (mut unread, mut children) = (self.unread.borrow_mut(), self.children.borrow_mut());
        self.watch.borrow_mut().read(|record| match record {
            Record::Child { pid, .. } => {
                unread.entry(pid).or_default();
                children.push(pid);
            }
            Record::Call { pid, .. } | Record::Return { pid, .. } => {
                // Nobody asks for those of a process that is over.
                if let Some(unread) = unread.get_mut(&pid) {
                    unread.push(record);
                }
            }
        })
    }

    /// What was counted since the last time, of all processes.
    pub fn counted(&self) -> Vec<Count> {
        if !self.counts {
            return Vec::new();
        }
        let all = self.watch.borrow().counted();
        let taken = &mut self.taken.borrow_mut().0;
        let news = all.into_iter().filter_map(|(number, now)| {
            let before = taken.insert(number, now).unwrap_or_default();
            let told = self.table.told(number)?;
            (now != before).then(|| count(told.edge.function.clone(), &now, &before))
        });
        news.collect()
    }

    /// What was lost since the last time.
    pub fn lost(&self) -> Losses {
        let now = self.watch.borrow().lost();
        let before = std::mem::replace(&mut self.taken.borrow_mut().1, now);
        Losses {
            records: now.records + now.missed - before.records - before.missed,
            without_ring: now.threads + now.children - before.threads - before.children,
            ..Losses::default()
        }
    }
}

/// What is new in figures; the shortest and the longest are those of all.
fn count(function: Arc<Function>, now: &Figures, before: &Figures) -> Count {
    Count {
        function,
        inside: None,
        line: None,
        counted: Counted {
            returned: now.returned - before.returned,
            total: now.total - before.total,
            longest: now.longest,
            shortest: now.shortest,
            errors: now.errors - before.errors,
            left: now.left - before.left,
            ..Counted::default()
        },
        period: 1.0,
    }
}
