//! What threads of the guest say at once, and wait to be heard (`wire::notices`).

use super::Tracing;
use super::state::own_id;
use crate::error::Result;
use crate::guest::{children, pid_namespace};
use crate::memory::GuestMemory;
use crate::resident::Resident;
use crate::stop::thread_ids;
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use wire::Board;
use wire::notices::{self, FREE, NOTICES, TAKEN, notice};

/// What a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The process is about to end, with this exit code.
    Ends(i32),
    /// It is about to run another program.
    Exec,
    /// It could not.
    ExecFailed,
    /// It has this child.
    Fork(i32),
    /// Its VM begins with the script.
    Script,
    /// The IFUNC that is hooked at `place` has picked the function at `target`.
    Picked {
        /// See there.
        place: u64,
        /// See there.
        target: u64,
    },
}

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// Where it stands.
    at: u64,
    number: u32,
    /// Which process: a child of vfork says it in its parent's memory.
    pub pid: i32,
    /// Which thread.
    pub tid: i32,
    /// What.
    pub says: Says,
}

/// A slot of the board without words in it, for a memory that is opened.
pub(super) fn clear(resident: &Resident, memory: &GuestMemory) -> Result<()> {
    let at = resident.header.board + offset_of!(Board, notices) as u64;
    memory.write(at, &[0; NOTICES * size_of::<notices::Notice>()])
}

impl Tracing {
    /// What was said since the last look, in its order.
    pub fn notices(&mut self) -> Result<Vec<Notice>> {
        let half = |offset| self.resident.board_half(&self.memory, offset);
        let news = half(offset_of!(Board, news))?;
        if news == self.news {
            return Ok(Vec::new());
        }
        self.news = news;
        let at = self.resident.header.board + offset_of!(Board, notices) as u64;
        let slots: Vec<notices::Notice> = self.memory.records(at, NOTICES)?;
        let mut said = Vec::new();
        let size = size_of::<notices::Notice>();
        for (at, slot) in (at..).step_by(size).zip(slots) {
            let number = slot.state.load(Ordering::Relaxed);
            // Still the same: it was not taken back while we read it.
            if number == FREE || number == TAKEN || self.memory.half(at)? != number {
                continue;
            }
            let value = slot.value.load(Ordering::Relaxed);
            let pid = self.process_here(slot.pid.load(Ordering::Relaxed));
            let tid = slot.tid.load(Ordering::Relaxed);
            said.push(Notice {
                at,
                number,
                pid,
                tid: self.thread_here(pid, tid),
                says: match slot.kind.load(Ordering::Relaxed) {
                    notice::ENDS => Says::Ends(value as i32 & 0xff),
                    notice::EXEC => Says::Exec,
                    notice::FORK => Says::Fork(self.process_here(value as u32)),
                    notice::SCRIPT => Says::Script,
                    notice::PICKED => Says::Picked {
                        place: slot.place.load(Ordering::Relaxed),
                        target: value,
                    },
                    _ => Says::ExecFailed,
                },
            });
        }
        said.sort_by_key(|notice| notice.number.wrapping_sub(news) as i32);
        Ok(said)
    }

    /// It was heard: who waits for that goes on.
    pub fn heard(&self, notice: &Notice) -> Result<()> {
        // It may have been taken back, and the slot be somebody else's.
        match self.memory.half(notice.at)? == notice.number {
            true => self.memory.write(notice.at, &FREE.to_le_bytes()),
            false => Ok(()),
        }
    }

    /// Our number of a process that the guest knows as `pid`: itself, or a child of it.
    pub fn process_here(&self, pid: u32) -> i32 {
        let own = self.status.pid;
        if own_id(own, own) == pid {
            return own;
        }
        if self.shares_our_numbers() {
            return pid as i32;
        }
        let mut children = children(own).into_iter();
        let known = children.find(|child| own_id(*child, *child) == pid);
        known.unwrap_or(0)
    }

    fn thread_here(&self, pid: i32, tid: u32) -> i32 {
        if self.shares_our_numbers() {
            return tid as i32;
        }
        let mut threads = thread_ids(pid).unwrap_or_default().into_iter();
        threads.find(|here| own_id(pid, *here) == tid).unwrap_or(0)
    }

    fn shares_our_numbers(&self) -> bool {
        pid_namespace(self.status.pid) == pid_namespace(std::process::id() as i32)
    }
}
