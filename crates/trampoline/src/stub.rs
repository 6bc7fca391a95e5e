//! Encodes stubs: the code that a patch jumps to. Used by `probe` and `inline`, and by the crates `hooks` and `patch`.
//!
//! Stubs of one module lie packed in an *island*, a mapping within 2 GiB of the module's code. Each belongs to one hook.
//!
//! ```text
//!   entry:     mov %r11,-16(%rsp)           below the stack pointer, where signals do not write (ABI 3.2.2)
//!              lea descriptor(%rip),%r11    or movabs, if it is far
//!              jmp routine                  or jmp *routine(%rip), if it is far
//!   original:  endbr64                      if the function has one: the routine comes by an indirect jump
//!              stolen instructions
//!              jmp patch_at + stolen
//! ```
//!
//! The stub of a function that is replaced has no routine: it begins with a jump to the replacement ([`Plan::replacement`]), and the
//! replacement calls `original` to run the function as it was.
//!
//! A probe in mid-function must leave every register, the flags and the 128 bytes below the stack pointer alone:
//!
//! ```text
//!   entry:     (stolen instructions before the probe)
//!              lea -128(%rsp),%rsp
//!              push %r11
//!              lea descriptor(%rip),%r11
//!              call routine                 returns to here, with all registers as they were
//!              pop %r11
//!              lea 128(%rsp),%rsp
//!              (stolen instructions from the probe on)
//!              jmp back
//! ```
//!
//! At a system call of which only the registers are wanted, the stub may do all the work itself first: `inline.rs`.
//!
//! A stub is never unmapped: a thread may still stand in it, or return into the routine, long after the hook was removed.

use alloc::vec::Vec;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use crate::plan::{Kind, Patch, Plan};
use crate::refusal::Refusal;
use crate::relocate::Relocated;

/// The addresses that a stub refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The routine's address in the agent.
    pub routine: u64,
    /// The descriptor's address: the agent's memory or the island's, anywhere.
    pub descriptor: u64,
}

/// A stub, encoded for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Where `bytes` go; the patch jumps here.
    pub at: u64,
    /// Machine code for address `at`, and for no other.
    pub bytes: Vec<u8>,
    /// What [`routine::Descriptor::original`] must be: the function as it was.
    pub original: u64,
    /// For each stolen instruction, its address and that of its copy; a thread stopped on the original is moved to the copy. The first
    /// instruction of an entry hook is mapped to the function's beginning, where the thread may stay: it has not been counted as a call
    /// yet.
    pub moves: Vec<(u64, u64)>,
}

/// A value of the time-stamp counter from which on a replaced function runs as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until(pub u64);

impl Until {
    /// Offset of the value in the stub's code, so that it can be overwritten.
    pub const AT: usize = 8;
}

/// Encodes a jump to any address.
fn jump_anywhere(at: u64, to: u64) -> Vec<u8> {
    match relative(at + 5, to) {
        Some(distance) => {
            let mut bytes = alloc::vec![0xe9];
            bytes.extend_from_slice(&distance.to_le_bytes());
            bytes
        }
        None => {
            let mut bytes = alloc::vec![0xff, 0x25, 0, 0, 0, 0];
            bytes.extend_from_slice(&to.to_le_bytes());
            bytes
        }
    }
}

/// Encodes a jump to `to` while the time-stamp counter is below `ticks`; from then on the code behind it runs. The two registers that
/// `rdtsc` changes may hold arguments; they are kept below the stack pointer, where signals do not write (ABI 3.2.2).
///
/// ```text
///   entry:   jmp over                    to behind the value, whose place does not depend on the rest
///   +8       .quad ticks
///   over:    mov %rax,-8(%rsp)
///            mov %rdx,-16(%rsp)
///            rdtsc
///            shl $32,%rdx
///            or %rdx,%rax
///            cmp ticks(%rip),%rax
///            mov -16(%rsp),%rdx          moves leave the flags alone
///            mov -8(%rsp),%rax
///            jae original
///            jmp replacement
///   original:
/// ```
fn jump_until(at: u64, to: u64, ticks: u64) -> Vec<u8> {
    let mut bytes = alloc::vec![0xeb, (Until::AT + 8 - 2) as u8];
    bytes.resize(Until::AT, 0x90);
    bytes.extend_from_slice(&ticks.to_le_bytes());
    bytes.extend_from_slice(&[
        0x48, 0x89, 0x44, 0x24, 0xf8, 0x48, 0x89, 0x54, 0x24, 0xf0, 0x0f, 0x31, 0x48, 0xc1, 0xe2,
        0x20, 0x48, 0x09, 0xd0, 0x48, 0x3b, 0x05,
    ]);
    let behind = bytes.len() as i32 + 4;
    bytes.extend_from_slice(&(Until::AT as i32 - behind).to_le_bytes());
    bytes.extend_from_slice(&[0x48, 0x8b, 0x54, 0x24, 0xf0, 0x48, 0x8b, 0x44, 0x24, 0xf8]);
    let jump = jump_anywhere(at + bytes.len() as u64 + 2, to);
    bytes.extend_from_slice(&[0x73, jump.len() as u8]);
    bytes.extend(jump);
    bytes
}

/// Limit of the bytes of an entry stub before `original`, with its `endbr64`.
const HEAD: usize = 5 + 10 + 6 + 8 + 4;

impl Plan {
    /// Returns the largest number of bytes that a stub of this plan has.
    pub fn most(&self) -> usize {
        HEAD + self.relocated.most()
    }

