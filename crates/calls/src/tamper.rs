//! Injections into system calls: results instead of the kernel's, delays, signals and data. Used by
//! `live::stepped::tampering`, `live::guest::plan` and others here, and by the crates `lancet` and `report`.

use prototypes::condition::Condition;
use std::time::Duration;
use wire::calls::{DELAYED, INJECTED, Injection, POKED, REPLACED, SIGNALLED};

/// Calls that hooks cannot inject into, because they do not return, or return in another process, on another stack or to
/// another place. A tracer can.
pub const NEVER: [&str; 9] = [
    "clone",
    "clone3",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "rt_sigreturn",
    "vfork",
];

/// Data that are written over memory that an argument points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poke {
    /// Index of the argument, from 0.
    pub argument: usize,
    /// The bytes that are written.
    pub bytes: Vec<u8>,
}

/// One injection: into which calls, and what.
#[derive(Clone, Debug)]
pub struct Inject {
    /// The system calls, by name.
    pub names: Vec<String>,
    /// Only calls from this line ([`Condition::at`]).
    pub line: Option<Condition>,
    /// Of the calls of each thread, counted from 1: the first, the last, and the step from one to the next between them.
    pub when: [u64; 3],
    /// The value in rax after such a call, which the kernel does not make; `None` = the kernel's own result.
    pub result: Option<u64>,
    /// Delays before the call and behind it.
    pub delays: [Duration; 2],
    /// A signal that is pending when the call begins.
    pub signal: Option<i32>,
    /// Data that are written before the call and behind it.
    pub pokes: [Vec<Poke>; 2],
    /// Whether the calls of a program that is started count from its first one on, the loader's included.
    pub from_start: bool,
}

/// What was done to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tampered {
    /// Whether its result is not the kernel's.
    pub injected: bool,
    /// Whether it was delayed.
    pub delayed: bool,
    /// Whether memory that an argument points to was overwritten.
    pub poked: bool,
    /// Whether a signal was sent to its thread when it began.
    pub signalled: bool,
}

impl Tampered {
    /// Reads what hooks store in the second result (rdx) of a call's return.
    #[must_use]
    pub fn of(second: u64) -> Self {
        let bits = second ^ INJECTED;
        let is_said = bits <= REPLACED | DELAYED | POKED | SIGNALLED;
        Tampered {
            injected: is_said && bits & REPLACED != 0,
            delayed: is_said && bits & DELAYED != 0,
            poked: is_said && bits & POKED != 0,
            signalled: is_said && bits & SIGNALLED != 0,
        }
    }

    /// Returns the second result (rdx) of a return for these marks; 0 if nothing was done.
    #[must_use]
    pub fn mark(self) -> u64 {
        let bit = |is: bool, bit| if is { bit } else { 0 };
        let bits = bit(self.injected, REPLACED) | bit(self.delayed, DELAYED);
        match bits | bit(self.poked, POKED) | bit(self.signalled, SIGNALLED) {
            0 => 0,
            bits => INJECTED | bits,
        }
    }
}

impl Inject {
    /// Whether only a tracer can do it: hooks act before the call and behind it, but cannot change how it begins or where it
    /// returns.
    #[must_use]
    pub fn is_for_tracer(&self) -> bool {
        let ends = self.names.iter().any(|name| NEVER.contains(&&**name));
        ends || self.acts_by_tracer()
    }

    /// Whether a signal is sent or memory overwritten.
    #[must_use]
    pub fn acts_by_tracer(&self) -> bool {
        self.signal.is_some() || self.pokes.iter().any(|pokes| !pokes.is_empty())
    }

    /// Whether it applies to the call with this number, from 1.
    #[must_use]
    pub fn falls_on(&self, number: u64) -> bool {
        let [first, last, step] = self.when;
        let from = number.checked_sub(first);
        number <= last && from.and_then(|from| from.checked_rem(step)) == Some(0)
    }

    /// Returns the words for hooks; the test with number `line_bit` is that of its line.
    pub(crate) fn words(&self, line_bit: u32) -> Vec<u64> {
        let [first, last, step] = self.when;
        let [before, behind] = self.delays.map(|time| time.as_nanos() as u64);
        let injection = Injection {
            lines: self.line.as_ref().map_or(0, |_| 1 << line_bit),
            first,
            last,
            step,
            replaces: u64::from(self.result.is_some()),
            result: self.result.unwrap_or(0),
            before,
            behind,
        };
        injection.to_words().to_vec()
    }
}

/// Returns the index of the last injection that names a system call, which takes effect, as with strace.
pub(crate) fn last_of(all: &[Inject], name: &str) -> Option<usize> {
    let of_name = |one: &Inject| one.names.iter().any(|own| own == name);
    all.iter().rposition(of_name)
}

/// Returns the words for hooks of a system call, from the last injection that names it; the tests of lines of injections
/// begin with bit `from`.
pub(crate) fn words_of(all: &[Inject], name: &str, from: usize) -> Option<Vec<u64>> {
    let index = last_of(all, name)?;
    let before = all[..index].iter().filter(|one| one.line.is_some());
    let bit = from + before.count();
    Some(all[index].words(bit as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inject(name: &str, line: Option<&str>) -> Inject {
        Inject {
            names: vec![name.into()],
            line: line.map(|place| Condition::at(place).expect("a place")),
            when: [1, u64::MAX, 1],
            result: Some(7),
            delays: [Duration::ZERO; 2],
            signal: None,
            pokes: Default::default(),
            from_start: false,
        }
    }

    #[test]
    fn the_last_one_of_a_name_decides_and_lines_have_bits_of_their_own() {
        let all = [
            inject("read", Some("a.rb:1")),
            inject("write", None),
            inject("read", Some("a.rb:2")),
        ];
        let words = words_of(&all, "read", 3).expect("it is named");
        assert_eq!(words[..2], [1 << 4, 1]);
        let words = words_of(&all, "write", 3).expect("it is named");
        assert_eq!(words[..2], [0, 1]);
        assert_eq!(words_of(&all, "close", 3), None);
    }

    #[test]
    fn what_is_no_mark_says_nothing() {
        assert_eq!(Tampered::of(0), Tampered::default());
        assert_eq!(Tampered::of(INJECTED + 16), Tampered::default());
        let all = Tampered {
            injected: true,
            delayed: true,
            poked: true,
            signalled: true,
        };
        assert_eq!(Tampered::of(all.mark()), all);
        assert_eq!(Tampered::default().mark(), 0);
        assert!(Tampered::of(INJECTED | REPLACED).injected);
        assert!(!Tampered::of(INJECTED | DELAYED).injected);
    }
}
