//! Options of another process's sockets. Used by `machine` and `mounts`.
//!
//! A copy of the descriptor (pidfd_getfd(2)) is queried and closed; the process does not notice. This takes the right
//! to trace the process. SO_INCOMING_CPU is the CPU that took the last packet of the connection, SO_INCOMING_NAPI_ID
//! the poller it came through, SO_BUSY_POLL how long its reader polls that one itself (socket(7); net/core/sock.c).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::descriptor::owned;
use crate::first_thread::holder_of_descriptors;
use crate::tree::Cannot;

/// What it takes to look into another process: its user's and no more rights, or this.
pub(crate) const TRACE: &str = "the right to trace it (CAP_SYS_PTRACE)";

/// The options of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrowed {
    /// The CPU that took the last packet; `None` if nothing has arrived yet.
    pub cpu: Option<usize>,
    /// The NAPI instance; `None` if the packet came from this machine.
    pub napi: Option<u32>,
    /// Microseconds its reader polls for a packet.
    pub busy_poll: u32,
}

/// Returns the options of these descriptors of a process. One that was closed meanwhile is left out.
pub fn ask(pid: i32, descriptors: &[i32]) -> Result<Vec<Borrowed>, Cannot> {
    let what = format!("borrowing sockets of process {pid}");
    let denied = |error: io::Error| Cannot::from_io(&what, &error).needing(TRACE);
    let process = holder_of_descriptors(pid).map_err(denied)?;
    let mut all = Vec::new();
    for &descriptor in descriptors {
        // SAFETY: no memory is handed over; the call makes the descriptor.
        let socket = unsafe {
            owned(libc::syscall(
                libc::SYS_pidfd_getfd,
                process.as_raw_fd(),
                descriptor,
                0,
            ))
        };
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => continue,
            Err(error) => return Err(denied(error)),
        };
        let cpu = option(&socket, libc::SO_INCOMING_CPU).and_then(|cpu| usize::try_from(cpu).ok());
        let number = |name| option(&socket, name).map(i32::cast_unsigned);
        all.push(Borrowed {
            cpu,
            napi: number(libc::SO_INCOMING_NAPI_ID).filter(|napi| *napi != 0),
            busy_poll: number(libc::SO_BUSY_POLL).unwrap_or(0),
        });
    }
    Ok(all)
}

fn option(socket: &OwnedFd, name: i32) -> Option<i32> {
    let mut value = 0i32;
    let mut length = size_of::<i32>() as u32;
    // SAFETY: value and length live across the call, and the length is that of the value.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    (code == 0).then_some(value)
}
