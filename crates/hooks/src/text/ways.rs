//! The instructions that enter the kernel, as bytes: `syscall`, and the ways of 32-bit code, which 64-bit code can use too.
//! Used by `syscall_sites`, and by `calls::live::unseen`.
//!
//! Every occurrence of these bytes in executable memory is accounted for: it is an instruction that is hooked, one that cannot be
//! hooked, or bytes of something else, which only a proven function or the decoding of what follows can show.

use super::Text;
use crate::wanted::Reason;
use memchr::memmem;
use process::functions::ModuleSymbols;
use process::memory::GuestMemory;
use std::ops::Range;
use trampoline::system_call::{begins, runs_into_data};
use vm::Memory;

/// Bytes of each of these instructions.
pub(super) const LENGTH: u64 = 2;

/// A way into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The one of 64-bit code.
    Syscall,
    /// `int $0x80`: system calls of 32 bits.
    Interrupt,
    /// `sysenter`, likewise.
    Sysenter,
}

impl Way {
    const ALL: [(Self, [u8; 2]); 3] = [
        (Way::Syscall, [0x0f, 0x05]),
        (Way::Interrupt, [0xcd, 0x80]),
        (Way::Sysenter, [0x0f, 0x34]),
    ];

    /// Why a place that enters the kernel so is not hooked.
    fn why_not(self) -> Reason {
        match self {
            Way::Syscall => Reason::NotProven,
            Way::Interrupt => Reason::Of32Bits("int $0x80"),
            Way::Sysenter => Reason::Of32Bits("sysenter"),
        }
    }

    /// Returns where the bytes of an instruction of this kind occur in code at `at`.
    pub fn occurrences(self, code: &[u8], at: u64) -> Vec<u64> {
        let (_, bytes) = Self::ALL[self as usize];
        let found = memmem::find_iter(code, &bytes);
        found.map(|offset| at + offset as u64).collect()
    }
}

/// Whether bytes of an instruction that enters the kernel occur in code.
pub fn may_enter_kernel(code: &[u8]) -> bool {
    let mut ways = Way::ALL.iter();
    ways.any(|(_, bytes)| memmem::find(code, bytes).is_some())
}

/// Whether the code in a range has to be decoded: bytes of a `syscall` occur in it, or those of another way that are not proven to be
/// part of something else. It is read piece by piece, because the process decides how long it is.
pub(super) fn are_in(place: &ModuleSymbols, memory: &GuestMemory, range: &Range<u64>) -> bool {
    const PIECE: u64 = 1 << 20;
    let mut piece = vec![0; (PIECE + LENGTH - 1) as usize];
    (range.start..range.end).step_by(PIECE as usize).any(|at| {
        let length = (range.end - at).min(piece.len() as u64) as usize;
        let piece = &mut piece[..length];
        memory.read_bytes(at, piece).is_ok()
            && (!Way::Syscall.occurrences(piece, at).is_empty()
                || [Way::Interrupt, Way::Sysenter].iter().any(|way| {
                    let mut found = way.occurrences(piece, at).into_iter();
                    found.any(|at| !is_part_by_rules(place, memory, at))
                }))
    })
}

/// Whether unwinding rules show that no instruction begins at an address.
fn is_part_by_rules(place: &ModuleSymbols, memory: &GuestMemory, at: u64) -> bool {
    const LONGEST: u64 = 1 << 20;
    let Some(function) = place.module.function_at(at, memory) else {
        return false;
    };
    let size = (function.end - function.start).min(LONGEST);
    let mut code = vec![0; size as usize];
    memory.read(function.start, &mut code).is_ok() && !begins(&code, function.start, at)
}

impl Text {
    /// Returns the places at which this code may enter the kernel in a way that no hook sees: `syscall` instructions in no proven
    /// function, and every `int $0x80` and `sysenter` that is not shown to be part of something else.
    pub(super) fn without_hook(
        &mut self,
        place: &ModuleSymbols,
        memory: &GuestMemory,
    ) -> Vec<(u64, Reason)> {
        let mut found = Vec::new();
        for (way, _) in Way::ALL {
            for at in way.occurrences(&self.code, self.at) {
                let behind = (at - self.at + LENGTH) as usize;
                let is_own = way == Way::Syscall && self.is_signal_return(at);
                if is_own || runs_into_data(&self.code[behind..]) {
                    continue;
                }
                match self.function_around(place, memory, at) {
                    // `sites` finds these.
                    Some(_) if way == Way::Syscall => {}
                    Some(function) => {
                        if begins(self.slice(&function), function.start, at) {
                            found.push((at, way.why_not()));
                        }
                    }
                    None if self.extents.described => {}
                    None => found.push((at, Reason::NotProven)),
                }
            }
        }
        found
    }
}
