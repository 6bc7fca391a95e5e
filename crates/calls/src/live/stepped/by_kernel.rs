//! A process whose tracer sees its life and its signals, while BPF programs count its system calls.
//!
//! Its threads stop where a process, a thread or a program begins or ends, and at signals; at none of their calls.

use super::Stepped;
use crate::live::traced::EXECVE;
use hooks::rings::Losses;
use process::ptrace;

impl Stepped {
    /// Has BPF programs count its calls from its first one on, if they count those of its parent.
    pub(super) fn go_with_kernel(&mut self) {
        if let Some(kernel) = &self.kernel {
            // If there is no room for more processes, this one stops at its calls.
            self.is_by_kernel = kernel.add(self.pid).is_ok();
        }
    }

    /// The same for a process whose only thread stands within a call, the beginning of which was reported.
    pub(super) fn go_over_to_kernel(&mut self) {
        self.go_with_kernel();
        let thread = self.threads.get_mut(&self.pid);
        if let Some(thread) = thread.filter(|_| self.is_by_kernel) {
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

    /// Has BPF programs count its calls no more.
    pub(super) fn leave_kernel(&mut self) {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.is_by_kernel) {
            kernel.remove(self.pid);
            kernel.forget(self.pid);
        }
        self.is_by_kernel = false;
    }

    /// The same for a process that stands at its exec, of which others see all from the end of that call on.
    pub fn leave_kernel_at_exec(&mut self) {
        let was = self.is_by_kernel;
        self.leave_kernel();
        if let (true, Some(counts), Some(told)) = (was, &mut self.counts, self.table.told(EXECVE)) {
            counts.ran(&told);
        }
    }

    /// Returns what was lost, for this and all other processes, since the last call.
    pub fn losses(&self) -> Losses {
        let kernel = self.kernel.as_ref();
        kernel.map_or_else(Losses::default, |kernel| kernel.lost())
    }
}
