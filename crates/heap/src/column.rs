//! Numbers of objects, one each: 16 bits where that is enough for most, else 32, and nothing at all where no object has one.
//! Used by `build`, `file::read` and `file::write`.
//!
//! Many columns have a number for few objects only: a label has what is a class or a thread. As long as less than one object in four has
//! one, those that have one are listed. So are those that need more than 16 bits where most do not. Times are large and near each other, so
//! they are counted from the first one on ([`Column::begin`]).

use std::collections::BTreeMap;

/// A number for some objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    /// All numbers but those in `wide` are given by how much larger they are than this.
    base: u64,
    /// Objects and their numbers as in `narrow`, by rising objects: of all that have one, or of those whose number in `half` is [`LISTED`].
    few: Vec<(u32, u32)>,
    /// By object, if most numbers are so small: 0 = none, [`LISTED`] = look into `few`, otherwise the number plus one.
    half: Vec<u16>,
    /// By object: 0 = none, [`WIDE`] = look into `wide`, otherwise the number plus one. Objects beyond the end have none.
    narrow: Vec<u32>,
    wide: BTreeMap<u32, u64>,
}

const WIDE: u32 = u32::MAX;
const LISTED: u16 = u16::MAX;
/// So many are listed before it is asked how many of the objects they are.
const FEW: usize = 1024;
/// One object in so many may be listed: a listed one takes four times as much memory.
const PART: usize = 4;
/// Where most numbers are small, one object in so many may have a larger one.
const LARGE_PART: usize = 8;

impl Column {
    pub fn get(&self, object: u32) -> Option<u64> {
        self.number(object, self.stored(object))
    }

    /// The numbers of the first so many objects, in their order: those that are listed are not searched for.
    pub fn iter(&self, objects: u32) -> impl Iterator<Item = Option<u64>> {
        let mut listed = self.few.iter().peekable();
        (0..objects).map(move |object| {
            let stored = self.dense(object).unwrap_or_else(|| {
                let found = listed.next_if(|one| one.0 == object);
                found.map_or(0, |one| one.1)
            });
            self.number(object, stored)
        })
    }

    fn number(&self, object: u32, stored: u32) -> Option<u64> {
        match stored {
            0 => None,
            WIDE => self.wide.get(&object).copied(),
            number => Some(self.base + (u64::from(number) - 1)),
        }
    }

    /// Counts numbers from this one on, if none has been set yet: those of a column in which it is the smallest take less room.
    pub fn begin(&mut self, base: u64) {
        if self.is_empty() {
            // The largest number that is stored so must not be too large for 64 bits.
            self.base = base.min(u64::MAX - u64::from(u32::MAX));
        }
    }

    /// What stands for an object, as in `narrow`.
    #[inline]
    fn stored(&self, object: u32) -> u32 {
        self.dense(object).unwrap_or_else(|| self.listed(object))
    }

    /// The same without what is listed; `None` = look there.
    #[inline]
    fn dense(&self, object: u32) -> Option<u32> {
        let at = object as usize;
        if !self.narrow.is_empty() {
            return Some(self.narrow.get(at).copied().unwrap_or(0));
        }
        match self.half.get(at) {
            Some(&LISTED) => None,
            Some(half) => Some(u32::from(*half)),
            None if self.half.is_empty() => None,
            None => Some(0),
        }
    }

    fn listed(&self, object: u32) -> u32 {
        let found = self.few.binary_search_by_key(&object, |one| one.0);
        found.map_or(0, |at| self.few[at].1)
    }

    /// Sets the number of an object that has none yet.
    pub fn set(&mut self, object: u32, number: Option<u64>) {
        let Some(number) = number else { return };
        // In files the number plus one stands in 64 bits.
        let number = number.min(u64::MAX - 1);
        let above = number.checked_sub(self.base).map(u32::try_from);
        let stored = match above {
            Some(Ok(small)) if small < WIDE - 1 => small + 1,
            _ => {
                self.wide.insert(object, number);
                WIDE
            }
        };
        if !self.narrow.is_empty() {
            return place(&mut self.narrow, object, stored);
        }
        let is_next = self.few.last().is_none_or(|last| last.0 < object);
        if self.half.is_empty() {
            let are_few = self.few.len() < FEW || self.few.len() < object as usize / PART;
            if is_next && are_few {
                self.few.push((object, stored));
                return;
            }
            for (object, stored) in std::mem::take(&mut self.few) {
                self.set_dense(object, stored, true);
            }
        }
        self.set_dense(object, stored, is_next);
    }

