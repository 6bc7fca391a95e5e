//! On which processors lancet's thread runs that looks at a process again and again. Used by `interrupted::slept` and
//! `stop`, and by the crates `lancet` and `frames`.
//!
//! A thread that a look has stopped is woken on lancet's processor as a rule (`wake_affine`, kernel/sched/fair.c). When lancet wakes there for the
//! next look, it takes the processor from that thread, which then never seems to run. So between two looks lancet goes where the threads are
//! not that it looks at.

use crate::proc_file;
use std::cell::Cell;
use std::collections::BTreeMap;

/// The thread that has made it runs on some of its processors only, until this is dropped.
#[derive(Debug)]
pub struct Apart {
    /// The processors that it may use.
    all: Vec<usize>,
    /// How often all of them were busy.
    rounds: Cell<usize>,
}

impl Apart {
    /// `None` where it may use one processor only.
    pub fn begin() -> Option<Self> {
        let (all, rounds) = (allowed()?, Cell::new(0));
        (all.len() > 1).then_some(Apart { all, rounds })
    }

    /// Goes on away from the processors in `busy`. Where all are, it goes on one of them, each time on the next one, so that no thread is the
    /// one whose processor it always takes.
    pub fn from(&self, busy: &[usize]) {
        let others: Vec<usize> = self
            .all
            .iter()
            .copied()
            .filter(|processor| !busy.contains(processor))
            .collect();
        if !others.is_empty() {
            return allow(&others);
        }
        let round = self.rounds.replace(self.rounds.get().wrapping_add(1));
        allow(&self.all[round % self.all.len()..][..1]);
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        allow(&self.all);
    }
}

/// Whether the calling thread may run on more than one processor.
pub fn are_several() -> bool {
    allowed().is_none_or(|all| all.len() > 1)
}

/// Returns the processor on which a thread runs or has run last; `None` if it is gone.
pub fn of_thread(pid: i32, tid: i32) -> Option<usize> {
    let stat = proc_file::of_thread(pid, tid, "stat").ok()?;
    // proc_pid_stat(5).
    proc_file::stat_field(&stat, 39)?.trim().parse().ok()
}

/// Does something on a processor, and lets the calling thread run where it could before. `None` if it may not run there, or if that was the
/// result.
pub(crate) fn on<T>(processor: usize, work: impl FnOnce() -> Option<T>) -> Option<T> {
    let before = affinity().filter(|_| processor < MOST)?;
    let there = of(&[processor]);
    // Within `by_processor` it is there already, and every move waits until the processor is free.
    if is_same(&before, &there) {
        return work();
    }
    if !set_affinity(&there) {
        return None;
    }
    let done = work();
    set_affinity(&before);
    done
}

/// Does something for each thread of a process, for those of one processor after another, on which the calling thread then runs: what is done
/// there with [`on`] moves no more. A move waits until the processor is free, for some milliseconds where another thread uses it, which a
/// process of thousands of threads would pay for each. A thread whose processor is not known, or may not be used, comes where this one runs.
pub(crate) fn by_processor<T>(
    pid: i32,
    threads: impl IntoIterator<Item = i32>,
    mut work: impl FnMut(i32) -> Option<T>,
) -> Vec<T> {
    let mut groups: BTreeMap<Option<usize>, Vec<i32>> = BTreeMap::new();
    for tid in threads {
        groups.entry(of_thread(pid, tid)).or_default().push(tid);
    }
    let mut all = Vec::new();
    for (processor, threads) in groups {
        let mut of_group = || {
            threads
                .iter()
                .filter_map(|tid| work(*tid))
                .collect::<Vec<T>>()
        };
        let there = processor.and_then(|processor| on(processor, || Some(of_group())));
        all.extend(there.unwrap_or_else(of_group));
    }
    all
}

/// The processors that a set has room for.
const MOST: usize = size_of::<libc::cpu_set_t>() * 8;

/// Returns the processors on which the calling thread may run.
fn allowed() -> Option<Vec<usize>> {
    let set = affinity()?;
    // SAFETY: the macro reads a bit within the set.
    let is_in = |processor: &usize| unsafe { libc::CPU_ISSET(*processor, &set) };
    Some((0..MOST).filter(is_in).collect())
}

/// Lets the calling thread run on these processors alone. Where that is refused it runs where it did.
fn allow(processors: &[usize]) {
    set_affinity(&of(processors));
}

/// Returns the set of these processors, each of which is less than [`MOST`].
fn of(processors: &[usize]) -> libc::cpu_set_t {
    // SAFETY: a set of bits, for which zeros are the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for processor in processors {
        // SAFETY: the macro writes a bit within the set.
        unsafe { libc::CPU_SET(*processor, &mut set) };
    }
    set
}

fn is_same(one: &libc::cpu_set_t, other: &libc::cpu_set_t) -> bool {
    // SAFETY: the macro reads both sets.
    unsafe { libc::CPU_EQUAL(one, other) }
}

fn affinity() -> Option<libc::cpu_set_t> {
    let mut set = of(&[]);
    // SAFETY: the call fills the set and writes no more than its size.
    let done = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    (done == 0).then_some(set)
}

fn set_affinity(set: &libc::cpu_set_t) -> bool {
    // SAFETY: the call reads the set, whose size is passed with it.
    unsafe { libc::sched_setaffinity(0, size_of_val(set), set) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_away_and_comes_back() {
        let before = allowed().unwrap();
        let Some(apart) = Apart::begin() else {
            return;
        };
        apart.from(&before[..1]);
        assert_eq!(allowed().unwrap(), before[1..]);
        for turn in [0, 1, 0] {
            apart.from(&before);
            assert_eq!(
                allowed().unwrap(),
                before[turn % before.len()..][..1],
                "one after the other"
            );
            if before.len() > 2 {
                break;
            }
        }
        apart.from(&before[1..]);
        drop(apart);
        assert_eq!(allowed().unwrap(), before);
        let own = std::process::id() as i32;
        assert!(before.contains(&of_thread(own, own).unwrap()));
    }

    #[test]
    fn threads_are_looked_at_one_processor_after_another() {
        let before = allowed().unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let (say, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..40 {
                let (say, held, before) = (say.clone(), &held, &before);
                scope.spawn(move || {
                    // They end on all processors in turn.
                    allow(&[before[number % before.len()]]);
                    // SAFETY: the call takes nothing.
                    say.send(unsafe { libc::gettid() }).expect("it is heard");
                    let _ = held.lock().map(|held| held.recv());
                });
            }
            let threads: Vec<i32> = said.iter().take(40).collect();
            let pid = std::process::id() as i32;
            let mut places = Vec::new();
            let seen = by_processor(pid, threads.iter().copied(), |tid| {
                places.push(allowed().unwrap());
                let processor = of_thread(pid, tid)?;
                on(processor, || Some((tid, allowed().unwrap())))
            });
            let mut tids: Vec<i32> = seen.iter().map(|(tid, _)| *tid).collect();
            tids.sort_unstable();
            let mut all = threads.clone();
            all.sort_unstable();
            assert_eq!(tids, all, "each once");
            assert!(seen.iter().all(|(_, there)| there.len() == 1));
            places.dedup();
            assert!(
                places.len() <= before.len(),
                "moved back and forth: {places:?}"
            );
            assert_eq!(allowed().unwrap(), before, "and back");
            drop(hold);
        });
    }
}
