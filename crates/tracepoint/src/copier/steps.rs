//! The instructions of BPF that do each operation of [`capture::Op`].

use super::{
    ARRAY, BASE, BLOCKS, BUFFER, DEPTH, ELEMENTS, FIRST_ADDRESS, FULL, LENGTH, LONGEST, MISSES,
    MOST_BLOCKS, N, NEXT, PAGE, PIECE, Step, V, of,
};
use crate::assembler::{Helper, Math, Reg, Size, When};
use Reg::{Fp, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use Size::Double;
use capture::{CopyLimits, Op, Source, Width};

impl Step<'_> {
    pub fn values(&mut self) {
        self.case(Op::Value(Source::Rax), |step| {
            step.source();
            step.set(V, R3);
        });
        self.case(Op::Member(0), |step| {
            step.c(R3);
            step.load(R1, BASE);
            step.code.math_of(Math::Add, R3, R1);
            step.code.set(R2, 8);
            step.number();
            step.set(V, R3);
        });
        self.case(Op::At(0), |step| {
            step.c(R3);
            step.load(R1, BASE);
            step.code.math_of(Math::Add, R3, R1);
            step.set(V, R3);
        });
    }

    pub fn counts(&mut self) {
        self.case(Op::Count(Source::Rax, Width::WORD), |step| {
            step.source();
            step.part(R4, 32, 8);
            step.width();
            step.set(N, R3);
        });
        self.case(Op::CountMember(0, Width::WORD), |step| {
            step.c(R3);
            step.load(R1, BASE);
            step.code.math_of(Math::Add, R3, R1);
            step.part(R2, 8, 8);
            step.number();
            // Of the member the bytes were read that its width has.
            step.part(R4, 8, 8);
            step.width();
            step.set(N, R3);
        });
        self.case(Op::Constant(0), |step| {
            step.c(R3);
            step.set(N, R3);
        });
        self.case(Op::AtMost(0), |step| {
            let (positive, least) = (step.code.label(), step.code.label());
            step.c(R3);
            step.load(R2, N);
            step.code.copy(R1, R2);
            step.code.math(Math::ShiftRight, R1, 63);
            step.code.jump_if(R1, When::Equal, 0, positive);
            step.code.set(R2, 0);
            step.code.here(positive);
            step.code.jump_if_of(R2, When::Below, R3, least);
            step.code.copy(R2, R3);
            step.code.here(least);
            step.set(N, R2);
        });
        self.case(Op::Within(0), |step| {
            let least = step.code.label();
            step.c(R3);
            step.load(R2, N);
            step.code.jump_if_of(R2, When::Below, R3, least);
            step.code.copy(R2, R3);
            step.code.here(least);
            step.set(N, R2);
        });
        self.case(Op::CommandSize(0), |step| {
            step.c(R3);
            step.load(R2, N);
            step.code.math(Math::ShiftRight, R2, 16);
            step.code.math(Math::And, R2, 0x3fff);
            step.code.math_of(Math::Add, R2, R3);
            step.set(N, R2);
        });
    }

    pub fn copies(&mut self) {
        self.case(Op::Bytes(0), |step| {
            step.c(R9);
            step.load(R8, V);
            step.code.jump(step.copy);
        });
        self.case(Op::Array(0), |step| {
            // So many units that their bytes cannot overflow: they are more than what is copied.
            let few = step.code.label();
            step.c(R1);
            step.load(R9, N);
            step.code.jump_if(R9, When::Below, LONGEST + 1, few);
            step.code.set(R9, LONGEST + 1);
            step.code.here(few);
            step.code.math_of(Math::Multiply, R9, R1);
            step.load(R8, V);
            step.code.jump(step.copy);
        });
        self.case(Op::Text { unit: 1, max: 0 }, |step| {
            step.c(R9);
            step.load(R8, V);
            step.code.jump(step.text);
        });
        self.case(Op::CountedText { unit: 1, max: 0 }, |step| {
            step.c(R9);
            step.load(R1, N);
            step.load(R8, V);
            step.code.jump_if_of(R9, When::Below, R1, step.text);
            step.code.copy(R9, R1);
            step.code.jump(step.text);
        });
    }

    /// One element a step, of eight bytes: the word is done again until the last. All elements are one piece, which grows.
    pub fn zero_ended(&mut self) {
        self.case(Op::ZeroEnded(0), |step| {
            let (end, began) = (step.code.label(), step.code.label());
            step.load(R8, V);
            step.load(R9, ELEMENTS);
            step.load(R1, N);
            step.code.jump_if_of(R9, When::AtLeast, R1, end);
            step.load(R1, LENGTH);
            step.code.jump_if(R1, When::Above, FULL, end);
            step.code.copy(R3, R9);
            step.code.math(Math::ShiftLeft, R3, 3);
            step.code.math_of(Math::Add, R3, R8);
            step.code.jump_if(R3, When::Below, FIRST_ADDRESS, end);
            step.code.stack(R1, -8);
            step.code.set(R2, 8);
            step.code.call(Helper::ReadUser);
            let read = step.code.label();
            step.code.jump_if(R0, When::Equal, 0, read);
            step.code.store_number(Double, R6, MISSES, 1);
            step.code.jump(end);
            step.code.here(read);
            step.load(R1, LENGTH);
            step.code.jump_if(R1, When::Above, FULL, end);
            step.code.jump_if(R9, When::NotEqual, 0, began);
            step.store(ARRAY, R1);
            step.code.copy(R2, R6);
            step.code.math_of(Math::Add, R2, R1);
            step.code.store(Double, R2, BUFFER, R8);
            step.code.store_number(Double, R2, BUFFER + 8, 0);
            step.code.math(Math::Add, R1, PIECE);
            step.code.here(began);
            step.code.copy(R2, R6);
            step.code.math_of(Math::Add, R2, R1);
            step.code.load(Double, R4, Fp, -8);
            step.code.store(Double, R2, BUFFER, R4);
            step.code.math(Math::Add, R1, 8);
            step.store(LENGTH, R1);
            step.load(R1, ARRAY);
            step.code.jump_if(R1, When::Above, FULL, end);
            step.code.math_of(Math::Add, R1, R6);
            step.code.load(Double, R2, R1, BUFFER + 8);
            step.code.math(Math::Add, R2, 8);
            step.code.store(Double, R1, BUFFER + 8, R2);
            step.code.jump_if(R4, When::Equal, 0, end);
            step.code.math(Math::Add, R9, 1);
            step.store(ELEMENTS, R9);
            step.load(R1, NEXT);
            step.code.math(Math::Subtract, R1, 1);
            step.set(NEXT, R1);
            step.code.here(end);
            step.code.store_number(Double, R6, ELEMENTS, 0);
            step.set(N, R9);
        });
    }

    /// R2 = the block of the depth in R1, which loses its value.
    fn block(&mut self) {
        let code = &mut self.code;
        code.copy(R2, R1);
        code.math(Math::And, R2, MOST_BLOCKS - 1);
        code.math(Math::ShiftLeft, R2, 5);
        code.math_of(Math::Add, R2, R6);
    }

    /// Skips as many words as the operation says.
    fn skipped(&mut self) {
        self.skip(R2);
        self.load(R1, NEXT);
        self.code.math_of(Math::Add, R1, R2);
        self.set(NEXT, R1);
    }

    pub fn blocks(&mut self) {
        let (opens, closes) = (self.code.label(), self.code.label());
        self.case(Op::Open { skip: 0 }, |step| {
            step.code.set(R9, 1);
            step.code.set(R8, 0);
            step.code.jump(opens);
        });
        self.case(Op::Each { stride: 0, skip: 0 }, |step| {
            step.load(R9, N);
            step.c(R8);
            step.code.jump(opens);
        });
        self.code.jump_if(R1, When::NotEqual, of(Op::Close), closes);
        let (last, none) = (self.code.label(), self.code.label());
        self.load(R1, DEPTH);
        self.code.jump_if(R1, When::Equal, 0, self.over);
        self.code.math(Math::Subtract, R1, 1);
        self.block();
        self.code.load(Double, R3, R2, BLOCKS + 8);
        self.code.jump_if(R3, When::Equal, 0, last);
        self.code.math(Math::Subtract, R3, 1);
        self.code.store(Double, R2, BLOCKS + 8, R3);
        self.code.load(Double, R3, R2, BLOCKS + 16);
        self.load(R4, BASE);
        self.code.math_of(Math::Add, R4, R3);
        self.store(BASE, R4);
        self.code.load(Double, R3, R2, BLOCKS + 24);
        self.set(NEXT, R3);
        self.code.here(last);
        self.store(DEPTH, R1);
        self.code.load(Double, R3, R2, BLOCKS);
        self.set(BASE, R3);

        self.code.here(opens);
        self.load(R3, V);
        self.load(R1, DEPTH);
        self.code.jump_if(R3, When::Below, FIRST_ADDRESS, none);
        self.code.jump_if(R9, When::Equal, 0, none);
        self.code
            .jump_if(R1, When::AtLeast, CopyLimits::DEPTH as i32, none);
        self.block();
        self.code.math(Math::Subtract, R9, 1);
        self.load(R4, BASE);
        self.code.store(Double, R2, BLOCKS, R4);
        self.code.store(Double, R2, BLOCKS + 8, R9);
        self.code.store(Double, R2, BLOCKS + 16, R8);
        self.load(R4, NEXT);
        self.code.store(Double, R2, BLOCKS + 24, R4);
        self.store(BASE, R3);
        self.code.math(Math::Add, R1, 1);
        self.set(DEPTH, R1);
        self.code.here(none);
        self.skipped();
        self.code.here(closes);
    }

    pub fn conditions(&mut self) {
        let only_if = Op::OnlyIf {
            argument: 0,
            shift: 0,
            skip: 0,
            is: 0,
        };
        self.case(only_if, |step| {
            let other = step.code.label();
            step.part(R2, 8, 3);
            step.register(R3, R2);
            step.code.math(Math::ShiftLeft, R3, 32);
            step.code.math(Math::ShiftRight, R3, 32);
            step.part(R2, 11, 5);
            step.code.math_of(Math::ShiftRight, R3, R2);
            step.c(R2);
            step.code.jump_if_of(R3, When::NotEqual, R2, other);
            step.code.jump(step.on);
            step.code.here(other);
            step.skipped();
        });
        self.case(Op::OnlyNumber { skip: 0, is: 0 }, |step| {
            let other = step.code.label();
            step.load(R3, N);
            step.c(R2);
            step.code.jump_if_of(R3, When::NotEqual, R2, other);
            step.code.jump(step.on);
            step.code.here(other);
            step.skipped();
        });
    }

    /// What [`Step::copy`] and [`Step::text`] lead to.
    pub fn pieces(&mut self) {
        let (emit, partly) = (self.code.label(), self.code.label());
        self.code.here(self.text);
        self.room(LONGEST - 1);
        let (code, on) = (&mut self.code, self.on);
        code.copy(R1, R7);
        code.copy(R2, R9);
        code.math(Math::Add, R2, 1);
        code.copy(R3, R8);
        code.call(Helper::ReadUserText);
        code.jump_if(R0, When::SignedBelow, 0, partly);
        code.jump_if_of(R9, When::Below, R0, emit);
        code.copy(R9, R0);
        code.jump(emit);

        code.here(self.copy);
        self.room(LONGEST);
        let code = &mut self.code;
        code.copy(R1, R7);
        code.copy(R2, R9);
        code.copy(R3, R8);
        code.call(Helper::ReadUser);
        code.jump_if(R0, When::Equal, 0, emit);

        // As far as its first page.
        code.here(partly);
        code.store_number(Double, R6, MISSES, 1);
        code.copy(R1, R8);
        code.math(Math::And, R1, PAGE - 1);
        code.set(R2, PAGE);
        code.math_of(Math::Subtract, R2, R1);
        code.jump_if_of(R2, When::AtLeast, R9, on);
        code.copy(R9, R2);
        code.copy(R1, R7);
        code.copy(R3, R8);
        code.call(Helper::ReadUser);
        code.jump_if(R0, When::NotEqual, 0, on);

        code.here(emit);
        code.store(Double, R7, -16, R8);
        code.store(Double, R7, -8, R9);
        code.math(Math::Add, R9, 7 + PIECE);
        code.math(Math::And, R9, -8);
        code.load(Double, R1, R6, LENGTH);
        code.math_of(Math::Add, R1, R9);
        code.store(Double, R6, LENGTH, R1);
        code.jump(on);
    }

    /// R7 = where the bytes of the next piece go, of which there are at most so many; where there is nothing to copy or no room, the step is
    /// done.
    fn room(&mut self, most: i32) {
        let few = self.code.label();
        let (code, on) = (&mut self.code, self.on);
        code.jump_if(R8, When::Below, FIRST_ADDRESS, on);
        code.jump_if(R9, When::Equal, 0, on);
        code.jump_if(R9, When::Below, most + 1, few);
        code.set(R9, most);
        code.here(few);
        code.load(Double, R1, R6, LENGTH);
        let fits = code.label();
        code.jump_if(R1, When::Below, FULL + 1, fits);
        code.store_number(Double, R6, MISSES, 1);
        code.jump(on);
        code.here(fits);
        code.copy(R7, R6);
        code.math_of(Math::Add, R7, R1);
        code.math(Math::Add, R7, i32::from(BUFFER) + PIECE);
    }
}
