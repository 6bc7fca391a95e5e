//! Numbers of objects, one each: 32 bits where that is enough, and nothing at all where no object has one.
//!
//! Many columns have a number for few objects only: a label has what is a class or a thread. As long as less than one object in four has
//! one, those that have one are listed.

use std::collections::BTreeMap;

/// A number for some objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    /// Objects and their numbers as in `narrow`, by rising objects; empty where that is not.
    few: Vec<(u32, u32)>,
    /// By object: 0 = none, [`WIDE`] = look into `wide`, otherwise the number plus one. Objects beyond the end have none.
    narrow: Vec<u32>,
    wide: BTreeMap<u32, u64>,
}

const WIDE: u32 = u32::MAX;
/// So many are listed before it is asked how many of the objects they are.
const FEW: usize = 1024;
/// One object in so many may be listed: a listed one takes twice as much memory.
const PART: usize = 4;

impl Column {
    pub fn get(&self, object: u32) -> Option<u64> {
        match self.stored(object) {
            0 => None,
            WIDE => self.wide.get(&object).copied(),
            number => Some(u64::from(number) - 1),
        }
    }

    /// What stands for an object in `few` or `narrow`; 0 = nothing.
    fn stored(&self, object: u32) -> u32 {
        if self.narrow.is_empty() {
            let found = self.few.binary_search_by_key(&object, |one| one.0);
            return found.map_or(0, |at| self.few[at].1);
        }
        self.narrow.get(object as usize).copied().unwrap_or(0)
    }

    /// Sets the number of an object that has none yet.
    pub fn set(&mut self, object: u32, number: Option<u64>) {
        let Some(number) = number else { return };
        // In files the number plus one stands in 64 bits.
        let number = number.min(u64::MAX - 1);
        let narrow = match u32::try_from(number) {
            Ok(small) if small < WIDE - 1 => small + 1,
            _ => {
                self.wide.insert(object, number);
                WIDE
            }
        };
        if self.narrow.is_empty() {
            let is_next = self.few.last().is_none_or(|last| last.0 < object);
            let are_few = self.few.len() < FEW || self.few.len() < object as usize / PART;
            if is_next && are_few {
                self.few.push((object, narrow));
                return;
            }
            for (object, narrow) in std::mem::take(&mut self.few) {
                self.place(object, narrow);
            }
        }
        self.place(object, narrow);
    }

    fn place(&mut self, object: u32, narrow: u32) {
        if self.narrow.len() < object as usize {
            self.narrow.resize(object as usize, 0);
        }
        match self.narrow.get_mut(object as usize) {
            Some(place) => *place = narrow,
            None => self.narrow.push(narrow),
        }
    }

    /// Makes room for so many objects, which takes memory when they come.
    pub fn reserve(&mut self, objects: usize) {
        self.narrow
            .reserve_exact(objects.saturating_sub(self.narrow.len()));
    }

    /// How many numbers need more than 32 bits.
    pub fn wide(&self) -> usize {
        self.wide.len()
    }

    /// The same numbers, for objects in another order: `order` has the old number of each.
    pub fn reordered(&self, order: &[u32]) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        let mut turned = Self::default();
        for (new, old) in (0..).zip(order) {
            turned.set(new, self.get(*old));
        }
        turned
    }

    /// Whether no object has one.
    pub fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.few.is_empty()
    }

    /// The objects that have a number, and what stands for it.
    fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        let dense = (0..).zip(self.narrow.iter().copied());
        let listed = self.few.iter().copied();
        listed.chain(dense.filter(|one| one.1 != 0))
    }
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.wide == other.wide && self.all().eq(other.all())
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
        let turned = column.reordered(&order);
        for (object, number) in numbers.iter().enumerate() {
            assert_eq!(column.get(object as u32), *number);
            assert_eq!(turned.get(order[object]), *number);
        }
        assert_eq!(column.get(99), None);
        assert_eq!(Column::default().get(0), None);
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
        assert!(column.few.is_empty() && column.narrow.len() == count as usize);
        assert!(
            (0..count + 5)
                .all(|object| column.get(object) == number(object).filter(|_| object < count))
        );
        let order: Vec<u32> = (0..count).rev().collect();
        let turned = column.reordered(&order);
        assert!((0..count).all(|object| turned.get(order[object as usize]) == column.get(object)));
        assert!(turned.reordered(&order) == column && turned != column);
        // One that comes late ends the list.
        let mut late = Column::default();
        [5, 3].iter().for_each(|object| late.set(*object, Some(7)));
        assert_eq!(
            [3, 4, 5].map(|object| late.get(object)),
            [Some(7), None, Some(7)]
        );
    }
}
