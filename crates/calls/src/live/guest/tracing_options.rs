//! Converts the options of a run to those of hooks. Used by `guest`, `life` and `opening`.

use super::super::callers;
use super::line_policy::LinePolicy;
use crate::options::Options;

/// Bytes of a thread's ring.
pub const RING: u64 = 1 << 20;
/// Words of a record for copies: the minimum, and the number for each character that is wanted of a string. The longest path (`PATH_MAX`,
/// 512 words) must fit with two words before each piece of it, and what other arguments point to.
const LEAST_ROOM: u64 = 640;

/// Returns the options of a run in the form of [`hooks::Tracing::open`]: how large rings and records are, how long a thread waits, and
/// which line a call gets.
pub fn options(args: &Options) -> hooks::Options {
    let LinePolicy {
        tests,
        policy,
        passed_over,
        ..
    } = LinePolicy::of(args);
    hooks::Options {
        ring_size: RING,
        most_wait: args.most_wait,
        room: LEAST_ROOM
            + u64::from(args.kept_of_strings.max(args.kept_of_messages)) / 8 * 2
            + if args.frames == 0 { 0 } else { callers::ROOM },
        follow: args.follow,
        line_tests: tests,
        line_policy: policy,
        passed_over,
        system_calls_alone: args.from_exec,
        max_stop: args.max_stop,
    }
}
