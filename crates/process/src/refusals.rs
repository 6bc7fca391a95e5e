//! Remembers children that could not be opened when they were found, and when each is tried again. Used by the crates
//! `births` and `lancet`.
//!
//! A child may be found at any moment of its life. Between fork and exec it still runs its parent's program, while its loader
//! runs it has no interpreter yet, and a shell may become one at any time (`sh -c "exec ruby …"`). So a child that was refused
//! is tried again as soon as it runs another program, and after ever longer pauses while its program is young. A later refusal
//! has a lasting reason.

use crate::guest::Status;
use crate::proc_file;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first pause between two tries. Each further one is as long as the time since the child was met, so that pauses double.
const FIRST: Duration = Duration::from_millis(50);
/// The age from which on a refused program does not count as young.
const YOUNG: Duration = Duration::from_secs(10);
/// The shortest time between two checks of which programs run, because that reads two files of `/proc` for each process.
const OFTEN: Duration = Duration::from_millis(100);

/// Identifies the program that a process runs, as far as it can be seen from outside. An exec changes it: the file is another
/// one, or the stack is elsewhere, because the kernel chooses its address anew (unless the address space is not randomised).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// When the process was made, in clock ticks of this boot.
    start: u64,
    /// The file that it runs, as the kernel names it. The file itself is not opened, because its file system may not answer
    /// (FUSE, NFS).
    file: Option<PathBuf>,
    /// The beginning of its stack; 0 if we may not know.
    stack: u64,
}

impl Program {
    /// Returns the program that a process runs now; `None` if the process is gone.
    pub fn of(pid: i32) -> Option<Self> {
        let status = Status::read(pid).ok()?;
        let file = fs::read_link(proc_file::path(pid, "exe"));
        Some(Program {
            start: status.start,
            file: file.ok(),
            stack: status.stack,
        })
    }
}

/// The refused children of one command, with the errors that are worth reporting.
#[derive(Debug)]
pub struct Refusals<E> {
    children: BTreeMap<i32, Refusal<E>>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Refusal<E> {
    program: Option<Program>,
    since: Instant,
    /// When it is tried again; `None` = when it runs another program.
    next: Option<Instant>,
    /// Why it was refused, until that has been reported.
    error: Option<E>,
}

impl<E> Default for Refusals<E> {
    fn default() -> Self {
        Refusals {
            children: BTreeMap::new(),
            looked: None,
        }
    }
}

impl<E> Refusals<E> {
    /// Takes note of the children that exist. Of those that are gone only the reasons that were not reported are kept, and
    /// returned. A child that runs another program now counts as newly found.
    pub fn look(
        &mut self,
        there: &[i32],
        now: Instant,
        program: impl Fn(i32) -> Option<Program>,
    ) -> Vec<E> {
        if self.children.is_empty()
            || self
                .looked
                .is_some_and(|looked| now.saturating_duration_since(looked) < OFTEN)
        {
            return Vec::new();
        }
        self.looked = Some(now);
        let there: BTreeSet<i32> = there.iter().copied().collect();
        let mut gone = Vec::new();
        self.children.retain(|pid, refusal| {
            if !there.contains(pid) {
                gone.extend(refusal.error.take());
                return false;
            }
            program(*pid) == refusal.program
        });
        gone
    }

    /// Whether a child must be tried now, because it was never refused or because its time has come.
    pub fn is_due(&self, pid: i32, now: Instant) -> bool {
        self.children
            .get(&pid)
            .is_none_or(|refusal| refusal.next.is_some_and(|next| next <= now))
    }

    /// Notes that a child was refused. Returns the error if the refusal has become lasting.
    pub fn refuse(
        &mut self,
        pid: i32,
        error: Option<E>,
        now: Instant,
        program: Option<Program>,
    ) -> Option<E> {
        let since = match self.children.get(&pid) {
            Some(before) if before.program == program => before.since,
            _ => now,
        };
        let age = now.saturating_duration_since(since);
        let mut refusal = Refusal {
            program,
            since,
            next: (age < YOUNG).then(|| now + age.max(FIRST)),
            error,
        };
        let given_up = match refusal.next {
            Some(_) => None,
            None => refusal.error.take(),
        };
        self.children.insert(pid, refusal);
        given_up
    }

    /// Forgets a child, because it was opened.
    pub fn forget(&mut self, pid: i32) {
        self.children.remove(&pid);
    }

    /// Takes the reasons that were not reported yet, because a report is about to be made without these children.
    pub fn untold(&mut self) -> Vec<E> {
        let children = self.children.values_mut();
        children
            .filter_map(|refusal| refusal.error.take())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(file: u64) -> Option<Program> {
        Some(Program {
            start: 1,
            file: Some(format!("/bin/{file}").into()),
            stack: 2,
        })
    }

    #[test]
    fn a_shell_that_becomes_another_program_is_tried_again() {
        let (mut refusals, mut now) = (Refusals::<()>::default(), Instant::now());
        assert!(refusals.is_due(7, now));
        let mut tries = 0;
        for _ in 0..3000 {
            if refusals.is_due(7, now) {
                tries += 1;
                refusals.refuse(7, None, now, program(1));
            }
            now += Duration::from_millis(10);
        }
        assert!((5..=12).contains(&tries), "{tries}");
        assert!(!refusals.is_due(7, now));
        refusals.look(&[7], now, |_| program(2));
        assert!(refusals.is_due(7, now));
    }

    #[test]
    fn a_reason_is_told_once() {
        let mut refusals = Refusals::default();
        let now = Instant::now();
        assert_eq!(refusals.refuse(7, Some("seven"), now, program(1)), None);
        assert_eq!(refusals.refuse(8, Some("eight"), now, program(1)), None);
        assert_eq!(refusals.look(&[7], now, |_| program(1)), ["eight"]);
        assert_eq!(refusals.untold(), ["seven"]);
        assert!(refusals.untold().is_empty());
        let later = now + YOUNG;
        let given_up = refusals.refuse(7, Some("seven"), later, program(1));
        assert_eq!(given_up, Some("seven"));
        assert!(!refusals.is_due(7, later + YOUNG));
    }

    #[test]
    fn an_exec_is_another_program() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "echo begun; read line; exec sleep 60"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        // Its own exec is over only when it says something: until then its stack may not be what it will be.
        let mut begun = [0; 6];
        let mut says = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut says, &mut begun).unwrap();
        let before = Program::of(pid).unwrap();
        assert_eq!(Program::of(pid).as_ref(), Some(&before));
        drop(child.stdin.take());
        let began = Instant::now();
        while Program::of(pid).as_ref() == Some(&before) {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
