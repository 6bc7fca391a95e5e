//! `-e inject=`, `-e fault=` and `--inject`: what they say. Used by `args` and `expressions`.
//!
//! ```text
//!   SET[:error=ERRNO][:retval=N][:signal=SIGNAL][:syscall=CALL][:when=FIRST[..LAST][+[STEP]]][:delay_enter=TIME][:delay_exit=TIME]
//!      [:poke_enter=@argN=HEX,…][:poke_exit=@argN=HEX,…]
//!   --inject SET:ERRNO[@FILE:LINE]
//! ```
//!
//! The words of `-e` are strace's, with their meaning there; the line is ours, and is what hooks know. A time is a number of
//! microseconds, or has a unit.

use calls::signals;
use calls::tamper::{Inject, NEVER, Poke};
use nix::errno::Errno;
use prototypes::condition::Condition;
use std::time::Duration;
use syscalls::Trace;

/// The largest number of an error (include/linux/err.h).
const MOST_ERRORS: i32 = 4095;
/// What strace takes as the first call and the step between two, and as the last.
const MOST_CALLS: u64 = 65535;
/// Bytes that are written at most.
const MOST_POKED: usize = 1024;
/// Arguments of a call, as strace numbers them.
const ARGUMENTS: usize = 7;

/// Which option the words belong to; it decides what they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// `-e inject=`: nothing is injected but what its words say.
    Inject,
    /// `-e fault=`: an error is injected if nothing else is asked for.
    Fault,
    /// `--inject`: hooks do it where they can, from where a process is hooked.
    Own,
}

/// Parses what stands behind the `=`.
pub fn parse(text: &str, of: Of) -> Result<Inject, String> {
    let what = match of {
        Of::Inject => "inject",
        Of::Fault => "fault",
        Of::Own => return parsed(text, of),
    };
    parsed(text, of).map_err(|why| format!("invalid {what} argument '{text}': {why}"))
}

fn parsed(text: &str, of: Of) -> Result<Inject, String> {
    // `@arg1=00` is a word of `poke_enter=`.
    let (text, line) = match text.rsplit_once('@') {
        Some((text, place)) if !(place.starts_with("arg") && place.contains('=')) => {
            let place = Condition::at(place).map_err(|error| error.to_string())?;
            (text, Some(place))
        }
        _ => (text, None),
    };
    let mut words = text.split(':');
    let mut inject = Inject {
        names: names(words.next().unwrap_or_default(), of, line.is_some())?,
        from_start: of != Of::Own && line.is_none(),
        line,
        when: [1, u64::MAX, 1],
        result: None,
        delays: [Duration::ZERO; 2],
        signal: None,
        pokes: Default::default(),
    };
    let mut given: Vec<&str> = Vec::new();
    for word in words {
        let (what, value) = match word.split_once('=') {
            Some(pair) => pair,
            None if of == Of::Own => ("error", word),
            None => return Err(format!("{word} is no word of it: {}", understood(of))),
        };
        if what != "when" && given.contains(&what) {
            return Err(format!("{what}= stands there twice"));
        }
        given.push(what);
        let is_fault = matches!(what, "error" | "when" | "syscall");
        match what {
            _ if of == Of::Fault && !is_fault => {
                return Err(format!("there is no {what}=: {}", understood(of)));
            }
            "error" | "retval" if inject.result.is_some() => {
                return Err("a call has one result: error= or retval=".into());
            }
            "error" => inject.result = Some(i64::from(-error(value)?).cast_unsigned()),
            "retval" => inject.result = Some(number(value)?),
            "when" => inject.when = when(value)?,
            "delay_enter" => inject.delays[0] = time(value)?,
            "delay_exit" => inject.delays[1] = time(value)?,
            "signal" => inject.signal = Some(signal_of(value)?),
            "poke_enter" => inject.pokes[0] = pokes(value)?,
            "poke_exit" => inject.pokes[1] = pokes(value)?,
            // Made in the place of a call whose result is injected, it changes nothing: -1 is, which is no call.
            "syscall" => pure(value)?,
            _ => return Err(format!("there is no {what}=: {}", understood(of))),
        }
    }
    if of == Of::Fault && inject.result.is_none() {
        inject.result = Some(i64::from(-libc::ENOSYS).cast_unsigned());
    }
    if inject.line.is_some() && inject.is_for_tracer() {
        return Err(
            "signal=, poke_enter= and poke_exit= are done by ptrace, which knows no script lines: leave out @FILE:LINE".into(),
        );
    }
    let given = |word: &str| given.contains(&word);
    let any = inject.result.is_some() || inject.acts_by_tracer();
    if !any && !given("delay_enter") && !given("delay_exit") {
        return Err(format!("nothing is injected: {}", understood(of)));
    }
    Ok(inject)
}

