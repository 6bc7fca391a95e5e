//! A process whose tracer sees its life and its signals, while BPF programs see its system calls.
//!
//! Its threads stop where a process, a thread or a program begins or ends, and at signals; at none of their calls. What the programs in the
//! kernel have told until then is reported before such an event. So the order of a process's events is that in which they happened.
//!
//! Nobody who is told has to wait for lancet, so the ring buffer could fill. When it is half full, the programs send the thread a signal
//! that no other sends ([`tracepoint::WAITS`]) as it returns from its call. It stops there for its tracer, which reads the ring buffer and
//! sets the thread going without the signal.

use super::Stepped;
use crate::event::Event;
use crate::live::bpf::telling::Telling;
use crate::live::traced::EXECVE;
use hooks::rings::Losses;
use inject::lifecycle::{Turn, Watched};
use process::ptrace;

impl Stepped {
    /// Has BPF programs see its calls from its first one on, if they see those of its parent.
    pub(super) fn go_with_kernel(&mut self) {
        if let Some(kernel) = &self.kernel {
            // If there is no room for more processes, this one stops at its calls.
            let added = kernel.add_to_report(self.pid, Telling::default());
            self.is_by_kernel = added.is_ok();
        }
    }

    /// The same for a process whose only thread stands within a call, the beginning of which was reported.
    pub(super) fn go_over_to_kernel(&mut self) {
        let (Some(kernel), Some(thread)) = (&self.kernel, self.threads.get_mut(&self.pid)) else {
            return;
        };
        let telling = Telling::within(thread.traced.number());
        self.is_by_kernel = kernel.add_to_report(self.pid, telling).is_ok();
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
        let kernel = self.kernel.as_ref();
        kernel.is_some_and(|kernel| kernel.report(&mut |event| turn.tell(event)))
    }

    /// Whether a thread that stands before this signal was sent it by the programs, for lancet to read the ring buffer.
    pub(super) fn is_to_wait(&self, tid: i32) -> bool {
        let sent_by_kernel = || {
            let information = ptrace::signal_information(tid);
            information.is_ok_and(|of| of.si_code == tracepoint::WAITS.1)
        };
        self.is_by_kernel && sent_by_kernel()
    }

    /// Ends the watching by BPF programs: it has ended.
    pub(super) fn leave_kernel(&mut self, tell: &mut dyn FnMut(Event)) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.is_by_kernel) {
            kernel.report(tell);
            kernel.end_report(self.pid, tell);
        }
        self.is_by_kernel = false;
    }

    /// Ends it for a process that stands at its exec, of which others see all from the end of that call on.
    pub fn leave_kernel_at_exec(&mut self, tell: &mut dyn FnMut(Event)) {
        let was = self.is_by_kernel;
        self.leave_kernel(tell);
        if let (true, Some(counts), Some(told)) = (was, &mut self.counts, self.table.told(EXECVE)) {
            counts.ran(&told);
        }
    }

    /// Has BPF programs see its calls no more: from then on they have none of its threads wait.
    pub(super) fn is_unseen_by_kernel(&self) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.is_by_kernel) {
            kernel.remove(self.pid);
        }
    }

    /// Returns what was lost, for this and all other processes, since the last call.
    pub fn losses(&self) -> Losses {
        let kernel = self.kernel.as_ref();
        kernel.map_or_else(Losses::default, |kernel| kernel.lost())
    }

    /// Reports what is left to be reported of it.
    pub fn drain(&mut self, tell: &mut dyn FnMut(Event)) {
        self.leave_kernel(tell);
    }
}
