//! `--where` and `--min-time`, for one function.

use crate::options::Options;
use prototypes::capture::Range;
use prototypes::condition::{Compiled, Unfit};
use prototypes::{Condition, Prototype};
use routine::frame::Guard;
use std::time::Duration;
use wire::calls::want;

/// What `--where` and `--min-time` ask, whatever the function.
pub struct Conditions {
    condition: Option<Condition>,
    least: Option<Duration>,
    /// The cycles of a time, or whatever it is counted in.
    ticks: fn(Duration) -> u64,
}

/// What is asked of the calls of one function.
#[derive(Debug, Default)]
pub struct CallTest {
    /// Programs of crate `capture` that decide at the call and at its return; an empty one lets all
    /// calls through.
    pub words: [Vec<u64>; 2],
    /// The range in which the stub wants one argument to be before the agent is entered, where that
    /// follows from the first program.
    pub guard: Option<Guard>,
    /// How long a call must take to be reported, in the unit that [`Conditions::new`] was given; 0
    /// = any time.
    pub least: u64,
    /// The bits of [`want`] that the hook needs for these tests.
    pub want: u64,
    /// Whether values of the script's language are asked for, which only the guest has.
    pub values: bool,
}

impl Conditions {
    /// As the command line has it; `ticks` says how time is counted.
    pub fn new(args: &Options, ticks: fn(Duration) -> u64) -> Self {
        Conditions {
            condition: args.condition.clone(),
            least: args.min_time,
            ticks,
        }
    }

    /// Whether either is given.
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

    /// What is asked of a function with this prototype.
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
            // Also where the line is asked at the return only.
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
