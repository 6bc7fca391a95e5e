//! On which processors lancet's thread runs that looks at a process again and again.
//!
//! A thread that a look has stopped is woken on lancet's processor as a rule (`wake_affine`, kernel/sched/fair.c). When lancet wakes there for the
//! next look, it takes the processor from that thread, which then never seems to run. So between two looks lancet goes where the threads are
//! not that it looks at.

use crate::proc_file;
use std::cell::Cell;

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
    if !set_affinity(&of(&[processor])) {
        return None;
    }
    let done = work();
    set_affinity(&before);
    done
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
}
