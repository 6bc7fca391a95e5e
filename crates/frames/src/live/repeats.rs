//! Finds rows that repeat, so that a recursion of a hundred thousand calls can be shown in a few lines. Used by crate
//! `report`.

use std::ops::Range;

/// Limit of the rows of a repeating group: one call of a script takes several native frames.
const LONGEST: usize = 24;
/// The least number of rows that are folded.
const FEWEST: usize = 16;
/// The least number of times that a group must come in a row.
const TIMES: usize = 4;

/// Consecutive rows: either rows that do not repeat, or a group of rows together with its repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    rows: Range<usize>,
    /// The length of the group; all of `rows` where nothing repeats.
    shown: usize,
}

impl Stretch {
    /// Returns the rows of the group. `all` is what was given to [`stretches`].
    pub fn first<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[self.rows.start..self.rows.start + self.shown]
    }

    /// Returns the rows that repeat the group; none where nothing repeats.
    pub fn more<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[self.rows.start + self.shown..self.rows.end]
    }

    /// Returns how many rows the group has.
    pub fn period(&self) -> usize {
        self.shown
    }

    /// Returns how many times the group comes again after its first time.
    pub fn repeats(&self) -> u64 {
        (self.rows.len() / self.shown) as u64 - 1
    }
}

/// Cuts rows into stretches, which together are all the rows in their order.
pub fn stretches<T>(rows: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut plain = 0;
    let mut at = 0;
    while at < rows.len() {
        // The shortest group that repeats is taken, because no longer one is shown in fewer rows.
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

/// Returns a stretch in which nothing repeats; `None` if `rows` is empty.
fn one_by_one(rows: Range<usize>) -> Option<Stretch> {
    let shown = rows.len();
    (shown > 0).then_some(Stretch { rows, shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(rows: &str) -> String {
        let rows: Vec<char> = rows.chars().collect();
        let mut text = String::new();
        for stretch in stretches(&rows, |one, other| one == other) {
            text.extend(stretch.first(&rows));
            if stretch.repeats() > 0 {
                text += &format!("({}, {} more)", stretch.period(), stretch.repeats());
            }
        }
        text
    }

    #[test]
    fn what_repeats_is_shown_once() {
        let a = |times: usize| "a".repeat(times);
        assert_eq!(folded(""), "");
        assert_eq!(folded("abc"), "abc");
        assert_eq!(folded(&a(16)), a(16));
        assert_eq!(folded(&a(17)), "a(1, 16 more)");
        assert_eq!(
            folded(&format!("xy{}bz", "ab".repeat(1000))),
            "xyab(2, 999 more)bz"
        );
        // Three times is no recursion.
        assert_eq!(folded(&"abcdefghijkl".repeat(3)), "abcdefghijkl".repeat(3));
        assert_eq!(
            folded(&format!("{}{}", a(20), "cd".repeat(10))),
            "a(1, 19 more)cd(2, 9 more)"
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
