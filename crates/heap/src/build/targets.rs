//! The addresses that references lead to, in four bytes each until they become numbers of objects. Used by `build` and
//! `edges`.
//!
//! ```text
//!   31    29 28                          0
//!   │ window │ address within it, over 8 │     a window: 4 GiB of address space, numbered as they are met; 7 = look into `far`
//! ```
//!
//! A VM's heap lies in a few of these windows, whatever its addresses are. What does not (an address that is no multiple of 8, or in an
//! eighth window) stands in `far`, with the number of its reference.

use crate::by_address::Pages;
use std::num::NonZero;
use std::thread;

/// Bits of an address within a window, over 8.
const LOW_BITS: u32 = 29;
const LOW: u32 = (1 << LOW_BITS) - 1;
/// The window that stands for `far`.
const FAR: u32 = 7;
/// Threads that look for objects, and references that make a thread worth it.
const MOST_THREADS: usize = 4;
const WORTH_A_THREAD: usize = 1 << 18;

/// The number of no object.
pub const NOWHERE: u32 = u32::MAX;

/// The targets of all references of a snapshot, in the order in which they were added. Objects have no numbers until all are known;
/// [`Targets::found`] puts these in the place of the addresses then.
#[derive(Debug, Default)]
pub struct Targets {
    near: Vec<u32>,
    /// The upper halves of the addresses in each window.
    windows: Vec<u32>,
    /// Number of the window of the last address.
    last: u32,
    /// Number of the reference and address, by rising numbers.
    far: Vec<(u32, u64)>,
}

impl Targets {
    /// Returns the number of targets.
    pub fn len(&self) -> usize {
        self.near.len()
    }

    /// Appends the next target.
    #[inline]
    pub fn push(&mut self, address: u64) {
        let high = (address >> 32) as u32;
        let window = match self.windows.get(self.last as usize) {
            Some(last) if *last == high => self.last,
            _ => self.window(high),
        };
        if window == FAR || !address.is_multiple_of(8) {
            self.far.push((self.near.len() as u32, address));
            self.near.push(FAR << LOW_BITS);
            return;
        }
        self.near.push(window << LOW_BITS | address as u32 >> 3);
    }

    fn window(&mut self, high: u32) -> u32 {
        let known = self.windows.iter().position(|one| *one == high);
        let window = known.unwrap_or(self.windows.len()) as u32;
        if window == FAR {
            return FAR;
        }
        if known.is_none() {
            self.windows.push(high);
        }
        self.last = window;
        window
    }

    /// Returns the numbers of the objects at these addresses, [`NOWHERE`] where there is none.
    pub fn found(mut self, pages: &Pages) -> Vec<u32> {
        let mut near = std::mem::take(&mut self.near);
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = near.len() / WORTH_A_THREAD + 1;
        let threads = threads.min(processors).min(MOST_THREADS);
        let part = near.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            for (number, part_of_near) in near.chunks_mut(part).enumerate() {
                let all = &self;
                scope.spawn(move || all.find(number * part, part_of_near, pages));
            }
        });
        near
    }

    /// Puts numbers in the place of the addresses in `near`, which are those of the references from `first` on.
    fn find(&self, first: usize, near: &mut [u32], pages: &Pages) {
        let mut finder = pages.finder();
        let from = self.far.partition_point(|far| (far.0 as usize) < first);
        let mut far = self.far[from..].iter();
        for target in near {
            let address = match self.windows.get((*target >> LOW_BITS) as usize) {
                Some(high) => u64::from(*high) << 32 | u64::from(*target & LOW) << 3,
                None => far.next().map_or(0, |far| far.1),
            };
            *target = finder.find(address).unwrap_or(NOWHERE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_found_again() {
        // Ten windows of 4 GiB with objects, and some at addresses that are no multiple of 8.
        let mut addresses: Vec<u64> = (0..10).map(|window| (window << 32) + 0x1000).collect();
        addresses.extend((0..50).map(|number| 0x7f00_0000_0000 + number * 40));
        addresses.extend([0x7f10_0000_0001, u64::MAX - 7, u64::MAX]);
        let rising = addresses.iter().copied().collect();
        let pages = Pages::of(&rising);
        let mut targets = Targets::default();
        let mut wanted = Vec::new();
        for round in 0..WORTH_A_THREAD as u64 / 10 {
            for (number, address) in addresses.iter().enumerate() {
                targets.push(*address);
                wanted.push(number as u32);
                if (round + number as u64).is_multiple_of(5) {
                    targets.push(address.wrapping_add(4));
                    wanted.push(NOWHERE);
                }
            }
        }
        assert_eq!(targets.len(), wanted.len());
        assert!(!targets.far.is_empty() && targets.windows.len() == FAR as usize);
        assert!(targets.found(&pages) == wanted);
    }
}
