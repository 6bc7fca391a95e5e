//! Plans a hook at a function's entry: which instructions are stolen, or why it cannot be hooked. Used by `probe`,
//! `stub` and others here, and by the crates `hooks` and `patch`.
//!
//! The patch is `jmp rel32`, five bytes. The instructions it overwrites are *stolen*: they run in the stub, relocated, and
//! the stub jumps back behind them.
//!
//! ```text
//!   function:  endbr64            stays: indirect calls must land on it
//!   patch_at:  jmp stub           was: push rbp; mov rsp,rbp; sub $16,%rsp
//!              (rest of the last stolen instruction, never run)
//!              …                  ◄── the stub jumps back to here
//! ```
//!
//! Room for the jump is found in four ways, tried in this order ([`Kind`]): the function has five bytes; it is shorter, but padding
//! follows; two of its bytes hold a short jump to padding near by, which holds the long jump; the whole function is copied into the stub,
//! for leaf functions with a loop to their first instruction.
//!
//! A stolen `call` would leave a return address in the stub, which no unwinder knows. It becomes `push` of the address behind the call in the
//! function and `jmp`: the callee returns into the function itself. The return predictor misses once; shadow stacks
//! would object, so where the process has them such a function is refused.
//!
//! # How the patch is written
//!
//! The patch is written by one `pwrite` to `/proc/PID/mem` while every thread of the guest is stopped. No processor runs the bytes then,
//! and each passes through the kernel, which serialises it, before it does. What remains is that lancet is killed while it writes: a write
//! within one page is one copy in the kernel and no signal can cut it. A write over two pages is two copies, so a patch that crosses a page
//! boundary is refused ([`Refusal::PageCrossing`]).

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::pads::{Pads, crosses_page, padding};
use crate::refusal::Refusal;
use crate::relocate::Relocated;
use crate::targets::{Branch, Targets};

/// A function as it stands in memory.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// Address of its first byte, an `endbr64` included.
    pub entry: u64,
    /// Its bytes, and those behind it up to the next known function.
    pub code: &'a [u8],
    /// How many of them are its own, by the symbol's size. 0 or too large: all.
    pub size: usize,
}

/// What the process allows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Threads have shadow stacks (`x86_Thread_features: shstk` in `/proc/PID/status`).
    pub shadow_stack: bool,
}

/// How room was found for the jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Five bytes of the function.
    Long,
    /// The function is shorter; padding after it is used.
    Padded,
    /// A short jump to padding, which holds the long jump.
    Short {
        /// Address of the long jump.
        pad: u64,
    },
    /// As `Long`, but the stub holds the whole function.
    Whole,
}

/// A hook that can be set.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Address of the function's first byte, an `endbr64` included.
    pub entry: u64,
    /// Where the patch begins: behind an `endbr64`.
    pub patch_at: u64,
    /// Bytes from `patch_at` that the stub runs in their place.
    pub stolen: usize,
    /// How room for the jump was found.
    pub kind: Kind,
    /// Whether the function begins with `endbr64`.
    pub(crate) landing: bool,
    /// From `patch_at`, at least as many as the patch has.
    pub(crate) bytes: Vec<u8>,
    /// The bytes that the pad held.
    pub(crate) pad_bytes: [u8; 5],
    pub(crate) relocated: Relocated,
}

/// Bytes to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Address of the first byte to be replaced.
    pub at: u64,
    /// What must stand there now; what is written to take the hook back.
    pub old: Vec<u8>,
    /// What is written: as many bytes as `old` has.
    pub new: Vec<u8>,
}

/// Longest function that is copied whole.
const LONGEST_WHOLE: usize = 512;

