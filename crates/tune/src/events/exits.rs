//! Ends of given processes, for which no right is needed: a pidfd becomes readable when its process ends. How it ended
//! is known to its parent only. Used by `lancet::commands::tune::run` and `lancet::commands::tune::events`.
//!
//! Source: pidfd_open(2).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::descriptor::owned;
use crate::tree::Cannot;

/// Processes whose end is waited for.
#[derive(Debug)]
pub struct Exits {
    waited_for: Vec<(i32, OwnedFd)>,
}

impl Exits {
    /// Opens the processes, so that an id that is given out again is not mistaken for one of them.
    pub fn of(pids: &[i32]) -> Result<Self, Cannot> {
        let open = |pid: &i32| {
            // SAFETY: no memory is handed over; the call makes the descriptor.
            let fd = unsafe { owned(libc::syscall(libc::SYS_pidfd_open, *pid, 0)) };
            let failed = |error| Cannot::from_io(&format!("process {pid}"), &error);
            fd.map(|fd| (*pid, fd)).map_err(failed)
        };
        let waited_for = pids.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { waited_for })
    }

    /// Returns whether all have ended.
    pub fn is_done(&self) -> bool {
        self.waited_for.is_empty()
    }

    /// Returns the processes that ended since the last call; waits at most so long if there is none.
    pub fn receive(&mut self, wait: Duration) -> Result<Vec<i32>, Cannot> {
        let entry = |(_, fd): &(i32, OwnedFd)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled: Vec<libc::pollfd> = self.waited_for.iter().map(entry).collect();
        let millis = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the entries live across the call, and their number is given.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as u64, millis) };
        if ready < 0 {
            return match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
                error => Err(Cannot::from_io("waiting for processes", &error)),
            };
        }
        let mut ended = Vec::new();
        let mut states = polled.iter().map(|entry| entry.revents != 0);
        self.waited_for.retain(|(pid, _)| {
            let over = states.next().unwrap_or(false);
            if over {
                ended.push(*pid);
            }
            !over
        });
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_end_is_seen() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut exits = Exits::of(&[child.id() as i32]).unwrap();
        assert!(exits.receive(Duration::ZERO).unwrap().is_empty());
        child.kill().unwrap();
        assert_eq!(
            exits.receive(Duration::from_secs(5)).unwrap(),
            [child.id() as i32]
        );
        assert!(exits.is_done());
        child.wait().unwrap();
    }
}
