//! Reads the pipe into which a copy writes, until a deadline.

use crate::copy::{Copy, ENDED};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

/// Time limit without data: after this the copy is taken to hang in a function of an extension. Its own alarm comes later.
const SILENCE: u16 = 3000;

/// Reads the pipe of one copy. A read fails when the deadline has passed, when the copy has ended, or when it has written nothing for too long,
/// so that a copy that hangs does not hold up the command.
pub struct Pipe<'a> {
    copy: &'a Copy,
    until: Instant,
}

impl<'a> Pipe<'a> {
    /// Returns the pipe of a copy, which can be read until the instant `until`.
    pub fn new(copy: &'a Copy, until: Instant) -> Self {
        Pipe { copy, until }
    }
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if Instant::now() > self.until {
                return Err(io::Error::other("it took too long"));
            }
            match (&self.copy.pipe).read(into) {
                Ok(0) => return Err(io::Error::other(ENDED)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            process::stop::poll_stragglers();
            let mut wanted = [PollFd::new(self.copy.pipe.as_fd(), PollFlags::POLLIN)];
            let ready = match poll(&mut wanted, PollTimeout::from(SILENCE)) {
                // A signal with a handler (stopped by the terminal) interrupts the wait; the time without data begins anew.
                Err(Errno::EINTR) => continue,
                ready => ready?,
            };
            if ready == 0 {
                let at = self.copy.at().unwrap_or(0);
                return Err(io::Error::other(format!(
                    "it hangs at the object {at:#x}: a function of its C type waits for a lock that another thread had"
                )));
            }
        }
    }
}
