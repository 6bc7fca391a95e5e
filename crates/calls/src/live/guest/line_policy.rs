//! Whose line a call has: the application's, unless the nearest was asked for.

use crate::options::Options;
use prototypes::capture::Source;
use prototypes::capture::condition::{How, Length, Step};
use wire::calls::line_policy;

/// What lines are looked through for, and a [`line_policy`]: tests of `--where` come first, as it numbers them, then those of
/// `--app`.
pub fn of(args: &Options) -> (Vec<u64>, u64) {
    let condition = args.condition.as_ref();
    let mut tests = condition.map(|of| of.lines()).unwrap_or_default();
    if args.nearest {
        return (tests, line_policy::NEAREST);
    }
    if args.app.is_empty() {
        return (tests, line_policy::APPLICATION);
    }
    let within = How {
        within: true,
        folded: false,
        not: false,
    };
    let before = condition.map_or(0, |of| of.line_tests());
    let mut bits = 0;
    for (number, text) in args.app.iter().enumerate() {
        let test = Step::Text(Source::Rax, within, text.as_bytes(), Length::Ended);
        test.encode(|word| tests.push(word));
        bits |= 1 << (before + number);
    }
    (tests, line_policy::MARKED | bits << 32)
}
