//! Remembers results for things that many events share (a call edge, a script line), by the address of the thing. The
//! writers of lines and of JSON ask it for each event.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Limit of the things that are remembered: a process that loads and unloads libraries without end makes new ones all the time.
const MOST: usize = 1 << 16;

/// Spreads the bits of an address of ours. A guest does not choose these addresses, so that it cannot make them collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte) ^ self.0 as usize);
        }
    }

    fn write_usize(&mut self, address: usize) {
        let product = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// Results for things, by the address of each thing. The things are kept here too, because the address of a dropped one may be used again;
/// when there are too many, all are forgotten.
pub struct Memo<T, V>(HashMap<usize, (Arc<T>, V), BuildHasherDefault<Spread>>);

impl<T, V> Default for Memo<T, V> {
    fn default() -> Self {
        Memo(HashMap::default())
    }
}

impl<T, V> Memo<T, V> {
    /// Returns the result for a thing; `make` is called when the thing first occurs.
    pub fn of(&mut self, thing: &Arc<T>, make: impl FnOnce(&T) -> V) -> &V {
        let key = Arc::as_ptr(thing).addr();
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.0.clear();
        }
        let known = self.0.entry(key);
        &known.or_insert_with(|| (thing.clone(), make(thing))).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_worked_out_once_and_not_all_are_kept() {
        let mut memo = Memo::default();
        let things: Vec<Arc<usize>> = (0..MOST).map(Arc::new).collect();
        let mut made = 0;
        for _ in 0..2 {
            for thing in &things {
                let make = |thing: &usize| {
                    made += 1;
                    thing * 2
                };
                assert_eq!(*memo.of(thing, make), **thing * 2);
            }
        }
        assert_eq!(made, MOST);
        memo.of(&Arc::new(7), |thing| *thing);
        assert_eq!((memo.0.len(), Arc::strong_count(&things[0])), (1, 1));
    }
}
