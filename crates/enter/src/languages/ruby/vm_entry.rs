//! How a request reaches the agent, and how the agent gets the VM's lock. Used by `ruby`.
//!
//! ```text
//!   us                               guest
//!   request on the control page
//!   stop its main thread             where does it stand?
//!     in code, or others run ──────► "run this job": at a thread's next safe point, with the lock
//!     asleep in the VM ────────────► the same, and wake it, as a signal would
//!     in a system call, without
//!     the VM's lock ───────────────► take the lock and do it now
//!   look every 200 µs …              …
//!   answered ◄────────────────────── reply on the control page
//! ```
//!
//! A thread in a blocking system call is never woken: it would see EINTR, and Ruby passes that on to the program (`File.open` of a FIFO
//! raises it). Instead the thread calls what C code that blocks there may call at any time, `rb_thread_call_with_gvl`, while the guest's
//! other threads run on; then its system call goes on unchanged.

use super::Ruby;
use crate::entered::poll;
use inject::doors::Open;
use inject::records::ReadRecords;
use inject::remote_call::{RemoteThread, Work};
use inject::resident::Resident;
use process::error::{Error, Result};
use process::gadgets;
use process::guest::Status;
use process::interrupted::call_of;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties, is_running, thread_ids};
use process::tries::Tries;
use std::mem::offset_of;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm::{Door, Needs};
use wire::{Config, ControlPage, Reply, Request};

/// Time between two checks for an answer.
const LOOK: Duration = Duration::from_micros(200);
/// Time after which a guest that has not answered is entered again, because it may stand elsewhere by then; each further time is twice as
/// long, up to a limit, because each entry stops the guest. Usually once is enough, because before a thread blocks the VM looks for jobs.
const FIRST_AGAIN: Duration = Duration::from_millis(100);
/// The first such time if a job can get lost (`RubyGuest::loses_jobs`).
const SOON_AGAIN: Duration = Duration::from_millis(10);
const LAST_AGAIN: Duration = Duration::from_millis(400);
/// How long an agent may take that has begun its work: a collection, a count of the living.
const LONGEST_WORK: Duration = Duration::from_secs(30);
/// How long the VM's lock is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The same after a wait in vain, so that leaving a guest that does not answer does not take as long again.
const LATER_PATIENCE: Duration = Duration::from_secs(1);
/// Upper bound of the distance on the stack between a system call and the VM's note of it.
const LARGEST_REGION: u64 = 64 * 1024;
/// Upper bound of the return addresses into libc that a wrapper of a system call leaves on the stack, old ones included.
const MOST_LIBC_WORDS: u32 = 4;

/// The ways in which the agent gets to run with the VM's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// A job at the next safe point; the thread comes there by itself.
    Job,
    /// A job at the next safe point; the thread sleeps in the VM and must be woken.
    Wake,
    /// The thread takes the lock itself.
    Region,
}

impl Ruby {
    /// Stops the main thread and does `work` with it, which may be repeated; then makes the agent look at its control page in the VM, with
    /// the VM's lock.
    pub(super) fn enter_vm(
        &mut self,
        mut work: impl FnMut(&mut Self, &mut RemoteThread) -> Result<()>,
    ) -> Result<()> {
        let mut tries = Tries::begin();
        loop {
            match self.enter_vm_once(&mut work) {
                Err(error) if tries.again(&error) => {
                    let pid = self.status.pid;
                    self.maps = Arc::new(Maps::of(pid)?);
                }
                other => return other,
            }
        }
    }

