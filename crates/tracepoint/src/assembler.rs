//! Instructions of BPF as numbers (Documentation/bpf/standardization/instruction-set.rst), and jumps to labels. Used by
//! `writer`, `brake`, `copier` and others.

/// A register. R0 is what a helper returns, R1 to R5 are its arguments and are lost by it, R6 to R9 stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The end of the program's 512 bytes of stack.
    Fp,
}

/// How many bytes of memory an instruction moves.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Size {
    Word = 0x00,
    Byte = 0x10,
    Double = 0x18,
}

/// When a jump is taken: compared without signs, but for [`When::SignedBelow`].
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum When {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xa0,
    SignedBelow = 0xc0,
}

/// An operation on two numbers of 64 bits: the code bits of an ALU instruction.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Math {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    /// With the sign: its bit comes in from the left.
    SignedShiftRight = 0xc0,
}

/// A function of the kernel that programs may call: include/uapi/linux/bpf.h, `___BPF_FUNC_MAPPER`.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    Nanoseconds = 5,
    CurrentProcessor = 8,
    CurrentIds = 14,
    CurrentTask = 35,
    ReadUser = 112,
    ReadKernel = 113,
    ReadUserText = 114,
    CurrentIdsInNamespace = 120,
    RingOutput = 130,
    RingReserve = 131,
    RingSubmit = 132,
    RingQuery = 134,
    /// The current task as a pointer of which the verifier knows the type.
    CurrentTypedTask = 158,
    TaskRegisters = 175,
    Loop = 181,
}

const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const STORE_NUMBER: u8 = 0x62;
/// An operation on memory that no other processor can interrupt; its number says which, 0 being an addition.
const ATOMIC: u8 = 0xc3;
const LOAD_64_BITS: u8 = 0x18;
const ALU_64: u8 = 0x07;
const MOVE: u8 = 0xb0;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The second operand is a register.
const FROM_REGISTER: u8 = 0x08;
/// The number of a load of 64 bits is the descriptor of a map (`BPF_PSEUDO_MAP_FD`).
const MAP: u8 = 1;
/// It is a descriptor too, and what is loaded is the address of the map's only value (`BPF_PSEUDO_MAP_VALUE`).
const MAP_VALUE: u8 = 2;
/// It is the distance of a function of the same program (`BPF_PSEUDO_FUNC`).
const FUNCTION: u8 = 4;

/// A place in a program that jumps can lead to.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// A program that is being written.
#[derive(Default)]
pub struct Code {
    words: Vec<u64>,
    /// Where each label is, as the number of the word behind it; `None` until it is put.
    labels: Vec<Option<usize>>,
    /// Jumps, and the labels that they lead to.
    jumps: Vec<(usize, Label)>,
    /// The functions behind the program, and where the address of each is loaded.
    functions: Vec<(usize, Label)>,
}

/// A program as the kernel takes it.
pub struct Program {
    pub words: Vec<u64>,
    /// Where the functions begin that the program hands to [`Helper::Loop`], in their order.
    pub functions: Vec<usize>,
}

impl Code {
    fn put(&mut self, code: u8, to: u8, from: u8, offset: i16, number: i32) {
        let registers = from << 4 | to;
        let offset = u64::from(offset as u16) << 16;
        let number = u64::from(number as u32) << 32;
        self.words
            .push(u64::from(code) | u64::from(registers) << 8 | offset | number);
    }

    /// Copies all 64 bits of a register: `to = from`.
    pub fn copy(&mut self, to: Reg, from: Reg) {
        self.put(ALU_64 | MOVE | FROM_REGISTER, to as u8, from as u8, 0, 0);
    }

    /// Sets a register to a number, which is extended by its sign to 64 bits: `to = number`.
    pub fn set(&mut self, to: Reg, number: i32) {
        self.put(ALU_64 | MOVE, to as u8, 0, 0, number);
    }

    /// `to = number`, of 64 bits.
    pub fn set_wide(&mut self, to: Reg, number: u64) {
        self.wide(to, 0, number);
    }

    /// `to` = the map with this descriptor.
    pub fn map(&mut self, to: Reg, descriptor: i32) {
        self.wide(to, MAP, descriptor as u64);
    }

    /// `to` = the address of the value of the map with this descriptor, which has one.
    pub fn map_value(&mut self, to: Reg, descriptor: i32) {
        self.wide(to, MAP_VALUE, u64::from(descriptor as u32));
    }

    /// `to` = the address of the function at a label.
    pub fn function(&mut self, to: Reg, at: Label) {
        self.functions.push((self.words.len(), at));
        self.wide(to, FUNCTION, 0);
    }

    fn wide(&mut self, to: Reg, from: u8, number: u64) {
        self.put(LOAD_64_BITS, to as u8, from, 0, number as i32);
        self.put(0, 0, 0, 0, (number >> 32) as i32);
    }

    /// Makes `to` the result of an operation on itself and a number, which is extended by its sign.
    pub fn math(&mut self, math: Math, to: Reg, number: i32) {
        self.put(ALU_64 | math as u8, to as u8, 0, 0, number);
    }

    /// Makes `to` the result of an operation on itself and another register.
    pub fn math_of(&mut self, math: Math, to: Reg, from: Reg) {
        let code = ALU_64 | math as u8 | FROM_REGISTER;
        self.put(code, to as u8, from as u8, 0, 0);
    }

