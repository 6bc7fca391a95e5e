//! Determines how long a thread has been asleep, and whether it slept until it was stopped. Used by `interrupted`,
//! `sockets`, `snapshot` and others.

use crate::descriptors::leaves_half;
use crate::proc_file;
use crate::processors;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Returns how long a thread has been asleep, or less, and how many voluntary context switches it had made. The kernel
/// keeps when it last ran (`se.exec_start`), by a clock of the processor that it ran on, which must not be compared
/// with another processor's; so this thread moves there for a moment. `None` if it cannot, or if the kernel does not know when the thread
/// last ran: since Linux 6.12 a thread may stay in the queue of its processor for a moment after it has fallen asleep (`DELAY_DEQUEUE`,
/// kernel/sched/features.h), and one that is moved to another processor then has the time 0 until it runs again (`migrate_task_rq_fair`,
/// kernel/sched/fair.c).
pub(crate) fn slept(pid: i32, tid: i32) -> Option<(Duration, u64)> {
    let processor = processors::of_thread(pid, tid)?;
    let sleeper = Sched::read(&format!("/proc/{pid}/task/{tid}/sched"))?;
    let now = processors::on(processor, || {
        // This makes the kernel update our own `se.exec_start` (`task_sched_runtime`, kernel/sched/core.c).
        crate::clock::thread_time();
        Sched::read("/proc/thread-self/sched")
    })?;
    Some((
        now.last_ran.saturating_sub(sleeper.last_ran),
        sleeper.switches,
    ))
}

/// What `/proc/PID/task/TID/sched` shows (`proc_sched_show_task`, kernel/sched/debug.c).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sched {
    pub(super) last_ran: Duration,
    pub(super) switches: u64,
}

impl Sched {
    pub(super) fn read(path: &str) -> Option<Self> {
        Self::parse(&proc_file::text(path).ok()?)
    }

    /// Parses the file. Times are milliseconds with six digits behind the point; 0 means not known.
    fn parse(text: &str) -> Option<Self> {
        let value = |name| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.rsplit_once(':')?.1.trim())
        };
        let (milliseconds, rest) = value("se.exec_start")?.split_once('.')?;
        let nanoseconds = milliseconds.parse::<u64>().ok()?.checked_mul(1_000_000)?;
        let nanoseconds = nanoseconds.checked_add(rest.parse().ok()?)?;
        (nanoseconds != 0 && rest.len() == 6).then_some(())?;
        Some(Sched {
            last_ran: Duration::from_nanos(nanoseconds),
            switches: value("nr_voluntary_switches")?.parse().ok()?,
        })
    }
}

/// How often a thread was given a processor: the third number of `/proc/PID/task/TID/schedstat` (`proc_pid_schedstat`, fs/proc/base.c). The
/// file is opened before the stop and read within it, which takes a tenth of what opening and reading `sched` takes.
#[derive(Debug)]
pub(super) struct Runs {
    file: File,
    before: u64,
}

impl Runs {
    /// Notes how often the thread has run until now; `None` if this kernel does not count it (`CONFIG_SCHED_INFO`), or no descriptor is left.
    pub(super) fn until_now(pid: i32, tid: i32) -> Option<Self> {
        let file = File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        if !leaves_half(&file) {
            return None;
        }
        let before = Self::count(&file)?;
        Some(Runs { file, before })
    }

    /// Whether it has run once since then. It may have run more often and done nothing but to stop, where another thread took the processor
    /// from it.
    pub(super) fn is_one_more(&self) -> bool {
        Self::count(&self.file) == Some(self.before + 1)
    }

    fn count(file: &File) -> Option<u64> {
        let mut bytes = [0; 64];
        let read = file.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(&bytes[..read]).ok()?;
        let count = text.split_whitespace().nth(2)?.parse().ok()?;
        (count != 0).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_not_run_and_one_that_was_woken_has_run_once_more() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (say, said) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: the call takes nothing.
            say.send(unsafe { libc::gettid() }).expect("it is heard");
            told.recv().expect("it is told");
            std::thread::park();
        });
        let (pid, tid) = (std::process::id() as i32, said.recv().expect("it says"));
        let asleep = || crate::stop::thread_state(pid, tid) == Some('S');
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let mut runs = None;
        // A thread that was just seen asleep may have gone to sleep since it was counted.
        while std::time::Instant::now() < until {
            runs = asleep().then(|| Runs::until_now(pid, tid)).flatten();
            if asleep()
                && runs
                    .as_ref()
                    .is_some_and(|runs| Runs::count(&runs.file) == Some(runs.before))
            {
                break;
            }
        }
        let runs = runs.expect("this kernel counts");
        assert!(!runs.is_one_more());
        tell.send(()).expect("it listens");
        while !runs.is_one_more() {
            let now = Runs::count(&runs.file).expect("it lives");
            assert!(std::time::Instant::now() < until, "it never runs");
            if now > runs.before + 1 {
                break;
            }
        }
        sleeper.thread().unpark();
        sleeper.join().expect("no panic");
    }

    #[test]
    fn when_a_thread_last_ran_is_read() {
        let text = "a (1, #threads: 1)\n----\nse.exec_start  :  5383833.846147\nnr_voluntary_switches : 12\n";
        let read = Sched::parse(text).unwrap();
        assert_eq!(read.last_ran, Duration::from_nanos(5_383_833_846_147));
        assert_eq!(read.switches, 12);
        let unknown = "se.exec_start : 0.000000\nnr_voluntary_switches : 12\n";
        assert_eq!(Sched::parse(unknown), None);
        assert_eq!(Sched::parse(""), None);
    }
}
