//! Numbers of objects, one each: 32 bits where that is enough, and nothing at all where no object has one.

use std::collections::BTreeMap;

/// A number for some objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    /// By object: 0 = none, [`WIDE`] = look into `wide`, otherwise the number plus one. Objects beyond the end have none.
    narrow: Vec<u32>,
    wide: BTreeMap<u32, u64>,
}

const WIDE: u32 = u32::MAX;

impl Column {
    pub fn get(&self, object: u32) -> Option<u64> {
        match self.narrow.get(object as usize).copied()? {
            0 => None,
            WIDE => self.wide.get(&object).copied(),
            number => Some(u64::from(number) - 1),
        }
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
        if self.narrow.len() < object as usize {
            self.narrow.resize(object as usize, 0);
        }
        match self.narrow.get_mut(object as usize) {
            Some(place) => *place = narrow,
            None => self.narrow.push(narrow),
        }
    }

    /// Makes room for so many objects.
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
        if self.narrow.is_empty() {
            return Self::default();
        }
        let narrow = |old: &u32| self.narrow.get(*old as usize).copied().unwrap_or(0);
        let mut narrow: Vec<u32> = order.iter().map(narrow).collect();
        narrow.truncate(
            narrow
                .iter()
                .rposition(|number| *number != 0)
                .map_or(0, |last| last + 1),
        );
        let wide = order.iter().enumerate().filter_map(|(new, old)| {
            let number = self.wide.get(old)?;
            Some((new as u32, *number))
        });
        Self {
            narrow,
            wide: match self.wide.is_empty() {
                true => BTreeMap::new(),
                false => wide.collect(),
            },
        }
    }

    /// Whether no object has one.
    pub fn is_empty(&self) -> bool {
        self.narrow.is_empty()
    }
}

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
}
