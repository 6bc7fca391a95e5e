//! The addresses of objects while these are given: in two bytes each as long as they rise, as those of a Ruby do, which is walked page by
//! page. Used by `build`.

use crate::rising::Rising;

/// Addresses in the order in which they were given.
#[derive(Debug, Default)]
pub struct Addresses {
    rising: Rising,
    /// All of them, if one was not larger than the one before; empty otherwise.
    any: Vec<u64>,
}

impl Addresses {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.rising.len() + self.any.len()
    }

    /// Appends the next address.
    pub fn push(&mut self, address: u64) {
        if self.any.is_empty() {
            if self.rising.last().is_none_or(|last| last < address) {
                return self.rising.push(address);
            }
            self.any = std::mem::take(&mut self.rising).iter().collect();
        }
        self.any.push(address);
    }

    /// Returns them by rising addresses, and if that is not the order in which they were given the old number of each, without those whose
    /// address an earlier one has.
    pub fn in_order(self) -> (Rising, Option<Vec<u32>>) {
        let Self { rising, any } = self;
        if any.is_empty() {
            return (rising, None);
        }
        let mut order: Vec<u32> = (0..any.len() as u32).collect();
        order.sort_unstable_by_key(|old| (any[*old as usize], *old));
        order.dedup_by_key(|old| any[*old as usize]);
        let rising = order.iter().map(|old| any[*old as usize]).collect();
        (rising, Some(order))
    }
}