    /// Loads a register from memory: `to = *(at + offset)`. Of 32 bits the upper half is zero.
    pub fn load(&mut self, size: Size, to: Reg, at: Reg, offset: i16) {
        self.put(LOAD | size as u8, to as u8, at as u8, offset, 0);
    }

    /// Stores a register into memory: `*(at + offset) = from`.
    pub fn store(&mut self, size: Size, at: Reg, offset: i16, from: Reg) {
        self.put(STORE | size as u8, at as u8, from as u8, offset, 0);
    }

    /// Stores a number into memory: `*(at + offset) = number`, extended by its sign.
    pub fn store_number(&mut self, size: Size, at: Reg, offset: i16, number: i32) {
        self.put(STORE_NUMBER | size as u8, at as u8, 0, offset, number);
    }

    /// Adds a register to a word of memory, whatever other processors do meanwhile: `*(at + offset) += from`.
    pub fn add_to(&mut self, at: Reg, offset: i16, from: Reg) {
        self.put(ATOMIC | Size::Double as u8, at as u8, from as u8, offset, 0);
    }

    /// `to = fp + offset`: the address of a place on the stack.
    pub fn stack(&mut self, to: Reg, offset: i16) {
        self.copy(to, Reg::Fp);
        self.math(Math::Add, to, i32::from(offset));
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) {
        self.put(CALL, 0, 0, 0, helper as i32);
    }

    /// A label that is put somewhere later, or has been put.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.words.len());
    }

    fn jump_by(&mut self, code: u8, operands: [u8; 2], number: i32, to: Label) {
        self.jumps.push((self.words.len(), to));
        self.put(code, operands[0], operands[1], 0, number);
    }

    /// Goes to a label.
    pub fn jump(&mut self, to: Label) {
        self.jump_by(JUMP, [0, 0], 0, to);
    }

    /// Goes to a label if a register compares so with a number, which is extended by its sign to 64 bits.
    pub fn jump_if(&mut self, one: Reg, when: When, number: i32, to: Label) {
        self.jump_by(JUMP | when as u8, [one as u8, 0], number, to);
    }

    /// Goes to a label if a register compares so with another one.
    pub fn jump_if_of(&mut self, one: Reg, when: When, other: Reg, to: Label) {
        let code = JUMP | when as u8 | FROM_REGISTER;
        self.jump_by(code, [one as u8, other as u8], 0, to);
    }

    /// Ends the program; what it returns means nothing at a raw tracepoint.
    pub fn exit(&mut self) {
        self.exit_with(0);
    }

    /// Ends a function with its result.
    pub fn exit_with(&mut self, result: i32) {
        self.set(Reg::R0, result);
        self.put(EXIT, 0, 0, 0, 0);
    }

    /// The program.
    ///
    /// # Panics
    /// A label that a jump leads to was not put, or is too far: a mistake in [`programs`](super::programs), which its tests find.
    pub fn finish(mut self) -> Program {
        for (at, label) in &self.functions {
            let to = self.labels[label.0].expect("a label that was put");
            // Counted from the next instruction.
            let distance = to as i32 - *at as i32 - 1;
            self.words[*at] |= u64::from(distance as u32) << 32;
        }
        let functions = self.functions.iter();
        let mut functions: Vec<usize> = functions
            .filter_map(|(_, label)| self.labels[label.0])
            .collect();
        functions.sort_unstable();
        functions.dedup();
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("a label that was put");
            // Counted from the next instruction.
            let offset = to as i64 - at as i64 - 1;
            let offset = i16::try_from(offset).expect("a short program");
            self.words[at] |= u64::from(offset as u16) << 16;
        }
        Program {
            words: self.words,
            functions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `bpftool prog dump xlated` and the kernel's include/linux/filter.h write them.
    #[test]
    fn instructions_are_those_of_the_kernel() {
        let mut code = Code::default();
        let end = code.label();
        code.copy(Reg::R6, Reg::R1);
        code.load(Size::Double, Reg::R8, Reg::R6, 8);
        code.math(Math::ShiftRight, Reg::R7, 32);
        code.map(Reg::R1, 5);
        code.jump_if(Reg::R0, When::Equal, 0, end);
        code.store(Size::Word, Reg::Fp, -4, Reg::R8);
        code.call(Helper::MapLookup);
        code.here(end);
        code.exit();
        let bytes: Vec<[u8; 8]> = code
            .finish()
            .words
            .iter()
            .map(|word| word.to_le_bytes())
            .collect();
        assert_eq!(
            bytes,
            [
                [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                [0x79, 0x68, 8, 0, 0, 0, 0, 0],
                [0x77, 0x07, 0, 0, 32, 0, 0, 0],
                [0x18, 0x11, 0, 0, 5, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, 0],
                [0x15, 0x00, 2, 0, 0, 0, 0, 0],
                [0x63, 0x8a, 0xfc, 0xff, 0, 0, 0, 0],
                [0x85, 0, 0, 0, 1, 0, 0, 0],
                [0xb7, 0, 0, 0, 0, 0, 0, 0],
                [0x95, 0, 0, 0, 0, 0, 0, 0],
            ]
        );
    }
}
