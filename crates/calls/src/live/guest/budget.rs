//! The budget for hooks: if they take more of the guest's processor time than allowed, the functions that are called most are no longer
//! watched. Used by `guest`, `straight` and `too_hot`.
//!
//! The share is measured: the kernel samples the program counters of the guest's threads (`process::samples`), and those within the agent
//! or a stub are ours. This gives the cost of all hooks together; each function's part of it is its part of all calls. One measurement
//! above the budget may be chance, so hooks are taken out after two in a row.

use hooks::Tracing;
use process::samples::{Samples, Share};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between two looks at the samples.
const PERIOD: Duration = Duration::from_millis(250);
/// The least number of samples for a result; each stands for a millisecond of processor time.
const LEAST: u64 = 50;
/// Functions are taken out until the rest is expected to take this part of the budget.
const AIM: f64 = 0.8;
/// Limit of the hooks whose records are counted; a guest may write any number.
const MOST_COUNTED: usize = 1 << 20;

/// What the hooks of one guest cost, and how often each was called, since it was hooked. It only measures; the guest that holds it takes
/// the hottest hooks out.
pub(super) struct Budget {
    /// The share that hooks may take, from 0 to 1.
    pub(super) most: f64,
    /// `None` = the kernel does not allow sampling, or no hook is left that could be taken out.
    pub(super) samples: Option<Samples>,
    share: Share,
    next: Instant,
    /// For each hook's number, how many of its calls were read.
    read: Vec<u64>,
    /// When the budget was first exceeded, and how many calls of each hook there were then.
    pub(super) exceeded: Option<(Instant, HashMap<u32, u64>)>,
}

impl Budget {
    /// Begins to measure; `percent` is the limit. With 100 no hook is ever taken out.
    pub(super) fn new(pid: i32, percent: u32) -> Budget {
        let samples = (percent < 100).then(|| Samples::of(pid).ok()).flatten();
        Budget {
            most: f64::from(percent) / 100.0,
            samples,
            share: Share::default(),
            next: Instant::now() + PERIOD,
            read: Vec::new(),
            exceeded: None,
        }
    }

    /// Notes that a record of a call of this hook was read.
    #[inline]
    pub(super) fn note(&mut self, hook: u32) {
        let hook = hook as usize;
        if let Some(count) = self.read.get_mut(hook) {
            *count += 1;
        } else if hook < MOST_COUNTED && self.samples.is_some() {
            self.read.resize(hook + 1, 0);
            self.read[hook] = 1;
        }
    }

    /// Returns the share that hooks took since the last look, if it is time for a look and there are enough samples.
    pub(super) fn look(&mut self, tracing: &Tracing) -> Option<f64> {
        let samples = self.samples.as_mut()?;
        if Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + PERIOD;
        let more = samples.take(&tracing.own_code());
        self.share.all += more.all;
        self.share.within += more.within;
        if self.share.all < LEAST {
            return None;
        }
        let share = std::mem::take(&mut self.share);
        Some(share.within as f64 / share.all as f64)
    }

    /// Returns how many calls of each hook there were so far.
    pub(super) fn calls(&self, tracing: &mut Tracing) -> HashMap<u32, u64> {
        let read = self.read.iter().zip(0..);
        let read = read.filter(|(count, _)| **count != 0);
        let mut calls: HashMap<u32, u64> = read.map(|(count, hook)| (hook, *count)).collect();
        for counted in tracing.rings().counted().unwrap_or_default().0 {
            *calls.entry(counted.hook).or_default() += counted.returned;
        }
        calls
    }
}

/// Returns the hooks to take out, the most called first, each with its calls; `share` is what all hooks take.
pub(super) fn hottest(calls: HashMap<u32, u64>, share: f64, most: f64) -> Vec<(u32, u64)> {
    let all: u64 = calls.values().sum();
    let mut sorted: Vec<(u32, u64)> = calls.into_iter().collect();
    sorted.sort_unstable_by_key(|(hook, count)| (Reverse(*count), *hook));
    let mut left = share;
    sorted
        .into_iter()
        .take_while(|(_, count)| {
            let goes_on = left > most * AIM && *count != 0;
            left -= share * *count as f64 / all.max(1) as f64;
            goes_on
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_go_until_the_rest_fits() {
        let calls = || HashMap::from([(1, 900), (2, 60), (3, 39), (4, 1)]);
        assert_eq!(hottest(calls(), 0.9, 0.5), [(1, 900)]);
        assert_eq!(hottest(calls(), 1.0, 0.05), [(1, 900), (2, 60)]);
        assert_eq!(hottest(HashMap::new(), 0.9, 0.5), []);
        assert_eq!(hottest(HashMap::from([(1, 0)]), 0.9, 0.5), []);
    }
}
