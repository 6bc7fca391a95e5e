//! What it means that a copy has written nothing for a while. Used by `copy`.
//!
//! A copy that asks a function of an extension about an object hangs where that function waits for a lock that another thread had, because
//! the copy has no other threads. On a busy machine a copy that is well may be as silent: it has a lower priority than the program, and may
//! get no processor for seconds. So the kernel is asked what the copy did meanwhile: `schedstat` says how long it has run and how long it
//! has waited for a processor (Documentation/scheduler/sched-stats.rst), and the rest is sleep.

use process::asleep::{Ran, run_time};
use process::stop::thread_state;
use std::time::{Duration, Instant};

/// The longest sleep, and the longest run, without a sign of life. The copy's own alarm does not come before.
pub const LONGEST: Duration = Duration::from_secs(3);

/// What a silent copy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It may go on.
    Works,
    /// It has waited for a processor for longer than [`LONGEST`].
    Starves,
    /// It sleeps in a function that it has asked.
    Sleeps,
    /// A function that it has asked runs without end.
    Runs,
}

/// The time since the last sign of life of a process with one thread.
#[derive(Debug)]
pub struct Silence {
    pid: i32,
    began: Instant,
    /// What it had run and waited then.
    then: Ran,
}

impl Silence {
    /// A sign of life has come just now.
    pub fn begin(pid: i32) -> Self {
        Silence {
            pid,
            began: Instant::now(),
            then: run_time(pid, pid).unwrap_or_default(),
        }
    }

    /// Says what it does, if it may sleep or run for at most so long.
    pub fn look(&self, longest: Duration) -> Does {
        // The state comes last: a thread that sleeps now has been given the time for which it had waited.
        let now = run_time(self.pid, self.pid).unwrap_or(self.then);
        let state = thread_state(self.pid, self.pid);
        self.judge(self.began.elapsed(), now, state, longest)
    }

    fn judge(&self, took: Duration, now: Ran, state: Option<char>, longest: Duration) -> Does {
        let ran = now.ran.saturating_sub(self.then.ran);
        let waited = now.waited.saturating_sub(self.then.waited);
        let rest = took.saturating_sub(ran).saturating_sub(waited);
        match state {
            Some('R') if ran >= longest => Does::Runs,
            Some('S') if rest >= longest => Does::Sleeps,
            // What it waits for now is added when it gets it.
            Some('R') if waited + rest >= longest => Does::Starves,
            Some('S') if waited >= longest => Does::Starves,
            // Pages come back from a disk (D), or somebody has stopped it (T): it is waited for until the deadline.
            _ => Does::Works,
        }
    }
}

/// How long a process has waited for a processor in all.
pub fn starved(pid: i32) -> Duration {
    run_time(pid, pid).unwrap_or_default().waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// What it does after so many seconds, of which it has run and waited for a processor so many.
    fn after(took: u64, [ran, waited]: [u64; 2], state: char) -> Does {
        let seconds = Duration::from_secs;
        let (ran, waited) = (seconds(ran), seconds(waited));
        let silence = Silence {
            pid: 0,
            began: Instant::now(),
            then: Ran::default(),
        };
        silence.judge(
            seconds(took),
            Ran {
                ran,
                waited,
                ..Ran::default()
            },
            Some(state),
            LONGEST,
        )
    }

    #[test]
    fn a_copy_without_a_processor_is_waited_for() {
        assert_eq!(after(2, [0, 0], 'S'), Does::Works);
        assert_eq!(after(3, [0, 0], 'S'), Does::Sleeps);
        assert_eq!(after(3, [3, 0], 'R'), Does::Runs);
        // It has had none since, or little.
        assert_eq!(after(60, [0, 0], 'R'), Does::Starves);
        assert_eq!(after(60, [2, 57], 'R'), Does::Starves);
        assert_eq!(after(60, [2, 57], 'S'), Does::Starves);
        assert_eq!(after(60, [2, 54], 'S'), Does::Sleeps);
        assert_eq!(after(60, [3, 57], 'R'), Does::Runs);
        // Pages come from a disk.
        assert_eq!(after(60, [0, 0], 'D'), Does::Works);
    }

    struct Started(Child);

    impl Started {
        fn shell(script: &str) -> Self {
            let child = Command::new("sh").args(["-c", script]).spawn();
            Started(child.expect("a shell"))
        }

        /// Looks until it is one of these.
        fn is(&self, wanted: &[Does]) {
            let silence = Silence::begin(self.0.id() as i32);
            let began = Instant::now();
            while !wanted.contains(&silence.look(Duration::from_millis(200))) {
                assert!(began.elapsed() < Duration::from_secs(120), "{wanted:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    impl Drop for Started {
        fn drop(&mut self) {
            let _ = (self.0.kill(), self.0.wait());
        }
    }

    #[test]
    fn one_that_sleeps_and_one_that_runs_are_told_apart() {
        Started::shell("exec sleep 1000").is(&[Does::Sleeps]);
        Started::shell("while :; do :; done").is(&[Does::Runs]);
    }
}
