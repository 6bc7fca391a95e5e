//! Reads the pipe into which a copy writes, until a deadline.

use super::silence::{Does, LONGEST, Silence};
use crate::copy::{Copy, ENDED};
use languages::snapshot::copied::CopiedProcess;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

/// Milliseconds between two looks at what a silent copy does.
const LOOK: u16 = 250;

/// Reads the pipe of one copy. A read fails when the deadline has passed, when the copy has ended, or when it hangs, so that it does not hold
/// up the command. The time for which the copy has waited for a processor does not count.
pub struct Pipe<'a> {
    copy: &'a Copy,
    until: Instant,
}

impl<'a> Pipe<'a> {
    /// Returns the pipe of a copy, which can be read until the instant `until`.
    pub fn new(copy: &'a Copy, until: Instant) -> Self {
        Pipe { copy, until }
    }

    /// Why the copy does not go on, if it does not.
    fn hangs(&self, silence: &Silence) -> Option<String> {
        let at = self.copy.at().unwrap_or(0);
        let reason = match silence.look(LONGEST) {
            Does::Works => return None,
            Does::Starves => {
                self.copy.say_starved();
                return None;
            }
            Does::Sleeps => "waits for a lock that another thread had",
            Does::Runs => "does not return",
        };
        Some(format!(
            "it hangs at the object {at:#x}: a function of its C type {reason}"
        ))
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut silence = None;
        loop {
            if self.copy.is_late(self.until) {
                return Err(io::Error::other("it took too long"));
            }
            match (&self.copy.pipe).read(into) {
                Ok(0) => return Err(io::Error::other(ENDED)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            process::stop::poll_stragglers();
            let silence = silence.get_or_insert_with(|| Silence::begin(self.copy.pid()));
            let mut wanted = [PollFd::new(self.copy.pipe.as_fd(), PollFlags::POLLIN)];
            match poll(&mut wanted, PollTimeout::from(LOOK)) {
                // lancet was stopped by the terminal, for instance: the time without data begins anew.
                Err(Errno::EINTR) => *silence = Silence::begin(self.copy.pid()),
                Err(error) => return Err(error.into()),
                Ok(0) => {
                    if let Some(reason) = self.hangs(silence) {
                        return Err(io::Error::other(reason));
                    }
                }
                Ok(_) => {}
            }
        }
    }
}
