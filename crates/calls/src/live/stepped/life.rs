//! What becomes of a stepped process: new threads and children, another program in its place, ends. Used by `stepped`
//! and `left`.

use super::{CHILDREN, Look, Stepped, Thread};
use crate::event::{At, End, Event, EventKind, OfThread};
use crate::live::guest::now_of;
use crate::live::traced::Traced;
use inject::lifecycle::{Stage, Turn, Watched};
use process::clock;
use process::memory::GuestMemory;
use process::stop;

impl Stepped {
    /// Handles a new thread or process that one of its threads has made, which is traced too.
    pub(super) fn made<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        (made, waits): (i32, bool),
        turn: &mut Turn<'_, P>,
    ) {
        if !stop::thread_is_gone(self.pid, made) {
            turn.tell(self.of_thread(made, EventKind::Thread(OfThread::Began)));
            return self.add(made);
        }
        let follows = self.options & CHILDREN != 0;
        let led = self
            .led
            .as_mut()
            .map(|led| led.child(self.pid, (made, waits)));
        match self.child(made, led) {
            Ok(mut child) if follows => {
                // What it does may be reported at another's turn, before its first own one.
                child.introduce(turn);
                turn.child(made, Stage::Open(child.into()));
            }
            // A child made by `clone` with another signal than SIGCHLD is reported although children are not followed. A child that cannot
            // be opened is gone.
            _ => drop(stop::let_go(made, made)),
        }
    }

    /// Handles that another program runs in its place; the thread that has led there has the process's id from now on.
    pub(super) fn replaced<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        former: i32,
        turn: &mut Turn<'_, P>,
    ) {
        if self.leaves_at_exec.is_some() {
            return self.leave_at_exec(former, turn);
        }
        let thread = self.threads.remove(&former);
        self.threads.clear();
        let mut thread = thread.unwrap_or_else(|| Thread::new(self.table.clone()));
        let open = thread.traced.leave_open();
        if let (Some((begun, told)), Some(counts)) = (open, &mut self.counts) {
            counts.returned(&begun, &told, clock::now(), 0);
        }
        self.threads.insert(self.pid, thread);
        // What stays open replaces what was open, so the reserve is soon full again.
        if let Ok(memory) = GuestMemory::open_briefly(self.pid) {
            self.memory = memory.into();
            self.has_run_by_kernel(former, turn);
        }
        if former != self.pid {
            let superseded = OfThread::Superseded(former);
            turn.tell(self.of_thread(self.pid, EventKind::Thread(superseded)));
        }
        turn.tell(now_of(self.pid, EventKind::Ended(End::Replaced)));
        self.introduced = false;
        if let Some(led) = &mut self.led
            && led.begins(self.pid)
        {
            return;
        }
        self.introduce(turn);
    }

    /// Makes an event of one thread, at the present time.
    pub(super) fn of_thread(&self, tid: i32, kind: EventKind) -> Event {
        let event = now_of(self.pid, kind);
        let at = At {
            tid: tid as u32,
            ..event.at
        };
        Event { at, ..event }
    }

    /// Handles the end of a thread whose process goes on.
    pub(super) fn thread_over<P: Watched<Event = Event> + From<Stepped>>(
        &self,
        tid: i32,
        end: OfThread,
        turn: &mut Turn<'_, P>,
    ) -> Look {
        turn.tell(self.of_thread(tid, EventKind::Thread(end)));
        Look::Gone
    }

    pub(super) fn gone(&mut self, tid: i32) {
        let thread = self.threads.remove(&tid);
        if let Some(mut thread) = thread {
            self.count_left(&mut thread.traced);
        }
    }

    pub(super) fn count_left(&mut self, thread: &mut Traced) {
        if let (Some((_, told)), Some(counts)) = (thread.leave_open(), &mut self.counts) {
            counts.left(&told);
        }
    }

    pub(super) fn over<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        end: End,
        turn: &mut Turn<'_, P>,
    ) -> Look {
        for mut thread in std::mem::take(&mut self.threads).into_values() {
            self.count_left(&mut thread.traced);
        }
        self.end = Some(end);
        self.leave_kernel(&mut |event| turn.tell(event));
        turn.tell(now_of(self.pid, EventKind::Ended(end)));
        Look::Something
    }
}
