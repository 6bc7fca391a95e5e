//! Ends: of threads and processes, and of calls that do not return.

use super::Lines;
use super::open::Open;
use calls::event::{At, End, OfThread};
use calls::stacks::OpenCall;
use calls::tamper::Tampered;
use prototypes::show::Captures;
use std::rc::Rc;

impl Lines<'_> {
    /// A call that a handler left by a jump: the kernel was never asked for its result.
    pub(super) fn unwound(&mut self, at: At, left: &OpenCall<Rc<Open>>) {
        let open = &left.call;
        if !self.layout.statuses.unfinished || open.number.get().is_none() {
            return;
        }
        self.break_line();
        self.prefix(at, &open.plan.number, Some(open.behind));
        let text = format!("<... {} resumed>) = ?", open.plan.name);
        self.text.extend_from_slice(text.as_bytes());
        self.end_line(open);
    }

    /// A call that its thread has ended in: what is written of arguments when it returns is not known.
    fn cut_off(&mut self, at: At, open: &Open) {
        if open.plan.hidden || !self.layout.statuses.unfinished {
            return;
        }
        let mut comma = open.has_more();
        match (open.number.get(), self.unfinished) {
            (Some(number), Some(unfinished)) if number == unfinished.number => {}
            (Some(_), _) => {
                self.resume(at, open);
                comma = false;
            }
            (None, _) => {
                let time = open.began;
                self.begin(At { time, ..at }, open);
            }
        }
        let mut late = Vec::new();
        if comma {
            late.extend_from_slice(b", ");
        }
        if open.is_written_late() {
            late.extend_from_slice(b" <unfinished ...>");
        }
        late.push(b')');
        self.close(open, &late, b"?", None);
    }

    /// Ends the line of a call of this thread.
    fn break_own(&mut self, at: At) {
        if self.unfinished.is_some_and(|line| line.tid == at.tid) {
            self.break_line();
        }
    }

    /// A call in which its thread was left.
    fn left_open(&mut self, open: &Open) {
        if open.plan.hidden || !self.layout.statuses.detached {
            return;
        }
        let at = open.at;
        match (open.number.get(), self.unfinished) {
            (Some(number), Some(unfinished)) if number == unfinished.number => {}
            // It was told that it had not ended.
            (Some(_), _) => return,
            (None, _) => {
                self.begin(at, open);
            }
        }
        if open.has_more() {
            self.text.extend_from_slice(b", ");
        }
        self.text.extend_from_slice(b" <detached ...>\n");
        self.unfinished = None;
        self.lines += 1;
    }

    /// Nothing more comes: tells what was open in processes that were left.
    pub(super) fn all_left(&mut self) {
        if self.layout.is_traced {
            for open in self.stacks.drain(None) {
                self.left_open(&open);
            }
        }
    }

    /// What its tracer has seen of a thread.
    pub(super) fn of_thread(&mut self, at: At, what: OfThread) {
        let text = match what {
            OfThread::Began => return,
            OfThread::Left => {
                for open in self.stacks.drain_ring(at.process, at.tid) {
                    self.left_open(&open);
                }
                self.threads.remove(&at.tid);
                return;
            }
            OfThread::Stopped(signal) => {
                let shown = self.layout.signals.as_ref();
                if shown.is_none_or(|of| of.contains(&signal)) {
                    let name = syscalls::signal(signal);
                    self.note(at, None, &format!("--- stopped by {name} ---"));
                }
                return;
            }
            OfThread::Exited(code) => format!("+++ exited with {code} +++"),
            OfThread::Killed(signal) => {
                format!("+++ killed by {} +++", syscalls::signal(signal))
            }
            OfThread::Superseded(by) => {
                // What it had not finished is told first, and cuts the line of the other's execve.
                self.cut_off_thread(at);
                if self
                    .unfinished
                    .take_if(|line| line.tid == by as u32)
                    .is_some()
                {
                    self.lines += 1;
                    let text = format!(" <pid changed to {} ...>\n", at.tid);
                    self.text.extend_from_slice(text.as_bytes());
                }
                format!("+++ superseded by execve in pid {by} +++")
            }
        };
        self.cut_off_thread(at);
        let hidden = match what {
            OfThread::Superseded(_) => self.layout.hides_superseded,
            _ => self.layout.quiet,
        };
        if !hidden {
            self.note(at, None, &text);
        }
        if !matches!(what, OfThread::Superseded(_)) {
            self.threads.remove(&at.tid);
            self.interrupted.remove(&at.tid);
        }
    }

    /// Calls that are open in a thread that has ended.
    fn cut_off_thread(&mut self, at: At) {
        for open in self.stacks.drain_ring(at.process, at.tid) {
            self.cut_off(at, &open);
        }
    }

    pub(super) fn ended(&mut self, at: At, end: End) {
        if matches!(end, End::Exited(_) | End::Killed(_)) {
            // The ring of a thread that is traced has its number.
            self.cut_off_thread(at);
        }
        let open = self.stacks.drain(Some(at.process));
        if end == End::Replaced
            && let Some(exec) = open.iter().find(|open| open.plan.replaces)
        {
            self.returned(at, exec, (&Captures::new(), 0), Tampered::default());
        }
        self.naming.ended(at.process, end);
        match end {
            _ if self.layout.quiet => self.break_own(at),
            End::Exited(code) => self.note(at, None, &format!("+++ exited with {code} +++")),
            End::Killed(signal) => {
                let name = syscalls::signal(signal);
                self.note(at, None, &format!("+++ killed by {name} +++"));
            }
            End::Unknown | End::Replaced => self.break_own(at),
        }
        if end != End::Replaced {
            self.threads.remove(&at.tid);
        }
    }
}
