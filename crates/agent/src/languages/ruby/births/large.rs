//! The largest objects of a census, one by one: how much each holds, so that the next census shows whether it has grown.
//! Used by `census`.
//!
//! A String that is appended to for ever is one object, and its number says nothing. The sum of its line or type says little,
//! because other objects of them come and go. What one and the same object holds at each of several looks is exact.
//!
//! There is room for [`LARGE`] of them. They are a heap by what they hold, the least first
//! (<https://en.wikipedia.org/wiki/Binary_heap>), so that a larger one takes the place of the least.

use super::names::{Names, Type};
use wire::Ledger;
use wire::ledger::{LARGE, Large};

/// Notes an object of `bytes` bytes in all. The VM's lock is held, and the object lives.
pub fn note(ledger: &mut Ledger, names: &Names, of: Type, bytes: u64, object: Large) {
    let used = names.used(of, object.object);
    let used = used.unwrap_or(bytes).min(bytes);
    let count = (ledger.large_count as usize).min(LARGE);
    ledger.large_count = put(&mut ledger.large, count, Large { used, ..object }) as u64;
}

/// Puts an object among the first `count` of `all`, which are a heap, and returns how many there are then.
fn put(all: &mut [Large], count: usize, object: Large) -> usize {
    if let Some(free) = all.get_mut(count) {
        *free = object;
        rise(all, count);
        return count + 1;
    }
    if let Some(least) = all.first_mut()
        && least.used < object.used
    {
        *least = object;
        sink(all);
    }
    count
}

/// Moves the last element up until none above it holds more.
fn rise(all: &mut [Large], mut at: usize) {
    while at > 0 {
        let above = (at - 1) / 2;
        if all[above].used <= all[at].used {
            return;
        }
        all.swap(above, at);
        at = above;
    }
}

/// Moves the first element down until none below it holds less.
fn sink(all: &mut [Large]) {
    let mut at = 0;
    loop {
        let below = [2 * at + 1, 2 * at + 2]
            .into_iter()
            .filter(|at| *at < all.len());
        let Some(least) = below.min_by_key(|below| all[*below].used) else {
            return;
        };
        if all[at].used <= all[least].used {
            return;
        }
        all.swap(at, least);
        at = least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    /// Whatever the order in which they come, those that hold most are kept.
    #[test]
    fn the_largest_are_kept() {
        let mut all = [Large::default(); 16];
        let mut count = 0;
        let mut seed = 7u64;
        let mut given = Vec::new();
        for object in 0..1000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let used = seed >> 40;
            given.push(used);
            let large = Large {
                object,
                used,
                ..Large::default()
            };
            count = put(&mut all, count, large);
            given.sort_unstable_by(|a, b| b.cmp(a));
            given.truncate(all.len());
            let mut kept: Vec<u64> = all[..count].iter().map(|one| one.used).collect();
            kept.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(kept, given);
        }
    }
}
