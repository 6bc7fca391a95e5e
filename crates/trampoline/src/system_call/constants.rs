//! Numbers that registers hold in straight-line code, to find the number of a system call. Used by `system_call`, and
//! by `hooks::text::syscall_sites`.
//!
//! Mostly the instruction just before the system call puts the number into eax. In a loop around the call, compilers keep it in
//! another register and copy it at each turn. An example is how glibc ends the first thread of a process that has others left
//! (`__libc_start_call_main`, sysdeps/nptl/libc_start_call_main.h):
//!
//! ```text
//!         mov $60,%edx
//!   loop: xor %edi,%edi         edx keeps 60 from the first line to the last: [`Kept`]. The jump back stands within that code, so
//!         mov %edx,%eax         it changes nothing; a jump from elsewhere might bring another number
//!         syscall
//!         jmp loop
//! ```

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

/// A range of straight-line code in which a register keeps the number that it was given just before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Address behind the instruction that gave the register the number.
    pub from: u64,
    /// Address of the range's last instruction: a branch, or the one before the register gets another value.
    pub to: u64,
}

impl Kept {
    /// Whether the instruction at address `at` is in the range.
    pub fn holds(&self, at: u64) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// A known number in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The lower 32 bits of the register.
    pub number: u32,
    /// Address of the instruction that put it there.
    pub set_at: u64,
    /// The register from which that instruction copied it, and the address of the instruction that had put it there; `None` = the
    /// number is an operand of the instruction itself.
    pub copied: Option<(Register, u64)>,
}

/// Registers for general use.
const REGISTERS: usize = 16;
const RAX: usize = 0;

/// What is known of the registers at one place.
pub struct Constants {
    info: InstructionInfoFactory,
    known: [Option<Constant>; REGISTERS],
}

impl Constants {
    /// Nothing is known at a function's beginning and behind a branch.
    pub fn new() -> Self {
        Constants {
            info: InstructionInfoFactory::new(),
            known: [None; REGISTERS],
        }
    }

    /// Returns the number that rax holds, if it is known.
    pub fn rax(&self) -> Option<Constant> {
        self.known[RAX]
    }

    /// Updates what is known by the effects of `instruction`.
    pub fn pass(&mut self, instruction: &Instruction) {
        if is_system_call(instruction) {
            for register in [Register::RAX, Register::RCX, Register::R11] {
                self.known[register.number()] = None;
            }
            return;
        }
        if instruction.flow_control() != FlowControl::Next {
            self.known = [None; REGISTERS];
            return;
        }
        let set = self.set(instruction);
        for (register, known) in self.known.iter_mut().enumerate() {
            if known.is_some() && writes(&mut self.info, instruction, register) {
                *known = None;
            }
        }
        if let Some((register, constant)) = set {
            self.known[register] = Some(constant);
        }
    }

    /// If `instruction` puts a known number into a register, returns the register's index and the number.
    fn set(&self, instruction: &Instruction) -> Option<(usize, Constant)> {
        let to = instruction.op0_register().full_register();
        let is_register = instruction.op0_kind() == OpKind::Register && to.is_gpr64();
        let constant = |number, copied| Constant {
            number,
            set_at: instruction.ip(),
            copied,
        };
        let of_register = || {
            let from = instruction.op1_register();
            (instruction.op1_kind() == OpKind::Register).then(|| from.full_register())
        };
        let constant = match instruction.code() {
            _ if !is_register => return None,
            Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_rm64_imm32 => {
                constant(instruction.immediate32(), None)
            }
            Code::Xor_r32_rm32 | Code::Xor_rm32_r32 if of_register() == Some(to) => {
                constant(0, None)
            }
            Code::Mov_r32_rm32 | Code::Mov_rm32_r32 | Code::Mov_r64_rm64 | Code::Mov_rm64_r64
                if to == Register::RAX =>
            {
                let from = of_register().filter(|from| from.is_gpr64() && *from != to)?;
                let known = self.known[from.number()].filter(|known| known.copied.is_none())?;
                constant(known.number, Some((from, known.set_at)))
            }
            _ => return None,
        };
        Some((to.number(), constant))
    }
}

/// Returns the code behind `set_at` in which `register` keeps what that instruction put there. `code` begins at `at`.
pub fn kept(code: &[u8], at: u64, register: Register, set_at: u64) -> Option<Kept> {
    let code = code.get(usize::try_from(set_at.checked_sub(at)?).ok()?..)?;
    let mut instructions = Decoder::with_ip(64, code, set_at, DecoderOptions::NONE).into_iter();
    let from = instructions.next()?.next_ip();
    let mut info = InstructionInfoFactory::new();
    let mut to = set_at;
    for instruction in instructions {
        let is_call = is_system_call(&instruction);
        let is_lost = match is_call {
            true => matches!(register, Register::RCX | Register::R11),
            false => writes(&mut info, &instruction, register.number()),
        };
        if is_lost || instruction.is_invalid() {
            break;
        }
        to = instruction.ip();
        if !is_call && instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    Some(Kept { from, to })
}

fn is_system_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Syscall
}

/// Whether an instruction may change any part of a register.
fn writes(info: &mut InstructionInfoFactory, instruction: &Instruction, register: usize) -> bool {
    let used = info.info(instruction).used_registers();
    used.iter().any(|used| {
        let full = used.register().full_register();
        full.is_gpr64()
            && full.number() == register
            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
    })
}
