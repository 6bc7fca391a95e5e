//! What is known of the threads of a process that run, between two looks: what must be copied with them. Used by `open` and `running`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use process::snapshot::{Copies, Thread};
use tracepoint::{DEEPEST, LISTED, Seen};

use super::marks::Marks;
use super::thread_list::ThreadList;

/// After so many looks in a row in which not all could be copied, threads are stopped instead for [`STOPPED`] looks.
const FAILURES: u32 = 3;
const STOPPED: u32 = 100;
/// A page is copied for so many looks after it was needed last.
const LOOKS: u64 = 64;
/// What is known of threads is read again after so many looks, or where it is known of so many.
const NAMED: u64 = 256;
const MOST_THREADS: usize = 1 << 12;
/// Pages of a stack that are copied before any was seen.
const SHALLOW: usize = 16;
/// The threads that sleep are asked whether they have slept on at most for one part in so many of the time.
const SHARE: u32 = 20;
/// Why a look is made by stops.
const NOT_WHOLE: &str = "what leads to the frames of a thread could not all be copied";

/// What is known of the threads of a process that run, between two looks.
pub(super) struct OnProcessors {
    /// The threads that were seen, by their ids and the addresses of their tasks.
    pub(super) threads: HashMap<(i32, u64), Thread>,
    /// Pages that readers have needed, by the number of the look in which they did last.
    pages: BTreeMap<u64, u64>,
    /// How many pages of a stack are copied, and how many were in use at most of those lately.
    pub(super) depth: usize,
    deepest: usize,
    look: u64,
    /// Looks in a row that have failed, and how many are still to be made by stops.
    failed: u32,
    stops: u32,
    /// Why the last one was made by stops.
    why: String,
    /// When sleeping threads were asked last, and how long that took.
    pub(super) asked: Option<(Instant, Duration)>,
    /// All threads.
    pub(super) list: ThreadList,
    /// What shows which of them have run, where many sleep.
    pub(super) marks: Option<Rc<Marks>>,
    /// Whether there can be no marks of this process.
    pub(super) has_no_marks: bool,
}

impl Default for OnProcessors {
    fn default() -> Self {
        OnProcessors {
            threads: HashMap::new(),
            pages: BTreeMap::new(),
            depth: SHALLOW,
            deepest: 0,
            look: 0,
            failed: 0,
            stops: 0,
            why: String::new(),
            asked: None,
            list: ThreadList::default(),
            marks: None,
            has_no_marks: false,
        }
    }
}

impl OnProcessors {
    /// Whether this look is one of those that must be made by stops.
    pub(super) fn goes_by_stops(&mut self) -> bool {
        let goes = self.stops > 0;
        self.stops = self.stops.saturating_sub(1);
        goes
    }

    /// Whether sleeping threads are asked whether they have slept on: at most for one part in [`SHARE`] of the time.
    pub(super) fn asks(&self) -> bool {
        let asked = self.asked.filter(|_| self.marks.is_none());
        asked.is_none_or(|(last, took)| last.elapsed() >= took * SHARE)
    }

    /// Says why a look is made by stops, and so are the next ones, as many as [`STOPPED`] says.
    pub(super) fn go_by_stops(&mut self, why: &str) {
        self.stops = STOPPED;
        self.stop_once(why);
    }

    /// The same for one look.
    pub(super) fn stop_once(&mut self, why: &str) {
        why.clone_into(&mut self.why);
    }

    /// Why the last look by stops was one.
    pub(super) fn why(&self) -> String {
        self.why.clone()
    }

    /// Notes how many pages of a stack are in use, of which so many were copied. Returns whether some were not asked for.
    pub(super) fn is_cut(&mut self, used: usize, copied: usize) -> bool {
        let used = used.min(DEEPEST);
        self.deepest = self.deepest.max(used);
        let is_cut = copied == self.depth && copied < used;
        if is_cut {
            self.depth = used;
        }
        is_cut
    }

    /// Returns the pages that are copied, by rising address.
    pub(super) fn listed(&self) -> Vec<u64> {
        let mut pages: Vec<(u64, u64)> = self
            .pages
            .iter()
            .map(|(page, used)| (*used, *page))
            .collect();
        if pages.len() > LISTED {
            pages.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
            pages.truncate(LISTED);
        }
        let mut pages: Vec<u64> = pages.into_iter().map(|(_, page)| page).collect();
        pages.sort_unstable();
        pages
    }

    /// Notes that pages are needed.
    pub(super) fn need(&mut self, pages: HashSet<u64>) {
        let look = self.look;
        // A walk that reads more sees something else than frames.
        if pages.len() <= LISTED {
            self.pages
                .extend(pages.into_iter().map(|page| (page, look)));
        }
    }

    /// Notes whether a look was made; forgets pages that were needed long ago, and threads where there are too many.
    pub(super) fn end_look(&mut self, is_made: bool) {
        self.look += 1;
        self.failed = if is_made { 0 } else { self.failed + 1 };
        if !is_made {
            self.stop_once(NOT_WHOLE);
        }
        if self.failed == FAILURES {
            (self.failed, self.stops) = (0, STOPPED);
        }
        let look = self.look;
        if look.is_multiple_of(LOOKS) {
            self.depth = SHALLOW.max(std::mem::take(&mut self.deepest));
        }
        self.pages.retain(|_, used| look - *used < LOOKS);
        // Names and mappings of threads change, but seldom.
        if look.is_multiple_of(NAMED) || self.threads.len() > MOST_THREADS {
            self.threads.clear();
        }
    }

    /// Returns the copies of a thread; forgets pages that could not be copied.
    pub(super) fn copies(&mut self, seen: &Seen, pages: &[u64]) -> Copies {
        let mut copies = Copies::default();
        let (at, stack) = seen.stack();
        copies.add(at, stack);
        // What lies in a row is one piece.
        let mut row: Option<(u64, Vec<u8>)> = None;
        for (page, bytes) in pages.iter().zip(seen.listed()) {
            let Some(bytes) = bytes else {
                self.pages.remove(page);
                continue;
            };
            match &mut row {
                Some((at, row)) if *at + row.len() as u64 == *page => row.extend_from_slice(bytes),
                _ => {
                    if let Some((at, row)) = row.replace((*page, bytes.to_vec())) {
                        copies.add(at, &row);
                    }
                }
            }
        }
        if let Some((at, row)) = row {
            copies.add(at, &row);
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_deep_recursion_does_not_make_all_later_copies_deep() {
        let mut on = OnProcessors::default();
        assert!(on.is_cut(100, SHALLOW), "84 pages were not asked for");
        assert_eq!(on.depth, 100);
        assert!(!on.is_cut(100, 100));
        // A page within was not there: that is no reason to ask for more.
        assert!(!on.is_cut(100, 50));
        for _ in 0..2 * LOOKS {
            on.end_look(true);
        }
        assert_eq!(on.depth, SHALLOW);
    }

    #[test]
    fn looks_that_fail_in_a_row_are_made_by_stops_for_a_while() {
        let mut on = OnProcessors::default();
        for _ in 0..FAILURES {
            assert!(!on.goes_by_stops());
            on.end_look(false);
            assert_eq!(on.why(), NOT_WHOLE);
        }
        for _ in 0..STOPPED {
            assert!(on.goes_by_stops());
        }
        assert!(!on.goes_by_stops());
    }
}
