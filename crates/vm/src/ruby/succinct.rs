//! The table from code positions to line entries: `struct succ_index_table` (`iseq.c`, the same
//! from v2_7_4 to v4.0.5; `VM_INSN_INFO_TABLE_IMPL` 2). Used by `iseq`.
//!
//! It is a bit vector with a one at each position where a new line entry begins; the entry in force
//! at a position is the number of ones up to and including it (its rank), counted from 1.
//!
//! ```text
//!   0                     48     56      64              128
//!   ├─────────────────────┼──────┼───────┼────────────────┼─ …
//!   │ 54 ranks of 7 bits, │ rank │ 7 × 9 │ 8 × 64 bits    │ next block
//!   │ 9 in each of 6 words│ u32  │ ranks │ of the vector  │ of 512 positions
//!   └─────────────────────┴──────┴───────┴────────────────┘
//!     positions 0 to 53     positions 54 to 565              566 to …
//! ```
//!
//! A block's rank counts the ones before the block; its nine-bit ranks those before its second to
//! eighth word.

use crate::{Fault, Memory};

/// Positions whose rank is stored directly.
const DIRECT: u64 = 54;
const PER_WORD: u64 = 9;
const RANK_BITS: u64 = 7;
/// Bytes of the direct part, and of one block.
const DIRECT_BYTES: u64 = 48;
const BLOCK_BYTES: u64 = 80;
const BLOCK_POSITIONS: u64 = 512;
/// Offset of the small ranks in a block.
const SMALL_RANKS: u64 = 8;
const BITS: u64 = 16;

/// Returns how many entries begin at or before `position`.
pub(super) fn rank(memory: &impl Memory, table: u64, position: u32) -> Result<u32, Fault> {
    let position = u64::from(position);
    let Some(beyond) = position.checked_sub(DIRECT) else {
        let word = memory.u64(table.wrapping_add(position / PER_WORD * 8))?;
        return Ok((word >> (position % PER_WORD * RANK_BITS)) as u32 & 0x7f);
    };
    let block = table.wrapping_add(DIRECT_BYTES + beyond / BLOCK_POSITIONS * BLOCK_BYTES);
    let (word, bit) = (beyond % BLOCK_POSITIONS / 64, beyond % 64);
    let before_block = memory.u32(block)?;
    let before_word = match word {
        0 => 0,
        _ => {
            (memory.u64(block.wrapping_add(SMALL_RANKS))? >> ((word - 1) * PER_WORD)) as u32 & 0x1ff
        }
    };
    let bits = memory.u64(block.wrapping_add(BITS + word * 8))?;
    let within = (bits << (63 - bit)).count_ones();
    Ok(before_block.wrapping_add(before_word).wrapping_add(within))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table built the way the module docs describe it, independent of the lookup.
    struct Table([u8; DIRECT_BYTES as usize + 3 * BLOCK_BYTES as usize]);

    impl Memory for Table {
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
            let at = at as usize;
            into.copy_from_slice(&self.0[at..at + into.len()]);
            Ok(())
        }
    }

    fn starts(position: u64) -> bool {
        position.is_multiple_of(3) || position % 7 == 2
    }

    fn table() -> Table {
        let mut bytes = [0; DIRECT_BYTES as usize + 3 * BLOCK_BYTES as usize];
        let count = |below: u64| (0..below).filter(|&position| starts(position)).count() as u64;
        for (word, out) in bytes[..DIRECT_BYTES as usize]
            .chunks_exact_mut(8)
            .enumerate()
        {
            let first = word as u64 * PER_WORD;
            let ranks = (0..PER_WORD).fold(0, |ranks, i| {
                ranks | count(first + i + 1) << (i * RANK_BITS)
            });
            out.copy_from_slice(&ranks.to_le_bytes());
        }
        for (index, block) in bytes[DIRECT_BYTES as usize..]
            .chunks_exact_mut(BLOCK_BYTES as usize)
            .enumerate()
        {
            let first = DIRECT + index as u64 * BLOCK_POSITIONS;
            block[..4].copy_from_slice(&(count(first) as u32).to_le_bytes());
            let small = (1..8).fold(0, |small, word| {
                small | (count(first + word * 64) - count(first)) << ((word - 1) * PER_WORD)
            });
            block[8..16].copy_from_slice(&small.to_le_bytes());
            for word in 0..8 {
                let bits = (0..64)
                    .filter(|bit| starts(first + word * 64 + bit))
                    .fold(0_u64, |bits, bit| bits | 1 << bit);
                let at = 16 + word as usize * 8;
                block[at..at + 8].copy_from_slice(&bits.to_le_bytes());
            }
        }
        Table(bytes)
    }

    #[test]
    fn rank_counts_what_begins() {
        let table = table();
        let mut begun = 0;
        for position in 0..DIRECT + 3 * BLOCK_POSITIONS {
            begun += u32::from(starts(position));
            assert_eq!(
                rank(&table, 0, position as u32),
                Ok(begun),
                "position {position}"
            );
        }
    }
}
