//! Two profiles side by side: of which functions has the share changed by more than chance explains? Used by the crates
//! `report` and `lancet`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Profile;
use super::frame::Function;

/// A share has changed if so large a difference comes of chance less often than this. Two shares of each function are asked about, so of 10,000
/// functions whose shares are the same at most one is said to have changed, on average.
const CHANCE: f64 = 0.5e-4;

/// More independent samples than so many are not needed.
const MOST: u64 = 500_000;

/// What has risen by so much of the highest rise has risen as high.
const NEARLY: f64 = 0.8;

/// Samples of a function in the old profile and in the new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// In the old one.
    pub old: u64,
    /// In the new one.
    pub new: u64,
}

/// A function in two profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The function that all of this is about.
    pub function: Function,
    /// Whether it belongs to a library or to the VM.
    pub library: bool,
    /// Its line that ran most often itself; the new profile's, if it has one.
    pub line: Option<u32>,
    /// Samples in which it was the innermost.
    pub own: Pair,
    /// Samples in which it was anywhere on the stack.
    pub total: Pair,
}

/// Two profiles of the same program.
#[derive(Debug)]
pub struct Difference<'a> {
    /// The profile that was made first.
    pub old: &'a Profile,
    /// The profile that was made later.
    pub new: &'a Profile,
    /// The functions of both, those first whose share of the samples at its end has changed most.
    pub changes: Vec<Change>,
    /// How many samples of the old profile and the new one count as independent.
    looks: [u64; 2],
    /// Of the factorials of all numbers up to the sum of `looks`.
    logarithms: Vec<f64>,
}

impl<'a> Difference<'a> {
    /// Holds two profiles against each other.
    pub fn of(old: &'a Profile, new: &'a Profile) -> Self {
        let mut changes: BTreeMap<Function, Change> = BTreeMap::new();
        for (profile, is_new) in [(old, false), (new, true)] {
            for row in profile.functions() {
                let change = changes
                    .entry(row.function.clone())
                    .or_insert_with(|| Change {
                        function: row.function.clone(),
                        library: row.library,
                        line: None,
                        own: Pair::default(),
                        total: Pair::default(),
                    });
                change.line = row.line().or(change.line);
                let pairs = [&mut change.own, &mut change.total];
                for (pair, count) in pairs.into_iter().zip([row.own, row.total]) {
                    *(if is_new { &mut pair.new } else { &mut pair.old }) = count;
                }
            }
        }
        let (looks, logarithms) = independent(old, new);
        let mut difference = Difference {
            old,
            new,
            changes: Vec::new(),
            looks,
            logarithms,
        };
        let mut changes: Vec<_> = changes.into_values().collect();
        // In millionths: a share has no order that a sort can use.
        let by = |pair: Pair| (difference.points(pair).abs() * 1e4) as u64;
        changes.sort_by_cached_key(|change| {
            let rises = difference.points(change.own) > 0.0;
            Reverse((by(change.own), rises, by(change.total)))
        });
        difference.changes = changes;
        difference
    }

    /// Returns the shares of all samples, old and new, in percent.
    pub fn shares(&self, pair: Pair) -> (f64, f64) {
        let share = |count: u64, all: u64| 100.0 * count as f64 / all.max(1) as f64;
        (
            share(pair.old, self.old.samples),
            share(pair.new, self.new.samples),
        )
    }

    /// Returns by how many points a share has risen.
    pub fn points(&self, pair: Pair) -> f64 {
        let (old, new) = self.shares(pair);
        new - old
    }

    /// Whether a share has changed by more than chance explains: Fisher's exact test, as if looks were independent of one another. Threads
    /// that are seen in the same look are not, so that no more samples count than there were looks.
    pub fn is_change(&self, pair: Pair) -> bool {
        let scaled = |count: u64, profile: &Profile, looks: u64| {
            (count as f64 * looks as f64 / profile.samples.max(1) as f64).round() as u64
        };
        let [old, new] = self.looks;
        let seen = Pair {
            old: scaled(pair.old, self.old, old),
            new: scaled(pair.new, self.new, new),
        };
        old != 0 && new != 0 && self.chance(seen) < CHANCE
    }

