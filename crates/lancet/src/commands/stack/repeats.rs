//! Rows that come again and again: a recursion of a hundred thousand calls is told in a few lines.

use std::ops::Range;

use export::figures::{grouped, plural};

/// As many rows in a row may come again together: a call of a script takes several native frames.
const LONGEST: usize = 24;
/// Fewer rows are shown, not told.
const FEWEST: usize = 16;
/// They come at least so often.
const TIMES: usize = 4;

/// Rows from one to another; if they come several times in a row, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    rows: Range<usize>,
    /// How many of them are shown; the others repeat those.
    shown: usize,
}

impl Stretch {
    /// Those to show.
    pub fn first<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[self.rows.start..self.rows.start + self.shown]
    }

    /// Those that repeat them.
    pub fn more<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[self.rows.start + self.shown..self.rows.end]
    }

    /// How often they come again, in words; `None` if they do not.
    pub fn again(&self) -> Option<String> {
        let times = (self.rows.len() / self.shown) as u64 - 1;
        let times = match times {
            0 => return None,
            times => format!("{} {}", grouped(times), plural(times, "time", "times")),
        };
        Some(match self.shown {
            1 => format!("the same, {times} more"),
            rows => format!("these {rows} rows, {times} more"),
        })
    }
}

/// Cuts rows into stretches.
pub fn stretches<T>(rows: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut plain = 0;
    let mut at = 0;
    while at < rows.len() {
        // The shortest that repeats: nothing longer repeats with less to show.
        let repeated = (1..=LONGEST).find_map(|length| {
            let later = rows.get(at + length..)?;
            let equal = rows[at..].iter().zip(later);
            let equal = equal.take_while(|(one, other)| same(one, other)).count();
            let again = equal / length;
            (again + 1 >= TIMES && again * length >= FEWEST).then_some((length, again + 1))
        });
        let Some((shown, times)) = repeated else {
            at += 1;
            continue;
        };
        found.extend(one_by_one(plain..at));
        let end = at + shown * times;
        found.push(Stretch {
            rows: at..end,
            shown,
        });
        (at, plain) = (end, end);
    }
    found.extend(one_by_one(plain..rows.len()));
    found
}

/// Nothing repeats in these.
fn one_by_one(rows: Range<usize>) -> Option<Stretch> {
    let shown = rows.len();
    (shown > 0).then_some(Stretch { rows, shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rows: &str) -> String {
        let rows: Vec<char> = rows.chars().collect();
        let mut told = String::new();
        for stretch in stretches(&rows, |one, other| one == other) {
            told.extend(stretch.first(&rows));
            told.extend(stretch.again().map(|again| format!("({again})")));
        }
        told
    }

    #[test]
    fn what_repeats_is_told_once() {
        let a = |times: usize| "a".repeat(times);
        assert_eq!(told(""), "");
        assert_eq!(told("abc"), "abc");
        assert_eq!(told(&a(16)), a(16));
        assert_eq!(told(&a(17)), "a(the same, 16 times more)");
        assert_eq!(
            told(&format!("xy{}bz", "ab".repeat(1000))),
            "xyab(these 2 rows, 999 times more)bz"
        );
        // Three times is no recursion.
        assert_eq!(told(&"abcdefghijkl".repeat(3)), "abcdefghijkl".repeat(3));
        assert_eq!(
            told(&format!("{}{}", a(20), "cd".repeat(10))),
            "a(the same, 19 times more)cd(these 2 rows, 9 times more)"
        );
    }

    #[test]
    fn nothing_is_lost() {
        let rows: Vec<u32> = (0..3000).map(|at| at * at % 7 / 3 + at / 900).collect();
        let all: Vec<u32> = stretches(&rows, |one, other| one == other)
            .iter()
            .flat_map(|stretch| [stretch.first(&rows), stretch.more(&rows)].concat())
            .collect();
        assert_eq!(all, rows);
    }
}
