//! Finds the functions of code that neither symbols nor unwinding rules describe, by following control flow. Used by
//! `hooks::text::extents`.
//!
//! A stripped library whose build leaves unwinding rules out (musl, as distributions build it) names only the functions that it
//! exports. Of the code between two of these it is not known how many functions it is. So code is followed from every address at which
//! execution is known to begin: exported functions, what reached code calls, and what reached code or data take the address of.
//! Nothing is assumed about bytes that are not reached.
//!
//! ```text
//!   write:   …  call A  …  ret          exported: followed from its first byte
//!   A:       jmp B                      reached by the call: A begins a function
//!   B:       …  call C  …  ret          reached by the jump: belongs to A, where it stands behind it
//!   C:       …  syscall  ret            reached by the call: C begins a function, which ends where nothing more is reached
//!   ?:       …                          not reached: it belongs to no function that is known
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use crate::targets::Targets;

/// What was reached of a text.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    at: u64,
    /// Addresses at which functions begin, and ends of those that are known otherwise, sorted.
    borders: Vec<u64>,
    /// A bit for each byte of the text: whether an instruction that is executed begins there.
    reached: Vec<u64>,
}

impl Flow {
    /// Follows the text `code` at address `at` from `begins`, where functions begin; `ends` is where some end. Both may lie outside of
    /// the text. With `takes`, addresses that reached code takes are beginnings, too; this is right where the text holds no data.
    pub fn of(
        (code, at): (&[u8], u64),
        [begins, ends]: [&[u64]; 2],
        targets: &Targets,
        takes: bool,
    ) -> Self {
        let text = at..at + code.len() as u64;
        let mut walk = Walk {
            code,
            text: text.clone(),
            reached: alloc::vec![0u64; code.len().div_ceil(64)],
            entries: begins.to_vec(),
            open: begins.to_vec(),
            by_table: targets.by_indirect_jumps(),
            takes,
        };
        while let Some(from) = walk.open.pop() {
            walk.follow(from);
        }
        let mut borders = walk.entries;
        borders.extend(ends);
        borders.retain(|border| text.contains(border));
        borders.sort_unstable();
        borders.dedup();
        Flow {
            at,
            borders,
            reached: walk.reached,
        }
    }

    /// Returns the range of the function that contains an address: from its first to its last byte that is reached or padding between
    /// such. `None` if nothing shows that the address is executed.
    pub fn function_around(&self, code: &[u8], address: u64) -> Option<Range<u64>> {
        if !self.is_reached(address) {
            return None;
        }
        let next = self.borders.partition_point(|border| *border <= address);
        let border = *self.borders.get(next.checked_sub(1)?)?;
        let start = (border..=address).find(|at| self.is_reached(*at))?;
        let end = self.at + code.len() as u64;
        let end = self.borders.get(next).map_or(end, |next| (*next).min(end));
        let body = code.get((start - self.at) as usize..(end - self.at) as usize)?;
        let mut until = start;
        for instruction in Decoder::with_ip(64, body, start, DecoderOptions::NONE) {
            let is_padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            if instruction.is_invalid() || !is_padding && !self.is_reached(instruction.ip()) {
                break;
            }
            // Where one flow meets instructions within those of another, one of them has lost step.
            let mut inside = instruction.ip() + 1..instruction.next_ip();
            if inside.any(|at| self.is_reached(at)) && !instruction.has_lock_prefix() {
                return None;
            }
            until = instruction.next_ip();
        }
        (start..until).contains(&address).then_some(start..until)
    }

    /// Whether an instruction that is executed begins at an address.
    pub fn is_reached(&self, address: u64) -> bool {
        let offset = address.checked_sub(self.at);
        offset.is_some_and(|offset| is_set(&self.reached, offset))
    }
}

fn is_set(bits: &[u64], offset: u64) -> bool {
    let word = usize::try_from(offset / 64).ok();
    let word = word.and_then(|word| bits.get(word));
    word.is_some_and(|bits| bits >> (offset % 64) & 1 == 1)
}

struct Walk<'c> {
    code: &'c [u8],
    text: Range<u64>,
    reached: Vec<u64>,
    entries: Vec<u64>,
    /// Addresses that are still to be followed.
    open: Vec<u64>,
    /// Where indirect jumps lead by their tables: source and target, sorted.
    by_table: Vec<(u64, u64)>,
    takes: bool,
}

