//! The programs: what is done at each tracepoint. Their arguments are those of include/trace/events/syscalls.h and sched.h.
//! Used by `watch`.
//!
//! All of them begin with [`Writer::watched`]: whose process is not watched goes on at once, after a look into one map. A thread that
//! is watched has an entry in `threads` with the number of the call it is in and when that began; between its calls the number
//! is [`IDLE`]. It also says since when its process is watched: what an earlier watch has left is believed no more.

use crate::assembler::{Label, Math, Program, Reg, Size, When};
use crate::brake;
use crate::copier;
use crate::writer::*;
use Reg::{Fp, R0, R1, R2, R6, R7, R8, R9};
use Size::Double;

/// The programs, by tracepoint, in the order in which they are to be attached.
pub fn all(shared: &Shared) -> Vec<(&'static str, Program)> {
    let mut all = vec![("sched_process_exit", written(shared, Writer::task_ends))];
    if shared.follow {
        all.push(("sched_process_fork", written(shared, Writer::task_is_made)));
    }
    all.push(("sys_exit", written(shared, Writer::call_ends)));
    all.push(("sys_enter", written(shared, Writer::call_begins)));
    all
}

fn written<'s>(shared: &'s Shared, write: impl FnOnce(&mut Writer<'s>)) -> Program {
    let mut writer = Writer::new(shared);
    write(&mut writer);
    writer.end();
    if let (Some(step), Some(copier)) = (writer.step, &shared.copier) {
        copier::write(&mut writer.code, step, &copier.words);
    }
    if let Some(pause) = writer.pause {
        brake::write(&mut writer.code, pause);
    }
    writer.code.finish()
}

