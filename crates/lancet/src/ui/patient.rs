//! A destination that is waited for where it takes nothing at the moment. Used by `sink` and `terminal`.
//!
//! Standard output and standard error of a program that we start are our own open files. A program that sets `O_NONBLOCK`
//! there (node and others by libuv, ssh, vim) sets it for us too, and from then on a full pipe is `EAGAIN` in place of a
//! wait. Taking the flag away would take it away from the program.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Writes to a file, and waits where that says that it takes nothing yet.
pub struct Patient<W> {
    to: W,
    /// The longest wait of one write; `None` = as long as it takes, as with a file that has not got the flag.
    most_wait: Option<Duration>,
}

impl<W: Write + AsFd> Patient<W> {
    /// Waits as long as it takes.
    pub fn new(to: W) -> Self {
        let most_wait = None;
        Patient { to, most_wait }
    }

    /// Waits at most so long; then the write fails with [`ErrorKind::WouldBlock`].
    pub fn at_most(to: W, wait: Duration) -> Self {
        let most_wait = Some(wait);
        Patient { to, most_wait }
    }

    fn again<T>(&mut self, mut write: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
        let began = Instant::now();
        loop {
            let error = match write(&mut self.to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => error,
                done => return done,
            };
            let left = self
                .most_wait
                .map(|most| most.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(error);
            }
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            let mut wanted = [PollFd::new(self.to.as_fd(), PollFlags::POLLOUT)];
            match poll(&mut wanted, timeout) {
                // The next write says what has happened.
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl<W: Write + AsFd> Write for Patient<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(|to| to.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.again(W::flush)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};

    /// A pipe whose end for writing has the flag.
    pub fn hasty_pipe() -> (io::PipeReader, File) {
        let (reader, writer) = io::pipe().unwrap();
        // SAFETY: takes integers and changes a flag of a descriptor of ours.
        let set = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(set, 0);
        (reader, OwnedFd::from(writer).into())
    }

    #[test]
    fn a_reader_that_is_late_gets_everything() {
        let (mut reader, writer) = hasty_pipe();
        let text = vec![b'x'; 1 << 20];
        let expected = text.len();
        let writing = std::thread::spawn(move || Patient::new(writer).write_all(&text));
        let read = io::copy(&mut reader, &mut io::sink()).unwrap();
        assert_eq!(read, expected as u64);
        writing.join().unwrap().unwrap();
    }

    #[test]
    fn nobody_is_waited_for_longer_than_said() {
        let (_reader, writer) = hasty_pipe();
        let mut to = Patient::at_most(writer, Duration::from_millis(20));
        let error = to.write_all(&vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
