//! Durations as people write them: `20us`, `500ms`, `30s`, `2m`, `1m30s`, `1.5h`. Used by `commands::mem::args`,
//! `commands::profile::args`, `commands::stack::args` and others.
//!
//! A number without a unit is refused instead of guessed at: half of the tools mean seconds by it,
//! the other half milliseconds.

use std::time::Duration;

use prototypes::duration::{NAMES, nanoseconds};

/// Longer than anybody watches, and far from where the arithmetic of clocks overflows.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a duration above zero.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("no duration given: write 30s, 2m or 500ms".into());
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!(
                "a number was expected before `{rest}`: write 30s, 2m or 500ms"
            ));
        }
        let value: f64 = number
            .parse()
            .map_err(|_| format!("`{number}` is not a number"))?;
        if tail.is_empty() {
            return Err(format!(
                "`{number}` has no unit: write {number}s, {number}m or {number}ms"
            ));
        }
        let letters = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, after) = tail.split_at(letters);
        let Some(nanoseconds) = nanoseconds(unit.trim()) else {
            return Err(format!("`{}` is no unit of time: use {NAMES}", unit.trim()));
        };
        seconds += value * nanoseconds / 1e9;
        rest = after;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(Duration::ZERO) => Err("a duration must be longer than nothing".into()),
        Ok(duration) if duration <= LONGEST => Ok(duration),
        _ => Err("that is longer than a year".into()),
    }
}

/// The shortest time between two looks at stacks: closer together, the process would do little but stand still.
pub const SHORTEST_OF_STACKS: Duration = Duration::from_millis(1);

/// Reads the time between two counts of objects. Each stops the guest for a moment, so there is a shortest one.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(100))
}

/// Reads the time between two looks at stacks, which hold the guest for less.
pub fn parse_interval_of_stacks(text: &str) -> Result<Duration, String> {
    at_least(text, SHORTEST_OF_STACKS)
}

fn at_least(text: &str, shortest: Duration) -> Result<Duration, String> {
    let interval = parse(text)?;
    if interval < shortest {
        return Err(format!(
            "each look stops the process for a moment: at least {}ms between them",
            shortest.as_millis()
        ));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        for (text, millis) in [
            ("30s", 30_000),
            ("2m", 120_000),
            ("500ms", 500),
            ("1h", 3_600_000),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            (" 10 s ", 10_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, nanos) in [("5us", 5_000), ("20µs", 20_000), ("800ns", 800)] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_refused_and_why() {
        for (text, reason) in [
            ("", "no duration given: write 30s, 2m or 500ms"),
            ("30", "`30` has no unit: write 30s, 30m or 30ms"),
            (
                "s",
                "a number was expected before `s`: write 30s, 2m or 500ms",
            ),
            (
                "-1s",
                "a number was expected before `-1s`: write 30s, 2m or 500ms",
            ),
            (
                "5 days",
                "`days` is no unit of time: use ns, us, ms, s, m or h",
            ),
            ("1.2.3s", "`1.2.3` is not a number"),
            ("0s", "a duration must be longer than nothing"),
            ("99999h", "that is longer than a year"),
        ] {
            assert_eq!(parse(text), Err(reason.into()), "{text}");
        }
        let reason = "each look stops the process for a moment: at least 100ms between them";
        assert_eq!(parse_interval("10ms"), Err(reason.into()));
        assert_eq!(parse_interval("100ms"), Ok(Duration::from_millis(100)));
        let reason = "each look stops the process for a moment: at least 1ms between them";
        assert_eq!(parse_interval_of_stacks("500us"), Err(reason.into()));
        assert_eq!(parse_interval_of_stacks("1ms"), Ok(SHORTEST_OF_STACKS));
    }
}
