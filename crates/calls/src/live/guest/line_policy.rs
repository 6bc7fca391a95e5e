//! Decides which script line a call gets: the application's, or the nearest on request. Used by `plan` and
//! `tracing_options`.

use crate::options::Options;
use prototypes::capture::Source;
use prototypes::capture::condition::{How, Length, Step};
use prototypes::condition::Condition;
use wire::calls::line_policy;

/// How the hooks of one guest choose the script line of a call. Conditions refer to the tests by their index in `tests`, so hooks depend on
/// their order.
pub struct LinePolicy {
    /// The tests of lines: first those of `--where`, as it numbers them, then those of `--app`, of `--skip`, and of injections.
    pub tests: Vec<u64>,
    /// Which line a call gets, in the agent's form: one of [`line_policy`].
    pub policy: u64,
    /// One bit for each test whose lines are skipped.
    pub passed_over: u32,
    /// The number of the first test of an injection.
    pub injections: usize,
}

impl LinePolicy {
    /// Makes the policy of the options.
    pub fn of(args: &Options) -> Self {
        let condition = args.condition.as_ref();
        let mut tests = condition.map(|of| of.lines()).unwrap_or_default();
        let mut number = condition.map_or(0, |of| of.line_tests());
        let mut add = |texts: &[String]| {
            let mut bits = 0;
            for text in texts {
                let test = Step::Text(Source::Rax, WITHIN, text.as_bytes(), Length::Ended);
                test.encode(|word| tests.push(word));
                bits |= 1u32 << number;
                number += 1;
            }
            bits
        };
        let (app, passed_over) = (add(&args.app), add(&args.skip));
        let injections = number;
        let lines = args.inject.iter().filter_map(|one| one.line.as_ref());
        tests.extend(lines.flat_map(Condition::lines));
        let policy = if args.nearest {
            line_policy::NEAREST
        } else if args.app.is_empty() {
            line_policy::APPLICATION
        } else {
            line_policy::MARKED | u64::from(app) << 32
        };
        LinePolicy {
            tests,
            policy,
            passed_over,
            injections,
        }
    }
}

/// A test that a line passes if it contains the text anywhere.
const WITHIN: How = How {
    within: true,
    folded: false,
    not: false,
    place: false,
};
