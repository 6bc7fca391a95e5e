//! Where a function makes system calls, and which. Used by crate `hooks`.
//!
//! The number is in eax (System V ABI, x86-64 supplement, A.2.1). Mostly an instruction just before puts it there, and then it is
//! the same at each execution (`constants`).

mod constants;
pub(crate) mod leavings;

pub use constants::Kept;

use alloc::vec::Vec;
use constants::{Constants, kept};

use iced_x86::{
    Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// A place where a function makes a system call: usually a `syscall` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address, or that of a `call` of a function that makes the system call ([`Site::called`]).
    pub at: u64,
    /// Address of the instruction behind it.
    pub next: u64,
    /// Address of the `syscall` instruction itself, also where the place is a call of its function.
    pub instruction: u64,
    /// The place calls a function that only makes a system call, with the number in rsi and the arguments in rdx, rcx, r8, r9 and on
    /// the stack: [`Unfit::Cancelled`].
    pub called: bool,
    /// The system call's number, if it is the same at each execution; this does not hold if code jumps to behind [`Site::set_at`].
    pub number: Option<u32>,
    /// Address of the instruction that sets the number, or of the function if none is known.
    pub set_at: u64,
    /// Where that instruction copies the number from a register: the range of code in which the register keeps it, unless code from
    /// outside jumps into that range. `None` = the instruction copies nothing.
    pub kept: Option<Kept>,
    /// Whether execution never goes on behind it with this number: `exit` and `exit_group`.
    pub ends: bool,
    /// Why there can be no probe around it.
    pub refused: Option<Unfit>,
}

/// Why there can be no probe around a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// `rt_sigreturn`: unwinders and debuggers know it by its bytes.
    #[error("it is the way back from signal handlers, which unwinders know by its bytes")]
    SignalReturn,
    /// musl's `__unmapself`: `munmap` of the thread's own stack, and `exit` behind it; both are refused.
    #[error("it is made on a stack that was just given away")]
    NoStack,
    /// The calls that a thread can be cancelled in: glibc's `__syscall_cancel_arch` (since 2.41), musl's
    /// `__syscall_cp_asm`.
    #[error("the C library cancels threads by whether they stand between its instructions")]
    Cancelled,
}

const MUNMAP: u32 = 11;
const RT_SIGRETURN: u32 = 15;
const EXIT: u32 = 60;
const EXIT_GROUP: u32 = 231;

/// Finds the system calls of a function with this code, which begins at `at`.
pub fn sites(code: &[u8], at: u64) -> Vec<Site> {
    let mut found: Vec<Site> = Vec::new();
    let mut constants = Constants::new();
    // Instructions since a flag was read, and whether the last one was a branch on it.
    let (mut since_flag, mut branched) = (usize::MAX, false);
    // The last `munmap`, if no instruction behind it has used the stack yet.
    let mut gave_away: Option<usize> = None;
    // Whether bytes were met that are no instruction.
    let mut holds_data = false;
    for instruction in Decoder::with_ip(64, code, at, DecoderOptions::NONE) {
        holds_data |= instruction.is_invalid();
        if instruction.mnemonic() == Mnemonic::Syscall {
            let behind = (instruction.next_ip() - at) as usize;
            if holds_data && runs_into_data(&code[behind..]) {
                constants.pass(&instruction);
                continue;
            }
            let known = constants.rax();
            let number = known.map(|known| known.number);
            let refused = match (number, gave_away) {
                (Some(RT_SIGRETURN), _) => Some(Unfit::SignalReturn),
                (Some(EXIT), Some(before)) => {
                    found[before].refused = Some(Unfit::NoStack);
                    Some(Unfit::NoStack)
                }
                (None, _) if branched => Some(Unfit::Cancelled),
                _ => None,
            };
            gave_away = (number == Some(MUNMAP)).then_some(found.len());
            let copied = known.and_then(|known| known.copied);
            found.push(Site {
                at: instruction.ip(),
                next: instruction.next_ip(),
                instruction: instruction.ip(),
                called: false,
                number,
                set_at: known.map_or(at, |known| known.set_at),
                kept: copied.and_then(|(register, set_at)| kept(code, at, register, set_at)),
                ends: matches!(number, Some(EXIT | EXIT_GROUP)),
                refused,
            });
            constants.pass(&instruction);
            continue;
        }
        if instruction.flow_control() != FlowControl::Next || uses_stack(&instruction) {
            gave_away = None;
        }
        since_flag = if is_cancel_check(&instruction) {
            0
        } else {
            since_flag.saturating_add(1)
        };
        if instruction.flow_control() != FlowControl::Next {
            let conditional = instruction.flow_control() == FlowControl::ConditionalBranch;
            branched = conditional && since_flag <= 2;
        }
        constants.pass(&instruction);
    }
    found
}