    /// Returns how often a share that is the same is seen as far apart as this, or farther: twice the sum of the hypergeometric distribution
    /// from there on to its nearer end.
    fn chance(&self, seen: Pair) -> f64 {
        let [old, new] = self.looks;
        let both = seen.old + seen.new;
        let ln = |n: u64| {
            self.logarithms
                .get(n as usize)
                .copied()
                .unwrap_or(f64::INFINITY)
        };
        let ways = |of: u64, among: u64| ln(among) - ln(of) - ln(among - of);
        let all = ways(both, old + new);
        let probability = |count: u64| (ways(count, new) + ways(both - count, old) - all).exp();
        let (least, most) = (both.saturating_sub(old), both.min(new));
        let expected = both as f64 * new as f64 / (old + new) as f64;
        let towards_most = seen.new as f64 > expected;
        let (mut count, mut sum) = (seen.new.clamp(least, most), 0.0);
        loop {
            let next = probability(count);
            sum += next;
            let is_end = count == if towards_most { most } else { least };
            if is_end || next < sum * 1e-9 {
                return (2.0 * sum).min(1.0);
            }
            count = if towards_most { count + 1 } else { count - 1 };
        }
    }

    /// Returns the function of the program that has a larger share than before, with what it calls: of the one whose share has risen most and
    /// those that stand on the stack with it and have risen nearly as much, the one with the smallest share, because it is the innermost. If
    /// none of the program's has risen, that of a library.
    pub fn risen(&self) -> Option<&Change> {
        let of = |library: bool| {
            let all = self
                .changes
                .iter()
                .filter(move |change| change.library == library);
            let risen: Vec<&Change> = all
                .filter(|change| self.points(change.total) > 0.0 && self.is_change(change.total))
                .collect();
            let points = |change: &&&Change| self.points(change.total);
            let highest = risen
                .iter()
                .max_by(|a, b| points(a).total_cmp(&points(b)))?;
            let beside = self.new.beside(&highest.function);
            let high = risen.iter().filter(|change| {
                beside.contains(&change.function) && points(change) >= NEARLY * points(&highest)
            });
            high.min_by_key(|change| change.total.new).copied()
        };
        of(false).or_else(|| of(true))
    }
}

