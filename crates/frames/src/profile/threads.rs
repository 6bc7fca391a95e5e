//! How often threads of each name ran and waited. Used by `profile`, `views` and `saved::stacks`.

use std::collections::BTreeMap;

/// Names that are told apart, and bytes of one; a program may make threads without end.
pub(super) const MOST: usize = 10_000;
const LONGEST: usize = 200;

/// What stands for threads for which there is no room.
const OTHERS: &str = "(others: too many different names)";

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// It was on a processor.
    Ran,
    /// It waited for what it had begun.
    Waited,
}

/// Threads by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Threads(pub(super) BTreeMap<String, Counts>);

/// How often those of one name did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub ran: u64,
    pub waited: u64,
}

impl Threads {
    /// Adds that a thread of this name did this so often.
    pub fn add(&mut self, name: &str, did: Did, times: u64) {
        let is_short = name.len() <= LONGEST;
        let has_room = self.0.len() < MOST && is_short || self.0.contains_key(name);
        let name = if has_room { name } else { OTHERS };
        let counts = match self.0.get_mut(name) {
            Some(counts) => counts,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        match did {
            Did::Ran => counts.ran += times,
            Did::Waited => counts.waited += times,
        }
    }

    /// Adds those of another profile.
    pub fn add_all(&mut self, other: &Threads) {
        for (name, counts) in &other.0 {
            self.add(name, Did::Ran, counts.ran);
            self.add(name, Did::Waited, counts.waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_end_are_one() {
        let mut threads = Threads::default();
        for number in 0..2 * MOST {
            threads.add(&number.to_string(), Did::Ran, 1);
        }
        threads.add("7", Did::Waited, 3);
        threads.add(&"x".repeat(1000), Did::Ran, 1);
        assert_eq!(threads.0.len(), MOST + 1);
        assert_eq!(threads.0["7"], Counts { ran: 1, waited: 3 });
        assert_eq!(threads.0[OTHERS].ran, MOST as u64 + 1);
    }
}
