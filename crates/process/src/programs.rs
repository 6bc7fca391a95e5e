//! A process that begins another program (execve(2)) while it is opened. Used by most crates above.
//!
//! What was read of it until then is of a memory that is gone, so an attach fails in any of its steps, as it does where the process has
//! ended. Whether it has, is read back here; one that lives is opened again.

use crate::error::Error;
use crate::guest::Status;
use crate::memory::GuestMemory;
use crate::tries::PAUSE;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often, at least, a process is opened that begins another program each time, and for how long; but no try is begun after [`MOST`]. Where
/// each takes long, because the machine is busy, five would take ten seconds.
const LEAST: u32 = 5;
const LONGEST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(4);
/// How long a process is waited for whose first thread has given way to the one that begins the program.
const BETWEEN: Duration = Duration::from_secs(2);

/// Calls `open`, which opens a process, again where the process has begun another program meanwhile.
///
/// # Errors
/// Those of `open`; [`Error::Restless`] if it has begun another program each time.
pub fn at_present<T, E: From<Error>>(pid: i32, open: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    at_present_within([LONGEST, MOST], pid, open)
}

fn at_present_within<T, E: From<Error>>(
    [longest, most]: [Duration; 2],
    pid: i32,
    mut open: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let (since, mut tries) = (Instant::now(), 0);
    // Whether the program of the last try runs on, though there was another one before.
    let mut stays = None;
    while since.elapsed() < longest || tries < LEAST && since.elapsed() < most {
        tries += 1;
        let program = Program::of(pid);
        let error = match open() {
            Err(error) => error,
            opened => return opened,
        };
        if program.is_some_and(|one| one.was_replaced()) {
            stays = Some(false);
        } else if stays == Some(false) {
            // It may have begun at this moment, and its loader has not mapped yet what is needed of it.
            stays = Some(true);
            sleep(PAUSE);
        } else {
            return Err(error);
        }
    }
    Err(Error::Restless(pid).into())
}

/// A process, and its memory while it runs one program.
struct Program {
    status: Status,
    /// `None` = it cannot be opened while another thread is about to become the first one.
    memory: Option<GuestMemory>,
}

impl Program {
    fn of(pid: i32) -> Option<Self> {
        let status = Status::read(pid).ok()?;
        Some(Program {
            memory: GuestMemory::open_briefly(pid).ok(),
            status,
        })
    }

    /// Whether the process lives and runs another program by now.
    fn was_replaced(&self) -> bool {
        match &self.memory {
            Some(memory) if memory.is_left() => {}
            None if self.status.first_has_ended() => {}
            _ => return false,
        }
        let until = Instant::now() + BETWEEN;
        loop {
            match Status::read(self.status.pid) {
                Ok(now) if now.start != self.status.start => return false,
                Ok(now) if !now.first_has_ended() => return true,
                Ok(now) if now.has_other_threads() && Instant::now() < until => sleep(PAUSE),
                Ok(_) | Err(_) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    /// A process that runs another program every few milliseconds is tried for as long as was said, and no longer where a try takes long; what
    /// fails at a program that stays fails.
    #[test]
    fn a_process_that_begins_programs_all_the_time_is_given_up() {
        const AGAIN: &str = "exec sh -c \"$AGAIN\"";
        let mut child = Command::new("sh")
            .args(["-c", AGAIN])
            .env("AGAIN", AGAIN)
            .spawn()
            .expect("sh runs");
        let pid = child.id() as i32;
        let tried = |limits: [u64; 2], each: u64| {
            let (mut tries, since) = (0, Instant::now());
            let opened: Result<(), Error> =
                at_present_within(limits.map(Duration::from_millis), pid, || {
                    let (program, begun) = (Program::of(pid), Instant::now());
                    tries += 1;
                    while begun.elapsed() < Duration::from_millis(each)
                        || !program.as_ref().is_none_or(Program::was_replaced)
                    {
                        std::thread::yield_now();
                    }
                    Err(Error::Gone(pid))
                });
            assert!(matches!(opened, Err(Error::Restless(_))), "{opened:?}");
            (tries, since.elapsed())
        };
        let (tries, took) = tried([200, 60_000], 0);
        assert!(
            tries >= LEAST && took >= Duration::from_millis(200),
            "{tries}, {took:?}"
        );
        let (tries, took) = tried([20, 100], 60);
        assert!(tries <= 2, "{tries}, {took:?}");
        let _ = child.kill();
        child.wait().expect("our child");
    }

    #[test]
    fn a_process_is_opened_again_at_its_next_program_and_not_when_it_has_ended() {
        let mut child = Command::new("sh")
            .args([
                "-c",
                "echo first; read go; exec sh -c 'echo next; read end'",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let mut to = child.stdin.take().expect("it is piped");
        let mut told = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut line = || told.next().expect("it says more").expect("a text");
        assert_eq!(line(), "first");
        let pid = child.id() as i32;
        let mut tries = 0;
        let opened = at_present(pid, || {
            tries += 1;
            if tries == 1 {
                to.write_all(b"go\n").expect("it listens");
                assert_eq!(line(), "next");
                return Err(Error::Gone(pid));
            }
            Ok(tries)
        });
        assert_eq!(opened.expect("it lives"), 2);
        let failed: Result<(), Error> = at_present(pid, || {
            to.write_all(b"end\n").expect("it listens");
            child.wait().expect("our child");
            Err(Error::Gone(pid))
        });
        assert!(matches!(failed, Err(Error::Gone(_))), "{failed:?}");
        let failed: Result<(), Error> =
            at_present(std::process::id() as i32, || Err(Error::Stopped(1)));
        assert!(
            matches!(failed, Err(Error::Stopped(1))),
            "another reason stays"
        );
    }
}
