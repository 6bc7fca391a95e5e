//! The kernel's own count of a process's system calls, which is taken beside its hooks: by it calls are found that are made where no hook
//! is, as code that is made at run time and `int $0x80` make them. Used by `family`, `guest`, `guest::life` and others.
//!
//! A BPF program counts by the place of each call ([`tracepoint::Places`]). A call that has returned to a place at which no hook is was
//! certainly not seen, whenever it was made, so no two counts have to be taken at the same instant, and none is compared with another.
//!
//! ```text
//!   hooks are set ──► 200 ms ──► nothing found: 20 ms in each 2 s      found: all the time, so that the end can say how many
//! ```
//!
//! While it is taken, every system call of the machine pays for it, and one of the process some 200 ns. Where the kernel does not allow it,
//! nothing is counted, and nothing is said.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use tracepoint::{Called, Places};

/// How long is counted at first, and how long again and again.
const FIRST: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_millis(20);
/// Time from the beginning of one count to that of the next.
const PERIOD: Duration = Duration::from_secs(2);

/// The program that counts, while any guest of the run needs it.
#[derive(Default)]
pub struct CountingProgram(RefCell<Loaded>);

#[derive(Default)]
struct Loaded {
    places: Weak<Places>,
    refused: bool,
}

impl CountingProgram {
    /// Whether the program is loaded.
    fn is_loaded(&self) -> bool {
        self.0.borrow().places.strong_count() != 0
    }

    /// Returns the program, which is loaded if it is not; `None`: the kernel does not allow it.
    fn places(&self) -> Option<Rc<Places>> {
        let mut loaded = self.0.borrow_mut();
        if loaded.refused {
            return None;
        }
        if let Some(places) = loaded.places.upgrade() {
            return Some(places);
        }
        match Places::begin() {
            Ok(places) => {
                let places = Rc::new(places);
                loaded.places = Rc::downgrade(&places);
                Some(places)
            }
            Err(_) => {
                loaded.refused = true;
                None
            }
        }
    }
}

/// What is counted beside the hooks of one process.
#[derive(Default)]
pub struct KernelCount {
    pid: i32,
    /// When its first count began, and when the present one or the last one did; `None`: it has not begun.
    began: Option<[Instant; 2]>,
    /// When hooks were set for the first time, and when a count was last found to have lasted long enough.
    set: Option<Instant>,
    looked: Option<Instant>,
    /// Set while it is counted.
    places: Option<Rc<Places>>,
    /// How long it was counted before the present count, and what was counted then, by address and number.
    before: Duration,
    calls: BTreeMap<[u64; 2], u64>,
    /// Instructions at which a hook is, or was at any time.
    hooked: HashSet<u64>,
    /// Whether a lancet makes other calls, by address and number, as was found when that could be read.
    own: HashMap<[u64; 2], bool>,
    /// Whether it is counted to the end.
    pub stays: bool,
    /// Whether that was reported, and whether the end was.
    pub told: bool,
    pub over: bool,
}

impl KernelCount {
    /// Begins with the count, if it has not begun.
    pub fn begin(&mut self, pid: i32, kernel: &CountingProgram) {
        if self.began.is_none() {
            self.pid = pid;
            self.count(kernel);
        }
    }

    /// Begins with the count of a child that has its parent's code and hooks, if it has not begun. Most children end soon, so one that is not
    /// counted beside its parent is counted for the first time when it has lived for a while. Returns whether it has begun now.
    pub fn begin_child(&mut self, pid: i32, kernel: &CountingProgram) -> bool {
        if self.began.is_some() {
            return false;
        }
        if kernel.is_loaded() {
            self.begin(pid, kernel);
        } else {
            self.pid = pid;
            self.began = Some([Instant::now(); 2]);
        }
        true
    }

    /// Begins a count.
    fn count(&mut self, kernel: &CountingProgram) {
        let now = Instant::now();
        let first = self.began.map_or(now, |[first, _]| first);
        self.began = Some([first, now]);
        let places = kernel.places();
        self.places = places.filter(|places| places.add(self.pid).is_ok());
    }

    /// Notes at which instructions hooks are now.
    pub fn note(&mut self, hooked: HashSet<u64>) {
        self.set.get_or_insert_with(Instant::now);
        self.hooked.extend(hooked);
    }

