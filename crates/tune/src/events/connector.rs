//! The subscription to process events, through the kernel's proc connector. Used by `machine` and `rules::events`, and
//! by `lancet::commands::tune::events`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::losses::Losses;
use super::message::{Carries, Event, parse};
use crate::cpus::list;
use crate::descriptor::owned;
use crate::process::bind;
use crate::tree::{Cannot, Tree};

const NETLINK_CONNECTOR: i32 = 11;
/// CN_IDX_PROC, as a multicast group.
const GROUP: u32 = 1;
const LISTEN: u32 = 1;
const IGNORE: u32 = 2;
/// How long an acknowledgement is waited for. The kernel sends it at once, behind whatever is queued already.
const PATIENCE: Duration = Duration::from_millis(300);
/// Messages that are read before the reader gets them.
const BATCH: usize = 4096;

/// The result of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listening {
    /// The kernel acknowledged it.
    Heard,
    /// There is no proc connector, or it refused.
    Refused(String),
    /// The kernel did not acknowledge the subscription.
    Silent(String),
}

/// Some events, in the order of their arrival.
#[derive(Debug, Default)]
pub struct Batch {
    /// The events, in the order of their arrival.
    pub events: Vec<Event>,
}

/// A subscription to process events; dropping it ends it.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
    subscribed: bool,
    losses: Losses,
    /// Events that arrived while an acknowledgement was waited for.
    early: Vec<Event>,
}

impl Connector {
    /// Subscribes and waits for the acknowledgement. `buffer` bytes hold what comes while we do something
    /// else; each message takes about 800 of them (a whole socket buffer).
    pub fn open(buffer: usize) -> Result<Self, Cannot> {
        match Self::subscribe(buffer)? {
            (mut connector, Listening::Heard) => {
                connector.hear_every_cpu()?;
                Ok(connector)
            }
            (_, Listening::Refused(why) | Listening::Silent(why)) => Err(Cannot::Unsupported {
                what: "hearing process events".into(),
                why,
            }),
        }
    }