/// Returns the numbers of samples that count as independent, and the logarithms of the factorials up to their sum.
fn independent(old: &Profile, new: &Profile) -> ([u64; 2], Vec<f64>) {
    let looks = [old, new].map(|profile| profile.samples.min(profile.rounds).min(MOST));
    let mut sum = 0.0;
    let logarithms = (0..=looks[0] + looks[1]).map(|number| {
        sum += (number.max(1) as f64).ln();
        sum
    });
    (looks, logarithms.collect())
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Frame, Kind};
    use super::*;

    fn profile(counts: &[(&str, bool, u64)]) -> Profile {
        let mut profile = Profile::default();
        for (name, library, count) in counts {
            let frame = |name: &str, library| Frame {
                function: Function {
                    name: name.to_owned(),
                    file: "app.rb".to_owned(),
                    kind: Kind::Script,
                },
                line: 3,
                library,
            };
            for _ in 0..*count {
                profile.add(vec![frame("main", false), frame(name, *library)]);
                profile.rounds += 1;
            }
        }
        profile
    }

    fn change<'d>(difference: &'d Difference, name: &str) -> &'d Change {
        let mut changes = difference.changes.iter();
        changes.find(|change| change.function.name == name).unwrap()
    }

    #[test]
    fn what_has_risen_is_named_and_chance_is_not() {
        let old = profile(&[
            ("slow", false, 200),
            ("other", false, 790),
            ("seldom", false, 10),
        ]);
        let new = profile(&[
            ("slow", false, 500),
            ("other", false, 485),
            ("seldom", false, 15),
        ]);
        let difference = Difference::of(&old, &new);
        let slow = change(&difference, "slow");
        assert_eq!(difference.risen(), Some(slow));
        assert_eq!(difference.shares(slow.own), (20.0, 50.0));
        assert!(
            difference.is_change(slow.own)
                && difference.is_change(change(&difference, "other").own)
        );
        assert!(!difference.is_change(change(&difference, "seldom").own));
        assert!(!difference.is_change(change(&difference, "main").total));
        assert_eq!(difference.changes[0].function.name, "other");
        assert_eq!(difference.changes[1].function.name, "slow");
    }

    #[test]
    fn of_functions_that_call_one_another_the_innermost_is_named() {
        let stack = |names: &[(&str, bool)]| -> Vec<Frame> {
            let frames = names.iter().map(|(name, library)| Frame {
                function: Function {
                    name: (*name).to_owned(),
                    file: "app.rb".to_owned(),
                    kind: Kind::Script,
                },
                line: 3,
                library: *library,
            });
            frames.collect()
        };
        let run = |slow: u64| {
            let mut profile = Profile {
                rounds: 1000,
                ..Profile::default()
            };
            for sample in 0..1000 {
                profile.add(match sample < slow {
                    true if sample % 2 == 0 => stack(&[
                        ("main", false),
                        ("outer", false),
                        ("inner", false),
                        ("pack", true),
                    ]),
                    true => stack(&[("main", false), ("outer", false), ("inner", false)]),
                    false => stack(&[("main", false), ("else", false)]),
                });
            }
            profile
        };
        let (old, new) = (run(200), run(500));
        let difference = Difference::of(&old, &new);
        assert_eq!(difference.risen(), Some(change(&difference, "inner")));
        // Of libraries alone, theirs.
        let old = profile(&[("one", true, 200), ("two", true, 800)]);
        let new = profile(&[("one", true, 500), ("two", true, 500)]);
        let difference = Difference::of(&old, &new);
        assert_eq!(difference.risen(), Some(change(&difference, "one")));
    }

    /// The values are those of `scipy.stats.fisher_exact` for one side, twice.
    #[test]
    fn the_chance_is_that_of_the_exact_test() {
        let chance = |(old, of_old): (u64, u64), (new, of_new): (u64, u64)| {
            let [before, after] = [(old, of_old), (new, of_new)]
                .map(|(count, of)| profile(&[("it", false, count), ("else", false, of - count)]));
            let difference = Difference::of(&before, &after);
            difference.chance(change(&difference, "it").own)
        };
        for (old, new, expected) in [
            ((2, 371), (0, 3800), 2.0 * 0.007_892),
            ((20, 100), (50, 100), 2.0 * 6.945e-6),
        ] {
            let seen = chance(old, new);
            assert!(
                (seen / expected - 1.0).abs() < 0.01,
                "{old:?} {new:?}: {seen} {expected}"
            );
        }
    }

    #[test]
    fn samples_of_one_look_are_not_independent() {
        let mut old = profile(&[("slow", false, 200), ("other", false, 800)]);
        let mut new = profile(&[("slow", false, 500), ("other", false, 500)]);
        (old.rounds, new.rounds) = (10, 10);
        let difference = Difference::of(&old, &new);
        assert!(!difference.is_change(change(&difference, "slow").own));
    }

    #[test]
    fn equal_profiles_and_empty_ones_have_no_change() {
        let one = profile(&[("work", false, 50)]);
        for (old, new) in [
            (&one, &one),
            (&Profile::default(), &one),
            (&one, &Profile::default()),
        ] {
            let difference = Difference::of(old, new);
            assert_eq!(difference.risen(), None);
            assert!(
                difference
                    .changes
                    .iter()
                    .all(|change| !difference.is_change(change.own))
            );
        }
    }

    /// Two runs of the same program, by a generator of known numbers: no function is said to have changed.
    #[test]
    fn two_runs_of_the_same_program_do_not_differ() {
        let mut state = 7_u64;
        let mut run = || {
            let mut counts = [0_u64; 50];
            for _ in 0..2000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let draw = (state >> 33) % 1275;
                // The n-th function has n of 1,275.
                let mut left = draw;
                let at = (1..=50).position(|share| {
                    let is_here = left < share;
                    left = left.saturating_sub(share);
                    is_here
                });
                counts[at.unwrap_or(49)] += 1;
            }
            let names: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
            let rows: Vec<_> = names
                .iter()
                .zip(counts)
                .map(|(name, count)| (name.as_str(), false, count))
                .collect();
            profile(&rows)
        };
        for _ in 0..20 {
            let (old, new) = (run(), run());
            let difference = Difference::of(&old, &new);
            let changed: Vec<_> = difference
                .changes
                .iter()
                .filter(|change| difference.is_change(change.own))
                .collect();
            assert!(changed.is_empty(), "{changed:?}");
        }
    }
}
