//! The other side of a call: not the function is changed but those who call it, in one module.
//!
//! "Only the calls that libmysqlclient makes" was ltrace's way in 2009 (`-g` with the PLT of one library). Calls within a module are
//! `call rel32` or `jmp rel32` (also `jcc rel32`, for tail calls under a condition), whose operand is rewritten. Calls out of it read the
//! function's address from a slot of the module's GOT, through the PLT or not; the slot is rewritten. Both lead to a stub
//! of the island that has nothing of the function in it:
//!
//! ```text
//!   stub:   mov %r11,-16(%rsp);  lea descriptor(%rip),%r11;  jmp routine        descriptor.original = the function itself
//! ```
//!
//! Not found are calls through pointers taken earlier, and an operand that lies in two pages is left out, with the count
//! ([`Calls::unwritable`]). A slot that is not bound yet (lazy binding) may be rewritten; but a thread that is within the resolver for it will
//! overwrite it once: look again at the next stop.

use alloc::vec::Vec;

use iced_x86::{FlowControl, OpKind};

use crate::pads::crosses_page;
use crate::plan::Patch;
use crate::refusal::Refusal;
use crate::stub::{Destination, entry, relative};
use crate::targets::decode;

/// Calls of one function in a module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Addresses of 4-byte operands, relative to what follows them.
    pub operands: Vec<u64>,
    /// Calls whose operand cannot be written at once.
    pub unwritable: usize,
}

impl Calls {
    /// Of `target`, in the text `code` at `at`; `starts` as for [`Targets::of`](crate::Targets::of).
    pub fn of(code: &[u8], at: u64, starts: &[u64], target: u64) -> Self {
        let mut calls = Self::default();
        decode(code, at, starts, |instruction| {
            let branch = matches!(
                instruction.flow_control(),
                FlowControl::Call
                    | FlowControl::UnconditionalBranch
                    | FlowControl::ConditionalBranch
            );
            if !branch
                || instruction.op0_kind() != OpKind::NearBranch64
                || instruction.near_branch_target() != target
                || instruction.len() < 5
            {
                return;
            }
            let operand = instruction.next_ip() - 4;
            if crosses_page(operand, 4) {
                calls.unwritable += 1;
            } else {
                calls.operands.push(operand);
            }
        });
        calls
    }

    /// What to write so that they lead to `stub`.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if one of them is more than 2 GiB away.
    pub fn patches(&self, target: u64, stub: u64) -> Result<Vec<Patch>, Refusal> {
        let distance = |operand: u64, to| relative(operand + 4, to).ok_or(Refusal::OutOfReach);
        self.operands
            .iter()
            .map(|&operand| {
                Ok(Patch {
                    at: operand,
                    old: distance(operand, target)?.to_le_bytes().to_vec(),
                    new: distance(operand, stub)?.to_le_bytes().to_vec(),
                })
            })
            .collect()
    }
}

/// Addresses of aligned words with the value `target` in `data` at `at`: slots that are bound, where relocations are unknown.
pub fn slots(data: &[u8], at: u64, target: u64) -> Vec<u64> {
    let skipped = (at.next_multiple_of(8) - at) as usize;
    let words = data.get(skipped..).unwrap_or_default().chunks_exact(8);
    words
        .enumerate()
        .filter(|(_, word)| **word == target.to_le_bytes())
        .map(|(index, _)| at + (skipped + index * 8) as u64)
        .collect()
}

/// What to write into the slot at `slot`, which holds `now`, so that it leads to `stub`.
pub fn slot(slot: u64, now: u64, stub: u64) -> Patch {
    Patch {
        at: slot,
        old: now.to_le_bytes().to_vec(),
        new: stub.to_le_bytes().to_vec(),
    }
}

/// The stub for address `at`.
pub fn stub(at: u64, to: Destination) -> Vec<u8> {
    entry(at, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_tail_calls_are_found_and_led_elsewhere() {
        // call f; je f; jmp f (short); jmp f; call g
        let code = [
            0xe8, 0xfb, 0x0f, 0, 0, 0x0f, 0x84, 0xf5, 0x0f, 0, 0, 0xeb, 0x10, 0xe9, 0xee, 0x0f, 0,
            0, 0xe8, 0, 0, 0, 0,
        ];
        let calls = Calls::of(&code, 0x1000, &[], 0x2000);
        assert_eq!(calls.operands, [0x1001, 0x1007, 0x100e]);
        assert_eq!(calls.unwritable, 0);
        let patches = calls.patches(0x2000, 0x3000).expect("near");
        assert_eq!(patches[0].old, [0xfb, 0x0f, 0, 0]);
        assert_eq!(patches[0].new, [0xfb, 0x1f, 0, 0]);
        assert_eq!(patches[2].old, code[14..18]);
        assert_eq!(calls.patches(0x2000, 1 << 40), Err(Refusal::OutOfReach));
    }

    #[test]
    fn an_operand_in_two_pages_is_left_out_and_counted() {
        let code = [0xe8, 0xfe, 0x0f, 0, 0];
        let calls = Calls::of(&code, 0x0ffd, &[], 0x2000);
        assert_eq!((calls.operands.len(), calls.unwritable), (0, 1));
    }

    #[test]
    fn bound_slots_are_words_on_their_boundaries() {
        let mut data = [0; 44];
        data[4..12].copy_from_slice(&0x1234_5678u64.to_le_bytes());
        data[20..28].copy_from_slice(&0x1234_5678u64.to_le_bytes());
        data[33..41].copy_from_slice(&0x1234_5678u64.to_le_bytes());
        assert_eq!(slots(&data, 0x1004, 0x1234_5678), [0x1008, 0x1018]);
        assert_eq!(slots(&data[..3], 0x1004, 0), []);
    }
}
