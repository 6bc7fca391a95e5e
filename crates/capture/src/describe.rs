//! Texts of words that only a language VM can explain. A hook passes on the text instead of the word, because the
//! object may be gone when the line is printed. Used by `condition`, `op` and others here, and by the crates
//! `prototypes`, `agent` and `calls`.
//!
//! The text is passed on like copied memory, as a capture at an address outside of user space ([`address`]), so code
//! that transports captures also transports texts:
//!
//! ```text
//!   address(what, word):   bytes of the text (32 bits)   the text, UTF-8
//! ```

/// What a word is: the number of a `vm::Word` of the language that the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct What(pub u8);

/// Bytes of the length before the text.
pub const HEAD: usize = 4;

/// Bytes of the longest text.
pub const LONGEST: usize = (1 << 16) - HEAD;

/// Returns the address at which the text of a word is captured. Bits 47 to 63 are not equal, which no valid address of
/// x86-64 has, and the lowest 16 bits are 0, so that texts do not overlap.
#[must_use]
pub const fn address(what: What, word: u64) -> u64 {
    // The mixing function of SplitMix64, because words differ in few bits.
    let mut mixed = word ^ (what.0 as u64) << 56;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    0x4c00 << 48 | (mixed << 16 & 0x00ff_ffff_ffff_0000)
}

/// Returns whether an address is one of [`address`]: a text is captured there.
#[must_use]
pub const fn is_text(at: u64) -> bool {
    at >> 56 == 0x4c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_none_of_memory_and_differ() {
        let words = (0..1000).flat_map(|word| [(What(1), word), (What(2), word)]);
        let mut seen = [0; 2000];
        for (at, (what, word)) in words.enumerate() {
            seen[at] = address(what, word);
            assert!(is_text(seen[at]));
            assert_eq!(seen[at] % 0x1_0000, 0);
        }
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