    fn enter_vm_once(
        &mut self,
        work: &mut impl FnMut(&mut Self, &mut RemoteThread) -> Result<()>,
    ) -> Result<()> {
        let mut stop = self.stop_main()?;
        self.status.check_current()?;
        let (memory, maps) = (self.memory.clone(), self.maps.clone());
        self.check_program()?;
        let mut remote = RemoteThread::new(stop.first(), &memory, self.ruby.gadgets, &maps)?;
        let result = work(self, &mut remote).and_then(|()| {
            let entry = self.entry(&remote);
            if entry == Entry::Region {
                if self.is_in_foreign_code(&remote) {
                    self.resident.write_control_page(
                        &memory,
                        offset_of!(ControlPage, argument),
                        0u64,
                    )?;
                }
                self.note(stop.age());
                let entry = self.resident.header.enter;
                let deadline = self.asked_at + self.patience;
                // `entry` has proven it.
                let open = Open::proven(Door::CallWithLock, |_| Ok(true))?;
                let was_done = match open {
                    Some(open) => remote.enter_freely(entry, open, deadline, || self.work())?,
                    None => false,
                };
                stop.restart_clock();
                return if was_done {
                    Ok(())
                } else {
                    Err(self.no_answer())
                };
            }
            let Some(open) = Open::proven(Door::RegisterJob, |needs| {
                debug_assert_eq!(needs, Needs::OthersStand);
                self.may_register(&mut stop)
            })?
            else {
                // The request is repeated, as one that was lost.
                return Ok(());
            };
            if entry == Entry::Job
                && let Some(tid) = self.another_running()
                && self.ruby.marks_own_thread()
                && self.request_job_by(&mut stop, tid).is_ok()
            {
                return Ok(());
            }
            self.request_job(&mut remote, open, entry == Entry::Wake)
        });
        let back = remote.give_back();
        self.note(stop.release());
        result.and(back)
    }

    /// Whether a job may be registered now. Where that takes two steps, all threads stand still, and none stands within the few instructions
    /// by which the VM takes a job out of its table: it would find ours in the place of the one that it has taken.
    fn may_register(&self, stop: &mut Stop) -> Result<bool> {
        if !self.ruby.registers_in_two_steps() {
            return Ok(true);
        }
        stop.rest()?;
        let in_table = |tid| {
            let registers = process::ptrace::registers(tid);
            registers.map_or(true, |now| self.ruby.handles_jobs_at(now.rip))
        };
        Ok(!stop.threads().any(in_table))
    }

    /// Decides by where the main thread stands how its VM is entered.
    fn entry(&self, remote: &RemoteThread) -> Entry {
        let now = remote.registers();
        // The thread was taken out of a system call: EINTR, or one of the kernel's restart codes.
        let blocked = now.orig_rax as i64 >= 0 && matches!(-(now.rax as i64), 4 | 512..=514 | 516);
        if !blocked || (!self.insisting && self.another_running().is_some()) {
            return Entry::Job;
        }
        let region = self.ruby.main_region(&self.memory);
        // Either the VM itself sleeps, on its lock or in `sleep`, `join`, `pop`, and looks for jobs when woken. Or C code blocks with the
        // VM's lock; then nothing can wake it. A thread that waits for the lock at the end of a region must not request it a second time
        // during that wait: the first request may be the one by which the VM ends the time slice of the others (`do_gvl_timer`,
        // thread_pthread.c).
        if region == 0 || call_of(&self.memory, now) == libc::SYS_futex {
            return Entry::Wake;
        }
        let on_its_stack = self.maps.find(now.rsp).is_some_and(|stack| {
            region > now.rsp && region < stack.end && region.is_multiple_of(4)
        });
        if on_its_stack {
            Entry::Region
        } else {
            Entry::Job
        }
    }

    /// Returns another thread that is running: it does a job at once, while the main thread would have to queue for the lock, a tenth of a
    /// second for each thread before it.
    fn another_running(&self) -> Option<i32> {
        let pid = self.status.pid;
        let all = thread_ids(pid).ok()?;
        all.into_iter()
            .find(|tid| *tid != pid && is_running(pid, *tid))
    }

    /// Makes a running thread register the job, so that it is marked to look for it.
    fn request_job_by(&self, stop: &mut Stop, tid: i32) -> Result<()> {
        stop.also(tid)?;
        let mut remote = RemoteThread::new(tid, &self.memory, self.ruby.gadgets, &self.maps)?;
        let Some(open) = Open::proven(Door::RegisterJob, |_| self.may_register(stop))? else {
            return Err(Error::AtEvent { tid });
        };
        remote.enter(self.resident.header.enter, open)?;
        remote.give_back()
    }

