//! What the result of a call says of it: whether it failed, and how many bytes it moved or got. Which function says it how is
//! known to the command alone (`prototypes::outcome`); the agent, which counts calls where they are made, is told by a word of
//! the function's hook. Used by the crates `prototypes`, `agent` and `calls`.

/// Which results mean failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An `int` below 0.
    NegativeInt,
    /// A `long` below 0; also -1 as an address (`mmap`).
    Negative,
    /// A null pointer, as of functions that return an address.
    Null,
    /// An `int` that is not 0.
    NotZero,
    /// An `int` that is 0: libpq's `PQsend…`.
    Zero,
    /// What SQLite returns that is none of its three successes.
    Sqlite,
}

/// SQLite's successes: done, a row, and done with all rows (sqlite.org/rescode.html).
const SQLITE_OK: i32 = 0;
/// `SQLITE_ROW`: a step has a row.
pub const SQLITE_ROW: i32 = 100;
/// `SQLITE_DONE`: a step was the last.
pub const SQLITE_DONE: i32 = 101;

/// Where the number of bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// It is the result, if that is above 0.
    Result,
    /// An argument, counted from 1.
    Argument(usize),
    /// The product of two arguments, each counted from 1: number and size of the items of `calloc`.
    Product(usize, usize),
}

/// What the result of a function's calls says: whether they failed, and how many bytes they moved or got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Which results mean failure, if any do.
    pub failure: Option<Failure>,
    /// Where the number of bytes is, if there is one.
    pub bytes: Option<Bytes>,
}

impl Outcome {
    /// Whether a call with this result failed.
    #[inline(always)]
    pub fn failed(self, result: u64) -> bool {
        let int = result as i32;
        match self.failure {
            None => false,
            Some(Failure::NegativeInt) => int < 0,
            Some(Failure::Negative) => (result as i64) < 0,
            Some(Failure::Null) => result == 0,
            Some(Failure::NotZero) => int != 0,
            Some(Failure::Zero) => int == 0,
            Some(Failure::Sqlite) => !matches!(int, SQLITE_OK | SQLITE_ROW | SQLITE_DONE),
        }
    }

    /// How many bytes a call that did not fail moved or got. `arguments` as in registers.
    #[inline(always)]
    pub fn bytes(self, arguments: &[u64], result: u64) -> u64 {
        let argument = |number: usize| arguments.get(number.wrapping_sub(1)).copied().unwrap_or(0);
        match self.bytes {
            _ if self.failed(result) => 0,
            None => 0,
            Some(Bytes::Result) => result,
            Some(Bytes::Argument(number)) => argument(number),
            Some(Bytes::Product(first, second)) => argument(first).saturating_mul(argument(second)),
        }
    }

    /// Returns it as a word of a hook: four bits for what failure is, four for where the bytes are, and four for each argument. 0 = nothing is
    /// known.
    pub fn to_word(self) -> u64 {
        let failure = match self.failure {
            None => 0,
            Some(Failure::NegativeInt) => 1,
            Some(Failure::Negative) => 2,
            Some(Failure::Null) => 3,
            Some(Failure::NotZero) => 4,
            Some(Failure::Zero) => 5,
            Some(Failure::Sqlite) => 6,
        };
        let [kind, first, second] = match self.bytes {
            None => [0; 3],
            Some(Bytes::Result) => [1, 0, 0],
            Some(Bytes::Argument(number)) => [2, number, 0],
            Some(Bytes::Product(first, second)) => [3, first, second],
        };
        failure | (kind as u64) << 4 | (first as u64 & 15) << 8 | (second as u64 & 15) << 12
    }

    /// Returns what a word of [`to_word`](Self::to_word) says. Any word is read: bits without a meaning count as nothing known.
    #[inline(always)]
    pub fn of_word(word: u64) -> Outcome {
        let number = |at: u32| (word >> at) as usize & 15;
        Outcome {
            failure: match word & 15 {
                1 => Some(Failure::NegativeInt),
                2 => Some(Failure::Negative),
                3 => Some(Failure::Null),
                4 => Some(Failure::NotZero),
                5 => Some(Failure::Zero),
                6 => Some(Failure::Sqlite),
                _ => None,
            },
            bytes: match word >> 4 & 15 {
                1 => Some(Bytes::Result),
                2 => Some(Bytes::Argument(number(8))),
                3 => Some(Bytes::Product(number(8), number(12))),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_the_same() {
        let failures = [
            None,
            Some(Failure::NegativeInt),
            Some(Failure::Negative),
            Some(Failure::Null),
            Some(Failure::NotZero),
            Some(Failure::Zero),
            Some(Failure::Sqlite),
        ];
        let bytes = [
            None,
            Some(Bytes::Result),
            Some(Bytes::Argument(6)),
            Some(Bytes::Product(1, 2)),
        ];
        for failure in failures {
            for bytes in bytes {
                let outcome = Outcome { failure, bytes };
                assert_eq!(Outcome::of_word(outcome.to_word()), outcome);
            }
        }
        assert_eq!(Outcome::default().to_word(), 0);
        // Whatever a word holds, an argument that there is none of has no bytes.
        let none = Outcome::of_word(0xf20);
        assert_eq!(none.bytes(&[1, 2, 3, 4, 5, 6], 1), 0);
        assert_eq!(Outcome::of_word(0x20).bytes(&[1], 1), 0);
    }
}