    /// Whether the present count has lasted long enough. If it is time for another one, that begins.
    pub fn is_due(&mut self, kernel: &CountingProgram) -> bool {
        let Some([first, last]) = self.began.filter(|_| !self.over) else {
            return false;
        };
        if self.places.is_none() {
            if last.elapsed() >= PERIOD {
                self.count(kernel);
            }
            return false;
        }
        let is_due = match (self.set, self.looked.filter(|_| self.stays)) {
            (None, _) => false,
            (_, Some(looked)) => looked.elapsed() >= PERIOD,
            (Some(set), None) if first == last => set.elapsed() >= FIRST,
            (Some(_), None) => last.elapsed() >= AGAIN,
        };
        if is_due {
            self.looked = Some(Instant::now());
        }
        is_due
    }

    /// Ends the present count; one that stays goes on.
    pub fn pause(&mut self) {
        if !self.stays {
            self.stop();
        }
    }

    /// Ends the count, and keeps what was counted.
    fn stop(&mut self) {
        let Some(places) = self.places.take() else {
            return;
        };
        places.remove(self.pid);
        for called in places.of(self.pid) {
            *self.calls.entry(key(called)).or_default() += called.calls;
        }
        places.forget(self.pid);
        if let Some([_, last]) = self.began {
            self.before += last.elapsed();
        }
    }

    /// Ends the count for good. Returns whether it had begun and had not been ended.
    pub fn end(&mut self) -> bool {
        self.stop();
        self.began.is_some() && !std::mem::replace(&mut self.over, true)
    }

    /// Forgets what was counted: nobody knows of which program it is.
    pub fn forget(&mut self) {
        self.end();
        self.calls.clear();
    }

    /// Returns what was counted at instructions without a hook: address, number, calls. `lancets` says of addresses and numbers
    /// whether a lancet makes these calls, `None` where that cannot be read: those are left out then.
    pub fn unhooked(
        &mut self,
        lancets: impl FnOnce(&[[u64; 2]]) -> Option<Vec<bool>>,
    ) -> Vec<(u64, u64, u64)> {
        let mut calls = self.calls.clone();
        let now = self.places.as_ref().map(|places| places.of(self.pid));
        for called in now.into_iter().flatten() {
            *calls.entry(key(called)).or_default() += called.calls;
        }
        calls.retain(|[at, _], _| !self.hooked.contains(at));
        let mut new: Vec<[u64; 2]> = calls.keys().copied().collect();
        new.retain(|call| !self.own.contains_key(call));
        if !new.is_empty()
            && let Some(own) = lancets(&new)
        {
            self.own.extend(new.into_iter().zip(own));
        }
        calls.retain(|call, _| self.own.get(call) == Some(&false));
        let calls = calls.into_iter();
        calls
            .map(|([at, number], calls)| (at, number, calls))
            .collect()
    }

    /// How long it was counted, of how long altogether.
    pub fn times(&self) -> [Duration; 2] {
        let Some([first, last]) = self.began else {
            return [Duration::ZERO; 2];
        };
        let now = if self.places.is_some() {
            last.elapsed()
        } else {
            Duration::ZERO
        };
        [self.before + now, first.elapsed()]
    }
}

/// Ends the count also where lancet ends by an error or a panic. Whoever counts the next program with this id has ended this before.
impl Drop for KernelCount {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The address of the instruction, and the number.
fn key(called: Called) -> [u64; 2] {
    /// Bytes of an instruction that enters the kernel.
    const INSTRUCTION: u64 = 2;
    [called.behind.wrapping_sub(INSTRUCTION), called.number]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(calls: &[([u64; 2], u64)], hooked: &[u64]) -> KernelCount {
        let mut beside = KernelCount::default();
        beside.calls.extend(calls.iter().copied());
        beside.hooked.extend(hooked);
        beside
    }

    #[test]
    fn what_was_called_without_a_hook_and_not_by_lancet_is_left() {
        let mut beside = counted(&[([1, 39], 5), ([2, 39], 7), ([3, 39], 1)], &[1]);
        let unhooked = beside.unhooked(|at| Some(at.iter().map(|[at, _]| *at == 3).collect()));
        assert_eq!(unhooked, [(2, 39, 7)]);
        // It is known by now, whether or not it can still be read.
        assert_eq!(beside.unhooked(|_| None), [(2, 39, 7)]);
    }

    #[test]
    fn of_what_cannot_be_told_nothing_is_said() {
        let mut beside = counted(&[([2, 39], 7)], &[]);
        assert!(beside.unhooked(|_| None).is_empty());
    }
}
