//! What is injected into system calls: a result in the kernel's place, or time.

use prototypes::Condition;
use std::time::Duration;
use wire::calls::{DELAYED, INJECTED, Injection, MOST_INJECTIONS, REPLACED};

/// Calls that cannot be injected into: they do not return, or return in another process, on another stack or to another
/// place.
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

/// So many can be asked for in one run.
pub const MOST: usize = MOST_INJECTIONS;

/// One injection: into which calls, and what.
#[derive(Clone, Debug)]
pub struct Inject {
    /// The system calls, by name.
    pub names: Vec<String>,
    /// Only calls from this line ([`Condition::at`]).
    pub line: Option<Condition>,
    /// Of those: the first, the last, and each so many-th between them, from 1.
    pub when: [u64; 3],
    /// What such a call leaves in rax, without the kernel being asked; `None` = the kernel's own result.
    pub result: Option<u64>,
    /// How long it waits before the call and behind it.
    pub delays: [Duration; 2],
}

/// What was done to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tampered {
    /// Its result is not the kernel's.
    pub injected: bool,
    /// It was made to wait.
    pub delayed: bool,
}

impl Tampered {
    /// By the second result of its return, where hooks say it.
    #[must_use]
    pub fn of(second: u64) -> Self {
        let bits = second ^ INJECTED;
        let is_said = bits <= REPLACED | DELAYED;
        Tampered {
            injected: is_said && bits & REPLACED != 0,
            delayed: is_said && bits & DELAYED != 0,
        }
    }
}

impl Inject {
    /// As hooks have it: the injection with this number, whose line is tested by this bit.
    pub(crate) fn words(&self, index: usize, line_bit: u32) -> Vec<u64> {
        let [first, last, step] = self.when;
        let [before, behind] = self.delays.map(|time| time.as_nanos() as u64);
        let injection = Injection {
            index: index as u64,
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

/// The last of these that names a system call decides, as with strace: its number, and the bit of its line, where the tests
/// of lines of injections begin with bit `from`.
pub(crate) fn words_of(all: &[Inject], name: &str, from: usize) -> Option<Vec<u64>> {
    let of_name = |one: &Inject| one.names.iter().any(|own| own == name);
    let index = all.iter().rposition(of_name)?;
    let before = all[..index].iter().filter(|one| one.line.is_some());
    let bit = from + before.count();
    Some(all[index].words(index, bit as u32))
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
        assert_eq!(words[..2], [2, 1 << 4]);
        assert_eq!(
            words_of(&all, "write", 3).expect("it is named")[..2],
            [1, 0]
        );
        assert_eq!(words_of(&all, "close", 3), None);
    }

    #[test]
    fn what_is_no_mark_says_nothing() {
        assert_eq!(Tampered::of(0), Tampered::default());
        assert_eq!(Tampered::of(INJECTED + 4), Tampered::default());
        assert!(Tampered::of(INJECTED | REPLACED).injected);
        assert!(!Tampered::of(INJECTED | DELAYED).injected);
    }
}
