//! A process whose tracer sees its life and its signals, while BPF programs count its system calls, or tell them. Used
//! by `stepped`, `hooked_later`, `life` and others.
//!
//! Its threads stop where a process, a thread or a program begins or ends, and at signals; at none of their calls. What the programs in the
//! kernel have told until then is reported before such an event. So the order of a process's events is that in which they happened.
//!
//! Nobody is made to stop for the ring buffer, and nobody is sent a signal: who makes calls faster than lancet reads is held up by the
//! programs themselves, for a moment at each call (`tracepoint::brake`). What finds no room in spite of that is counted, by thread and call.
//!
//! A child that a told process has made is stepped until it runs a program of its own or makes a child itself: what its exec points to is read
//! while it stands, as the programs could not read what is not in its memory yet, and at the end of an exec it is gone. Or until it has made
//! some calls of its own ([`super::hooked_later`]).

use super::Stepped;
use crate::event::{Event, EventKind, Return};
use crate::live::traced::EXECVE;
use inject::lifecycle::{Turn, Watched};
use process::{limits, priority, ptrace};

impl Stepped {
    /// Has BPF programs count its calls from its first one on, if they count those of its parent.
    pub(super) fn count_by_kernel(&mut self) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.counts.is_some()) {
            // If there is no room for more processes, this one stops at its calls.
            self.is_by_kernel = kernel.add_to_report(self.pid, false).is_ok();
        }
    }

    /// Has BPF programs see its calls from here on: its only thread stands between two calls, or within one that was reported.
    pub(super) fn go_over_to_kernel(&mut self, within: bool) {
        let (Some(kernel), Some(thread)) = (&self.kernel, self.threads.get_mut(&self.pid)) else {
            return;
        };
        self.is_by_kernel = kernel.add_to_report(self.pid, within).is_ok();
        if self.is_by_kernel {
            thread.traced.leave_open();
        }
    }

    /// Whether its threads stop at their calls.
    pub fn stops_at_calls(&self) -> bool {
        !self.is_by_kernel
    }

    /// Sets a thread going that stands.
    pub(super) fn resume(&self, tid: i32, signal: i32) -> nix::Result<()> {
        match self.is_by_kernel {
            true => ptrace::resume(tid, signal),
            false => ptrace::resume_to_syscall(tid, signal),
        }
    }

    /// Reports what BPF programs have told of all processes. Returns whether there was anything.
    pub(super) fn report<P: Watched<Event = Event> + From<Stepped>>(
        &self,
        turn: &mut Turn<'_, P>,
    ) -> bool {
        let kernel = self.kernel.as_ref().filter(|_| self.counts.is_none());
        kernel.is_some_and(|kernel| kernel.report(&mut |event| turn.tell(event)))
    }

    /// Completes the exec that a thread has made, at whose end it stands, if BPF programs have told it and could not read all that it pointed to.
    pub(super) fn has_run_by_kernel<P: Watched<Event = Event> + From<Stepped>>(
        &self,
        tid: i32,
        turn: &mut Turn<'_, P>,
    ) {
        let told = self.is_by_kernel && self.counts.is_none();
        if let Some(kernel) = self.kernel.as_ref().filter(|_| told) {
            kernel.has_run(tid, &self.memory, &mut |event| turn.tell(event));
        }
    }

    /// Whether it may be held up where the ring buffer fills. That takes processor time, which is nobody's to spend where the kernel ends the
    /// process for too much of it; and lancet could not read while a real-time thread keeps the processor.
    pub(super) fn may_be_held_up(&self) -> bool {
        self.counts.is_some() || !(has_limited_time(self.pid) || priority::is_real_time(self.pid))
    }

    /// Has it stop at its calls from its exec on, at whose end it stands, if it must not be held up any more: who sets limits and priorities
    /// runs another program then.
    pub(super) fn leaves_kernel_if_harmed<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        turn: &mut Turn<'_, P>,
    ) {
        if !self.is_by_kernel || self.may_be_held_up() {
            return;
        }
        self.leave_kernel(&mut |event| turn.tell(event));
        self.stays_stepped();
        if self.table.told(EXECVE).is_some() {
            let back = EventKind::Return(Return::default());
            turn.tell(self.of_thread(self.pid, back));
        }
    }

    /// Ends the watching by BPF programs, of which all is reported that they have told.
    pub(super) fn leave_kernel(&mut self, tell: &mut dyn FnMut(Event)) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.is_by_kernel) {
            kernel.remove(self.pid);
            kernel.report(tell);
            kernel.end_report(self.pid, tell);
        }
        self.is_by_kernel = false;
    }

    /// The same for a process that stands at its exec, of which others see all from the end of that call on.
    pub fn leave_kernel_at_exec(&mut self, tell: &mut dyn FnMut(Event)) {
        let was = self.is_by_kernel;
        self.leave_kernel(tell);
        if let (true, Some(counts), Some(told)) = (was, &mut self.counts, self.table.told(EXECVE)) {
            counts.ran(&told);
        }
    }

    /// Has BPF programs see its calls no more. What they have told is still to be reported ([`Stepped::drain`]).
    pub(super) fn is_unseen_by_kernel(&self) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.is_by_kernel) {
            kernel.remove(self.pid);
        }
    }

    /// Reports what is left to be reported of it.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Event)) {
        self.leave_kernel(tell);
    }
}

/// Whether the kernel ends a process for the processor time that it takes (`RLIMIT_CPU`). What cannot be read is not risked.
fn has_limited_time(pid: i32) -> bool {
    limits::of_time(pid) != Some(u64::MAX)
}
