//! A sum of bytes for each object: 32 bits where that is enough, as it is for nearly all of them. Used by `analysis`.

use foldhash::HashMap;

/// Stands for a sum that is in `wide`.
const WIDE: u32 = u32::MAX;

/// The sums, by the numbers of objects.
#[derive(Debug)]
pub struct Sizes {
    /// Empty where `all` is not.
    narrow: Vec<u32>,
    /// Those that need more than 32 bits.
    wide: HashMap<u32, u64>,
    /// All of them, where so many are wide (the elements of a list of many gigabytes) that a map of them would be larger.
    all: Vec<u64>,
}

impl Sizes {
    /// Zero for each of so many objects.
    pub fn new(objects: usize) -> Self {
        Self {
            narrow: vec![0; objects],
            wide: HashMap::default(),
            all: Vec::new(),
        }
    }

    /// The sum of an object.
    pub fn get(&self, object: u32) -> u64 {
        match self.narrow.get(object as usize) {
            Some(&WIDE) => self.wide[&object],
            Some(sum) => u64::from(*sum),
            None => self.all[object as usize],
        }
    }

    /// Adds bytes to the sum of an object.
    pub fn add(&mut self, object: u32, bytes: u64) {
        let sum = self.get(object).saturating_add(bytes);
        let at = object as usize;
        match (self.narrow.get_mut(at), u32::try_from(sum)) {
            (Some(place), Ok(small)) if small < WIDE => *place = small,
            (Some(place), _) => {
                *place = WIDE;
                self.wide.insert(object, sum);
                if self.wide.len() > self.narrow.len() / 16 {
                    self.widen();
                }
            }
            (None, _) => self.all[at] = sum,
        }
    }

    fn widen(&mut self) {
        let objects = 0..self.narrow.len() as u32;
        self.all = objects.map(|object| self.get(object)).collect();
        self.narrow = Vec::new();
        self.wide = HashMap::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_64_bits() {
        // Few of them wide, then most.
        for (objects, large) in [(64, 3), (64, 50)] {
            let mut sizes = Sizes::new(objects);
            let mut plain = vec![0_u64; objects];
            let steps = [7, u64::from(WIDE) - 8, 1, 1, 1 << 40, u64::MAX];
            for bytes in steps {
                for object in 0..objects as u32 {
                    let bytes = if (object as usize) < large { bytes } else { 1 };
                    sizes.add(object, bytes);
                    let sum = &mut plain[object as usize];
                    *sum = sum.saturating_add(bytes);
                    assert_eq!(sizes.get(object), *sum);
                }
            }
            let objects = 0..objects as u32;
            assert_eq!(objects.map(|one| sizes.get(one)).collect::<Vec<_>>(), plain);
            assert_eq!(sizes.narrow.is_empty(), large == 50);
        }
    }
}
