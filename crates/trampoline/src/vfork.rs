//! Finds where `vfork` goes on in the child, and later in the parent: behind its system call. Used by `hooks::vforks`.
//!
//! Both return on the same stack, so libc keeps the return address in a register during the system call (glibc
//! `sysdeps/unix/sysv/linux/x86_64/vfork.S`, musl `src/process/x86_64/vfork.s`):
//!
//! ```text
//!   pop  %rdi
//!   mov  $58, %eax
//!   syscall
//!   push %rdi
//!   cmp  $-4095, %eax      ◄── here the stack is as at the entry; rax = 0, the child, or an error
//! ```

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
use wire::calls::special::VFORK;

/// Limit of instructions that are looked at; no known `vfork` has more before its system call.
const MOST: usize = 8;

/// Returns the address behind the system call of the `vfork` whose code begins at `entry`, or `None` if it has
/// another form.
pub fn goes_on(code: &[u8], entry: u64) -> Option<u64> {
    let decoder = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
    let mut kept = Register::None;
    let mut called = false;
    for instruction in decoder.into_iter().take(MOST) {
        match instruction.code() {
            Code::Endbr64 if kept == Register::None => {}
            Code::Pop_r64 if kept == Register::None => kept = instruction.op0_register(),
            Code::Syscall if kept != Register::None && !called => called = true,
            Code::Push_r64 if called && instruction.op0_register() == kept => {
                return Some(instruction.next_ip());
            }
            _ if kept != Register::None && !called && sets_number(&instruction) => {}
            _ => return None,
        }
    }
    None
}

/// Whether it puts the number of `vfork` into eax (`asm/unistd_64.h`).
fn sets_number(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Mov_r32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm32_imm32
    ) && instruction.op0_register() == Register::EAX
        && instruction.op1_kind() == OpKind::Immediate32
        && instruction.immediate(1) == VFORK
}

#[cfg(test)]
mod tests {
    use super::goes_on;
    use alloc::vec;

    #[test]
    fn what_libraries_have_is_known() {
        let glibc = [
            0x5f, 0xb8, 58, 0, 0, 0, 0x0f, 0x05, 0x57, 0x3d, 1, 0xf0, 0xff, 0xff,
        ];
        assert_eq!(goes_on(&glibc, 0x1000), Some(0x1009));
        let mut with_landing = vec![0xf3, 0x0f, 0x1e, 0xfa];
        with_landing.extend(glibc);
        assert_eq!(goes_on(&with_landing, 0x1000), Some(0x100d));
        let musl = [0x5a, 0xb8, 58, 0, 0, 0, 0x0f, 0x05, 0x52, 0x48, 0x89, 0xc7];
        assert_eq!(goes_on(&musl, 0x1000), Some(0x1009));
    }

    #[test]
    fn another_form_is_not() {
        // Another call; another register comes back; the stack is left alone.
        for code in [
            &[0x5f, 0xb8, 57, 0, 0, 0, 0x0f, 0x05, 0x57][..],
            &[0x5f, 0xb8, 58, 0, 0, 0, 0x0f, 0x05, 0x52],
            &[0xb8, 58, 0, 0, 0, 0x0f, 0x05, 0xc3],
            &[0x5f, 0xb8],
        ] {
            assert_eq!(goes_on(code, 0x1000), None, "{code:x?}");
        }
    }
}
