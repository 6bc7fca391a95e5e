//! Which threads of chosen processes have left a processor, without asking the kernel for each of them: a thread that has not, and that had
//! none when it was asked last, has slept since. Used by crate `frames`.
//!
//! ```text
//!   a processor goes from one thread to another ─► sched_switch ─► is the former's process in `watched`? ─ no ─► on it goes
//!   a thread ends ─► sched_process_exit ─► the same                  │ yes                 (every process of the machine pays this)
//!                                                                    ▼
//!                                                the mark of its id is set, a byte that lancet has mapped
//! ```
//!
//! A mark serves all threads whose ids have the same last bits, so one can be set that says nothing of the thread. None is missing: whose mark
//! was taken away with that of another thread is told to have left a processor, too ([`Switches::forget`]).

use crate::assembler::{Math, Program, Reg, Size, When};
use crate::kernel::{Attached, Mapped, Refused};
use crate::processes::Processes;
use crate::writer::{Maps, Writer};
use Reg::{R1, R2, R7};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// How many marks there are: a power of two, and so many that of the threads of a process hardly two have the same.
const MARKS: usize = 1 << 16;

/// Where a thread is in its last moments as one of its process, and where it leaves a processor. The former comes first: a thread that has
/// ended has no id in any PID namespace but the first when it leaves its processor.
const TRACEPOINTS: [&str; 2] = ["sched_process_exit", "sched_switch"];

/// How often a mark that was set has been taken away, by all [`Switches`]: the time of what is known of a thread.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Notes which threads leave a processor, until this is dropped.
#[derive(Debug)]
pub struct Switches {
    watched: Watched,
    marks: Mapped,
    attached: Vec<Attached>,
    /// When each mark that was set was taken away last.
    taken: Box<[Cell<u64>]>,
}

#[derive(Debug)]
struct Watched(Processes);

impl Maps for Watched {
    fn processes(&self) -> &Processes {
        &self.0
    }
}

impl Switches {
    /// Loads and attaches the programs. Nobody is watched yet.
    ///
    /// # Errors
    /// Why there is no way by BPF, for the user to read.
    pub fn begin() -> Result<Self, Refused> {
        let watched = Watched(Processes::new()?);
        let marks = Mapped::new("lancet_marks", MARKS)?;
        let attached = TRACEPOINTS.iter().map(|tracepoint| {
            let program = program(&watched, &marks);
            Attached::new(tracepoint, &program)
        });
        let attached = attached.collect::<Result<_, _>>()?;
        Ok(Switches {
            watched,
            marks,
            attached,
            taken: vec![Cell::new(0); MARKS].into(),
        })
    }

    /// Watches a process from now on.
    ///
    /// # Errors
    /// It is in a PID namespace in which it cannot be found, or there is no room.
    pub fn add(&self, pid: i32) -> Result<(), Refused> {
        self.watched.0.add(pid).map(drop)
    }

    /// Watches it no more.
    pub fn remove(&self, pid: i32) {
        self.watched.0.remove(pid);
    }

    /// Whether a thread of a watched process, by its id in lancet's PID namespace, has left a processor `since` its mark was taken away. One
    /// that got a processor and still has it has not left it.
    pub fn has_left(&self, tid: i32, since: u64) -> bool {
        self.mark(tid).load(Ordering::Acquire) != 0 || self.taken[which(tid)].get() > since
    }

    /// Takes the mark of a thread away, and returns since when. What is read of the thread afterwards is as new as this.
    pub fn forget(&self, tid: i32) -> u64 {
        // An exchange, because a mere store may come after the reads that follow it.
        let was_set = self.mark(tid).swap(0, Ordering::SeqCst) != 0;
        if was_set {
            // It may have been set for another thread, which now has none.
            let taken = TAKEN.fetch_add(1, Ordering::Relaxed) + 1;
            self.taken[which(tid)].set(taken);
        }
        self.now()
    }

    /// What [`Switches::forget`] would return now of a thread without a mark.
    pub fn now(&self) -> u64 {
        TAKEN.load(Ordering::Relaxed)
    }

    /// How often the kernel has left a program out. If that has risen, nothing is known of who has left a processor meanwhile.
    pub fn missed(&self) -> u64 {
        self.attached.iter().map(Attached::missed).sum()
    }

