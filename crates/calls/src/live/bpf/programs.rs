//! What BPF programs see of all processes of a run: the programs, their ring buffer and their counts, and to which process each
//! record belongs. Used by `bpf`, `family`, `guest::life` and others.

use super::events::{Sees, Telling, has_run};
use crate::Function;
use crate::event::Event;
use crate::live::traced::{Table, Told};
use crate::message::NotTold;
use crate::options::Options;
use crate::source::Count;
use hooks::rings::{Counted, Losses};
use process::memory::GuestMemory;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tracepoint::{Figures, Record, Refused, Tells, Watch, Whose};

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
        self.of_all(Seen::counted)
    }

    /// Returns what was lost until now, of all processes together.
    pub fn lost(&self) -> Vec<Losses> {
        self.of_all(|seen| vec![seen.lost()])
    }

    /// Returns whose records were lost until now, of which call: they are among those of [`Programs::lost`].
    pub fn not_told(&self) -> Vec<NotTold> {
        self.of_all(Seen::unfit)
    }

    fn of_all<T>(&self, what: impl Fn(&Seen) -> Vec<T>) -> Vec<T> {
        let programs = self.0.borrow();
        let seen = programs.iter().filter_map(|(_, seen)| seen.as_ref().ok());
        seen.flat_map(|seen| what(seen)).collect()
    }
}

/// Records that are taken out of the ring buffer before they are told: what is not taken yet holds up who makes calls.
const AT_ONCE: usize = 256;
/// How often that is done before others have their turn: so many records are more than a full ring buffer holds.
const TURNS: usize = 1024;

/// What the programs see of all processes.
pub struct Seen {
    watch: RefCell<Watch>,
    table: Table,
    counts: bool,
    /// Records that were read for a process that has not had its turn since.
    unread: RefCell<HashMap<i32, Vec<Record>>>,
    /// Of the processes whose records are reported as they come ([`Seen::report`]).
    tellings: RefCell<HashMap<i32, Telling>>,
    /// Calls that point to something that could not be read.
    uncopied: Cell<u64>,
    /// Watched children that no process of ours represents yet.
    children: RefCell<Vec<i32>>,
    /// The counts that were returned so far.
    taken: RefCell<HashMap<u64, Figures>>,
}

impl Seen {
    fn begin(args: &Options, whose: Whose, table: Table) -> Result<Self, Refused> {
        let counts = args.counts_in_guest();
        let copies = |number| Some(table.told(number)?.copies());
        let tells = match (counts, args.most_wait < tracepoint::LONGEST_HOLD) {
            (true, _) => Tells::Counts,
            (false, true) => Tells::CallsAtOnce(&copies),
            (false, false) => Tells::Calls(&copies),
        };
        let watch = Watch::begin(&tells, whose)?;
        Ok(Seen {
            watch: watch.into(),
            table,
            counts,
            unread: RefCell::default(),
            tellings: RefCell::default(),
            uncopied: Cell::default(),
            children: RefCell::default(),
            taken: RefCell::default(),
        })
    }

    /// Watches a process from now on.
    pub fn add(&self, pid: i32) -> Result<(), Refused> {
        self.unread.borrow_mut().entry(pid).or_default();
        self.watch.borrow().add(pid).map(drop)
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

    /// Watches a process from now on whose records are reported by [`Seen::report`]. It stands still, between two calls or `within` one that
    /// was reported.
    pub fn add_to_report(&self, pid: i32, within: bool) -> Result<(), Refused> {
        let since = self.watch.borrow().add(pid)?;
        let telling = Telling::since(within.then_some(since));
        self.tellings.borrow_mut().insert(pid, telling);
        Ok(())
    }

    /// Reports the available records of the processes that are so watched, in the order in which they were made. Returns whether there were
    /// any.
    pub fn report(&self, tell: &mut dyn FnMut(Event)) -> bool {
        let (mut records, mut any) = (Vec::new(), false);
        let mut tellings = self.tellings.borrow_mut();
        for _ in 0..TURNS {
            let read = |records: &mut Vec<Record>| {
                let mut watch = self.watch.borrow_mut();
                watch.read_some(AT_ONCE, |record| records.push(record))
            };
            let count = read(&mut records);
            any |= count > 0;
            for record in records.drain(..) {
                let (Record::Call { pid, .. }
                | Record::Return { pid, .. }
                | Record::Child { pid, .. }) = record;
                if let Some(telling) = tellings.get_mut(&pid) {
                    telling.tell(record, self, tell);
                }
            }
            if count < AT_ONCE {
                break;
            }
        }
        any
    }

    /// Completes the exec that a thread of such a process has made, of which all was reported that was recorded. The process stands at its end;
    /// `memory` is that of the program that runs now.
    pub fn has_run(&self, tid: i32, memory: &GuestMemory, tell: &mut dyn FnMut(Event)) {
        if let Some(telling) = self.tellings.borrow_mut().get_mut(&memory.pid()) {
            telling.has_run(tid, memory, tell);
        }
    }

    /// Forgets such a process, which is not watched any more and of which all was reported.
    pub fn end_report(&self, pid: i32, tell: &mut dyn FnMut(Event)) {
        if let Some(mut telling) = self.tellings.borrow_mut().remove(&pid) {
            telling.ends(tell);
        }
    }

    /// Takes the watched children that no process of ours represents yet.
    pub fn children(&self) -> Vec<i32> {
        self.children.take()
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
        let mut taken = self.taken.borrow_mut();
        let news = all.into_iter().filter_map(|(number, now)| {
            let before = taken.insert(number, now).unwrap_or_default();
            let told = self.table.told(number)?;
            (now != before).then(|| count(told.edge.function.clone(), &now, &before))
        });
        news.collect()
    }

    /// Returns whose records were lost, of which call.
    fn unfit(&self) -> Vec<NotTold> {
        let all = self.watch.borrow().unfit().into_iter();
        let named = all.filter_map(|unfit| {
            let name = self.table.told(unfit.number)?.edge.function.name.clone();
            Some(NotTold {
                name: name.into(),
                pid: unfit.pid,
                tid: unfit.tid,
                records: unfit.records,
            })
        });
        named.collect()
    }

    /// Returns what was lost until now.
    fn lost(&self) -> Losses {
        let now = self.watch.borrow().lost();
        Losses {
            records: now.records + now.missed,
            without_ring: now.threads + now.children,
            uncopied: self.uncopied.get(),
            ..Losses::default()
        }
    }
}

impl Sees for Seen {
    fn told(&self, number: u64) -> Option<Rc<Told>> {
        self.table.told(number)
    }

    fn wall(&self, time: u64) -> Duration {
        self.watch.borrow().wall(time)
    }

    fn note_uncopied(&self, number: u64, result: u64) {
        if has_run(number, result) {
            self.uncopied.set(self.uncopied.get() + 1);
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
