//! The lifecycle of every process that a command watches, whatever it watches there: attach, start, exec, fork, adopt, end,
//! leave. Used by the crates `lancet` and `calls`.
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
//! [`Processes`] owns them and does what is the same for all commands: it polls their tracees, remembers the exit code of
//! the program that was started, follows threads to the next program ([`Execs`]), drops what was known of a program before
//! it begins with the next, and leaves. A command implements [`Watched`] for what it keeps of one process (`mem`:
//! `births::Session`, `calls`: `calls::live::Process`), and [`Observer`] for handling its events. A further command needs
//! only these two.
//!
//! Two things differ and are therefore methods or constants of [`Watched`]. *Which processes are traced*: `mem` traces a
//! started program and, with `--children`, its children from their fork on ([`Watched::TRACES_ALL`]), because only a tracer
//! finds a process at its end with its memory still there. `calls` traces only the main thread of the started program: its
//! agent reports forks and execs by notices, a forked child waits until it is adopted, and a thread is seized just before
//! its exec. *From when on a process is watched*: see [`Watched::at_exec`].
//!
//! A signal from the terminal goes to the program and to the command alike. The command waits for a moment, so that a
//! program that ends by the signal is reported to its end ([`Interruption`]). A program that does not end is left and goes
//! on alone, until [`await_end`] has its exit code.
//!
//! Finding processes that nothing has reported is not done here. `mem` looks for children of the processes it was given,
//! `calls` for copies of its hooks in children of its guests; both then call [`Processes::open`] or [`Processes::adopt`].

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
#[cfg(test)]
pub(crate) use seized::Became;
pub use seized::Seized;
pub use started::Started;
pub use watched::{Stage, Turn, Watched};

use crate::tracee::{Happening, Tracee, wait_for_any};
use process::error::{Error, Result};
use std::time::{Duration, Instant};

/// The exit code of a command that was ended by an interrupt, as a shell reports SIGINT.
pub const INTERRUPTED: u8 = 130;
/// How long a program that has received the same interrupt gets to end.
const GRACE: Duration = Duration::from_secs(2);
/// Time between two checks for an interrupt while the end of a program is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// Leaves a process by `leave`, which needs to stop its main thread. That thread may stand at an event that its tracer must
/// see first: then it is set going from there, and `leave` is tried again. A child that it has just made is let go.
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
                // An error means that the child is gone.
                let _ = process::stop::let_go(child, child);
            }
            _ => {}
        }
        tracee.go_on(false)?;
    }
}

/// Decides when a command that was interrupted ends.
#[derive(Debug, Default)]
pub struct Interruption(Option<Instant>);

impl Interruption {
    /// Whether the command must end now: at once, or, if it `starts` a program, some time later, because the same signal
    /// has reached the program, whose end is worth waiting for.
    pub fn is_over(&mut self, interrupted: bool, starts: bool) -> bool {
        if !interrupted {
            return false;
        }
        let since = *self.0.get_or_insert_with(Instant::now);
        !starts || since.elapsed() > GRACE
    }
}

/// Waits until `code` returns the exit code of a program that goes on alone, and returns it; [`INTERRUPTED`] as soon as
/// `interrupted` returns true.
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
