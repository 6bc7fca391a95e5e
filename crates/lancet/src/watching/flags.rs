//! What flags mean that several commands have. Used by `args`, `commands::calls::args` and `commands::syscalls::args`.

use crate::cli::duration::parse;
use calls::window::Moment;
use prototypes::capture::condition::LONGEST_SOUGHT;
use std::time::Duration;

/// Characters that are recorded of a string.
const RECORDED_STRINGS: u32 = 512;

/// How long a call waits for us at most. A file is there to hold everything, also where we get the processor rarely, and what is opened and
/// closed says nothing where a call is missing (`needs_all`); what is printed is seen by somebody who would rather not slow the process down.
pub fn most_wait(asked: Option<Duration>, needs_all: bool) -> Duration {
    let default = match needs_all {
        true => Duration::from_secs(1),
        false => Duration::from_millis(100),
    };
    asked.unwrap_or(default)
}

/// How much of a string is told; what is recorded may be looked at with a larger `-s`.
pub fn kept_of_strings(shown: u32, is_recorded: bool) -> u32 {
    if is_recorded {
        shown.max(RECORDED_STRINGS)
    } else {
        shown
    }
}

/// `90s` behind the beginning, or `14:10:54.5`.
pub fn moment(text: &str) -> Result<Moment, String> {
    if !text.contains(':') {
        return parse(text).map(Moment::After);
    }
    let mut parts = text.split(':');
    let mut next = |most: u64| -> Option<u64> {
        let part = parts.next().unwrap_or("0");
        part.parse().ok().filter(|number| *number < most)
    };
    let (hours, minutes) = (next(24), next(60));
    let seconds: Option<f64> = parts.next().map_or(Some(0.0), |part| part.parse().ok());
    let seconds = seconds.filter(|number| (0.0..60.0).contains(number));
    match (hours, minutes, seconds, parts.next()) {
        (Some(hours), Some(minutes), Some(seconds), None) => {
            let whole = Duration::from_secs(hours * 3600 + minutes * 60);
            Ok(Moment::TimeOfDay(whole + Duration::from_secs_f64(seconds)))
        }
        _ => Err("a time of day is written 14:10 or 14:10:54.5".into()),
    }
}

/// A duration, or 0.
pub fn wait(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => parse(text),
    }
}

/// What lines are to hold.
pub fn sought(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("every line holds it".into()),
        1..=LONGEST_SOUGHT => Ok(text.into()),
        _ => Err(format!(
            "a text that is looked for has at most {LONGEST_SOUGHT} bytes"
        )),
    }
}
