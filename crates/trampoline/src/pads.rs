//! Padding between functions: room for the second half of a hook whose function has no room for five bytes. Used by
//! `plan` and `probe`, and by `hooks::text`.
//!
//! Compilers align functions by `nop` and `int3`. Bytes behind the end of a known function that decode as such, and
//! that no branch leads to, are unused. Each run of them is given to one hook only.

use alloc::vec::Vec;
use core::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic};

use crate::targets::Targets;

/// Padding of a module, and which of it hooks have taken.
#[derive(Clone, Debug, Default)]
pub struct Pads {
    /// Sorted, none overlaps another.
    runs: Vec<Range<u64>>,
    /// The bytes of each run.
    bytes: Vec<Vec<u8>>,
    taken: Vec<Range<u64>>,
}

/// Returns how many of the first bytes of `code` are padding.
pub(crate) fn padding(code: &[u8], at: u64) -> usize {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let mut length = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.mnemonic() != Mnemonic::Nop && instruction.code() != Code::Int3 {
            break;
        }
        length += instruction.len();
    }
    length
}

impl Pads {
    /// Finds the padding in the text `code`, which begins at address `at`, behind each of the functions' `ends`.
    pub fn of(code: &[u8], at: u64, ends: &[u64], targets: &Targets) -> Self {
        let mut runs: Vec<Range<u64>> = ends
            .iter()
            .filter_map(|&end| {
                let offset = usize::try_from(end.checked_sub(at)?).ok()?;
                let code = code.get(offset..)?;
                // Functions are aligned to 64 bytes at most.
                let length = padding(&code[..code.len().min(96)], end) as u64;
                let run = end..end + length;
                (length >= 5 && targets.within(run.clone()).is_empty()).then_some(run)
            })
            .collect();
        runs.sort_unstable_by_key(|run| (run.start, run.end));
        runs.dedup();
        let mut last = 0;
        runs.retain(|run| {
            let apart = run.start >= last;
            last = last.max(run.end);
            apart
        });
        let bytes = runs
            .iter()
            .map(|run| code[(run.start - at) as usize..(run.end - at) as usize].to_vec())
            .collect();
        Self {
            runs,
            bytes,
            taken: Vec::new(),
        }
    }

    /// Takes the addresses `wanted`, and says whether no other hook had them.
    pub(crate) fn take(&mut self, wanted: Range<u64>) -> bool {
        let free = self
            .taken
            .iter()
            .all(|taken| taken.end <= wanted.start || wanted.end <= taken.start);
        if free {
            self.taken.push(wanted);
        }
        free
    }

    /// Takes five bytes that a two-byte jump at `from` reaches. Returns their address and what they hold.
    pub(crate) fn take_near(&mut self, from: u64) -> Option<(u64, [u8; 5])> {
        let reach = (from + 2).saturating_sub(128)..from + 2 + 128;
        let first = self.runs.partition_point(|run| run.end <= reach.start);
        for index in first..self.runs.len() {
            let run = self.runs[index].clone();
            if run.start >= reach.end {
                break;
            }
            let mut place = run.start.max(reach.start);
            while place + 5 <= run.end && place < reach.end {
                if !crosses_page(place, 5) && self.take(place..place + 5) {
                    let offset = (place - run.start) as usize;
                    let bytes = self.bytes[index][offset..].first_chunk()?;
                    return Some((place, *bytes));
                }
                place += 1;
            }
        }
        None
    }
}

/// Whether `length` bytes at `at` lie in two pages.
pub(crate) fn crosses_page(at: u64, length: u64) -> bool {
    at / 4096 != (at + length - 1) / 4096
}