impl Walk<'_> {
    /// Follows the code from an address until it ends or comes to code that was followed before.
    fn follow(&mut self, from: u64) {
        if !self.text.contains(&from) {
            return;
        }
        let rest = &self.code[(from - self.text.start) as usize..];
        for instruction in Decoder::with_ip(64, rest, from, DecoderOptions::NONE) {
            let offset = instruction.ip() - self.text.start;
            if instruction.is_invalid() || is_set(&self.reached, offset) {
                return;
            }
            self.reached[offset as usize / 64] |= 1 << (offset % 64);
            self.note_taken(&instruction);
            let near = instruction.op0_kind() == OpKind::NearBranch64;
            let target = near.then(|| instruction.near_branch_target());
            match instruction.flow_control() {
                FlowControl::Call => {
                    self.entries.extend(target);
                    self.open.extend(target);
                }
                FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                    self.open.extend(target);
                }
                FlowControl::UnconditionalBranch => return self.open.extend(target),
                FlowControl::IndirectBranch => return self.follow_table(instruction.ip()),
                FlowControl::Return | FlowControl::Exception => return,
                // `int3` is padding that is not meant to be run.
                FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 => return,
                FlowControl::Next | FlowControl::IndirectCall | FlowControl::Interrupt => {}
            }
            // The processor goes no further than `hlt` in a program.
            if instruction.mnemonic() == Mnemonic::Hlt {
                return;
            }
        }
    }

    fn follow_table(&mut self, jump: u64) {
        let from = self.by_table.partition_point(|(source, _)| *source < jump);
        let of_this = self.by_table[from..].iter();
        let of_this = of_this.take_while(|(source, _)| *source == jump);
        self.open.extend(of_this.map(|(_, target)| target));
    }

    fn note_taken(&mut self, instruction: &Instruction) {
        if !self.takes {
            return;
        }
        let by_lea =
            instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand();
        let taken = if by_lea {
            Some(instruction.ip_rel_memory_address())
        } else if instruction.mnemonic() == Mnemonic::Mov && self.text.end <= u64::from(u32::MAX) {
            // A program that is not PIE holds addresses below 4 GiB as immediate operands.
            instruction.try_immediate(1).ok()
        } else {
            None
        };
        let taken = taken.filter(|taken| self.text.contains(taken));
        self.entries.extend(taken);
        self.open.extend(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    fn of(code: &[u8], begins: &[u64]) -> Flow {
        let targets = Targets::of(code, AT, begins, None);
        Flow::of((code, AT), [begins, &[]], &targets, true)
    }

    /// A function that is called is one of its own, though it stands between two known ones; what nothing leads to is none.
    #[test]
    fn what_is_called_is_a_function_and_what_is_not_reached_is_none() {
        let code = [
            0xe8, 0x04, 0, 0, 0,    // 1000: call 1009
            0xc3, // 1005: ret
            0x0f, 0x05, // 1006: not reached
            0xc3, // 1008
            0x74, 0x02, // 1009: je 100d
            0x0f, 0x05, // 100b: syscall
            0xc3, // 100d: ret
            0x90, // 100e: padding
            0x0f, 0x05, // 100f: not reached
        ];
        let flow = of(&code, &[AT]);
        assert_eq!(flow.function_around(&code, 0x1000), Some(0x1000..0x1006));
        assert_eq!(flow.function_around(&code, 0x100b), Some(0x1009..0x100f));
        assert_eq!(flow.function_around(&code, 0x1006), None);
        assert_eq!(flow.function_around(&code, 0x100f), None);
        assert_eq!(flow.function_around(&code, 0x1002), None, "within the call");
    }

    /// What a jump leads to behind the end of a known function is no part of that.
    #[test]
    fn a_known_end_is_one() {
        let code = [
            0xeb, 0x02, // 1000: jmp 1004
            0x90, 0x90, // 1002: padding behind the end
            0x0f, 0x05, 0xc3, // 1004: syscall; ret
        ];
        let targets = Targets::of(&code, AT, &[AT], None);
        let flow = Flow::of((&code, AT), [&[AT], &[0x1002]], &targets, true);
        assert_eq!(flow.function_around(&code, 0x1004), Some(0x1004..0x1007));
        assert_eq!(
            of(&code, &[AT]).function_around(&code, 0x1004),
            Some(0x1000..0x1007)
        );
    }

    #[test]
    fn what_code_takes_the_address_of_begins_a_function() {
        let code = [
            0x48, 0x8d, 0x05, 0x01, 0, 0, 0,    // 1000: lea 1008(%rip),%rax
            0xc3, // 1007: ret
            0x0f, 0x05, 0xc3, // 1008: syscall; ret
        ];
        let flow = of(&code, &[AT]);
        assert_eq!(flow.function_around(&code, 0x1008), Some(0x1008..0x100b));
        let targets = Targets::of(&code, AT, &[AT], None);
        let careful = Flow::of((&code, AT), [&[AT], &[]], &targets, false);
        assert_eq!(careful.function_around(&code, 0x1008), None);
    }
}