/// Returns the words that an option understands, for messages.
fn understood(of: Of) -> &'static str {
    match of {
        Of::Fault => "error=, when= and syscall= are understood",
        Of::Inject | Of::Own => {
            "error=, retval=, signal=, syscall=, delay_enter=, delay_exit=, poke_enter=, poke_exit= and when= are understood"
        }
    }
}

/// The system calls of a set; hooks must be able to inject into them if those of a line are meant.
fn names(set: &str, of: Of, of_line: bool) -> Result<Vec<String>, String> {
    let trace = Trace::parse(set).map_err(|error| error.to_string())?;
    // A set of one name is meant; of a class or of all, those that hooks cannot are left out.
    let mut named = set.split(',').map(|name| name.trim_start_matches('?'));
    let ends = named.find(|name| NEVER.contains(name));
    if let Some(name) = ends.filter(|_| of_line) {
        return Err(format!(
            "{name} of a line alone cannot be injected into: it does not return, or not to where it was called, like {}",
            NEVER.join(", ")
        ));
    }
    let leaves_out = of_line || of == Of::Own && ends.is_none();
    let names: Vec<String> = trace
        .names()
        .filter(|name| !leaves_out || !NEVER.contains(name))
        .map(Into::into)
        .collect();
    // `none` of a later -e takes back what an earlier one has asked for.
    if names.is_empty() && (of == Of::Own || !trace.is_empty()) {
        return Err("the set leaves no system call to inject into".into());
    }
    Ok(names)
}

/// A signal by name or number.
fn signal_of(text: &str) -> Result<i32, String> {
    signals::signal_of(text).ok_or_else(|| format!("invalid signal '{text}'"))
}

/// A call that always succeeds and takes no arguments.
fn pure(name: &str) -> Result<(), String> {
    let mut classes = syscalls::CLASSES.iter();
    match classes.any(|class| class.name == "pure" && class.holds(name)) {
        true => Ok(()),
        false => Err(format!(
            "syscall={name} is none of %pure, which change nothing: getpid, getuid and the like"
        )),
    }
}

/// Parses what `poke_enter=` and `poke_exit=` write, by argument: `@arg1=5374,@arg2=00`.
fn pokes(text: &str) -> Result<Vec<Poke>, String> {
    let wrong = || {
        format!(
            "{text} is no list of @argN=HEX, with N from 1 to {ARGUMENTS} and two digits for each of at most {MOST_POKED} bytes"
        )
    };
    let mut pokes: Vec<Poke> = Vec::new();
    for word in text.split(',') {
        let pair = word
            .strip_prefix("@arg")
            .and_then(|word| word.split_once('='));
        let (number, digits) = pair.ok_or_else(wrong)?;
        let number = number
            .parse()
            .ok()
            .filter(|number| (1..=ARGUMENTS).contains(number));
        let argument = number.ok_or_else(wrong)? - 1;
        if pokes.iter().any(|poke| poke.argument == argument) {
            return Err(format!("@arg{} stands there twice", argument + 1));
        }
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let right = is_hex && !digits.is_empty() && digits.len() % 2 == 0;
        if !right || digits.len() / 2 > MOST_POKED {
            return Err(wrong());
        }
        let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
        let bytes = pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok());
        pokes.push(Poke {
            argument,
            bytes: bytes.collect(),
        });
    }
    Ok(pokes)
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

/// As C writes numbers; a negative one is its complement.
fn number(text: &str) -> Result<u64, String> {
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let parsed = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16),
        (_, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8),
        _ => digits.parse(),
    };
    match parsed {
        Ok(number) if is_negative => Ok(number.wrapping_neg()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("retval={text} is no number")),
    }
}

/// The first, the last, and each so many-th.
fn when(text: &str) -> Result<[u64; 3], String> {
    let wrong = || {
        format!(
            "when={text} is none of FIRST, FIRST+, FIRST+STEP, FIRST..LAST and FIRST..LAST+STEP, from 1 to {MOST_CALLS}"
        )
    };
    let positive = |text: &str| {
        let number = text.parse().ok();
        number.filter(|number| (1..=MOST_CALLS).contains(number))
    };
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
        (Some(last), _) if last < first || last == MOST_CALLS => return Err(wrong()),
        (Some(last), _) => last,
        (None, Some(_)) => u64::MAX,
        (None, None) => first,
    };
    Ok([first, last, step.unwrap_or(1)])
}

