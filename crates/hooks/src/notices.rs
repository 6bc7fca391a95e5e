//! Notices: what a thread of the process posts on the control page, and then waits until we have handled it
//! (`wire::notices`). Used by `locks`, `open` and others here, and by crate `calls`.

use crate::ids::{child_here, own_id, shares_our_ids, thread_here};
use crate::tracing::Tracing;
use inject::lifecycle::Seized;
use inject::records::ReadRecords;
use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use process::status_file::StatusFile;
use std::mem::offset_of;
use std::sync::atomic::Ordering;
use wire::ControlPage;
use wire::notices::{self, FREE, NOTICES, TAKEN, notice};

/// What a thread is about to do, or has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The process is about to end, with this exit code.
    Ends(i32),
    /// It is about to run another program (`execve`).
    Exec,
    /// The `execve` that it was about to make failed, and it goes on.
    ExecFailed,
    /// It has made a child, which waits until it is adopted.
    Fork {
        /// The child; 0 = it has none with that number.
        child: i32,
        /// The number that it gave.
        number: i32,
    },
    /// Its VM is about to run the script.
    Script,
    /// It is about to make a system call behind which hooks may end it ([`Tracing::is_locked_out`]).
    Locks {
        /// The address of the seccomp program that it sets; 0 = it forbids everything.
        program: u64,
    },
    /// The IFUNC that is hooked at `place` has picked the function at `target`.
    Picked {
        /// The address of the patch.
        place: u64,
        /// The address of the picked function.
        target: u64,
    },
}

/// One notice. The thread waits until [`Tracing::handled_notice`] is called with it.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// The address of its slot on the control page.
    at: u64,
    number: u32,
    /// The process, by our PID namespace; 0 = it is neither the traced one nor a child of it. A child of `vfork` posts
    /// notices in the memory of its parent.
    pub pid: i32,
    /// The thread, by our PID namespace; 0 = it is no thread of that process.
    pub tid: i32,
    /// What the thread says.
    pub says: Says,
}

/// Clears all slots, before a session begins.
pub(crate) fn clear(resident: &Resident, memory: &GuestMemory) -> Result<()> {
    let at = resident.header.control_page + offset_of!(ControlPage, notices) as u64;
    memory.write(at, &[0; NOTICES * size_of::<notices::Notice>()])
}

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    /// The process whose thread it is.
    process: i32,
    /// The parent of that process.
    parent: i32,
}

impl Identity {
    /// Of thread `tid`; `None` = there is none.
    fn of(tid: i32) -> Option<Self> {
        let status = (tid > 0).then(|| StatusFile::of_first_thread(tid))?;
        Self::parse(&status.ok()?)
    }

    fn parse(status: &StatusFile) -> Option<Self> {
        Some(Identity {
            process: status.number("Tgid")?,
            parent: status.number("PPid")?,
        })
    }

    /// Whether it is a thread of `process`, and that is `own_hooks`, or a child of it where children are followed.
    fn may_be_followed(self, own: i32, process: i32, follow: bool) -> bool {
        self.process == process && (process == own || follow && self.parent == own)
    }
}

/// Returns the complete notices, each with its address and number.
pub(crate) fn whole(
    resident: &Resident,
    memory: &GuestMemory,
) -> Result<Vec<(u64, u32, notices::Notice)>> {
    let at = resident.header.control_page + offset_of!(ControlPage, notices) as u64;
    let slots: Vec<notices::Notice> = memory.records(at, NOTICES)?;
    let mut found = Vec::new();
    let size = size_of::<notices::Notice>();
    for (at, slot) in (at..).step_by(size).zip(slots) {
        let number = slot.state.load(Ordering::Relaxed);
        // If the slot still has the same number, the notice was not taken back while it was read.
        if number != FREE && number != TAKEN && memory.half(at)? == number {
            found.push((at, number, slot));
        }
    }
    Ok(found)
}

impl Tracing {
    /// The notices that were posted since the last call, in the order in which they were posted.
    pub fn notices(&mut self) -> Result<Vec<Notice>> {
        let news = self
            .target
            .control_page_u32(offset_of!(ControlPage, news))?;
        if news == self.news {
            return Ok(Vec::new());
        }
        self.news = news;
        let mut said = Vec::new();
        for (at, number, slot) in whole(&self.target.resident, &self.target.memory)? {
            let value = slot.value.load(Ordering::Relaxed);
            let pid = self.own_or_child(slot.pid.load(Ordering::Relaxed));
            let tid = slot.tid.load(Ordering::Relaxed);
            said.push(Notice {
                at,
                number,
                pid,
                tid: self.thread_here(pid, tid),
                says: match slot.kind.load(Ordering::Relaxed) {
                    notice::ENDS => Says::Ends(value as i32 & 0xff),
                    notice::EXEC => Says::Exec,
                    notice::FORK => Says::Fork {
                        child: self.child(value as u32),
                        number: value as i32,
                    },
                    // A script begins only once, and looking for its functions takes long.
                    notice::SCRIPT if self.scripts.awaits_script => Says::Script,
                    notice::PICKED => Says::Picked {
                        place: slot.place.load(Ordering::Relaxed),
                        target: value,
                    },
                    notice::LOCKS => Says::Locks { program: value },
                    _ => Says::ExecFailed,
                },
            });
        }
        said.sort_by_key(|notice| notice.number.wrapping_sub(news) as i32);
        Ok(said)
    }

