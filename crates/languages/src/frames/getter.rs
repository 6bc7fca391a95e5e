//! What a function of a VM returns that takes nothing and reads a few words of the VM's: found out from its instructions, because what it reads
//! has no symbol. Used by `ruby::frames` and `php::frames`.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use vm::Memory;

/// Bytes of a function that are read, and how many of its instructions are followed.
const LONGEST: usize = 64;
const STEPS: usize = 32;

/// A function that returns what it reads.
#[derive(Clone, Debug)]
pub(crate) struct Getter {
    instructions: Vec<Instruction>,
}

/// What it returns now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) value: u64,
    /// Where it has read something last.
    pub(crate) read_at: u64,
}

/// The registers and the zero flag; `None` where they are not known.
#[derive(Default)]
struct State {
    registers: [Option<u64>; 16],
    is_zero: Option<bool>,
    read_at: Option<u64>,
}

impl Getter {
    /// Returns the function that begins at an address; `None` if there is no code.
    pub(crate) fn of(memory: &dyn Memory, start: u64) -> Option<Getter> {
        let mut code = [0; LONGEST];
        memory.read(start, &mut code).ok()?;
        let decoder = Decoder::with_ip(64, &code, start, DecoderOptions::NONE);
        let instructions = decoder.into_iter().take_while(|one| !one.is_invalid());
        Some(Getter {
            instructions: instructions.collect(),
        })
    }

    /// Returns what it returns; `None` if it does anything else than read, or what it reads is not there.
    pub(crate) fn get(&self, memory: &dyn Memory) -> Option<Got> {
        let mut state = State::default();
        let mut at = self.instructions.first()?.ip();
        for _ in 0..STEPS {
            let one = self.instructions.iter().find(|one| one.ip() == at)?;
            at = one.next_ip();
            match one.mnemonic() {
                Mnemonic::Ret => {
                    return Some(Got {
                        value: state.register(Register::EAX)?,
                        read_at: state.read_at?,
                    });
                }
                Mnemonic::Je if state.is_zero? => at = one.near_branch_target(),
                Mnemonic::Jne if !state.is_zero? => at = one.near_branch_target(),
                Mnemonic::Je | Mnemonic::Jne => {}
                _ => state.follow(memory, one)?,
            }
        }
        None
    }
}

impl State {
    /// Does what an instruction does; `None` if that is something else than reading and reckoning.
    fn follow(&mut self, memory: &dyn Memory, one: &Instruction) -> Option<()> {
        let first = |state: &mut State| state.operand(memory, one, 0);
        let second = |state: &mut State| state.operand(memory, one, 1);
        let result = match one.mnemonic() {
            Mnemonic::Endbr64 | Mnemonic::Nop => return Some(()),
            Mnemonic::Test => {
                self.is_zero = Some(first(self)? & second(self)? == 0);
                return Some(());
            }
            Mnemonic::Lea => self.address(one, 1)?,
            Mnemonic::Mov | Mnemonic::Movzx => second(self)?,
            Mnemonic::And => first(self)? & second(self)?,
            Mnemonic::Shr => first(self)?.checked_shr(second(self)? as u32 & 63)?,
            Mnemonic::Xor if one.op0_register() == one.op1_register() => 0,
            _ => return None,
        };
        // The flags of these are not kept.
        self.is_zero = None;
        self.set(one.op0_register(), result)
    }

    fn operand(&mut self, memory: &dyn Memory, one: &Instruction, number: u32) -> Option<u64> {
        match one.op_kind(number) {
            OpKind::Register => self.register(one.op_register(number)),
            OpKind::Memory => {
                let at = self.address(one, number)?;
                let mut bytes = [0; 8];
                memory
                    .read(at, bytes.get_mut(..one.memory_size().size())?)
                    .ok()?;
                self.read_at = Some(at);
                Some(u64::from_le_bytes(bytes))
            }
            _ => one.try_immediate(number).ok(),
        }
    }

    fn address(&self, one: &Instruction, number: u32) -> Option<u64> {
        one.virtual_address(number, 0, |register, _, _| match register {
            Register::DS | Register::SS | Register::ES | Register::CS => Some(0),
            register if register.is_gpr() => self.register(register),
            _ => None,
        })
    }

    fn register(&self, register: Register) -> Option<u64> {
        let all = self.registers[register.full_register().number()]?;
        Some(match register.size() {
            1 if is_second_byte(register) => return None,
            1 => all & 0xff,
            2 => all & 0xffff,
            4 => all & 0xffff_ffff,
            _ => all,
        })
    }