/// Whether straight-line code meets bytes that are no instruction before it branches. Tables of numbers within the text (OpenSSL's
/// for elliptic curves) hold the bytes of a `syscall` by chance. They cannot be code, because a thread that ran them would be
/// killed, and a patch would corrupt the table.
pub fn runs_into_data(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return decoder.last_error() == DecoderError::InvalidInstruction;
        }
        let is_straight = instruction.flow_control() == FlowControl::Next;
        if !is_straight && instruction.mnemonic() != Mnemonic::Syscall {
            return false;
        }
    }
    false
}

/// Whether an instruction begins at address `wanted` of a function whose code begins at `at`.
pub fn begins(code: &[u8], at: u64, wanted: u64) -> bool {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    while decoder.can_decode() && decoder.ip() < wanted {
        let _ = decoder.decode();
    }
    decoder.ip() == wanted
}

/// Whether execution comes from the first to behind the last instruction of this code without a call, a return or a jump that is always
/// taken. Where that is the code from a function's beginning to its system call, whoever calls the function makes that system call.
pub fn leads_straight(code: &[u8], at: u64) -> bool {
    let mut instructions = Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter();
    instructions.all(|instruction| {
        let flow = instruction.flow_control();
        !instruction.is_invalid()
            && matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch)
    })
}

fn uses_stack(instruction: &Instruction) -> bool {
    instruction.is_stack_instruction() || instruction.memory_base() == Register::RSP
}

