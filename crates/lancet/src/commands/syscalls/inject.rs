//! `-e inject=`, `-e fault=` and `--inject`: what they say.
//!
//! ```text
//!   SET[:error=ERRNO|:ERRNO][:retval=N][:when=FIRST[..LAST][+[STEP]]][:delay_enter=TIME][:delay_exit=TIME][@FILE:LINE]
//! ```
//!
//! The words are strace's, with their meaning there; the line is ours. A time is a number of microseconds, or has a unit.

use crate::cli::duration;
use calls::tamper::{Inject, NEVER};
use nix::errno::Errno;
use prototypes::Condition;
use std::time::Duration;
use syscalls::Trace;

/// The largest number of an error (include/linux/err.h).
const MOST_ERRORS: i32 = 4095;

/// Parses what stands behind the `=`; with `faults` an error is injected if nothing else is asked for, as with `fault=`.
pub fn parse(text: &str, faults: bool) -> Result<Inject, String> {
    let (text, line) = match text.split_once('@') {
        Some((text, place)) => {
            let place = Condition::at(place).map_err(|error| error.to_string())?;
            (text, Some(place))
        }
        None => (text, None),
    };
    let mut words = text.split(':');
    let mut inject = Inject {
        names: names(words.next().unwrap_or_default())?,
        line,
        when: [1, u64::MAX, 1],
        result: None,
        delays: [Duration::ZERO; 2],
    };
    for word in words {
        let (what, value) = match word.split_once('=') {
            Some(pair) => pair,
            None => ("error", word),
        };
        match what {
            "error" | "retval" if inject.result.is_some() => {
                return Err("a call has one result: error= or retval=".into());
            }
            "error" => inject.result = Some(i64::from(-error(value)?).cast_unsigned()),
            "retval" => inject.result = Some(number(value)?),
            "when" => inject.when = when(value)?,
            "delay_enter" => inject.delays[0] = time(value)?,
            "delay_exit" => inject.delays[1] = time(value)?,
            "signal" | "syscall" | "poke_enter" | "poke_exit" => {
                return Err(format!(
                    "{what}= is not understood yet: error=, retval=, when=, delay_enter= and delay_exit= are"
                ));
            }
            _ => {
                return Err(format!(
                    "there is no {what}=: error=, retval=, when=, delay_enter= and delay_exit= are understood"
                ));
            }
        }
    }
    if faults && inject.result.is_none() {
        inject.result = Some(i64::from(-libc::ENOSYS).cast_unsigned());
    }
    if inject.result.is_none() && inject.delays == [Duration::ZERO; 2] {
        return Err(
            "nothing is injected: name error=, retval=, delay_enter= or delay_exit=".into(),
        );
    }
    Ok(inject)
}

/// The system calls of a set, which must all bear it.
fn names(set: &str) -> Result<Vec<String>, String> {
    let trace = Trace::parse(set).map_err(|error| error.to_string())?;
    // A set of one name is meant; of a class or of all, those that cannot be are left out.
    let named = set.split(',').map(|name| name.trim_start_matches('?'));
    if let Some(name) = named.into_iter().find(|name| NEVER.contains(name)) {
        return Err(format!(
            "{name} cannot be injected into: it does not return, or not to where it was called, like {}",
            NEVER.join(", ")
        ));
    }
    let names: Vec<String> = trace
        .names()
        .filter(|name| !NEVER.contains(name))
        .map(Into::into)
        .collect();
    if names.is_empty() {
        return Err("the set leaves no system call to inject into".into());
    }
    Ok(names)
}

/// An error by name or number.
fn error(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        return match number {
            1..=MOST_ERRORS => Ok(number),
            _ => Err(format!("an error is a number from 1 to {MOST_ERRORS}")),
        };
    }
    let wanted = match text.to_ascii_uppercase().as_str() {
        // Names for the same number.
        "EWOULDBLOCK" => "EAGAIN".to_owned(),
        "EDEADLOCK" => "EDEADLK".to_owned(),
        "ENOTSUP" => "EOPNOTSUPP".to_owned(),
        other => other.to_owned(),
    };
    let all = (1..MOST_ERRORS).map(Errno::from_raw);
    let mut known = all.filter(|errno| *errno != Errno::UnknownErrno);
    let found = known.find(|errno| format!("{errno:?}") == wanted);
    found
        .map(|errno| errno as i32)
        .ok_or_else(|| format!("there is no error {text}: ENOSPC, EINTR and the like"))
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("retval={text} is no number from 0 on"))
}

/// The first, the last, and each so many-th.
fn when(text: &str) -> Result<[u64; 3], String> {
    let wrong = || {
        format!(
            "when={text} is none of FIRST, FIRST+, FIRST+STEP, FIRST..LAST and FIRST..LAST+STEP, from 1 on"
        )
    };
    let positive = |text: &str| text.parse().ok().filter(|number| *number > 0);
    let (range, step) = match text.split_once('+') {
        Some((range, "")) => (range, Some(1)),
        Some((range, step)) => (range, Some(positive(step).ok_or_else(wrong)?)),
        None => (text, None),
    };
    let (first, last) = match range.split_once("..") {
        Some((first, last)) => (first, Some(positive(last).ok_or_else(wrong)?)),
        None => (range, None),
    };
    let first = positive(first).ok_or_else(wrong)?;
    let last = match (last, step) {
        (Some(last), _) if last < first => return Err(wrong()),
        (Some(last), _) => last,
        (None, Some(_)) => u64::MAX,
        (None, None) => first,
    };
    Ok([first, last, step.unwrap_or(1)])
}

/// A time: microseconds without a unit.
fn time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(micros) => Ok(Duration::from_micros(micros)),
        Err(_) => duration::parse(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strace_s_words_have_their_meaning() {
        let inject = parse("openat,read:error=ENOSPC:when=2+2:delay_exit=5", false).expect("right");
        assert_eq!(inject.names, ["openat", "read"]);
        assert_eq!(inject.result, Some((-28i64).cast_unsigned()));
        assert_eq!(inject.when, [2, u64::MAX, 2]);
        assert_eq!(inject.delays[1], Duration::from_micros(5));
        let when =
            |text: &str| parse(&format!("read:retval=0:when={text}"), false).map(|it| it.when);
        assert_eq!(when("3"), Ok([3, 3, 1]));
        assert_eq!(when("3+"), Ok([3, u64::MAX, 1]));
        assert_eq!(when("2..8+3"), Ok([2, 8, 3]));
        assert_eq!(when("2..8"), Ok([2, 8, 1]));
        let line = parse("openat:ENOSPC@app.rb:12", false).expect("right");
        assert!(line.line.is_some());
        assert_eq!(
            parse("read", true).expect("a fault").result,
            Some((-38i64).cast_unsigned())
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("read", "nothing is injected"),
            ("nosuch:error=EIO", "no system call nosuch"),
            ("read:error=EVERY", "no error EVERY"),
            ("read:error=0", "from 1 to 4095"),
            ("read:error=EIO:retval=1", "one result"),
            ("read:retval=x", "no number"),
            ("read:error=EIO:when=0", "when=0 is none"),
            ("read:error=EIO:when=5..3", "when=5..3 is none"),
            ("read:signal=HUP", "signal= is not understood yet"),
            ("read:what=1", "there is no what="),
            ("execve:error=EIO", "execve cannot be injected into"),
            ("read:EIO@app.rb", "FILE:LINE"),
        ] {
            let error = parse(text, false).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
        let all = parse("all:error=EIO", false).expect("right");
        assert!(!all.names.iter().any(|name| name == "exit_group"));
    }
}
