//! How many messages were lost, by the gaps in their numbers. Used by `connector`, and by `report::tune::events::text`
//! and `report::tune::events::json`.

use std::collections::HashMap;

/// The last number seen of each CPU, and how many are missing in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    last: HashMap<u32, u32>,
    arrived: u64,
    missing: u64,
    overruns: u64,
    at_least: bool,
}

impl Losses {
    /// Notes a message of a CPU. Its number is one more than that of the message before, and starts again at 0 behind
    /// the highest.
    pub(super) fn note(&mut self, cpu: u32, number: u32) {
        self.arrived += 1;
        match self.last.insert(cpu, number) {
            Some(last) => self.missing += u64::from(number.wrapping_sub(last).wrapping_sub(1)),
            // Messages that a CPU sent before the first that arrived are not known, once something was lost.
            None => self.at_least |= self.overruns > 0,
        }
    }

    /// Notes that the kernel reported a full buffer.
    pub(super) fn overrun(&mut self) {
        self.overruns += 1;
    }

    /// Returns how many messages have arrived, of all kinds.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns how many messages were sent and did not arrive. The number is complete when every CPU has sent another
    /// one ([`Connector::hear_every_cpu`](super::Connector::hear_every_cpu)).
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns how often the kernel reported a full buffer.
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// Returns whether more may be missing than can be counted.
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
            losses.note(cpu, number);
        }
        assert_eq!(losses.missing(), 2);
        losses.note(0, u32::MAX);
        let before = losses.missing();
        losses.note(0, 0);
        assert_eq!(losses.missing(), before, "the number starts again");
    }

    #[test]
    fn a_cpu_first_seen_after_a_loss_makes_it_a_lower_bound() {
        let mut losses = Losses::default();
        losses.note(0, 1);
        assert!(!losses.is_lower_bound());
        losses.overrun();
        losses.note(1, 1);
        assert!(losses.is_lower_bound());
    }
}
