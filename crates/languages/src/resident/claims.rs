//! Who uses which addresses: ranges with a row each, laid over one another. Used by `ruby::resident`, `php::resident`
//! and others here, and by crate `rss`.
//!
//! An allocator says which of its addresses are in use and which are free; a VM says the same of memory that it has from the allocator.
//! The inner one knows more, so its ranges are laid over those of the outer one ([`overlaid`]), and each byte has one owner.

use std::ops::Range;

/// The number of a row.
pub type RowId = u32;

/// The most ranges that one layer may have. A hostile process could otherwise have us keep one for every 32 bytes of its memory.
pub const MOST: usize = 16 << 20;

/// A range, and the row that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// First address of the range.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Row of the ledger that these addresses count for.
    pub row: RowId,
}

impl Claim {
    /// A range with its row.
    pub fn new(range: Range<u64>, row: RowId) -> Self {
        Claim {
            start: range.start,
            end: range.end,
            row,
        }
    }
}

/// Adds a range to ranges of rising addresses: to the last one where that ends there and is of the same row, and nothing where it is empty or
/// [`MOST`] are there.
pub fn add(claims: &mut Vec<Claim>, range: Range<u64>, row: RowId) {
    let full = claims.len() >= MOST;
    match claims.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start && last.row == row => last.end = range.end,
        _ if full => {}
        _ => claims.push(Claim::new(range, row)),
    }
}

/// Ranges by rising address that do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Layer(Vec<Claim>);

impl Layer {
    /// Makes a layer of ranges in any order. Of ranges that overlap, the one that begins first keeps what both have.
    pub fn of(mut claims: Vec<Claim>) -> Self {
        claims.sort_by_key(|claim| claim.start);
        let mut layer = Layer::default();
        for claim in claims {
            let from = layer.end();
            layer.push(Claim {
                start: claim.start.max(from),
                ..claim
            });
        }
        layer
    }

    /// Appends a range behind the last one; one that follows right upon another of its row lengthens that.
    fn push(&mut self, claim: Claim) {
        match self.0.last_mut() {
            _ if claim.start >= claim.end => {}
            Some(last) if last.end == claim.start && last.row == claim.row => last.end = claim.end,
            _ => self.0.push(claim),
        }
    }

    /// One past its last address.
    fn end(&self) -> u64 {
        self.0.last().map_or(0, |last| last.end)
    }

    /// Returns the ranges by rising address.
    pub fn claims(&self) -> &[Claim] {
        &self.0
    }

    /// Returns the parts of a range that no claim has, by rising address.
    pub fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut from = range.start;
        let first = self.0.partition_point(|claim| claim.end <= range.start);
        for claim in &self.0[first..] {
            if claim.start >= range.end {
                break;
            }
            if from < claim.start {
                gaps.push(from..claim.start);
            }
            from = claim.end;
        }
        if from < range.end {
            gaps.push(from..range.end);
        }
        gaps
    }

    /// The row of an address.
    pub fn row_at(&self, address: u64) -> Option<RowId> {
        let after = self.0.partition_point(|claim| claim.start <= address);
        let last = self.0.get(after.checked_sub(1)?)?;
        (address < last.end).then_some(last.row)
    }
}

/// Lays one layer over another.
pub fn overlaid(lower: &Layer, upper: &Layer) -> Layer {
    let mut layer = Layer::default();
    let mut upper = upper.0.iter().peekable();
    for below in &lower.0 {
        let mut from = below.start.max(layer.end());
        while let Some(&&above) = upper.peek() {
            if above.start >= below.end {
                break;
            }
            layer.push(Claim {
                start: from,
                end: above.start,
                row: below.row,
            });
            layer.push(above);
            from = from.max(above.end);
            upper.next();
        }
        layer.push(Claim {
            start: from,
            ..*below
        });
    }
    upper.for_each(|above| layer.push(*above));
    layer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Which row has each of the first 64 addresses.
    fn rows(layer: &Layer) -> Vec<Option<RowId>> {
        (0..64).map(|at| layer.row_at(at)).collect()
    }

    proptest! {
        #[test]
        fn gaps_are_what_no_claim_has(claims in claims(), start in 0u64..64, length in 0u64..64) {
            let layer = Layer::of(claims);
            let end = (start + length).min(64);
            let gaps = layer.gaps(start..end);
            for at in 0..64 {
                let free = (start..end).contains(&at) && layer.row_at(at).is_none();
                prop_assert_eq!(gaps.iter().any(|gap| gap.contains(&at)), free, "{}", at);
            }
        }
    }

    fn claims() -> impl Strategy<Value = Vec<Claim>> {
        let claim = (0u64..60, 0u64..12, 0u32..3).prop_map(|(start, size, row)| Claim {
            start,
            end: (start + size).min(64),
            row,
        });
        prop::collection::vec(claim, 0..12)
    }

    proptest! {
        #[test]
        fn each_address_has_the_row_of_the_uppermost_layer(lower in claims(), upper in claims()) {
            let (lower, upper) = (Layer::of(lower), Layer::of(upper));
            let both = overlaid(&lower, &upper);
            let (lower, upper) = (rows(&lower), rows(&upper));
            let wanted: Vec<_> = upper.into_iter().zip(lower).map(|(above, below)| above.or(below)).collect();
            prop_assert_eq!(rows(&both), wanted);
            prop_assert!(both.claims().windows(2).all(|two| two[0].end <= two[1].start));
        }

        #[test]
        fn of_two_that_overlap_the_first_keeps_it(claims in claims()) {
            let mut sorted = claims.clone();
            sorted.sort_by_key(|claim| claim.start);
            let layer = Layer::of(claims);
            let covered = |at: u64| sorted.iter().any(|claim| (claim.start..claim.end).contains(&at));
            for at in 0..64 {
                prop_assert_eq!(layer.row_at(at).is_some(), covered(at));
            }
        }
    }
}