    /// Makes the next [`Tracing::notices`] look at the slots again although nothing was posted since, because some
    /// notices were not handled.
    pub fn put_off_notices(&mut self) {
        self.news = self.news.wrapping_sub(1);
    }

    /// Frees the slot of a notice, which lets its thread go on.
    pub fn handled_notice(&self, notice: &Notice) -> Result<()> {
        // A thread that waited too long takes its notice back, and another may have the slot by now.
        if self.target.memory.half(notice.at)? == notice.number {
            self.target.memory.write(notice.at, &FREE.to_le_bytes())
        } else {
            Ok(())
        }
    }

    /// Seizes the thread of a notice for its exec, if it is one that this session may follow: a thread of the traced
    /// process, or of a child of it where children are followed. `None` = it is not. The process can write any number
    /// into a notice, so what the notice says is compared with what the kernel says, before and after: a thread that
    /// ended in between may have left its id to another.
    pub fn seize_for_exec(&self, notice: &Notice) -> Result<Option<Seized>> {
        let own = self.target.status.pid;
        let may = || {
            Identity::of(notice.tid)
                .is_some_and(|it| it.may_be_followed(own, notice.pid, self.follow))
        };
        if !may() {
            return Ok(None);
        }
        let seized = Seized::seize(notice.pid, notice.tid)?;
        if !may() {
            seized.let_go();
            return Ok(None);
        }
        Ok(Some(seized))
    }

    /// Like [`own_or_child`](Self::own_or_child), but only for a child; returns 0 for the traced process too.
    fn child(&self, pid: u32) -> i32 {
        let here = self.own_or_child(pid);
        if here == self.target.status.pid {
            0
        } else {
            here
        }
    }

    /// [`Tracing::process_here`], but only for the traced process and a child that it has now; 0 for all others.
    fn own_or_child(&self, pid: u32) -> i32 {
        let own = self.target.status.pid;
        let here = self.process_here(pid);
        let known = here == own
            || Identity::of(here).is_some_and(|it| it.process == here && it.parent == own);
        if known { here } else { 0 }
    }

    /// Returns the id in our PID namespace of the process that the traced one knows as `pid`: itself or a child of it;
    /// 0 = it was not found. The result is only for display: where both are in our namespace it is `pid` itself,
    /// whatever process has it.
    pub fn process_here(&self, pid: u32) -> i32 {
        let own = self.target.status.pid;
        if own_id(own, own) == pid {
            return own;
        }
        if shares_our_ids(self.target.status.pid) {
            return pid as i32;
        }
        let known = child_here(own, pid).or_else(|| self.rings.child_here(pid));
        known.unwrap_or(0)
    }

    fn thread_here(&self, pid: i32, tid: u32) -> i32 {
        if pid == 0 {
            return 0;
        }
        if shares_our_ids(self.target.status.pid) {
            let tid = tid as i32;
            let known = Identity::of(tid).is_some_and(|it| it.process == pid);
            return if known { tid } else { 0 };
        }
        thread_here(pid, tid).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_the_guest_and_of_followed_children_are_seized() {
        let it = |process, parent| Identity { process, parent };
        assert!(it(10, 1).may_be_followed(10, 10, false));
        assert!(it(11, 10).may_be_followed(10, 11, true));
        // A child, where children are not followed.
        assert!(!it(11, 10).may_be_followed(10, 11, false));
        // A stranger; a stranger's thread said to be the guest's, or a child's.
        assert!(!it(20, 1).may_be_followed(10, 20, true));
        assert!(!it(20, 1).may_be_followed(10, 10, true));
        assert!(!it(20, 1).may_be_followed(10, 11, true));
        // A child of a child.
        assert!(!it(12, 11).may_be_followed(10, 12, true));
    }

    #[test]
    fn the_kernel_is_asked() {
        let us = std::process::id() as i32;
        let it = Identity::of(us).expect("we are there");
        assert_eq!(it.process, us);
        // SAFETY: takes nothing and cannot fail.
        assert_eq!(it.parent, unsafe { libc::getppid() });
        assert_eq!(Identity::of(0), None);
        assert_eq!(Identity::of(-1), None);
        assert_eq!(Identity::of(i32::MAX), None);
        let status = StatusFile::from_text("Name:\tTgid: 5\nTgid:\t7\nPPid:\t3\n");
        assert_eq!(
            Identity::parse(&status),
            Some(Identity {
                process: 7,
                parent: 3
            })
        );
        assert_eq!(Identity::parse(&StatusFile::default()), None);
    }
}