    /// Sets what stands for an object where not only few have a number. `is_next` = it comes behind all that are listed.
    fn set_dense(&mut self, object: u32, stored: u32, is_next: bool) {
        if !self.narrow.is_empty() {
            return place(&mut self.narrow, object, stored);
        }
        match u16::try_from(stored) {
            Ok(small) if small != LISTED => place(&mut self.half, object, small),
            _ if is_next && self.few.len() < FEW.max(object as usize / LARGE_PART) => {
                place(&mut self.half, object, LISTED);
                self.few.push((object, stored));
            }
            _ => {
                self.widen();
                place(&mut self.narrow, object, stored);
            }
        }
    }

    /// Has 32 bits for each number.
    fn widen(&mut self) {
        let mut narrow = Vec::with_capacity(self.half.capacity());
        narrow.extend(self.half.iter().map(|half| u32::from(*half)));
        for (object, stored) in std::mem::take(&mut self.few) {
            place(&mut narrow, object, stored);
        }
        self.half = Vec::new();
        self.narrow = narrow;
    }

    /// Makes room for so many objects, which takes memory when they come.
    pub fn reserve(&mut self, objects: usize) {
        if self.narrow.is_empty() {
            let more = objects.saturating_sub(self.half.len());
            self.half.reserve_exact(more);
        }
    }

    /// How many numbers need more than 32 bits.
    pub fn wide(&self) -> usize {
        self.wide.len()
    }

    /// The same numbers, for objects in another order: `order` has the old number of each.
    pub fn reordered(self, order: &[u32]) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        let mut turned = Self {
            base: self.base,
            ..Self::default()
        };
        for (new, old) in (0..).zip(order) {
            turned.set(new, self.get(*old));
        }
        turned
    }

    /// Whether no object has one.
    pub fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.half.is_empty() && self.few.is_empty()
    }

    /// The objects that have a number.
    fn all(&self) -> impl Iterator<Item = (u32, Option<u64>)> {
        let listed = if self.half.is_empty() {
            &self.few[..]
        } else {
            &[]
        };
        let dense = self.half.len().max(self.narrow.len()) as u32;
        let listed = listed.iter().map(|one| one.0);
        let has = |object: &u32| self.stored(*object) != 0;
        let objects = listed.chain((0..dense).filter(has));
        objects.map(|object| (object, self.get(object)))
    }
}

/// Sets a place that may lie beyond the end.
fn place<T: Default + Clone>(all: &mut Vec<T>, object: u32, stored: T) {
    let at = object as usize;
    if all.len() < at {
        all.resize(at, T::default());
    }
    match all.get_mut(at) {
        Some(place) => *place = stored,
        None => all.push(stored),
    }
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.all().eq(other.all())
    }
}

impl Eq for Column {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_out_again() {
        let numbers = [
            Some(0),
            None,
            Some(7),
            Some(u64::from(u32::MAX) - 2),
            Some(u64::from(u32::MAX) - 1),
            Some(u64::from(u32::MAX)),
            None,
            Some(u64::MAX - 1),
        ];
        let mut column = Column::default();
        for (object, number) in numbers.iter().enumerate() {
            column.set(object as u32, *number);
        }
        let order: Vec<u32> = (0..numbers.len() as u32).rev().collect();
        let turned = column.clone().reordered(&order);
        for (object, number) in numbers.iter().enumerate() {
            assert_eq!(column.get(object as u32), *number);
            assert_eq!(turned.get(order[object]), *number);
        }
        assert!(column.iter(numbers.len() as u32).eq(numbers));
        assert_eq!(column.get(99), None);
        assert_eq!(Column::default().get(0), None);
    }