/// Decides how `function` is hooked.
///
/// `targets` are those of the whole module, `pads` its padding, from which the plan takes what it uses.
///
/// # Errors
/// Returns what could not be proven.
pub fn plan(
    function: &Function<'_>,
    targets: &Targets,
    pads: &mut Pads,
    options: Options,
) -> Result<Plan, Refusal> {
    let size = match function.size {
        0 => function.code.len(),
        size => size.min(function.code.len()),
    };
    let landing = function.code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]);
    let skipped = if landing { 4 } else { 0 };
    let place = Place {
        entry: function.entry,
        at: function.entry + skipped as u64,
        code: &function.code[skipped..],
        size: size.saturating_sub(skipped),
        targets,
        options,
    };
    let found = |theft: Theft, kind, relocated, pad_bytes| Plan {
        entry: function.entry,
        patch_at: place.at,
        stolen: theft.length,
        kind,
        landing,
        bytes: place.code[..theft.length.max(theft.width)].to_vec(),
        pad_bytes,
        relocated,
    };
    let first = match place.steal(5, pads) {
        Ok((theft, relocated)) => {
            let kind = if theft.width > theft.length {
                Kind::Padded
            } else {
                Kind::Long
            };
            return Ok(found(theft, kind, relocated, [0; 5]));
        }
        // The other ways do not help against these refusals.
        Err(
            refusal @ (Refusal::Undecodable
            | Refusal::Breakpoint
            | Refusal::Immovable
            | Refusal::ShadowStack),
        ) => return Err(refusal),
        Err(refusal) => refusal,
    };
    if let Ok((theft, relocated)) = place.steal(2, pads)
        && let Some((pad, bytes)) = pads.take_near(place.at)
    {
        return Ok(found(theft, Kind::Short { pad }, relocated, bytes));
    }
    if first == Refusal::BranchInto
        && let Some((theft, relocated)) = place.whole()
    {
        return Ok(found(theft, Kind::Whole, relocated, [0; 5]));
    }
    Err(first)
}

/// A function without its `endbr64`.
struct Place<'a> {
    entry: u64,
    at: u64,
    /// The bytes from `at` up to the next known function: more than `size` if padding follows.
    code: &'a [u8],
    size: usize,
    targets: &'a Targets,
    options: Options,
}

/// How many bytes the patch overwrites, and how many the stub runs in their place.
struct Theft {
    width: usize,
    length: usize,
}

