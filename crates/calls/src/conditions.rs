//! The conditions `--where` and `--min-time`, compiled for one function. Used by `filter` and `live::guest::plan`.

use crate::options::Options;
use prototypes::capture::Range;
use prototypes::condition::Condition;
use prototypes::condition::{Compiled, Unfit};
use prototypes::types::Prototype;
use routine::frame::Guard;
use std::time::Duration;
use wire::calls::want;

/// The conditions as given, for whatever function.
pub struct Conditions {
    condition: Option<Condition>,
    least: Option<Duration>,
    /// Converts a duration to the unit in which times are counted.
    ticks: fn(Duration) -> u64,
}

/// The tests that calls of one function must pass.
#[derive(Debug, Default)]
pub struct CallTest {
    /// Programs of crate `capture` that decide at the call and at its return; an empty one lets all
    /// calls through.
    pub words: [Vec<u64>; 2],
    /// The range in which one argument must be for the stub to enter the agent, if that follows
    /// from the first program.
    pub guard: Option<Guard>,
    /// How long a call must take to be reported, in the unit that [`Conditions::new`] was given; 0
    /// = any time.
    pub least: u64,
    /// The bits of [`want`] that the hook needs for these tests.
    pub want: u64,
    /// Whether values of the script's language are tested, which only the guest has.
    pub values: bool,
}

impl Conditions {
    /// From the command line's options; `ticks` converts durations to the unit of times.
    pub fn new(args: &Options, ticks: fn(Duration) -> u64) -> Self {
        Conditions {
            condition: args.condition.clone(),
            least: args.min_time,
            ticks,
        }
    }

    /// Whether either condition is given.
    pub fn any(&self) -> bool {
        self.condition.is_some() || self.least.is_some()
    }

    /// The tests of script lines: see [`Condition::lines`].
    pub fn lines(&self) -> Vec<u64> {
        self.condition
            .as_ref()
            .map(Condition::lines)
            .unwrap_or_default()
    }

    /// Compiles the tests for a function with this prototype.
    pub fn of(&self, prototype: Option<&Prototype>) -> Result<CallTest, Unfit> {
        let compiled = match &self.condition {
            Some(condition) => condition.compile(prototype, &|nanos| {
                (self.ticks)(Duration::from_nanos(nanos))
            })?,
            None => Compiled::default(),
        };
        let mut asked = CallTest {
            least: self.least.map_or(0, self.ticks),
            values: compiled.values,
            ..CallTest::default()
        };
        asked.want |= match (compiled.lines, compiled.call.is_empty()) {
            // `PLACE` is needed too if the line is tested only at the return.
            (true, _) => want::ASKS_LINE | want::PLACE,
            (false, false) => want::ASKS,
            (false, true) => 0,
        };
        if self.least.is_some() || !compiled.exit.is_empty() {
            asked.want |= want::HELD;
        }
        asked.guard = Range::of(&compiled.call).map(|range| Guard {
            low: range.low,
            span: range.span,
            register: range.register,
            left: range.left,
            outside: u8::from(range.outside),
            ..Guard::default()
        });
        asked.words = [compiled.call, compiled.exit];
        Ok(asked)
    }
}
