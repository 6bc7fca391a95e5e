//! Decides whether any code reads what a system call leaves behind beside its result. Used by `probe`.
//!
//! The `syscall` instruction puts the address behind it into rcx and the flags into r11 (Intel SDM 2, SYSCALL); the flags themselves
//! pass through the kernel unchanged. Compilers know that all three are lost. So code behind a system call mostly overwrites them
//! before it reads them, or returns. Where that is proven here, the inline stub may use these registers without saving them, and
//! needs no byte of the stack; elsewhere every register is saved.
//!
//! At a `ret`, a `call` and a jump out of the function they count as unread: no calling convention passes anything in flags, or in
//! rcx and r11 as the kernel leaves them. Callers that know which registers a function changes (`-fipa-ra`) know that the system call
//! changes these.

use alloc::vec::Vec;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, RflagsBits,
};

/// Limit of instructions that are followed.
const MOST: usize = 64;

/// The flags that arithmetic changes; our code changes no others.
const FLAGS: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// What may still hold the value that the system call left.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Left {
    rcx: bool,
    r11: bool,
    flags: u32,
}

impl Left {
    fn is_nothing(self) -> bool {
        !self.rcx && !self.r11 && self.flags == 0
    }
}

/// Whether no code reads rcx, r11 or the arithmetic flags as the system call that ends at `next` leaves them. `code` begins at `at`
/// and is that of one function.
pub fn are_free(code: &[u8], at: u64, next: u64) -> bool {
    let mut info = InstructionInfoFactory::new();
    let all = Left {
        rcx: true,
        r11: true,
        flags: FLAGS,
    };
    let mut open = alloc::vec![(next, all)];
    let mut done: Vec<(u64, Left)> = Vec::new();
    while let Some((ip, left)) = open.pop() {
        if left.is_nothing() || done.contains(&(ip, left)) {
            continue;
        }
        if done.len() == MOST {
            return false;
        }
        done.push((ip, left));
        let bytes = ip
            .checked_sub(at)
            .and_then(|offset| code.get(offset as usize..));
        let Some(bytes) = bytes else {
            return false;
        };
        let instruction = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return false;
        }
        let Some(left) = behind(&instruction, left, &mut info) else {
            return false;
        };
        let within = |to: u64| to.wrapping_sub(at) < code.len() as u64;
        match instruction.flow_control() {
            // To iced-x86 a system call is a call.
            _ if instruction.mnemonic() == Mnemonic::Syscall => {
                open.push((instruction.next_ip(), left));
            }
            FlowControl::Next => open.push((instruction.next_ip(), left)),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                if instruction.op0_kind() != OpKind::NearBranch64 {
                    return false;
                }
                let to = instruction.near_branch_target();
                if within(to) {
                    open.push((to, left));
                }
                if instruction.flow_control() == FlowControl::ConditionalBranch {
                    open.push((instruction.next_ip(), left));
                }
            }
            FlowControl::Return
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::Exception => {}
            _ => return false,
        }
    }
    true
}

/// Returns what still holds the system call's value behind an instruction; `None` = the instruction reads such a value.
fn behind(
    instruction: &Instruction,
    mut left: Left,
    info: &mut InstructionInfoFactory,
) -> Option<Left> {
    if instruction.mnemonic() == Mnemonic::Syscall {
        // Now r11 holds the flags again.
        return Some(Left {
            rcx: false,
            r11: left.flags != 0,
            ..left
        });
    }
    if instruction.rflags_read() & left.flags != 0 {
        return None;
    }
    // With the same register twice, its old value does not matter.
    let is_zeroed = matches!(instruction.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register();
    for used in info.info(instruction).used_registers() {
        let of = match used.register().full_register() {
            Register::RCX => &mut left.rcx,
            Register::R11 => &mut left.r11,
            _ => continue,
        };
        let whole = used.register().size() >= 4;
        match used.access() {
            OpAccess::None | OpAccess::NoMemAccess | OpAccess::CondWrite => {}
            OpAccess::Write if whole => *of = false,
            OpAccess::Write => {}
            OpAccess::ReadWrite if is_zeroed && whole => *of = false,
            _ if *of => return None,
            _ => {}
        }
    }
    // With a count of 0 in rcx, a repeated instruction changes nothing.
    let may_keep = instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
        || instruction.op_count() > 1 && instruction.op1_register() == Register::CL;
    if !may_keep {
        left.flags &= !instruction.rflags_modified();
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::are_free;

    /// Code that begins with the system call.
    fn free_behind(code: &[u8]) -> bool {
        are_free(code, 0x1000, 0x1002)
    }

    #[test]
    fn what_libraries_do_behind_a_system_call_is_proven() {
        for code in [
            // ret
            &[0x0f, 5, 0xc3][..],
            // cmp $-4095,%rax; jae +1; ret; mov 0x0(%rip),%rcx; neg %eax; mov %eax,%fs:(%rcx); ret
            &[
                0x0f, 5, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff, 0x73, 1, 0xc3, 0x48, 0x8b, 0x0d, 0, 0, 0,
                0, 0xf7, 0xd8, 0x64, 0x89, 0x01, 0xc3,
            ],
            // mov %eax,%edx; xor %ecx,%ecx; mov $1,%r11d; test %edx,%edx; je back to the mov
            &[
                0x0f, 5, 0x89, 0xc2, 0x31, 0xc9, 0x41, 0xbb, 1, 0, 0, 0, 0x85, 0xd2, 0x74, 0xf2,
                0xc3,
            ],
            // jmp to another function
            &[0x0f, 5, 0xe9, 0, 1, 0, 0],
            // A loop: test %eax,%eax; syscall; jmp to the first
            &[0x0f, 5, 0x85, 0xc0, 0x0f, 5, 0xeb, 0xf8],
        ] {
            assert!(free_behind(code), "{code:x?}");
        }
    }

    #[test]
    fn what_is_read_or_not_known_is_not() {
        for code in [
            // je: the flags of before the system call
            &[0x0f, 5, 0x74, 0, 0xc3][..],
            // mov %rcx,%rdx; ret
            &[0x0f, 5, 0x48, 0x89, 0xca, 0xc3],
            // mov %r11,%rdx; ret
            &[0x0f, 5, 0x4c, 0x89, 0xda, 0xc3],
            // pushf; ret
            &[0x0f, 5, 0x9c, 0xc3],
            // mov $1,%cl; mov %ecx,%eax: the rest of it is as the kernel left it
            &[0x0f, 5, 0xb1, 1, 0x89, 0xc8, 0xc3],
            // syscall; mov %r11,%rdx: the flags again
            &[0x0f, 5, 0x0f, 5, 0x4c, 0x89, 0xda, 0xc3],
            // inc %eax; jc: the carry is left alone
            &[0x0f, 5, 0xff, 0xc0, 0x72, 0, 0xc3],
            // jmp *%rax
            &[0x0f, 5, 0xff, 0xe0],
            // The code ends.
            &[0x0f, 5, 0x90],
        ] {
            assert!(!free_behind(code), "{code:x?}");
        }
    }
}