    /// Times in nanoseconds, of which no one is below the first, then one that is, and one that lies hours behind.
    #[test]
    fn times_are_counted_from_the_first_one_on() {
        let since = 1_700_000_000_000_000_000;
        let mut column = Column::default();
        for object in 0..10_000 {
            column.begin(since + u64::from(object));
            column.set(object, Some(since + u64::from(object % 7)));
        }
        assert_eq!((column.wide(), column.half.len()), (0, 10_000));
        column.set(10_000, Some(since - 1));
        column.set(10_001, Some(since + (1 << 50)));
        assert_eq!(column.wide(), 2);
        let all = [0, 6, 10_000, 10_001].map(|object| column.get(object));
        let far = since + (1 << 50);
        assert_eq!(all, [since, since + 6, since - 1, far].map(Some));
        let order: Vec<u32> = (0..10_002).rev().collect();
        let turned = column.clone().reordered(&order);
        assert_eq!(turned.wide(), 2);
        // The same numbers are equal however they are kept.
        let mut plain = Column::default();
        (0..10_002).for_each(|object| plain.set(object, turned.get(object)));
        assert!(plain.wide() > 2 && plain == turned && plain != column);
        // The largest base.
        let mut last = Column::default();
        last.begin(u64::MAX);
        last.set(0, Some(u64::MAX - 1));
        assert_eq!(last.get(0), Some(u64::MAX - 1));
    }

    /// One object in ten, then all of them, in each order.
    #[test]
    fn few_numbers_are_listed_and_many_are_not() {
        let count = 20_000_u32;
        let has = |object: u32| object.is_multiple_of(10) || object >= count / 2;
        let number = |object: u32| has(object).then_some(u64::from(object) * 3);
        let mut column = Column::default();
        (0..count / 2).for_each(|object| column.set(object, number(object)));
        assert!(column.narrow.is_empty() && column.few.len() == count as usize / 20);
        (count / 2..count).for_each(|object| column.set(object, number(object)));
        assert!(column.few.is_empty() && column.half.len() == count as usize);
        assert!(
            (0..count + 5)
                .all(|object| column.get(object) == number(object).filter(|_| object < count))
        );
        let order: Vec<u32> = (0..count).rev().collect();
        let turned = column.clone().reordered(&order);
        assert!((0..count).all(|object| turned.get(order[object as usize]) == column.get(object)));
        assert!(turned != column && turned.reordered(&order) == column);
        // One that comes late ends the list.
        let mut late = Column::default();
        [5, 3].iter().for_each(|object| late.set(*object, Some(7)));
        assert_eq!(
            [3, 4, 5].map(|object| late.get(object)),
            [Some(7), None, Some(7)]
        );
    }
    /// Small numbers with a larger one now and then, then larger ones.
    #[test]
    fn large_numbers_among_small_ones_are_listed_until_there_are_many() {
        let count = 40_000_u32;
        // The largest that 16 bits bear, and those that they do not: 65,535 stands for the list.
        let small = |object: u32| Some(u64::from(LISTED - 2) - u64::from(object % 4));
        let number = |object: u32| match object.is_multiple_of(20) || object >= count / 2 {
            true => Some(u64::from(LISTED) - 1 + u64::from(object % 3)),
            false => small(object),
        };
        for (number, is_half) in [(&small as &dyn Fn(u32) -> _, true), (&number, false)] {
            let mut column = Column::default();
            for object in 0..count {
                column.set(object, number(object));
                assert_eq!(column.get(object), number(object), "{object}");
            }
            assert_eq!(column.half.is_empty(), !is_half);
            assert!((0..count).all(|object| column.get(object) == number(object)));
            let order: Vec<u32> = (0..count).rev().collect();
            let turned = column.clone().reordered(&order);
            assert!(turned != column && turned.reordered(&order) == column);
        }
        let mut column = Column::default();
        (0..count / 2).for_each(|object| column.set(object, number(object)));
        assert!(column.narrow.is_empty() && column.few.len() == 1000);
    }
}
