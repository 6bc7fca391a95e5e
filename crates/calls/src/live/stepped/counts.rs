//! Counts how often each system call was made, how long the calls took and how many failed, if calls are not
//! reported one by one. Used by `stepped`.

use crate::live::traced::{Begun, Told};
use crate::source::Count;
use hooks::rings::Counted;
use std::collections::HashMap;

/// For each call's number, how it is reported and what was counted.
#[derive(Default)]
pub struct Counts(HashMap<u64, Count>);

/// Results from this one on are errors: `IS_ERR_VALUE` in include/linux/err.h.
const FIRST_ERROR: u64 = -4095i64 as u64;

impl Counts {
    fn of(&mut self, told: &Told) -> &mut Counted {
        let function = &told.edge.function;
        let count = self.0.entry(function.address).or_insert_with(|| Count {
            function: function.clone(),
            inside: None,
            line: None,
            counted: Counted::default(),
            period: 1.0,
        });
        &mut count.counted
    }

    /// Counts a call that has returned.
    pub fn returned(&mut self, begun: &Begun, told: &Told, now: u64, result: u64) {
        let took = now.wrapping_sub(begun.ticks);
        if took < told.least {
            return;
        }
        let counted = self.of(told);
        counted.shortest = match counted.returned {
            0 => took,
            _ => counted.shortest.min(took),
        };
        counted.returned += 1;
        counted.total += took;
        counted.longest = counted.longest.max(took);
        counted.errors += u64::from(result >= FIRST_ERROR);
    }

    /// Counts a call that has begun another program, and of which nobody has seen how long it took.
    pub fn ran(&mut self, told: &Told) {
        self.of(told).returned += 1;
    }

    /// Counts a call that has ended its thread.
    pub fn left(&mut self, told: &Told) {
        self.of(told).left += 1;
    }

    /// Returns all counts; `period` is the length of a cycle in nanoseconds.
    pub fn all(self, period: f64) -> Vec<Count> {
        let all = self.0.into_values();
        all.map(|count| Count { period, ..count }).collect()
    }
}