    fn mark(&self, tid: i32) -> &AtomicU8 {
        // SAFETY: the value has `MARKS` bytes, and lives as long as `self`. The programs write single bytes there, and lancet uses them as
        // atomics only.
        unsafe { AtomicU8::from_ptr(self.marks.at().as_ptr().add(which(tid))) }
    }
}

/// The number of the mark of a thread.
fn which(tid: i32) -> usize {
    tid as u32 as usize % MARKS
}

/// Sets the mark of the current thread.
fn program(watched: &Watched, marks: &Mapped) -> Program {
    let mut writer = Writer::new(watched);
    let out = writer.out;
    writer.watched(out);
    let code = &mut writer.code;
    code.copy(R1, R7);
    code.math(Math::And, R1, MARKS as i32 - 1);
    code.map_value(R2, marks.map().descriptor());
    code.math_of(Math::Add, R2, R1);
    // Marks of threads of a busy process lie side by side: if each switch wrote there, processors would wait for each other's caches.
    code.load(Size::Byte, R1, R2, 0);
    code.jump_if(R1, When::NotEqual, 0, out);
    code.store_number(Size::Byte, R2, 0, 1);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    /// Ids so far apart have the same mark. Nobody is watched: the marks are those that programs would set.
    #[test]
    fn a_mark_that_was_taken_away_for_another_thread_is_not_lost() {
        let switches = match Switches::begin() {
            Ok(switches) => switches,
            Err(error) => return eprintln!("SKIP switches: {error}"),
        };
        let (one, same, other) = (70_000, 70_000 + MARKS as i32, 70_001);
        let run = |tid: i32| switches.mark(tid).store(1, Ordering::SeqCst);
        let [slept, sleeps] = [same, other].map(|tid| switches.forget(tid));
        assert!(!switches.has_left(same, slept) && !switches.has_left(other, sleeps));
        run(same);
        let since = switches.forget(one);
        assert!(switches.has_left(same, slept), "its mark was taken away");
        assert!(!switches.has_left(one, since) && !switches.has_left(other, sleeps));
        // What is read of it from now on is known again, whoever else is asked.
        let slept = switches.forget(same);
        switches.forget(one);
        assert!(!switches.has_left(same, slept));
        run(one);
        assert!(switches.has_left(same, slept) && switches.has_left(one, since));
    }

    #[test]
    fn who_sleeps_on_has_no_mark_and_who_woke_or_ended_has_one() {
        let switches = match Switches::begin() {
            Ok(switches) => switches,
            Err(error) => return eprintln!("SKIP switches: {error}"),
        };
        let pid = std::process::id() as i32;
        switches.add(pid).expect("our own namespace");
        let (tell, told) = mpsc::channel();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (wake, woken) = mpsc::channel::<()>();
                let tell = tell.clone();
                let thread = std::thread::spawn(move || {
                    // SAFETY: the call takes nothing.
                    tell.send(unsafe { libc::gettid() }).expect("it listens");
                    // The first message wakes it up, the end of them ends it.
                    while woken.recv().is_ok() {}
                });
                let tid = told.recv().expect("it has begun");
                until("it never slept", || switches.has_left(tid, 0));
                (tid, wake, thread)
            })
            .collect();
        let [(woken, wake, one), (sleeps, end, other)] = <[_; 2]>::try_from(threads).expect("two");
        // Each may leave its processor once more on the way into its sleep.
        let slept = |tid: i32| {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
            stat.is_ok_and(|stat| stat.contains(") S "))
        };
        until("both sleep", || slept(woken) && slept(sleeps));
        let [of_woken, since] = [woken, sleeps].map(|tid| switches.forget(tid));
        wake.send(()).expect("it listens");
        until("it has no mark", || switches.has_left(woken, of_woken));
        assert!(!switches.has_left(sleeps, since), "nobody woke it");
        drop(end);
        until("it has no mark of its end", || {
            switches.has_left(sleeps, since)
        });
        other.join().expect("no panic");
        // It is watched no more.
        until("it sleeps again", || slept(woken));
        switches.remove(pid);
        let of_woken = switches.forget(woken);
        drop(wake);
        one.join().expect("no panic");
        assert!(!switches.has_left(woken, of_woken));
        assert_eq!(switches.missed(), 0);
    }
}
