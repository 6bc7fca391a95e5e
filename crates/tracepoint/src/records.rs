//! Steps by which a program makes a record and has lancet read it. Used by `programs`.

use crate::assembler::{Helper, Label, Math, Reg, Size, When};
use crate::copier::{self, BUFFER};
use crate::writer::{ARGUMENTS, CONTEXT, LOST_RECORDS, PROCESS, ROW_KEY, Writer};
use Reg::{Fp, R0, R1, R2, R3, R4, R7, R9};
use Size::{Double, Word};

/// What a ring's writer asks for: nobody is woken, we look ourselves (`BPF_RB_NO_WAKEUP`).
pub const NO_WAKEUP: i32 = 1;

impl Writer<'_> {
    /// Reserves a record, and fills in what all have; R0 is its address. Where there is no room it is counted, and the
    /// program goes to `full`.
    pub fn reserve(&mut self, (kind, bytes): (i32, i32), time: Reg, full: Label) {
        let there = self.code.label();
        self.code.map(R1, self.shared.ring.descriptor());
        self.code.set(R2, bytes);
        self.code.set(R3, 0);
        self.code.call(Helper::RingReserve);
        self.code.jump_if(R0, When::NotEqual, 0, there);
        self.lose(LOST_RECORDS);
        self.code.jump(full);
        let code = &mut self.code;
        code.here(there);
        code.store_number(Word, R0, 0, kind);
        code.store(Word, R0, 4, R7);
        code.load(Double, R1, Fp, PROCESS);
        code.store(Double, R0, 8, R1);
        code.store(Double, R0, 16, time);
    }

    /// Submits the record whose address is in R9, so that lancet can read it.
    pub fn submit(&mut self) {
        self.code.copy(R1, R9);
        self.code.set(R2, NO_WAKEUP);
        self.code.call(Helper::RingSubmit);
    }

    /// Begins a record, of so many bytes before what is copied, with the time in R9: R9 is the state and the record of this processor from
    /// now on.
    pub fn record(&mut self, (kind, bytes): (i32, i32), full: Label) {
        let there = self.code.label();
        self.code.call(Helper::CurrentProcessor);
        self.code.store(Word, Fp, ROW_KEY, R0);
        if let Some(copier) = &self.shared.copier {
            self.look_up(&copier.scratch, ROW_KEY);
        }
        self.code.jump_if(R0, When::NotEqual, 0, there);
        self.lose_record();
        self.code.jump(full);
        let code = &mut self.code;
        code.here(there);
        code.store_number(Word, R0, BUFFER, kind);
        code.store(Word, R0, BUFFER + 4, R7);
        code.load(Double, R1, Fp, PROCESS);
        code.store(Double, R0, BUFFER + 8, R1);
        code.store(Double, R0, BUFFER + 16, R9);
        code.store_number(Double, R0, copier::LENGTH, bytes);
        code.store_number(Double, R0, copier::MISSES, 0);
        code.copy(R9, R0);
        code.store(Double, Fp, CONTEXT, R9);
    }

    /// Fills a word of the record in R9.
    pub fn fill(&mut self, at: i16, from: Reg) {
        self.code.store(Double, R9, BUFFER + at, from);
    }

    /// Runs the words from number R1 on over the arguments on the stack, and then those from number R2 on, and adds what they copy to the
    /// record in R9; none where that is 0.
    pub fn copies(&mut self) {
        let none = self.code.label();
        self.code.store(Double, R9, copier::NEXT, R1);
        self.code.store(Double, R9, copier::THEN, R2);
        self.code.store_number(Double, R9, copier::FIRST_LENGTH, 0);
        self.code.math_of(Math::Or, R1, R2);
        self.code.jump_if(R1, When::Equal, 0, none);
        let first = self.code.label();
        self.code.load(Double, R1, R9, copier::NEXT);
        self.code.jump_if(R1, When::NotEqual, 0, first);
        self.code
            .store_number(Double, R9, copier::NEXT, copier::NOTHING);
        self.code.here(first);
        for at in copier::AT_FIRST {
            self.code.store_number(Double, R9, at, 0);
        }
        for (argument, from) in (0..).zip(ARGUMENTS) {
            self.code.load(Double, R1, Fp, from);
            self.code
                .store(Double, R9, copier::REGISTERS + 8 * argument, R1);
        }
        let known = self.step;
        let step = known.unwrap_or_else(|| self.code.label());
        self.step = Some(step);
        let code = &mut self.code;
        code.set(R1, copier::STEPS);
        code.function(R2, step);
        code.stack(R3, CONTEXT);
        code.set(R4, 0);
        code.call(Helper::Loop);
        code.here(none);
    }

    /// Has lancet read the record in R9. Where there is no room for it that is counted, and the program goes to `full`.
    pub fn output(&mut self, full: Label) {
        const MOST: i32 = copier::SCRATCH as i32 - BUFFER as i32;
        let (fits, done) = (self.code.label(), self.code.label());
        let code = &mut self.code;
        code.load(Double, R3, R9, copier::LENGTH);
        code.jump_if(R3, When::Below, MOST, fits);
        code.set(R3, MOST);
        code.here(fits);
        code.map(R1, self.shared.ring.descriptor());
        code.copy(R2, R9);
        code.math(Math::Add, R2, i32::from(BUFFER));
        code.set(R4, NO_WAKEUP);
        code.call(Helper::RingOutput);
        code.jump_if(R0, When::Equal, 0, done);
        self.lose_record();
        self.code.jump(full);
        self.code.here(done);
    }
}