impl Place<'_> {
    /// Steals whole instructions until `width` bytes are free.
    fn steal(&self, width: usize, pads: &mut Pads) -> Result<(Theft, Relocated), Refusal> {
        let mut decoder = Decoder::with_ip(64, self.code, self.at, DecoderOptions::NONE);
        let mut stolen: Vec<Instruction> = Vec::new();
        let mut length = 0;
        let mut ended = false;
        while length < width && !ended {
            if !decoder.can_decode() || length >= self.size {
                return Err(if self.code.len() < width {
                    Refusal::TooShort
                } else {
                    Refusal::RunsOn
                });
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Err(Refusal::Undecodable);
            }
            length += instruction.len();
            movable(&instruction, length, width)?;
            ended = ends(&instruction);
            stolen.push(instruction);
        }
        if self.jumped_into(width, length) {
            return Err(Refusal::BranchInto);
        }
        self.is_code_only(width)?;
        if crosses_page(self.at, width as u64) {
            return Err(Refusal::PageCrossing);
        }
        let calls = stolen
            .iter()
            .any(|instruction| instruction.mnemonic() == Mnemonic::Call);
        if calls && self.options.shadow_stack {
            return Err(Refusal::ShadowStack);
        }
        let relocated = Relocated::of(&stolen, !ended)?;
        if length < width {
            let rest = self.code.get(length..).unwrap_or_default();
            let missing = width - length;
            let from = self.at + length as u64;
            if padding(rest, from) < missing || !pads.take(from..self.at + width as u64) {
                return Err(Refusal::TooShort);
            }
        }
        Ok((Theft { width, length }, relocated))
    }

    /// Whether code jumps to where the patch will be. A caller's jump to the first byte and jumps of the stolen code itself do not count.
    fn jumped_into(&self, width: usize, length: usize) -> bool {
        let own = self.entry..self.at + self.size as u64;
        let stolen = self.at..self.at + length as u64;
        self.targets
            .within(self.entry..self.at + width as u64)
            .iter()
            .any(|branch| {
                if stolen.contains(&branch.source) {
                    // Branches are led to the copies. Calls are not, and no branch is led to an `endbr64`, which stays.
                    return if branch.call {
                        branch.target > self.at
                    } else {
                        branch.target < self.at
                    };
                }
                let inside = branch.target > self.at
                    || (branch.target > self.entry && branch.target < self.at);
                inside || (!branch.call && own.contains(&branch.source))
            })
    }

    /// Refuses if code takes the address of one of the patch's bytes other than the first, or uses them as data: the patch changes these
    /// bytes, and the copies stand elsewhere.
    fn is_code_only(&self, width: usize) -> Result<(), Refusal> {
        let patch = self.at..self.at + width as u64;
        if self.targets.is_taken(patch.start + 1..patch.end) {
            return Err(Refusal::AddressTaken);
        }
        if self.targets.is_data(patch) {
            Err(Refusal::ReadAsData)
        } else {
            Ok(())
        }
    }

    /// Steals the whole function, if it is a leaf and no other code jumps into it.
    fn whole(&self) -> Option<(Theft, Relocated)> {
        let code = self.code.get(..self.size)?;
        if code.len() > LONGEST_WHOLE || code.len() < 5 || crosses_page(self.at, 5) {
            return None;
        }
        let mut decoder = Decoder::with_ip(64, code, self.at, DecoderOptions::NONE);
        let mut all = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let leaf = match instruction.flow_control() {
                FlowControl::Next
                | FlowControl::Return
                | FlowControl::ConditionalBranch
                | FlowControl::UnconditionalBranch
                | FlowControl::Exception => true,
                FlowControl::Call => instruction.mnemonic() == Mnemonic::Syscall,
                _ => false,
            };
            if instruction.is_invalid() || !leaf || instruction.code() == Code::Int3 {
                return None;
            }
            all.push(instruction);
        }
        let own = self.entry..self.at + self.size as u64;
        let others: Range<u64> = self.at + 1..own.end;
        let alone = self
            .targets
            .within(others)
            .iter()
            .all(|branch| own.contains(&branch.source));
        let last = all.last()?;
        self.is_code_only(5).ok()?;
        // A loop to an `endbr64`, which stays in the function, would pass the hook at each turn.
        let restarts = |branch: &Branch| !branch.call && own.contains(&branch.source);
        let before = self.targets.within(self.entry..self.at);
        if before.iter().any(restarts) {
            return None;
        }
        if !alone || !(ends(last) || last.mnemonic() == Mnemonic::Nop) {
            return None;
        }
        let relocated = Relocated::of(&all, false).ok()?;
        Some((
            Theft {
                width: 5,
                length: self.size,
            },
            relocated,
        ))
    }
}

/// Whether execution never goes on behind this instruction.
pub(crate) fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    ) || matches!(
        instruction.mnemonic(),
        Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 | Mnemonic::Hlt
    )
}

/// Checks whether the stub can run the instruction instead of the function. `length` is the number of bytes from the patch's first byte to
/// the instruction's end.
pub(crate) fn movable(
    instruction: &Instruction,
    length: usize,
    width: usize,
) -> Result<(), Refusal> {
    match instruction.flow_control() {
        FlowControl::XbeginXabortXend => Err(Refusal::Immovable),
        FlowControl::Interrupt if instruction.code() == Code::Int3 => Err(Refusal::Breakpoint),
        FlowControl::Call | FlowControl::IndirectCall
            if instruction.mnemonic() == Mnemonic::Call && length < width =>
        {
            Err(Refusal::CallWithin)
        }
        _ if instruction.is_jmp_far()
            || instruction.is_jmp_far_indirect()
            || instruction.is_call_far()
            || instruction.is_call_far_indirect() =>
        {
            Err(Refusal::Immovable)
        }
        _ => Ok(()),
    }
}
