//! Reports a stepped process: its description, and each call of its threads.

use super::Stepped;
use super::tampering::Onward;
use crate::event::{At, Event, EventKind, Return};
use crate::live::guest::{now_of, opened};
use crate::live::traced::{Begun, CallStop, Told};
use inject::lifecycle::{Turn, Watched};
use process::clock;
use process::ptrace;
use prototypes::capture::Returned;
use prototypes::show::Captures;

impl Stepped {
    /// Reports its description, once, and the exec that has led to it.
    pub(super) fn introduce<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        turn: &mut Turn<'_, P>,
    ) {
        if std::mem::replace(&mut self.introduced, true) {
            return;
        }
        turn.tell(now_of(
            self.pid,
            EventKind::Opened(opened(self.pid, String::new())),
        ));
        if let Some((begun, copied)) = self.exec.take()
            && let Some(told) = self.table.told(begun.number)
        {
            let now = clock::now();
            if let Some(counts) = &mut self.counts {
                return counts.returned(&begun, &told, now, 0);
            }
            self.tell_begun(self.pid, &begun, &told, copied, turn);
            let at = self.at(self.pid, now);
            let kind = EventKind::Return(Return::default());
            turn.tell(Event { at, kind });
        }
    }

    /// Reports a call at whose start or end a thread stands. Returns how the thread
    /// goes on.
    pub(super) fn tell_call<P: Watched<Event = Event> + From<Stepped>>(
        &mut self,
        tid: i32,
        turn: &mut Turn<'_, P>,
    ) -> Onward {
        let now = clock::now();
        let stop = ptrace::system_call(tid).ok().flatten();
        let (Some(stop), Some(thread)) = (stop, self.threads.get_mut(&tid)) else {
            return Onward::default();
        };
        let (memory, injections) = (self.memory.clone(), self.injections.clone());
        let ids = (self.pid, tid);
        // What lancet writes into its memory is what is reported.
        let table = &self.table;
        let is_told = |number| table.told(number).is_some();
        let onward = thread
            .tampering
            .stands(ids, &stop, &injections, &memory, is_told);
        let stands = thread.traced.stands(&stop, now, |_| false);
        self.note_stop(tid, &stop);
        let Some(thread) = self.threads.get_mut(&tid) else {
            return onward;
        };
        match stands {
            None => {}
            Some(CallStop::Call(..)) if self.counts.is_some() => {}
            Some(CallStop::Call(begun, told)) => {
                let copied = begun.copied(&told, None, &memory, 0);
                if told.least == 0 {
                    self.tell_begun(tid, &begun, &told, copied, turn);
                } else {
                    thread.traced.hold(copied);
                }
            }
            Some(CallStop::Return(begun, told, result)) => {
                if let Some(counts) = &mut self.counts {
                    counts.returned(&begun, &told, now, result);
                    return onward;
                }
                let held = thread.traced.held();
                if now.wrapping_sub(begun.ticks) < told.least {
                    return onward;
                }
                if let Some(held) = held {
                    self.tell_begun(tid, &begun, &told, held, turn);
                }
                let captures = begun.copied(&told, Some(result), &memory, 0);
                let returned = Returned {
                    rax: result,
                    rdx: onward.done.mark(),
                    ..Returned::default()
                };
                let back = Return { returned, captures };
                let at = self.at(tid, now);
                let kind = EventKind::Return(back);
                turn.tell(Event { at, kind });
            }
        }
        onward
    }

    fn tell_begun<P: Watched<Event = Event> + From<Stepped>>(
        &self,
        tid: i32,
        begun: &Begun,
        told: &Told,
        captures: Captures,
        turn: &mut Turn<'_, P>,
    ) {
        let at = self.at(tid, begun.ticks);
        turn.tell(Event {
            at,
            kind: EventKind::Call(begun.call(told, captures)),
        });
    }

    /// Returns the place and time of an event; a thread, which is in one call only,
    /// counts as a ring with one stack.
    fn at(&self, tid: i32, ticks: u64) -> At {
        At {
            process: self.pid,
            tid: tid as u32,
            ring: tid as u32,
            stack: 0,
            // It is in one call only.
            frame: 0,
            time: self.clock.wall(ticks),
        }
    }
}