    /// Makes the stub for address `at`.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the code refers to places more than 2 GiB from there.
    pub fn stub(&self, at: u64, to: Destination) -> Result<Stub, Refusal> {
        self.behind(at, entry(at, to))
    }

    /// Makes the code for address `at` that leads to the function at `replacement` instead of this one, as by a jump: it changes no
    /// register and no byte of the stack. With [`Until`], this function itself runs from that time on.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the code refers to places more than 2 GiB from there.
    pub fn replacement(
        &self,
        at: u64,
        replacement: u64,
        until: Option<Until>,
    ) -> Result<Stub, Refusal> {
        let head = match until {
            None => jump_anywhere(at, replacement),
            Some(Until(ticks)) => jump_until(at, replacement, ticks),
        };
        self.behind(at, head)
    }

    /// Makes a stub of `head`, which is encoded for address `at`, followed by the function as it was.
    fn behind(&self, at: u64, mut bytes: Vec<u8>) -> Result<Stub, Refusal> {
        let original = at + bytes.len() as u64;
        if self.landing {
            bytes.extend_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa]);
        }
        let mut encoded = self.relocated.encode(at + bytes.len() as u64)?;
        bytes.append(&mut encoded.bytes);
        Ok(Stub {
            at,
            bytes,
            original,
            moves: encoded.moves,
        })
    }

    /// Returns the patches to the module in the order in which they must be written: the jump that callers reach comes last.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the stub is more than 2 GiB away.
    pub fn patches(&self, stub: u64) -> Result<Vec<Patch>, Refusal> {
        let patch = |at, old: &[u8], new| Patch {
            at,
            old: old.to_vec(),
            new,
        };
        match self.kind {
            Kind::Short { pad } => Ok(alloc::vec![
                patch(pad, &self.pad_bytes, long_jump(pad, stub)?),
                patch(
                    self.patch_at,
                    &self.bytes[..2],
                    short_jump(self.patch_at, pad)
                ),
            ]),
            _ => Ok(alloc::vec![patch(
                self.patch_at,
                &self.bytes[..5],
                long_jump(self.patch_at, stub)?
            )]),
        }
    }
}

/// Returns the distance from `next` to `to` if 32 bits hold it.
pub(crate) fn relative(next: u64, to: u64) -> Option<i32> {
    i32::try_from(to.wrapping_sub(next) as i64).ok()
}

/// Encodes the code before `original`, for address `at`: it saves r11 below the stack pointer, loads the descriptor's address and jumps to
/// the routine.
pub(crate) fn entry(at: u64, to: Destination) -> Vec<u8> {
    let mut bytes = alloc::vec![0x4c, 0x89, 0x5c, 0x24, 0xf0];
    load_descriptor(&mut bytes, at, to.descriptor);
    let place = at + bytes.len() as u64;
    match relative(place + 5, to.routine) {
        Some(distance) => {
            bytes.push(0xe9);
            bytes.extend_from_slice(&distance.to_le_bytes());
        }
        None => {
            bytes.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
            bytes.extend_from_slice(&to.routine.to_le_bytes());
        }
    }
    bytes
}

/// Encodes the five-byte jump to a stub.
pub(crate) fn long_jump(at: u64, stub: u64) -> Result<Vec<u8>, Refusal> {
    let distance = relative(at + 5, stub).ok_or(Refusal::OutOfReach)?;
    let mut jump = alloc::vec![0xe9];
    jump.extend_from_slice(&distance.to_le_bytes());
    Ok(jump)
}

/// Encodes the two-byte jump to a pad.
pub(crate) fn short_jump(at: u64, pad: u64) -> Vec<u8> {
    alloc::vec![0xeb, pad.wrapping_sub(at + 2) as u8]
}

/// Appends the instruction that loads the address `descriptor` into r11, to code that begins at `at`.
fn load_descriptor(bytes: &mut Vec<u8>, at: u64, descriptor: u64) {
    match relative(at + bytes.len() as u64 + 7, descriptor) {
        Some(distance) => {
            bytes.extend_from_slice(&[0x4c, 0x8d, 0x1d]);
            bytes.extend_from_slice(&distance.to_le_bytes());
        }
        None => {
            bytes.extend_from_slice(&[0x49, 0xbb]);
            bytes.extend_from_slice(&descriptor.to_le_bytes());
        }
    }
}

/// Assembles the stub of a probe: the instructions `made` between those stolen `before` and `after` it.
pub(crate) fn probe(before: &Relocated, after: &Relocated, made: &[Instruction]) -> Relocated {
    let mut whole = before.clone();
    whole.push(made);
    whole.append(after);
    whole
}

/// Returns the instructions that call the routine for each passing of a probe. `None` if they cannot be encoded.
pub(crate) fn asking(to: Destination) -> Option<Vec<Instruction>> {
    let lower = MemoryOperand::with_base_displ(Register::RSP, -128);
    let upper = MemoryOperand::with_base_displ(Register::RSP, 128);
    let made = [
        Instruction::with2(Code::Lea_r64_m, Register::RSP, lower),
        Instruction::with1(Code::Push_r64, Register::R11),
        Instruction::with2(Code::Mov_r64_imm64, Register::R11, to.descriptor),
        Instruction::with_branch(Code::Call_rel32_64, to.routine),
        Instruction::with1(Code::Pop_r64, Register::R11),
        Instruction::with2(Code::Lea_r64_m, Register::RSP, upper),
    ];
    made.into_iter().collect::<Result<_, _>>().ok()
}