/// A time: a number, with a point and an exponent if need be; microseconds without a unit.
fn time(text: &str) -> Result<Duration, String> {
    // strace's units are ns, us, ms and s; the others of lancet are known here as well.
    let digits = text.trim_end_matches(|of: char| of.is_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => "us",
        unit => unit,
    };
    let number = digits.parse::<f64>().ok();
    let nanoseconds = number.zip(prototypes::duration::nanoseconds(unit));
    let time = nanoseconds
        .and_then(|(number, unit)| Duration::try_from_secs_f64(number * unit / 1e9).ok());
    time.ok_or_else(|| format!("{text} is no time: 500, 50ms, 1.5s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strace_s_words_have_their_meaning() {
        let words = "openat,read:error=ENOSPC:when=2+2:delay_exit=5";
        let inject = parse(words, Of::Inject).expect("right");
        assert_eq!(inject.names, ["openat", "read"]);
        assert_eq!(inject.result, Some((-28i64).cast_unsigned()));
        assert_eq!(inject.when, [2, u64::MAX, 2]);
        assert_eq!(inject.delays[1], Duration::from_micros(5));
        let when = |text: &str| {
            let words = format!("read:retval=0:when={text}");
            parse(&words, Of::Inject).map(|it| it.when)
        };
        assert_eq!(when("3"), Ok([3, 3, 1]));
        assert_eq!(when("3+"), Ok([3, u64::MAX, 1]));
        assert_eq!(when("2..8+3"), Ok([2, 8, 3]));
        assert_eq!(when("2..8"), Ok([2, 8, 1]));
        let line = parse("openat:ENOSPC@app.rb:12", Of::Own).expect("right");
        assert!(line.line.is_some() && !line.from_start);
        assert_eq!(
            parse("read", Of::Fault).expect("a fault").result,
            Some((-38i64).cast_unsigned())
        );
        let words =
            "chdir:signal=SIGUSR1:poke_enter=@arg1=3f00,@arg2=FF:poke_exit=@arg1=00:syscall=gettid";
        let inject = parse(words, Of::Inject).expect("right");
        assert_eq!((inject.signal, inject.result), (Some(libc::SIGUSR1), None));
        let poke = |argument, bytes: &[u8]| Poke {
            argument,
            bytes: bytes.into(),
        };
        assert_eq!(inject.pokes[0], [poke(0, &[0x3f, 0]), poke(1, &[0xff])]);
        assert_eq!(inject.pokes[1], [poke(0, &[0])]);
        assert!(inject.is_for_tracer() && inject.from_start);
        let time = |text: &str| {
            let inject = parse(&format!("read:delay_enter={text}"), Of::Inject);
            inject.map(|inject| inject.delays[0])
        };
        for text in ["800000", "8e5", "800ms", "+8e8ns", ".8s"] {
            assert_eq!(time(text), Ok(Duration::from_millis(800)), "{text}");
        }
        let result =
            |text: &str| parse(&format!("read:retval={text}"), Of::Inject).map(|it| it.result);
        assert_eq!(result("0x10"), Ok(Some(16)));
        assert_eq!(result("010"), Ok(Some(8)));
        assert_eq!(result("-1"), Ok(Some(u64::MAX)));
        let all = parse("all:error=EIO", Of::Inject).expect("right");
        assert!(all.is_for_tracer());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("read", "nothing is injected"),
            ("read:syscall=getpid", "nothing is injected"),
            ("nosuch:error=EIO", "invalid system call 'nosuch'"),
            ("read:error=EVERY", "no error EVERY"),
            ("read:error=0", "from 1 to 4095"),
            ("read:error=EIO:retval=1", "one result"),
            ("read:error=EIO:error=EPERM", "error= stands there twice"),
            ("read:retval=x", "no number"),
            ("read:error=EIO:when=0", "when=0 is none"),
            ("read:error=EIO:when=5..3", "when=5..3 is none"),
            ("read:error=EIO:when=28..65535", "when=28..65535 is none"),
            ("read:signal=WINTER", "invalid signal 'WINTER'"),
            ("read:syscall=chdir", "syscall=chdir is none of %pure"),
            ("read:poke_enter=@arg8=00", "no list of @argN=HEX"),
            ("read:poke_exit=@arg1=000", "no list of @argN=HEX"),
            (
                "read:poke_exit=@arg1=00,@arg1=00",
                "@arg1 stands there twice",
            ),
            ("read:delay_exit=-2", "-2 is no time"),
            ("read:what=1", "there is no what="),
            ("read:EIO", "EIO is no word of it"),
            ("read:error=EIO@app.rb", "FILE:LINE"),
            ("read:signal=HUP@app.rb:1", "leave out @FILE:LINE"),
            ("execve:error=EIO@app.rb:1", "execve of a line alone"),
        ] {
            let error = parse(text, Of::Inject).expect_err(text);
            let begin = format!("invalid inject argument '{text}': ");
            assert!(
                error.starts_with(&begin) && error.contains(words),
                "{text}: {error}"
            );
        }
        let error = parse("read:retval=0", Of::Fault).expect_err("no fault");
        assert!(error.contains("invalid fault argument"), "{error}");
        let exec = parse("execve:EIO", Of::Own).expect("right");
        assert!(exec.is_for_tracer());
        let all = parse("all:EIO", Of::Own).expect("right");
        assert!(!all.is_for_tracer() && !all.names.iter().any(|name| name == "exit_group"));
    }
}