    /// Subscribes for a moment, to see whether it works. A signal that would end lancet is held back until the
    /// subscription is ended.
    pub fn try_out() -> Result<Listening, Cannot> {
        // SAFETY: signal sets are plain integers, for which all zeros is a value; both live across the calls.
        let before = unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            before
        };
        let answer = Self::subscribe(0).map(|(_, answer)| answer);
        // SAFETY: the set is the one of before, and lives across the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut())
        };
        answer
    }

    fn subscribe(buffer: usize) -> Result<(Self, Listening), Cannot> {
        let failed = |what: &str, error: io::Error| match Cannot::from_io(what, &error) {
            Cannot::Denied { .. } => Cannot::Denied {
                what: "hearing process events".into(),
                right: "CAP_NET_ADMIN",
            },
            other => other,
        };
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is handed over; the call makes the descriptor.
        let socket =
            unsafe { owned(libc::socket(libc::AF_NETLINK, kind, NETLINK_CONNECTOR).into()) };
        let mut connector = Self {
            socket: socket.map_err(|error| failed("a connector socket", error))?,
            subscribed: false,
            losses: Losses::default(),
            early: Vec::new(),
        };
        // SAFETY: `sockaddr_nl` is plain integers, for which all zeros is a value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = GROUP;
        // SAFETY: the address lives across the call, and its size is given.
        let bound = unsafe {
            libc::bind(
                connector.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_nl>() as u32,
            )
        };
        if bound < 0 {
            let error = io::Error::last_os_error();
            return Err(failed("binding a connector socket", error));
        }
        connector.set_buffer(buffer);
        if let Err(error) = connector.say(LISTEN) {
            return match error.raw_os_error() {
                Some(libc::ECONNREFUSED) => Ok((
                    connector,
                    Listening::Refused(
                        "connection refused: no connector in this kernel or network namespace"
                            .into(),
                    ),
                )),
                _ => Err(failed("subscribing to process events", error)),
            };
        }
        connector.subscribed = true;
        let answer = connector.acknowledgement()?;
        Ok((connector, answer))
    }

    /// Makes every CPU send a message that arrives (a thread renames itself on it), so that every gap up to now is
    /// seen. At the beginning this makes the first number of each CPU known, at the end it closes the last gap.
    pub fn hear_every_cpu(&mut self) -> Result<(), Cannot> {
        let online = Tree::live().read("/sys/devices/system/cpu/online");
        let online = online.ok().and_then(|text| list(&text)).unwrap_or_default();
        // Room is made first, because a message that a full buffer turns away shows nothing.
        self.take_all()?;
        for cpu in online {
            // On a CPU that lancet may not use, losses before its first message cannot be counted; the count is then
            // reported as a lower bound.
            let _ = std::thread::spawn(move || speak_on(cpu)).join();
            self.take_all()?;
        }
        Ok(())
    }

    fn take_all(&mut self) -> Result<(), Cannot> {
        while let Some(carries) = self.one()? {
            if let Carries::Event(event) = carries {
                self.early.push(event);
            }
        }
        Ok(())
    }

    /// Sets the size of the buffer: as root beyond the usual bound, else as far as that goes.
    fn set_buffer(&self, bytes: usize) {
        let Ok(bytes) = i32::try_from(bytes) else {
            return;
        };
        if bytes == 0 {
            return;
        }
        for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
            // SAFETY: the option's value lives across the call, and its size is given. A refusal leaves a
            // smaller buffer, whose losses are counted.
            unsafe {
                libc::setsockopt(
                    self.socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    option,
                    (&raw const bytes).cast(),
                    size_of::<i32>() as u32,
                );
            }
        }
    }

    fn say(&self, operation: u32) -> io::Result<()> {
        const LENGTH: u32 = 16 + 20 + 4;
        // nlmsghdr: length, type NLMSG_DONE and flags, seq, pid; cn_msg: idx, val, seq, ack, len and flags
        let words = [LENGTH, 3, 0, 0, 1, 1, 0, 0, 4, operation];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: the bytes live across the call, and their number is given.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
            )
        };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn acknowledgement(&mut self) -> Result<Listening, Cannot> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.readable(left)? {
                return Ok(Listening::Silent(
                    "the kernel answers only in the first PID and user namespace".into(),
                ));
            }
            while let Some(carries) = self.one()? {
                match carries {
                    Carries::Acknowledgement(0) => return Ok(Listening::Heard),
                    Carries::Acknowledgement(error) => {
                        let error =
                            io::Error::from_raw_os_error(error.cast_signed().saturating_abs());
                        return Ok(Listening::Refused(error.to_string()));
                    }
                    Carries::Event(_) | Carries::Other => {}
                }
            }
        }
    }

    /// Waits for a message, at most so long; false if none came or a signal did.
    fn readable(&self, wait: Duration) -> Result<bool, Cannot> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1);
        // SAFETY: one entry, which lives across the call.
        match unsafe { libc::poll(&raw mut poll, 1, millis) } {
            0 => Ok(false),
            count if count > 0 => Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(Cannot::from_io("waiting for process events", &error)),
            },
        }
    }

    /// Returns the next message of the kernel that has arrived already.
    fn one(&mut self) -> Result<Option<Carries>, Cannot> {
        let mut bytes = [0u8; 512];
        loop {
            // SAFETY: `sockaddr_nl` is plain integers, for which all zeros is a value.
            let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
            let mut length = size_of::<libc::sockaddr_nl>() as u32;
            // SAFETY: buffer, address and length live across the call, with their sizes given.
            let received = unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    0,
                    (&raw mut from).cast(),
                    &raw mut length,
                )
            };
            let Ok(received) = usize::try_from(received) else {
                match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    error if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
                    error if error.raw_os_error() == Some(libc::ENOBUFS) => {
                        self.losses.overrun();
                        continue;
                    }
                    error => return Err(Cannot::from_io("reading process events", &error)),
                }
            };
            // Any process may send to our socket; only the kernel is number 0.
            if from.nl_pid != 0 {
                continue;
            }
            let Some(message) = parse(&bytes[..received]) else {
                continue;
            };
            if let Some(cpu) = message.cpu {
                self.losses.note(cpu, message.number);
            }
            return Ok(Some(message.carries));
        }
    }

    /// Returns the events that have arrived, waiting for the first at most so long. Empty when none came or a signal
    /// did.
    pub fn receive(&mut self, wait: Duration) -> Result<Batch, Cannot> {
        let mut batch = Batch {
            events: std::mem::take(&mut self.early),
        };
        if !batch.events.is_empty() || !self.readable(wait)? {
            return Ok(batch);
        }
        while batch.events.len() < BATCH {
            match self.one()? {
                Some(Carries::Event(event)) => batch.events.push(event),
                Some(_) => {}
                None => break,
            }
        }
        Ok(batch)
    }

    /// Returns what is known to be missing so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }
}

/// Moves this thread to a CPU and makes the kernel send a message from there before it returns: proc_comm_connector.
/// (The message of a thread's end comes only after it has been joined.)
fn speak_on(cpu: usize) -> Result<(), Cannot> {
    bind(0, &[cpu].into())?;
    // SAFETY: the name is a C string; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"lancet-counts".as_ptr()) };
    Ok(())
}

impl Drop for Connector {
    fn drop(&mut self) {
        if self.subscribed {
            // A failure changes nothing: the socket is closed with the process.
            let _ = self.say(IGNORE);
        }
    }
}
