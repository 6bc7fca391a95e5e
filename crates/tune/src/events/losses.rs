//! How many messages were lost, by the gaps in their numbers.

use std::collections::HashMap;

/// The last number seen per CPU, and what is missing in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    last: HashMap<u32, u32>,
    arrived: u64,
    missing: u64,
    overruns: u64,
    at_least: bool,
}

impl Losses {
    /// A message of a CPU came. Its number is one more than that of the message before, and
    /// starts again at 0 behind the highest.
    pub(super) fn came(&mut self, cpu: u32, number: u32) {
        self.arrived += 1;
        match self.last.insert(cpu, number) {
            Some(last) => self.missing += u64::from(number.wrapping_sub(last).wrapping_sub(1)),
            // What a CPU sent before its first message that arrived is not known, once something was lost.
            None => self.at_least |= self.overruns > 0,
        }
    }

    /// The kernel said that the buffer was full.
    pub(super) fn overrun(&mut self) {
        self.overruns += 1;
    }

    /// Messages that arrived, of the kinds that are not told too.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Messages that were sent and did not arrive. Complete when every CPU has sent another one
    /// ([`Connector::hear_every_cpu`](super::Connector::hear_every_cpu)).
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// How often the kernel said that the buffer was full.
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// Whether there may be more missing than can be counted.
    pub fn is_lower_bound(&self) -> bool {
        self.at_least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_per_cpu() {
        let mut losses = Losses::default();
        for (cpu, number) in [(0, 5), (1, 90), (0, 6), (1, 93), (0, 7)] {
            losses.came(cpu, number);
        }
        assert_eq!(losses.missing(), 2);
        losses.came(0, u32::MAX);
        let before = losses.missing();
        losses.came(0, 0);
        assert_eq!(losses.missing(), before, "the number starts again");
    }

    #[test]
    fn a_cpu_first_heard_after_a_loss_makes_it_a_lower_bound() {
        let mut losses = Losses::default();
        losses.came(0, 1);
        assert!(!losses.is_lower_bound());
        losses.overrun();
        losses.came(1, 1);
        assert!(losses.is_lower_bound());
    }
}
