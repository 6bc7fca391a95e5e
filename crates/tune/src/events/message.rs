//! The messages of the proc connector. Used by `connector`, `followed` and others here, and by the crates `report` and
//! `lancet`.
//!
//! ```text
//! nlmsghdr(16) | cn_msg: idx val seq ack (u32) len flags (u16) | proc_event: what cpu (u32) timestamp (u64) data
//! fork  parent_pid parent_tgid child_pid child_tgid
//! exec  pid tgid
//! comm  pid tgid comm[16]
//! exit  pid tgid exit_code exit_signal parent_pid parent_tgid
//! ```
//!
//! `tgid` is the process, `pid` the thread. `exit_code` is a wait status: signal in the low seven bits,
//! 0x80 for a core, the code above. Source: include/uapi/linux/cn_proc.h.

use crate::net::netlink::word;

const HEADERS: usize = 16 + 20;
/// The acknowledgement's event. Every listener gets those of all listeners, and they are numbered with the rest.
const NONE: u32 = 0;
/// What kernels before 4.9 have in an acknowledgement, whose number then means nothing.
const NO_CPU: u32 = u32::MAX;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code, 0 to 255.
    Code(u32),
    /// This signal killed it.
    Signal {
        /// The number of the signal, signal(7).
        number: u32,
        /// Whether it left a core file.
        core: bool,
    },
}

impl End {
    fn from_status(status: u32) -> Self {
        match status & 0x7f {
            0 => Self::Code(status >> 8 & 0xff),
            number => Self::Signal {
                number,
                core: status & 0x80 != 0,
            },
        }
    }
}

/// What happened to a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A process or thread was made.
    Fork {
        /// The process that made it.
        parent: i32,
    },
    /// It became another program (execve).
    Exec,
    /// It changed its name.
    Name {
        /// The new name (`comm`).
        name: String,
    },
    /// The process or thread ended.
    Exit {
        /// The code it exited with, or the signal that killed it.
        end: End,
        /// The process whose child it was; 0 where the kernel does not name it (before Linux 4.18).
        parent: i32,
    },
}

/// One event of a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The id of the process.
    pub pid: i32,
    /// The id of the thread; that of the first thread is the id of the process.
    pub thread: i32,
    /// The time of CLOCK_MONOTONIC at which it happened, in nanoseconds.
    pub nanos: u64,
    /// What happened to the process or thread.
    pub what: What,
}

/// One message of the connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The CPU it comes from, if its number is one of that CPU's.
    pub cpu: Option<u32>,
    /// Its number among those of that CPU.
    pub number: u32,
    /// What it carries: an event, an acknowledgement with its error, or one of the kinds that are not shown.
    pub carries: Carries,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Event(Event),
    Acknowledgement(u32),
    Other,
}

/// Reads one datagram; `None` for what is no message of the connector.
pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
    // CN_IDX_PROC and CN_VAL_PROC
    if (word(bytes, 16)?, word(bytes, 20)?) != (1, 1) {
        return None;
    }
    let number = word(bytes, 24)?;
    let event = bytes.get(HEADERS..)?;
    let (what, cpu) = (word(event, 0)?, word(event, 4)?);
    let nanos = u64::from(word(event, 8)?) | u64::from(word(event, 12)?) << 32;
    let id = |at: usize| word(event, 16 + 4 * at).map(u32::cast_signed);
    let of = |thread: i32, pid: i32, what: What| {
        Carries::Event(Event {
            pid,
            thread,
            nanos,
            what,
        })
    };
    let carries = match what {
        NONE => Carries::Acknowledgement(word(event, 16)?),
        0x1 => of(id(2)?, id(3)?, What::Fork { parent: id(1)? }),
        0x2 => of(id(0)?, id(1)?, What::Exec),
        0x200 => {
            let name = event.get(24..40)?;
            let end = name
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(name.len());
            let name = String::from_utf8_lossy(&name[..end]).into_owned();
            of(id(0)?, id(1)?, What::Name { name })
        }
        0x8000_0000 => {
            let end = End::from_status(word(event, 24)?);
            // Kernels before 4.18 do not name the parent.
            let parent = id(5).unwrap_or(0);
            of(id(0)?, id(1)?, What::Exit { end, parent })
        }
        _ => Carries::Other,
    };
    Some(Message {
        cpu: (cpu != NO_CPU).then_some(cpu),
        number,
        carries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(what: u32, data: &[u32]) -> Vec<u8> {
        let mut words = vec![0, 0, 0, 0, 1, 1, 41, 0, 0, what, 3, 7, 0];
        words.extend(data);
        words
            .iter()
            .flat_map(|word: &u32| word.to_ne_bytes())
            .collect()
    }

    #[test]
    fn an_exit_by_signal() {
        let message = parse(&datagram(0x8000_0000, &[12, 12, 9, 17, 4, 4])).unwrap();
        assert_eq!((message.cpu, message.number), (Some(3), 41));
        let Carries::Event(event) = message.carries else {
            panic!()
        };
        assert_eq!((event.pid, event.nanos), (12, 7));
        let end = End::Signal {
            number: 9,
            core: false,
        };
        assert_eq!(event.what, What::Exit { end, parent: 4 });
    }

    #[test]
    fn statuses() {
        assert_eq!(End::from_status(7 << 8), End::Code(7));
        assert_eq!(
            End::from_status(0x8b),
            End::Signal {
                number: 11,
                core: true
            }
        );
    }

    #[test]
    fn what_is_cut_short_is_no_message() {
        let whole = datagram(1, &[4, 4, 12, 12]);
        assert!(parse(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None, "{length}");
        }
        assert_eq!(
            parse(&datagram(0, &[0])).unwrap().carries,
            Carries::Acknowledgement(0)
        );
    }
}
