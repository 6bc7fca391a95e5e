//! A program that a command starts, from its exec to its exit code. Used by `processes`.

use crate::tracee::{Happening, OnItsWay, Tracee, User};
use process::error::{Error, Result};
use std::ffi::OsString;
use std::io;

/// The program that was started.
#[derive(Debug)]
pub struct Started {
    pid: i32,
    /// Set while the command does not handle its events, before or after it is watched; then its end is seen here.
    alone: Option<Tracee>,
    code: Option<i32>,
}

impl Started {
    /// Starts a program, which then stands at its exec. With `follow` its children are traced from their fork on; with
    /// `user` it runs as that user; `sees` is as in [`Tracee::launch`].
    ///
    /// # Errors
    /// [`Error::Start`] if there is no such program, or it may not be run.
    pub fn launch(
        command: &[OsString],
        follow: bool,
        user: Option<&User>,
        sees: Option<&mut OnItsWay<'_>>,
    ) -> Result<(Self, Tracee)> {
        let mut tracee = Tracee::launch(command, follow, user, sees)?;
        loop {
            match tracee.wait()? {
                Happening::Exec => break,
                Happening::Ended(_) => {
                    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
                    return Err(Error::Start {
                        program: program.to_string_lossy().into_owned(),
                        error: io::Error::other("it ended before it began"),
                    });
                }
                _ => tracee.go_on(false)?,
            }
        }
        let started = Started {
            pid: tracee.pid(),
            alone: None,
            code: None,
        };
        Ok((started, tracee))
    }

    /// Id of the program's process in the PID namespace of lancet.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Notes that its end was seen; `code` is its exit code, or 128 + the signal that killed it.
    pub fn has_ended(&mut self, code: i32) {
        self.code = Some(code);
    }

    /// Keeps the tracee of the started program, which goes on without hooks of ours and is only waited for. The tracee
    /// of any other process is dropped.
    pub fn goes_on_alone(&mut self, tracee: Tracee) {
        if tracee.pid() == self.pid {
            self.alone = Some(tracee);
        }
    }

    /// Returns its exit code once it has ended; does not wait.
    pub fn code(&mut self) -> Option<i32> {
        if let (None, Some(tracee)) = (self.code, &mut self.alone) {
            match tracee.poll() {
                Ok(None) => {}
                Ok(Some(Happening::Ended(code))) => self.code = Some(code),
                // An error means that the process is gone; its end is reported next.
                Ok(Some(_)) => drop(tracee.go_on(false)),
                Err(_) => self.code = Some(1),
            }
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::await_end;

    #[test]
    fn the_exit_code_of_a_started_program_is_told() {
        let command = ["sh", "-c", "exit 7"].map(OsString::from);
        let (mut started, tracee) = Started::launch(&command, false, None, None).expect("started");
        assert_eq!(started.code(), None);
        started.goes_on_alone(tracee);
        assert_eq!(await_end(|| false, || started.code()), 7);
    }
}