    /// Sets a register of a function's own: of 32 bits the rest becomes 0, of fewer it stays.
    fn set(&mut self, register: Register, value: u64) -> Option<()> {
        if !register.is_gpr() || is_second_byte(register) {
            return None;
        }
        let all = &mut self.registers[register.full_register().number()];
        *all = Some(match register.size() {
            1 => (*all)? & !0xff | value & 0xff,
            2 => (*all)? & !0xffff | value & 0xffff,
            4 => value & 0xffff_ffff,
            _ => value,
        });
        Some(())
    }
}

/// Whether it is the second byte of a register.
fn is_second_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use vm::Fault;

    /// Bytes at addresses.
    struct Bytes(BTreeMap<u64, u8>);

    impl Memory for Bytes {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            for (at, byte) in (at..).zip(into) {
                *byte = *self.0.get(&at).ok_or(Fault { at })?;
            }
            Ok(())
        }
    }

    const START: u64 = 0x1000;

    fn memory(code: &[u8], words: &[(u64, u64)]) -> Bytes {
        let code = code.iter().copied().chain([0xcc; LONGEST]);
        let mut bytes: BTreeMap<u64, u8> = (START..).zip(code).collect();
        for (at, word) in words {
            bytes.extend((*at..).zip(word.to_le_bytes()));
        }
        Bytes(bytes)
    }

    fn got(code: &[u8], words: &[(u64, u64)]) -> Option<(u64, u64)> {
        let memory = memory(code, words);
        let got = Getter::of(&memory, START)?.get(&memory)?;
        Some((got.value, got.read_at))
    }

    /// `rb_during_gc` of Debian's 3.1 and of 3.3, and `gc_enabled` of PHP.
    #[test]
    fn what_a_function_returns_is_what_it_reads() {
        let ruby_31 = [
            0x48, 0x8b, 0x05, 0xf9, 0x0f, 0, 0, 0x48, 0x8b, 0x00, 0x48, 0x8b, 0x80, 0x50, 0x04, 0,
            0, 0x0f, 0xb6, 0x40, 0x10, 0xc0, 0xe8, 0x05, 0x83, 0xe0, 0x01, 0xc3,
        ];
        let words = |flags| {
            [
                (0x2000, 0x3000),
                (0x3000, 0x4000),
                (0x4450, 0x5000),
                (0x5010, flags),
            ]
        };
        assert_eq!(got(&ruby_31, &words(0x20)), Some((1, 0x5010)));
        assert_eq!(got(&ruby_31, &words(0xdf)), Some((0, 0x5010)));
        assert_eq!(got(&ruby_31, &words(0x20)[..3]), None);
        let ruby_33 = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x05, 0xf5, 0x0f, 0, 0, 0x48, 0x8b, 0x00, 0x48,
            0x85, 0xc0, 0x74, 0x15, 0x48, 0x8b, 0x80, 0x18, 0x05, 0, 0, 0x0f, 0xb6, 0x40, 0x10,
            0xc0, 0xe8, 0x05, 0x83, 0xe0, 0x01, 0xc3, 0x0f, 0x1f, 0, 0x31, 0xc0, 0xc3,
        ];
        let words = |vm| [(0x2000, vm), (0x4518, 0x5000), (0x5010, 0xff)];
        assert_eq!(got(&ruby_33, &words(0x4000)), Some((1, 0x5010)));
        assert_eq!(got(&ruby_33, &words(0)), Some((0, 0x2000)));
        let php = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0xb6, 0x05, 0xf5, 0x0f, 0, 0, 0xc3,
        ];
        assert_eq!(got(&php, &[(0x2000, 1)]), Some((1, 0x2000)));
    }

    #[test]
    fn a_function_that_does_more_is_not_followed() {
        // It calls another one, reads a variable of the thread, or has a loop.
        for code in [
            &[0xe8, 0, 0, 0, 0, 0xc3][..],
            &[0x64, 0x8b, 0x04, 0x25, 0, 0x20, 0, 0, 0xc3],
            &[0x31, 0xc0, 0x85, 0xc0, 0x74, 0xfc],
            &[0x8b, 0x07, 0xc3],
        ] {
            assert_eq!(got(code, &[(0x2000, 1)]), None, "{code:x?}");
        }
    }
}
