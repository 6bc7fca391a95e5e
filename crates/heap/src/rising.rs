//! Numbers that never fall, in two bytes each where many lie close together: the addresses of objects, where the edges of each end,
//! the objects that have a fingerprint. Used by `by_address`, `build`, `build::addresses` and others.
//!
//! ```text
//!   63            16 15      0
//!   │ page          │ low    │     low: 2 bytes for each number; page: 16 bytes for all that follow each other with the same one
//! ```

use std::cell::Cell;
use std::ops::Range;

/// Bits of a number that its page does not say.
pub(crate) const LOW_BITS: u32 = 16;

/// Numbers that never fall, by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rising {
    low: Vec<u16>,
    /// Each is of the numbers from its `first` to that of the next one.
    pages: Vec<Page>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    /// The upper bits of its numbers.
    number: u64,
    /// The place of its first number.
    first: u32,
}

impl Rising {
    /// Bytes that a page takes.
    pub const PAGE: u64 = size_of::<Page>() as u64;

    pub fn len(&self) -> usize {
        self.low.len()
    }

    /// Makes room for so many numbers, which takes memory when they come.
    pub fn reserve_exact(&mut self, count: usize) {
        self.low.reserve_exact(count);
    }

    /// For how many pages there is room, beside two bytes for each number.
    pub fn page_room(&self) -> usize {
        self.pages.capacity()
    }

    /// Appends a number.
    ///
    /// # Panics
    ///
    /// If it is smaller than the last one: nothing would be found any more.
    #[inline]
    pub fn push(&mut self, number: u64) {
        let page = number >> LOW_BITS;
        match self.pages.last() {
            Some(last) if last.number == page => {
                let falls = self.low.last().is_some_and(|low| *low > number as u16);
                assert!(!falls, "numbers must not fall");
            }
            last => {
                let rises = last.is_none_or(|last| last.number < page);
                assert!(rises, "numbers must not fall");
                self.pages.push(Page {
                    number: page,
                    first: self.low.len() as u32,
                });
            }
        }
        self.low.push(number as u16);
    }

    pub fn last(&self) -> Option<u64> {
        let (page, low) = (self.pages.last()?, self.low.last()?);
        Some(page.number << LOW_BITS | u64::from(*low))
    }

    /// The number at a place.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[inline]
    pub fn get(&self, at: u32) -> u64 {
        self.number(self.page_of(at), at)
    }

    /// From the number before a place, or 0, to the one at it: the edges of an object, where these numbers say where they end.
    ///
    /// # Panics
    ///
    /// If there is none at this place.
    #[inline]
    pub fn range(&self, at: u32) -> Range<u32> {
        self.range_on(self.page_of(at), at)
    }

    fn range_on(&self, page: usize, at: u32) -> Range<u32> {
        let before = match at {
            0 => 0,
            at if at > self.pages[page].first => self.number(page, at - 1),
            at => self.number(page - 1, at - 1),
        };
        before as u32..self.number(page, at) as u32
    }

    /// Returns what [`Rising::range`] returns, of many places that are mostly near the one before: its page is not searched for again.
    pub fn ranges(&self) -> impl Fn(u32) -> Range<u32> {
        let last = Cell::new(0);
        move |at| {
            let has = |page: usize| {
                let first = |page: usize| self.pages.get(page).map(|page| page.first);
                first(page).is_some_and(|first| first <= at)
                    && first(page + 1).is_none_or(|next| at < next)
            };
            if !has(last.get()) {
                last.set(self.page_of(at));
            }
            self.range_on(last.get(), at)
        }
    }

    /// How many numbers are smaller than this one.
    pub fn below(&self, number: u64) -> u32 {
        let high = number >> LOW_BITS;
        let at = self.pages.partition_point(|page| page.number < high);
        match self.pages.get(at) {
            Some(page) if page.number == high => {
                let low = &self.low[self.places(at)];
                let below = low.partition_point(|low| *low < number as u16);
                page.first + below as u32
            }
            Some(page) => page.first,
            None => self.low.len() as u32,
        }
    }

    /// The first place of a number.
    pub fn find(&self, number: u64) -> Option<u32> {
        let at = self.below(number);
        ((at as usize) < self.len() && self.get(at) == number).then_some(at)
    }

    /// The pages in their order: upper bits, place of the first number, and the lower bits of its numbers.
    pub fn pages(&self) -> impl Iterator<Item = (u64, u32, &[u16])> {
        let pages = self.pages.iter().enumerate();
        pages.map(|(at, page)| (page.number, page.first, &self.low[self.places(at)]))
    }

    /// The lower bits of the numbers at these places.
    pub fn low(&self, places: Range<u32>) -> &[u16] {
        &self.low[places.start as usize..places.end as usize]
    }

    /// All numbers, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        self.pages.iter().enumerate().flat_map(move |(at, page)| {
            let low = self.low[self.places(at)].iter();
            low.map(move |low| page.number << LOW_BITS | u64::from(*low))
        })
    }

    fn page_of(&self, at: u32) -> usize {
        self.pages.partition_point(|page| page.first <= at) - 1
    }

    fn places(&self, page: usize) -> Range<usize> {
        let end = self.pages.get(page + 1);
        let end = end.map_or(self.low.len(), |next| next.first as usize);
        self.pages[page].first as usize..end
    }

    fn number(&self, page: usize, at: u32) -> u64 {
        self.pages[page].number << LOW_BITS | u64::from(self.low[at as usize])
    }
}

impl FromIterator<u64> for Rising {
    fn from_iter<T: IntoIterator<Item = u64>>(numbers: T) -> Self {
        let numbers = numbers.into_iter();
        let mut all = Self::default();
        all.reserve_exact(numbers.size_hint().0);
        numbers.for_each(|number| all.push(number));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_were_given() {
        // Some on one page, the last of a page, several times the same, and pages between which there is nothing.
        let mut numbers: Vec<u64> = (0..3000).map(|number| number * 40).collect();
        numbers.extend([0x1_ffff, 0x2_0000, 0x2_0000, 0x2_0000, 0x7f00_0000_0008]);
        numbers.extend([u64::MAX - 1, u64::MAX, u64::MAX]);
        let all: Rising = numbers.iter().copied().collect();
        assert_eq!(all.len(), numbers.len());
        assert!(all.iter().eq(numbers.iter().copied()));
        assert_eq!(all.last(), numbers.last().copied());
        for (at, number) in numbers.iter().enumerate() {
            assert_eq!(all.get(at as u32), *number);
            for number in [number.saturating_sub(1), *number, number.saturating_add(1)] {
                let below = numbers.partition_point(|one| *one < number);
                assert_eq!(all.below(number), below as u32);
                let found = numbers.get(below).filter(|one| **one == number);
                assert_eq!(all.find(number), found.map(|_| below as u32));
            }
        }
        let ranges = all.ranges();
        for (at, two) in numbers.windows(2).enumerate() {
            let range = all.range(at as u32 + 1);
            assert_eq!([range.start, range.end], [two[0] as u32, two[1] as u32]);
            assert_eq!(ranges(at as u32 + 1), range);
        }
        for at in [0, 2999, 3, all.len() as u32 - 1, 0] {
            assert_eq!(ranges(at), all.range(at));
        }
        assert_eq!(all.range(0), 0..0);
        let none = Rising::default();
        assert_eq!((none.below(7), none.find(0), none.last()), (0, None, None));
        assert_eq!(none.iter().next(), None);
    }

    #[test]
    #[should_panic(expected = "must not fall")]
    fn none_falls() {
        let _: Rising = [0x1_0000, 0xffff].into_iter().collect();
    }
}
