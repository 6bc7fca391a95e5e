//! What scanning a native stack costs Ruby's collector. Used by `frames`.

use vm::ruby::Version;

use crate::frames::ScanCost;

/// The cost of `gc_mark_maybe` (`gc.c`, Ruby 3.1.2): minor collections timed with a frame of 98,346 words, zeros (+135
/// µs) and references (+950 µs to one object, +1,200 µs to many), on an AMD EPYC 9004 (Zen 4). Another processor
/// differs as its memory does: an EPYC 9005 (Zen 5) takes two thirds of it.
const WORD: f64 = 1.4;
const OBJECT: f64 = 9.5;
/// What is marked with each stack, by the first version that it is true of: what 50 and 200 sleeping threads took more than none, in
/// collections that followed each other, and their words do not explain (the test below has the figures). Versions of which none was timed have
/// that of the one before.
const STACKS: [((u8, u8), f64); 4] = [
    ((2, 7), 700.0),
    ((3, 1), 350.0),
    ((3, 3), 0.0),
    ((3, 4), 60.0),
];
/// What that takes more where it is not in the cache, in threads that sleep with a shallow VM stack (the values of a deep one are more, and
/// in neither figure): with 800 threads, whose records are more than a second-level cache holds, each
/// took 0.45 to 0.85 µs more in Ruby 3.1, 0.3 to 0.7 in 2.7, 0.75 in 3.3, 0.8 to 1.0 in 3.4. A program that has worked between two
/// collections has used its cache for other things.
const COLD: f64 = 1000.0;

/// Returns what stacks cost the collector of a version.
pub fn scan(version: Version) -> ScanCost {
    let known = STACKS.iter().rev();
    let mut known = known.filter(|(since, _)| (version.major, version.minor) >= *since);
    ScanCost {
        word: WORD,
        object: OBJECT,
        stack: known.next().map_or(STACKS[0].1, |(_, stack)| *stack),
        cold: COLD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// See [`MEASURED`].
    type Timed = ((u8, u8), u64, u64, u64, f64);

    /// Version, sleeping threads, bytes and references of all stacks, and how many microseconds the quickest of 60 minor collections
    /// took more to mark than without those threads: the median of three such differences, on 2026-11-29 on an AMD EPYC (2 shared
    /// cores, load 3 to 5).
    const MEASURED: [Timed; 8] = [
        ((2, 7), 50, 73_328, 426, 52.3),
        ((2, 7), 200, 279_808, 1_637, 196.2),
        ((3, 1), 50, 79_200, 770, 42.0),
        ((3, 1), 200, 303_408, 3_020, 149.0),
        ((3, 3), 50, 95_288, 421, 18.6),
        ((3, 3), 200, 366_728, 1_628, 78.8),
        ((3, 4), 50, 108_712, 473, 24.7),
        ((3, 4), 200, 419_496, 1_823, 107.9),
    ];

    #[test]
    fn what_threads_cost_is_predicted_within_a_quarter() {
        for ((major, minor), threads, bytes, references, measured) in MEASURED {
            let cost = scan(Version::new(major, minor, 0));
            let [each, uncached] = cost.of_stack(bytes / threads, references / threads);
            let predicted = each.as_secs_f64() * 1e6 * threads as f64;
            let ratio = predicted / measured;
            assert!(
                (0.75..1.25).contains(&ratio),
                "{major}.{minor}, {threads}: {predicted:.1} of {measured}"
            );
            assert!(uncached > each);
        }
    }

    #[test]
    fn a_version_that_was_not_timed_has_the_cost_of_the_one_before() {
        let stack = |major, minor| scan(Version::new(major, minor, 1)).stack;
        assert_eq!((stack(3, 2), stack(4, 0)), (stack(3, 1), stack(3, 4)));
        assert_eq!((stack(2, 5), stack(3, 0)), (stack(2, 7), stack(2, 7)));
        assert!(stack(3, 0) > stack(3, 1));
    }
}
