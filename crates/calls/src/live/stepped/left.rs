//! Leaves a stepped process: on request, or at an exec. Used by `life`.

use super::Stepped;
use crate::event::{End, Event, EventKind, OfThread};
use crate::message::Message;
use inject::lifecycle::{Turn, Watched};
use inject::tracee::Tracee;
use process::ptrace;
use process::stop;

impl Stepped {
    /// Leaves a process at an exec, to which the thread `former` has led; it goes on alone.
    pub(super) fn leave_at_exec<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        former: i32,
        turn: &mut Turn<'_, P>,
    ) {
        for mut thread in std::mem::take(&mut self.threads).into_values() {
            self.count_left(&mut thread.traced);
        }
        turn.tell(self.of_thread(former, EventKind::Thread(OfThread::Left)));
        // An error means that it was killed meanwhile.
        let _ = ptrace::detach(self.pid, 0);
        if let Some(messages) = &self.leaves_at_exec {
            messages.say(Message::Detached { pid: self.pid });
        }
        // Its end is not waited for, whatever it will be.
        self.end = Some(End::Exited(0));
    }

    pub(super) fn let_go(&self) {
        self.release();
        for tid in self.threads.keys() {
            // Whoever has the id of the process by then is the caller's where it has taken that.
            let pid = self.left.as_ref().map_or(self.pid, |_| *tid);
            // An error means that the thread is gone.
            let _ = stop::let_go(pid, *tid);
        }
    }

    /// Sets threads going that are being held.
    fn release(&self) {
        for (tid, thread) in &self.threads {
            if let Some((_, signal)) = thread.held {
                // An error means that it is gone.
                let _ = ptrace::resume(*tid, signal);
            }
        }
    }

    /// Ends its tracing, except of its main thread, which the caller takes. Records made before can
    /// still be read.
    pub fn leave(&mut self) -> Result<(), process::Error> {
        self.is_unseen_by_kernel();
        self.release();
        for thread in self.threads.values_mut() {
            thread.held = None;
        }
        if self.end.is_none() && self.threads.remove(&self.pid).is_some() {
            self.left = Some(Tracee::child(self.pid));
        }
        self.let_go();
        self.threads.clear();
        Ok(())
    }
}

/// A command that ends by an error or a panic leaves it too.
impl Drop for Stepped {
    fn drop(&mut self) {
        self.is_unseen_by_kernel();
        self.let_go();
    }
}
