//! What BPF programs see of all processes of a run: the programs, their ring buffer and their counts, and to which process each
//! record belongs.

use super::telling::EXECS;
use crate::Function;
use crate::live::traced::{Table, Told};
use crate::options::Options;
use crate::source::Count;
use hooks::rings::{Counted, Losses};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tracepoint::{Figures, Lost, Record, Refused, Tells, Watch, Whose};

/// The programs for each kind of watch, once they are needed, or why there are none. All processes of a run share them.
#[derive(Default)]
pub struct Programs(RefCell<Vec<(Whose, Loaded)>>);

type Loaded = Result<Rc<Seen>, Arc<Refused>>;

impl Programs {
    /// Loads the programs, if they are not loaded yet.
    pub fn get(&self, args: &Options, whose: Whose, table: impl FnOnce() -> Table) -> Loaded {
        let mut programs = self.0.borrow_mut();
        if let Some((_, seen)) = programs.iter().find(|(of, _)| *of == whose) {
            return seen.clone();
        }
        let seen = Seen::begin(args, whose, table());
        let seen = seen.map(Rc::new).map_err(Arc::new);
        programs.push((whose, seen.clone()));
        seen
    }

    /// Returns what the programs have counted since the last call, for all processes; nothing if they are not loaded.
    pub fn counted(&self) -> Vec<Count> {
        let programs = self.0.borrow();
        let seen = programs.iter().filter_map(|(_, seen)| seen.as_ref().ok());
        seen.flat_map(|seen| seen.counted()).collect()
    }
}

/// What the programs see of all processes.
pub struct Seen {
    watch: RefCell<Watch>,
    table: Table,
    counts: bool,
    /// Records that were read for a process that has not had its turn since.
    unread: RefCell<HashMap<i32, Vec<Record>>>,
    /// Calls that point to something that could not be read, and were not reported to [`Seen::lost`] yet.
    uncopied: Cell<u64>,
    /// Watched children that no process of ours represents yet.
    children: RefCell<Vec<i32>>,
    /// The counts and losses that were returned so far.
    taken: RefCell<(HashMap<u64, Figures>, Lost)>,
}

impl Seen {
    fn begin(args: &Options, whose: Whose, table: Table) -> Result<Self, Refused> {
        let counts = args.counts_in_guest();
        let copies = |number| Some(table.told(number)?.copies());
        let tells = match counts {
            true => Tells::Counts,
            false => Tells::Calls(&copies),
        };
        let watch = Watch::begin(&tells, whose)?;
        Ok(Seen {
            watch: watch.into(),
            table,
            counts,
            unread: RefCell::default(),
            uncopied: Cell::default(),
            children: RefCell::default(),
            taken: RefCell::default(),
        })
    }

    /// Watches a process from now on.
    pub fn add(&self, pid: i32) -> Result<(), Refused> {
        self.unread.borrow_mut().entry(pid).or_default();
        self.watch.borrow().add(pid)
    }

    /// Stops watching it. Records made before can still be read.
    pub fn remove(&self, pid: i32) {
        self.watch.borrow().remove(pid);
    }

    /// Forgets the unread records of a process.
    pub fn forget(&self, pid: i32) {
        self.unread.borrow_mut().remove(&pid);
    }

    /// Takes the unread records of a process.
    pub fn unread(&self, pid: i32) -> Vec<Record> {
        let mut unread = self.unread.borrow_mut();
        unread.get_mut(&pid).map(std::mem::take).unwrap_or_default()
    }

    /// Notes the return of a call that points to something that was not in memory when it began: where it was an exec, that memory is gone.
    pub fn note_uncopied(&self, number: u64, result: u64) {
        if EXECS.contains(&number) && result == 0 {
            self.uncopied.set(self.uncopied.get() + 1);
        }
    }

    /// Takes the watched children that no process of ours represents yet.
    pub fn children(&self) -> Vec<i32> {
        self.children.take()
    }

    /// Returns how calls of a number are reported.
    pub fn told(&self, number: u64) -> Option<Rc<Told>> {
        self.table.told(number)
    }

    /// Converts a time of a record to one since 1970.
    pub fn wall(&self, time: u64) -> Duration {
        self.watch.borrow().wall(time)
    }

    /// Reads the available records of all processes. Returns whether there were any.
    pub fn read(&self) -> bool {
        let (mut unread, mut children) = (self.unread.borrow_mut(), self.children.borrow_mut());
        self.watch.borrow_mut().read(|record| match record {
            Record::Child { pid, .. } => {
                unread.entry(pid).or_default();
                children.push(pid);
            }
            Record::Call { pid, .. } | Record::Return { pid, .. } => {
                // The records of a process that is over are not kept.
                if let Some(unread) = unread.get_mut(&pid) {
                    unread.push(record);
                }
            }
        })
    }

    fn counted(&self) -> Vec<Count> {
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

    /// Returns what was lost since the last call.
    pub fn lost(&self) -> Losses {
        let now = self.watch.borrow().lost();
        let before = std::mem::replace(&mut self.taken.borrow_mut().1, now);
        Losses {
            records: now.records + now.missed - before.records - before.missed,
            without_ring: now.threads + now.children - before.threads - before.children,
            uncopied: self.uncopied.take(),
            ..Losses::default()
        }
    }
}

/// Returns the increase of figures; the shortest and the longest are those of the whole time.
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