/// Whether it is the test of a cancellation flag. glibc's `__syscall_cancel_arch` (sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S,
/// 2.41) and musl's `__syscall_cp_asm` test a flag that their first argument points to, and jump away if it is set. Their signal
/// handler decides by whether the thread is between that test and the system call, so no instruction of this range may run
/// elsewhere.
fn is_cancel_check(instruction: &Instruction) -> bool {
    let by_memory = instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RDI
        && instruction.memory_displacement64() == 0
        && instruction.memory_index() == Register::None;
    let loads = instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_register() == Register::EAX
        && instruction.op1_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RDI
        && instruction.memory_displacement64() == 0;
    loads || (by_memory && matches!(instruction.mnemonic(), Mnemonic::Test | Mnemonic::Cmp))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> Vec<Site> {
        sites(code, 0x1000)
    }

    #[test]
    fn a_number_is_what_was_put_into_eax_last() {
        // mov $39,%eax; syscall; mov %eax,%edx; syscall; xor %eax,%eax; syscall
        let code = [
            0xb8, 39, 0, 0, 0, 0x0f, 5, 0x89, 0xc2, 0x0f, 5, 0x31, 0xc0, 0x0f, 5,
        ];
        let numbers: Vec<_> = of(&code)
            .iter()
            .map(|site| (site.at, site.number))
            .collect();
        assert_eq!(
            numbers,
            [(0x1005, Some(39)), (0x1009, None), (0x100d, Some(0))]
        );
        // Another path leads there: mov $39,%eax; je +0; mov %rdi,%rax; syscall
        let code = [0xb8, 39, 0, 0, 0, 0x74, 0, 0x48, 0x89, 0xf8, 0x0f, 5];
        assert_eq!(of(&code)[0].number, None);
    }

    #[test]
    fn a_number_is_followed_through_one_copy() {
        let copied = |code: &[u8]| of(code).last().map(|site| (site.number, site.kept));
        let kept = |from, to| Some(Kept { from, to });
        // glibc: mov $60,%edx; loop: xor %edi,%edi; mov %edx,%eax; syscall; jmp loop
        let code = [
            0xba, 60, 0, 0, 0, 0x31, 0xff, 0x89, 0xd0, 0x0f, 5, 0xeb, 0xf8,
        ];
        let site = of(&code)[0];
        assert_eq!((site.number, site.ends), (Some(60), true));
        assert_eq!((site.set_at, site.kept), (0x1007, kept(0x1005, 0x100b)));
        // The code ends where the register is given something else: … syscall; xor %edx,%edx; jmp loop
        let lost = [
            0xba, 60, 0, 0, 0, 0x31, 0xff, 0x89, 0xd0, 0x0f, 5, 0x31, 0xd2, 0xeb, 0xf6,
        ];
        assert_eq!(copied(&lost), Some((Some(60), kept(0x1005, 0x1009))));
        // The kernel changes rcx: mov $39,%ecx; mov %ecx,%eax; syscall; jmp
        let clobbered = [0xb9, 39, 0, 0, 0, 0x89, 0xc8, 0x0f, 5, 0xeb, 0xf8];
        assert_eq!(copied(&clobbered), Some((Some(39), kept(0x1005, 0x1005))));
        for code in [
            // mov $39,%edx; mov (%rsp),%dl; mov %edx,%eax; syscall
            &[0xba, 39, 0, 0, 0, 0x8a, 0x14, 0x24, 0x89, 0xd0, 0x0f, 5][..],
            // mov $39,%edx; call +0; mov %edx,%eax; syscall
            &[0xba, 39, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x89, 0xd0, 0x0f, 5],
            // mov $39,%ecx; syscall; mov %ecx,%eax; syscall
            &[0xb9, 39, 0, 0, 0, 0x0f, 5, 0x89, 0xc8, 0x0f, 5],
            // mov $39,%edx; mov (%rdx),%eax; syscall
            &[0xba, 39, 0, 0, 0, 0x8b, 0x02, 0x0f, 5],
        ] {
            assert_eq!(copied(code), Some((None, None)), "{code:x?}");
        }
    }

    #[test]
    fn bytes_of_a_table_are_no_system_call() {
        // From the table of P-256 in libcrypto.so.3: syscall; or %esp,%esi; xchg %eax,%edx; no instruction
        let table = [0x0f, 5, 0x09, 0xe6, 0x92, 0xc6, 0xa8, 0x8f];
        let among = [&[0x06, 0x90][..], &table].concat();
        assert!(of(&among).is_empty());
        // Data behind `exit` are not reached: nothing before it says that it is no code.
        assert_eq!(of(&table).len(), 1);
        // Data before, and code behind: no instruction; syscall; ret
        assert_eq!(of(&[0x06, 0x90, 0x0f, 5, 0xc3]).len(), 1);
        // A text that ends with it.
        assert_eq!(of(&[0x06, 0x90, 0x0f, 5, 0x8b]).len(), 1);
    }

    #[test]
    fn those_that_cannot_bear_a_probe_are_known() {
        // mov $15,%rax; syscall
        let back = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5];
        assert_eq!(of(&back)[0].refused, Some(Unfit::SignalReturn));
        // musl: mov $11,%eax; syscall; xor %rdi,%rdi; mov $60,%eax; syscall
        let unmap = [
            0xb8, 11, 0, 0, 0, 0x0f, 5, 0x48, 0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 5,
        ];
        assert!(
            of(&unmap)
                .iter()
                .all(|site| site.refused == Some(Unfit::NoStack))
        );
        // glibc 2.41: mov (%rdi),%eax; test $8,%al; jne +0; mov %rsi,%rax; syscall
        let cancel = [0x8b, 0x07, 0xa8, 8, 0x75, 0, 0x48, 0x89, 0xf0, 0x0f, 5];
        assert_eq!(of(&cancel)[0].refused, Some(Unfit::Cancelled));
    }
}