    /// Whether code that is neither the VM's nor a bare system call of libc's is between the blocked thread and the VM: a driver, a
    /// resolver. It may hold locks that objects need when a collection frees them; then no collection is run from here. Every word on that
    /// part of the stack that looks like a return address counts, so the answer errs on the safe side.
    fn is_in_foreign_code(&self, remote: &RemoteThread) -> bool {
        let now = remote.registers();
        let region = self.ruby.main_region(&self.memory);
        let mut stack = vec![0; region.saturating_sub(now.rsp).min(LARGEST_REGION) as usize];
        if self.memory.read_bytes(now.rsp, &mut stack).is_err() {
            return true;
        }
        let libc = self.maps.find(now.rip).map(|code| code.start..code.end);
        let agents: Vec<_> = Resident::all(&self.memory, &self.maps)
            .map(|agent| agent.base..agent.base.saturating_add(agent.header.size))
            .collect();
        let (mut foreign, mut in_libc) = (false, 0);
        for word in stack.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let Some(code) = self.maps.find(word).filter(|map| map.permissions.execute) else {
                continue;
            };
            // Addresses in our agents do not count: what the hook left there in other calls belongs to no frame of this one, and the
            // routine of another command's agent calls through to the hooked function and holds no lock.
            if agents.iter().any(|agent| agent.contains(&word)) {
                continue;
            }
            if libc.as_ref().is_some_and(|libc| libc.contains(&word)) {
                in_libc += 1;
                foreign |= word == self.ruby.gadgets.restore;
            } else if !self.ruby.owns(code.start) && !self.ruby.owns(word) {
                foreign = true;
            }
        }
        foreign || in_libc > MOST_LIBC_WORDS
    }

    /// Checks that the process has not run another program by exec: the process is the same, but its memory is another.
    fn check_program(&self) -> Result<()> {
        let pid = self.status.pid;
        let now = GuestMemory::open_briefly(pid)?;
        let same = match self.resident.base {
            0 => {
                let mut bytes = [0; 3];
                now.read_bytes(self.ruby.gadgets.syscall, &mut bytes)
                    .is_ok()
                    && bytes == gadgets::SYSCALL_RETURN
                    && self.ruby.is_there(&now)
            }
            base => now
                .record::<wire::Header>(base)
                .is_ok_and(|header| header == self.resident.header),
        };
        if same {
            Ok(())
        } else {
            Err(Error::Replaced(pid))
        }
    }

    fn stop_main(&mut self) -> Result<Stop> {
        let pid = self.status.pid;
        let Some(tracee) = &mut self.tracee else {
            return Stop::main(pid, Ties::None);
        };
        poll(tracee)?;
        Stop::main(pid, Ties::Kept)
    }

    fn note(&mut self, stopped: Duration) {
        self.timing.stops += 1;
        self.timing.stopped += stopped;
        self.timing.longest_stop = self.timing.longest_stop.max(stopped);
    }

    /// Makes the main thread register the job in a remote call and, with `wake`, wake itself.
    fn request_job(&mut self, remote: &mut RemoteThread, open: Open, wake: bool) -> Result<()> {
        if wake && self.config.waker == 0 {
            self.find_waker(remote)?;
        }
        let waker = wake.then(|| Open::always(Door::SignalHandler)).flatten();
        let doors = match waker {
            Some(waker) => open.and(waker),
            None => open,
        };
        remote.enter(self.resident.header.enter, doors)
    }

    /// Finds the VM's own signal handler, which wakes its main thread: every signal that the VM handles has the same one. The kernel is
    /// asked for it, and the answer is used only if it is code of the VM.
    fn find_waker(&mut self, remote: &mut RemoteThread) -> Result<()> {
        let place = self.resident.header.control_page + super::SCRATCH;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1] {
            remote.syscall(
                "rt_sigaction",
                libc::SYS_rt_sigaction,
                [signal as u64, 0, place, 8, 0, 0],
            )?;
            let handler = self.memory.word(place)?;
            if self.ruby.owns(handler) {
                self.config.waker = handler;
                let field = self.resident.header.config + offset_of!(Config, waker) as u64;
                return self.memory.write(field, &handler.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Makes the agent do something with the VM's lock. A program that we have started sets its hook at its first line, for which nobody
    /// waits; on a busy machine it may not have come there yet. Then that is waited for: another request in the place of the first would find an
    /// agent that does not know the VM, and refuses. (To leave, it need not know it.)
    ///
    /// # Errors
    /// The guest did not come to a safe point in time, its agent has left, or it refused; `what` says what was wanted.
    pub(super) fn ask(
        &mut self,
        request: Request,
        argument: u64,
        what: &'static str,
    ) -> Result<()> {
        if std::mem::take(&mut self.comes) && request != Request::Leave && !self.answered()? {
            self.await_answer("set its hook")?;
        }
        self.request(request, argument)?;
        self.enter_vm(|_, _| Ok(()))?;
        self.await_answer(what)
    }

    /// Writes what the agent must do when it is entered.
    pub(super) fn request(&mut self, request: Request, argument: u64) -> Result<()> {
        self.asked_at = Instant::now();
        self.resident.request(&self.memory, request, argument)
    }

    fn answered(&self) -> Result<bool> {
        self.resident.has_answered(&self.memory)
    }

    /// Returns how far the agent is with the request. If that cannot be read, the wait ends. An agent that was late before is not believed
    /// when it says that it is at work, because the word is the guest's and would prolong each wait.
    fn work(&self) -> Work {
        let at_work = || self.resident.at_work(&self.memory);
        match self.answered() {
            Ok(false) if self.patience == PATIENCE && matches!(at_work(), Ok(1..)) => {
                Work::UnderWay
            }
            Ok(false) => Work::Waits,
            Ok(true) | Err(_) => Work::Done,
        }
    }

    /// Returns the error of a request that was not answered in time. The next one, which asks the agent to leave, is not waited for as
    /// long.
    fn no_answer(&mut self) -> Error {
        let reason = match self.work() {
            Work::UnderWay => {
                "it is still at work there (a collection of very many objects, or a file of `lancet patch` whose text waits for something?)"
            }
            _ => {
                "no thread of it reached a point where the VM runs jobs (a C extension that keeps the VM's lock?)"
            }
        };
        self.patience = LATER_PATIENCE;
        Error::NoAnswer {
            pid: self.status.pid,
            waited_ms: self.asked_at.elapsed().as_millis() as u64,
            reason: reason.into(),
        }
    }

    /// Whether the answer has been waited for long enough. Work that is under way gets more time.
    fn is_late(&self) -> bool {
        let waited = self.asked_at.elapsed();
        waited > self.patience && (waited > LONGEST_WORK || self.work() != Work::UnderWay)
    }

    pub(super) fn await_answer(&mut self, what: &'static str) -> Result<()> {
        let pid = self.status.pid;
        let mut pause = if self.ruby.loses_jobs() {
            SOON_AGAIN
        } else {
            FIRST_AGAIN
        };
        let mut again = Instant::now() + pause;
        while !self.answered()? {
            process::stop::poll_stragglers();
            if let Some(tracee) = &mut self.tracee {
                poll(tracee)?;
            }
            if let Some(why) = self.farewell()? {
                return Err(Error::Left { pid, why });
            }
            if self.is_late() {
                return Err(self.no_answer());
            }
            if Instant::now() > again {
                Status::read(pid)?.check_goes_on()?;
                self.insisting = true;
                let entered = self.enter_vm(|_, _| Ok(()));
                self.insisting = false;
                entered?;
                pause = (pause * 2).min(LAST_AGAIN);
                again = Instant::now() + pause;
            }
            sleep(LOOK);
        }
        self.patience = PATIENCE;
        self.timing.answered = self.asked_at.elapsed();
        let reply = self
            .resident
            .control_page_u32(&self.memory, offset_of!(ControlPage, reply))?;
        let reason = match reply {
            reply if reply == Reply::Done as u32 => return Ok(()),
            reply if reply == Reply::NoMemory as u32 => {
                "it could not map memory for its books, which take a quarter of what its limits and the machine leave it"
            }
            _ => "the VM did not do what it was asked",
        };
        Err(Error::Refused { pid, what, reason })
    }
}