impl Writer<'_> {
    /// sys_enter(struct pt_regs *, long number)
    fn call_begins(&mut self) {
        self.watched(self.out);
        self.code.load(Double, R1, R0, 0);
        self.code.store(Double, Fp, SINCE, R1);
        self.code.load(Double, R8, R6, 8);
        self.registers();
        self.by_width();
        self.task();
        self.now();
        let shared = self.shared;
        self.code.copy(R9, R0);
        self.code.store(Double, Fp, BEGAN, R9);
        self.code.store(Double, Fp, NUMBER, R8);
        self.code.store_number(Double, Fp, MISSED, 0);
        if shared.tells {
            self.code.store(Double, Fp, BEGAN, R7);
            self.unless_wanted(|writer| {
                writer.code.store_number(Double, Fp, NUMBER, UNTOLD);
                writer.enter();
                writer.code.jump(writer.out);
            });
            self.tell_call(false);
        } else {
            self.look_up(&shared.threads, TASK);
            self.unless_again(|writer, none| {
                writer.entry(none);
                let code = &mut writer.code;
                code.load(Double, R8, R0, 0);
                code.load(Double, R1, R0, 8);
            });
        }
        self.enter();
    }

    /// Goes to `none` unless R0 is the address of an entry of `threads` that was made since the process is watched.
    fn entry(&mut self, none: Label) {
        let code = &mut self.code;
        code.jump_if(R0, When::Equal, 0, none);
        code.load(Double, R1, R0, 24);
        code.load(Double, R2, Fp, SINCE);
        code.jump_if_of(R1, When::NotEqual, R2, none);
    }

    /// Counts a call that was to be made again, which `load` has put into R8, with how long it took in R1.
    fn unless_again(&mut self, load: impl FnOnce(&mut Self, Label)) {
        let none = self.code.label();
        load(self, none);
        let code = &mut self.code;
        code.copy(R2, R8);
        code.math(Math::ShiftRight, R2, 33);
        code.jump_if(R2, When::NotEqual, (AGAIN >> 33) as i32, none);
        code.store(Double, Fp, TOOK, R1);
        self.without_again();
        self.add_up(true);
        self.code.here(none);
    }

    /// Writes `what` for calls of number R8 that are not told.
    fn unless_wanted(&mut self, what: impl FnOnce(&mut Self)) {
        let yes = self.code.label();
        self.row();
        if let Some(copier) = &self.shared.copier {
            let code = &mut self.code;
            code.math(Math::ShiftLeft, R1, 3);
            code.map_value(R2, copier.words.descriptor());
            code.math_of(Math::Add, R2, R1);
            code.load(Double, R1, R2, 0);
            code.jump_if(R1, When::NotEqual, 0, yes);
        }
        what(self);
        self.code.here(yes);
        self.code.store(Double, Fp, WANTED, R1);
    }

    /// The thread is in the call that stands on the stack from now on.
    fn enter(&mut self) {
        let (new, done) = (self.code.label(), self.code.label());
        self.look_up(&self.shared.threads, TASK);
        let code = &mut self.code;
        code.jump_if(R0, When::Equal, 0, new);
        for (at, from) in [(0, NUMBER), (8, BEGAN), (16, MISSED), (24, SINCE)] {
            code.load(Double, R1, Fp, from);
            code.store(Double, R0, at, R1);
        }
        code.jump(done);
        code.here(new);
        self.put(&self.shared.threads, TASK, NUMBER);
        self.code.jump_if(R0, When::Equal, 0, done);
        self.lose(LOST_THREADS);
        self.code.here(done);
    }

    /// Tells that call R8 has begun at the time in R9, which loses its value. If there is no room, its return is not told either.
    /// With `is_late` it returns now.
    fn tell_call(&mut self, is_late: bool) {
        let (full, done) = (self.code.label(), self.code.label());
        self.record((CALL, CALL_BYTES), full);
        self.fill(24, R8);
        for (at, from) in ARGUMENTS.into_iter().chain([RIP_AT, RSP_AT]).enumerate() {
            self.code.load(Double, R1, Fp, from);
            self.fill(32 + 8 * at as i16, R1);
        }
        if is_late {
            // What it points to is told with its return.
            self.code.set(R1, 1);
        } else {
            self.code.store_number(Double, R9, copier::RESULT, 0);
            self.words_for_call(R1);
            self.code.set(R2, 0);
            self.copies();
            self.code.load(Double, R1, R9, copier::MISSES);
        }
        self.code.store(Double, Fp, MISSED, R1);
        self.fill(96, R1);
        self.output(full);
        self.code.jump(done);
        self.code.here(full);
        self.code.store_number(Double, Fp, NUMBER, UNTOLD);
        self.code.here(done);
    }

    /// `to` = the first word that copies what the arguments of a call point to, when it begins.
    fn words_for_call(&mut self, to: Reg) {
        self.code.load(Double, to, Fp, WANTED);
        self.code.math(Math::ShiftLeft, to, 32);
        self.code.math(Math::ShiftRight, to, 40);
    }

    /// sys_exit(struct pt_regs *, long result)
    fn call_ends(&mut self) {
        let not = self.code.label();
        self.watched(not);
        // When it began to be watched, in case that this call began before.
        self.code.load(Double, R9, R0, 0);
        self.code.store(Double, Fp, SINCE, R9);
        self.task();
        self.now();
        let (unknown, idle) = (self.code.label(), self.code.label());
        let (late, known) = (self.code.label(), self.code.label());
        self.look_up(&self.shared.threads, TASK);
        self.entry(unknown);
        let code = &mut self.code;
        code.load(Double, R8, R0, 0);
        code.load(Double, R1, R0, 16);
        code.store(Double, Fp, MISSED, R1);
        code.load(Double, R1, R0, 8);
        code.store_number(Double, R0, 0, IDLE);
        code.jump_if(R8, When::Equal, UNTOLD, self.out);
        code.jump_if(R8, When::Equal, IDLE, idle);
        if !self.shared.tells {
            let again = self.code.label();
            let code = &mut self.code;
            code.copy(R2, R8);
            code.math(Math::ShiftRight, R2, 33);
            code.jump_if(R2, When::NotEqual, (AGAIN >> 33) as i32, again);
            self.unless_again(|_, _| {});
            self.code.jump(idle);
            self.code.here(again);
        }
        let code = &mut self.code;
        // The thread that has asked: one that runs another program has the id of the first thread by now.
        code.copy(if self.shared.tells { R7 } else { R9 }, R1);
        code.jump(known);
        // It was refused before it began (seccomp).
        code.here(idle);
        code.load(Double, R9, Fp, NOW);
        code.jump(late);
        code.here(unknown);
        self.is_met();
        self.code.here(late);
        self.late();
        self.code.here(known);
        match self.shared.tells {
            true => self.tell_return(),
            false => self.count(),
        }
        self.code.jump(self.out);
        self.code.here(not);
        if self.shared.follow {
            self.child_returns();
        }
    }

    /// Loads the number of a call whose beginning was not seen into R8; if calls are told, it is told now, as begun at the time in R9.
    fn late(&mut self) {
        self.registers();
        self.code.load(Double, R8, Fp, ORIGINAL_AT);
        // It is in none: a tracer has had it go on elsewhere, or a handler returned to no call.
        self.code.jump_if(R8, When::Equal, -1, self.out);
        self.by_width();
        if self.shared.tells {
            self.unless_wanted(|writer| writer.code.jump(writer.out));
            self.code.store(Double, Fp, NUMBER, R8);
            self.tell_call(true);
            self.code.load(Double, R1, Fp, NUMBER);
            self.code.jump_if(R1, When::Equal, UNTOLD, self.out);
        }
    }

    /// A thread is seen for the first time, at the end of a call that began before its process was watched, or of the
    /// fork that has made it, which is no call of its own.
    fn is_met(&mut self) {
        let own = self.code.label();
        let out = self.out;
        self.code.store_number(Double, Fp, NUMBER, IDLE);
        self.code.store_number(Double, Fp, BEGAN, 0);
        self.code.store_number(Double, Fp, MISSED, 0);
        self.enter();
        if self.shared.follow {
            // Here it does not matter whether it was there.
            self.delete(&self.shared.born, TASK);
        }
        self.registers();
        self.code.load(Double, R8, Fp, ORIGINAL_AT);
        self.by_width();
        self.code.load(Double, R1, R6, 8);
        self.code.jump_if(R1, When::NotEqual, 0, own);
        for fork in FORKS.into_iter().chain([CLONE3_32]) {
            self.code.set_wide(R1, fork);
            self.code.jump_if_of(R8, When::Equal, R1, out);
        }
        self.code.here(own);
    }

    /// Tells what call R8 of this thread has returned, with what was copied for it, and, if something could not be read when it began, with
    /// that as it is now.
    fn tell_return(&mut self) {
        let (out, all, full) = (self.out, self.code.label(), self.code.label());
        self.unless_wanted(|writer| writer.code.jump(out));
        self.code.store(Double, Fp, NUMBER, R8);
        self.registers();
        self.by_width();
        // At the end of an exec the width is that of the new program. The call is the one that was told, as which it is counted if it is lost.
        self.code.load(Double, R8, Fp, NUMBER);
        self.code.load(Double, R9, Fp, NOW);
        self.record((RETURN, RETURN_BYTES), full);
        self.code.load(Double, R1, R6, 8);
        self.fill(24, R1);
        self.code.store(Double, R9, copier::RESULT, R1);
        self.code.set(R2, 0);
        self.code.load(Double, R1, Fp, MISSED);
        self.code.jump_if(R1, When::Equal, 0, all);
        self.words_for_call(R2);
        self.code.here(all);
        self.code.load(Double, R1, Fp, WANTED);
        self.code.math(Math::ShiftRight, R1, 32);
        self.copies();
        self.code.load(Double, R1, R9, copier::FIRST_LENGTH);
        self.fill(32, R1);
        self.output(full);
        self.wait_for_room();
        self.code.here(full);
    }

    /// Counts call R8, which began at R9, or notes that it is to be made again.
    fn count(&mut self) {
        let (out, plain) = (self.out, self.code.label());
        let code = &mut self.code;
        code.load(Double, R1, Fp, NOW);
        code.math_of(Math::Subtract, R1, R9);
        code.store(Double, Fp, TOOK, R1);
        code.load(Double, R1, R6, 8);
        code.jump_if(R1, When::Below, *RESTARTS.start(), plain);
        code.jump_if(R1, When::AtLeast, *RESTARTS.end() + 1, plain);
        self.look_up(&self.shared.threads, TASK);
        let code = &mut self.code;
        code.jump_if(R0, When::Equal, 0, plain);
        code.set_wide(R1, AGAIN);
        code.math_of(Math::Or, R1, R8);
        code.store(Double, R0, 0, R1);
        code.load(Double, R1, Fp, TOOK);
        code.store(Double, R0, 8, R1);
        code.jump(out);
        code.here(plain);
        self.add_up(false);
    }

    /// A process that is not watched returns from a call with 0: it is a child that a watched one has made, and is
    /// watched from now on, or no business of ours.
    fn child_returns(&mut self) {
        let out = self.out;
        self.code.load(Double, R1, R6, 8);
        self.code.jump_if(R1, When::NotEqual, 0, out);
        self.task();
        self.look_up(&self.shared.born, TASK);
        self.code.jump_if(R0, When::Equal, 0, out);
        self.code.load(Double, R8, R0, 0);
        self.delete(&self.shared.born, TASK);
        self.now();
        self.code.copy(R9, R0);
        let full = self.code.label();
        self.put(&self.shared.watched.watched, PROCESS, NOW);
        self.code.jump_if(R0, When::NotEqual, 0, full);
        self.code.store_number(Double, Fp, NUMBER, IDLE);
        self.code.store_number(Double, Fp, BEGAN, 0);
        self.code.store_number(Double, Fp, MISSED, 0);
        self.code.store(Double, Fp, SINCE, R9);
        self.enter();
        self.reserve((CHILD, CHILD_BYTES), R9, out);
        self.code.copy(R9, R0);
        self.code.store(Double, R9, 24, R8);
        self.submit();
        self.code.jump(out);
        self.code.here(full);
        self.lose(LOST_CHILDREN);
    }

    /// sched_process_fork(struct task_struct *parent, struct task_struct *child), in the parent
    fn task_is_made(&mut self) {
        let out = self.out;
        self.watched(out);
        self.code.load(Double, R1, R6, 8);
        self.code.store(Double, Fp, TASK, R1);
        self.put(&self.shared.born, TASK, PROCESS);
        self.code.jump_if(R0, When::Equal, 0, out);
        self.lose(LOST_CHILDREN);
    }

    /// sched_process_exit(struct task_struct *), in the thread that ends. The task's memory serves another one soon.
    fn task_ends(&mut self) {
        let (out, none) = (self.out, self.code.label());
        if self.shared.follow {
            self.task();
            self.delete(&self.shared.born, TASK);
        }
        // Also of a process that is not watched any more.
        self.task();
        self.look_up(&self.shared.threads, TASK);
        self.code.jump_if(R0, When::Equal, 0, out);
        self.code.load(Double, R8, R0, 0);
        self.code.load(Double, R9, R0, 24);
        self.watched(none);
        self.code.load(Double, R1, R0, 0);
        self.code.jump_if_of(R1, When::NotEqual, R9, none);
        self.code.jump_if(R8, When::Equal, IDLE, none);
        self.code.jump_if(R8, When::Equal, UNTOLD, none);
        self.without_again();
        self.row();
        self.look_up(&self.shared.figures, ROW_KEY);
        self.code.jump_if(R0, When::Equal, 0, none);
        self.code.load(Double, R1, R0, 40);
        self.code.math(Math::Add, R1, 1);
        self.code.store(Double, R0, 40, R1);
        self.code.here(none);
        self.delete(&self.shared.threads, TASK);
    }
}
