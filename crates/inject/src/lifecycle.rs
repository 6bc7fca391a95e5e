//! One life for every process that a command watches, whatever it watches there: attach, start, exec, fork, adopt, end,
//! leave.
//!
//! ```text
//!   Processes::open ────────────────────────────────────────────► Open     a running process
//!   Processes::start ──► stands at its exec ─┐
//!   an exec (traced, or followed by Execs) ──┴► Watched::at_exec ──► Open       `calls`: hooked from its first instruction
//!                                                ├─► Starting ─────► Open       `mem`: births are counted from its script
//!                                                └─► Plain                      nothing to watch yet; its next exec is
//!   a child ──► Turn::child ──► Plain or Open                          an adopted child carries its parent's agent
//!   Open ──► Watched::is_over ──► Observer::over, Observer::ended      its end, or it cannot be read any more
//!   Open ──► Watched::is_to_leave ──► as below, of this one alone
//!   Open ──► stands at another exec ──► Observer::over, and from the start again
//!   Processes::leave ──► Watched::leave, Tracee::let_go ──► Observer::over; the started program goes on alone
//! ```
//!
//! [`Processes`] owns them, and does what is the same for all commands: it polls their tracees, remembers the exit
//! code of the program that was started, follows threads to the next program ([`Execs`]), drops what was known of a
//! program before it begins with the next, and leaves. A command implements [`Watched`] for what it keeps of one
//! process (`mem`: `births::Session`, `calls`: `calls::live::Process`), and [`Observer`] for what it does with the news. A
//! third command needs those two and nothing else.
//!
//! Two things differ and are therefore methods or constants of [`Watched`]. *Who is traced*: `mem` traces a started
//! program and, with `--children`, its children from their fork on ([`Watched::TRACES_ALL`]), because only a tracer
//! finds a process at its end with its memory still there. `calls` traces the main thread of the started program
//! alone: its agent tells of forks and of execs by notices, a forked child waits until it is adopted, and a thread is
//! seized just before its exec. *Who is watched when*: see [`Watched::at_exec`].
//!
//! A signal from the terminal goes to the program and to the command alike. The command waits for a moment, so that a
//! program that ends by it is reported to its end ([`Interruption`]); one that does not is left, and goes on alone
//! until [`await_end`] has its exit code.
//!
//! What is not here: which processes there are that nobody told of. `mem` looks for children of the processes it was
//! given, `calls` for copies of its hooks in children of its guests; both then call [`Processes::open`] or
//! [`Processes::adopt`].

mod execs;
mod observer;
mod processes;
mod seized;
mod started;
mod strangers;
mod watched;

pub use execs::Execs;
pub use observer::{Observer, Over};
pub use processes::{NotStarted, Processes};
pub use seized::Seized;
pub use started::Started;
pub use watched::{Stage, Turn, Watched};

use crate::tracee::{Happening, Tracee, wait_for_any};
use process::error::{Error, Result};
use std::time::{Duration, Instant};

/// The exit code of a command that an interrupt has ended: as shells say "ended by SIGINT".
pub const INTERRUPTED: u8 = 130;
/// How long a program has to end by an interrupt that reached it too.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks for an interrupt while the end of a program is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Has a process left by `leave`, which needs its main thread to stop, although that may stand at an event that its
/// tracer has to see first: then it goes on from there, and `leave` is tried again. A child that it has just made is let
/// go.
pub fn leave_past_events<T>(
    mut tracee: Option<&mut Tracee>,
    mut leave: impl FnMut() -> Result<T>,
) -> Result<T> {
    loop {
        let left = leave();
        let (Err(Error::AtEvent { .. }), Some(tracee)) = (&left, &mut tracee) else {
            return left;
        };
        match tracee.poll()? {
            Some(Happening::Ended(_)) => return left,
            Some(Happening::Fork(child) | Happening::Vfork(child)) => {
                // An error means that it is gone.
                let _ = process::stop::let_go(child);
            }
            _ => {}
        }
        tracee.go_on(false)?;
    }
}

/// When a command that was interrupted is to end.
#[derive(Debug, Default)]
pub struct Interruption(Option<Instant>);

impl Interruption {
    /// Whether it is to end now: at once, or, where it `starts` a program, some time later, because the same signal
    /// reached the program, whose end is worth waiting for.
    pub fn is_over(&mut self, interrupted: bool, starts: bool) -> bool {
        if !interrupted {
            return false;
        }
        let since = *self.0.get_or_insert_with(Instant::now);
        !starts || since.elapsed() > GRACE
    }
}

/// The exit code of a program that goes on alone, as soon as `code` knows it; [`INTERRUPTED`] as soon as `interrupted`
/// says that nobody waits any more.
pub fn await_end(interrupted: impl Fn() -> bool, mut code: impl FnMut() -> Option<i32>) -> u8 {
    loop {
        if let Some(code) = code() {
            return code as u8;
        }
        if interrupted() {
            return INTERRUPTED;
        }
        wait_for_any(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_gives_a_started_program_time_to_end() {
        let mut interruption = Interruption::default();
        assert!(!interruption.is_over(false, false));
        assert!(!interruption.is_over(true, true));
        assert!(interruption.is_over(true, false));
        let long_ago = Instant::now().checked_sub(GRACE * 2);
        assert!(Interruption(long_ago).is_over(true, true));
    }

    #[test]
    fn whoever_does_not_wait_any_more_is_interrupted() {
        assert_eq!(await_end(|| true, || None), INTERRUPTED);
    }
}
