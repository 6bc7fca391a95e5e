//! Counts of calls and losses, which the agent keeps beside the rings. Used by `counted`.

use super::record::none_of;
use super::{Counted, Losses, Rings};
use crate::limits::{MOST_COUNTED_BYTES, MOST_ROWS};
use process::error::Result;
use std::collections::{BTreeMap, HashSet};
use std::mem::offset_of;
use std::ops::Range;
use wire::calls::further::{ALL_COUNTS, Further, REFUSED};
use wire::calls::{self, COUNTS, Calls, NO_APPLICATION, Ring};

/// Function and line.
type Key = (u32, Option<usize>);

/// Counts of all threads, summed by function and line: a process may claim to have thousands of tables.
#[derive(Default)]
pub(super) struct Rows {
    rows: BTreeMap<Key, Counted>,
    /// The sum of what finds no room there.
    others: Option<Counted>,
    /// Bytes of `rows`.
    bytes: usize,
    pub(super) lost: u64,
}

impl Rows {
    fn add(&mut self, hook: u32, place: Option<usize>, count: &calls::Count, left: u64) {
        let key = (hook, place);
        let more = self.bytes + self.bytes_of(key, count);
        let is_full = more > MOST_COUNTED_BYTES;
        let is_known = self.rows.contains_key(&key);
        if !is_full {
            self.bytes = more;
        }
        // A row that is shown has all its calls.
        let row = if is_known || !is_full {
            self.rows.entry(key).or_insert_with(|| Counted {
                hook,
                place,
                ..Counted::default()
            })
        } else {
            self.others.get_or_insert_default()
        };
        row.returned = row.returned.saturating_add(count.returned);
        row.left = row.left.saturating_add(left);
        row.total = row.total.saturating_add(count.total);
        row.longest = row.longest.max(count.longest);
        row.shortest = match [row.shortest, count.shortest] {
            [0, one] | [one, 0] => one,
            [a, b] => a.min(b),
        };
        row.errors = row.errors.saturating_add(count.errors);
        row.bytes = row.bytes.saturating_add(count.bytes);
        for (bucket, more) in filled(count) {
            let place = row.buckets.binary_search_by_key(&bucket, |one| one.0);
            let place = match place {
                Err(at) if is_known && is_full => nearest(&row.buckets, at, bucket).ok_or(at),
                place => place,
            };
            match place {
                Ok(at) => row.buckets[at].1 = row.buckets[at].1.saturating_add(more),
                Err(at) => {
                    row.buckets.reserve_exact(1);
                    row.buckets.insert(at, (bucket, more));
                }
            }
        }
    }

    /// How many bytes more `rows` takes with this count.
    fn bytes_of(&self, key: Key, count: &calls::Count) -> usize {
        let row = self.rows.get(&key);
        let is_new = |bucket: &u8| {
            let known = row.map(|row| row.buckets.binary_search_by_key(bucket, |one| one.0));
            !matches!(known, Some(Ok(_)))
        };
        let new = filled(count).filter(|(bucket, _)| is_new(bucket)).count();
        // Each row has room for one bucket, so that its calls find one when there is no more room.
        let room = |buckets: usize| buckets.max(1) * size_of::<(u8, u64)>();
        match row.map(|row| row.buckets.len()) {
            Some(known) => room(known + new) - room(known),
            None => size_of::<(Key, Counted)>() + room(new),
        }
    }
}

/// The place of the bucket whose number is nearest to that of one that would stand at `at`; `None` = there is none.
fn nearest(buckets: &[(u8, u64)], at: usize, bucket: u8) -> Option<usize> {
    let beside = [at.checked_sub(1), Some(at)].into_iter().flatten();
    let known = beside.filter(|place| *place < buckets.len());
    known.min_by_key(|place| buckets[*place].0.abs_diff(bucket))
}

/// The buckets that have calls, by rising number, and how many these are.
fn filled(count: &calls::Count) -> impl Iterator<Item = (u8, u64)> {
    const { assert!(calls::BUCKETS <= 1 << u8::BITS) };
    let buckets = (0..=u8::MAX).zip(count.buckets);
    buckets
        .filter(|(_, calls)| *calls != 0)
        .map(|(bucket, calls)| (bucket, calls.into()))
}

/// What may still be read of tables.
struct Budget<'a> {
    /// How many rows.
    left: &'a mut usize,
    /// The addresses of the tables that were read, each of which is read once.
    tables: &'a mut HashSet<u64>,
}

/// Limit of unmarked rows between two marked ones that are read along with them, because another system call would cost more.
const BETWEEN: usize = 4;

/// Returns the ranges of rows that contain all marked ones; each mark is one bit, from the lowest on.
fn runs(marks: &[u64]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (word, marks) in marks.iter().enumerate() {
        let mut marks = *marks;
        while marks != 0 {
            let row = word * 64 + marks.trailing_zeros() as usize;
            marks &= marks - 1;
            match runs.last_mut() {
                Some(last) if row <= last.end + BETWEEN => last.end = row + 1,
                _ => runs.push(row..row + 1),
            }
        }
    }
    runs
}

impl Rings {
    /// Returns the calls counted in this session so far, by function and line, and behind them the sum of those for which there was no
    /// room here, if any. Rows that could not be read count as [`losses`](Self::losses) from then on.
    pub fn counted(&mut self) -> Result<(Vec<Counted>, Option<Counted>)> {
        let mut all = Rows::default();
        let mut tables = HashSet::new();
        let mut rows_left = MOST_ROWS;
        for ring in self.known.iter().filter(|ring| ring.there) {
            let table = self
                .backing
                .word(ring.address + offset_of!(Ring, counts) as u64)?;
            let session = self
                .backing
                .half(ring.address + offset_of!(Ring, session) as u64)?;
            if table == 0 || session != self.session || !tables.insert(table) {
                continue;
            }
            let mut counts = self.table(ring.address, table, &mut rows_left, &mut all)?;
            let mut further = Budget {
                left: &mut rows_left,
                tables: &mut tables,
            };
            counts.extend(self.further(ring.address, &mut further, &mut all)?);
            for (row, count) in counts {
                let open = self.open.get(&(ring.address, row as u64));
                let over = [count.returned, count.moved, open.copied().unwrap_or(0)];
                let over = over.into_iter().fold(0, u64::saturating_add);
                let hook = (count.key as u32).wrapping_sub(1);
                let line = (count.key >> 32) as u32;
                let line = match line & 0xffff {
                    NO_APPLICATION => none_of(line >> 16),
                    line => line,
                };
                let place = ring.decoder.places.get(&line).copied();
                all.add(hook, place, &count, count.begun.saturating_sub(over));
            }
        }
        self.rows_lost = all.lost;
        Ok((all.rows.into_values().collect(), all.others))
    }

    /// Reads the rows behind a ring's first table of counts, with their numbers. Rows that went with the process are counted as at least
    /// one lost call each, and so are those that are too many.
    fn further(
        &self,
        ring: u64,
        budget: &mut Budget,
        all: &mut Rows,
    ) -> Result<Vec<(usize, calls::Count)>> {
        let field = ring + offset_of!(Ring, further) as u64;
        let used = self
            .backing
            .word(field + offset_of!(Further, used) as u64)?;
        let used = used.min((ALL_COUNTS - COUNTS) as u64) as usize;
        let mut rows = Vec::new();
        for (number, start) in (0..used).step_by(COUNTS).enumerate() {
            let at = field + (offset_of!(Further, tables) + number * 8) as u64;
            let table = self.backing.word(at)?;
            if table <= REFUSED || !budget.tables.insert(table) {
                break;
            }
            let taken = COUNTS.min(used - start);
            let count = taken.min(*budget.left);
            *budget.left -= count;
            let counts: Vec<calls::Count> = match self.backing.records(table, count) {
                Ok(counts) => counts,
                Err(error) if error.is_left() => Vec::new(),
                Err(error) => return Err(error),
            };
            all.lost = all.lost.saturating_add((taken - counts.len()) as u64);
            let numbers = COUNTS + start..;
            rows.extend(numbers.zip(counts).filter(|(_, count)| count.key != 0));
        }
        Ok(rows)
    }

    /// Reads the rows in use of a ring's first table of counts, as its header marks them, with their numbers. It reads at most `left` rows
    /// and subtracts them from `left`. Each further row is counted as at least one lost call.
    pub(super) fn table(
        &self,
        ring: u64,
        table: u64,
        left: &mut usize,
        all: &mut Rows,
    ) -> Result<Vec<(usize, calls::Count)>> {
        let field = ring + offset_of!(Ring, rows) as u64;
        let marks: Vec<u64> = self.backing.records(field, COUNTS / 64)?;
        let mut used = Vec::new();
        for run in runs(&marks) {
            let count = run.len().min(*left);
            *left -= count;
            all.lost = all.lost.saturating_add((run.len() - count) as u64);
            let at = table.wrapping_add((run.start * size_of::<calls::Count>()) as u64);
            let counts: Vec<calls::Count> = self.backing.records(at, count)?;
            used.extend(run.zip(counts).filter(|(_, count)| count.key != 0));
        }
        Ok(used)
    }

    /// Takes its tables of counts from a ring of a process that stands still.
    pub(super) fn leave_counts(&self, ring: u64) -> Result<()> {
        self.backing
            .set_word(ring + offset_of!(Ring, counts) as u64, 0)?;
        let further = ring + offset_of!(Ring, further) as u64;
        (0..size_of::<Further>() as u64)
            .step_by(8)
            .try_for_each(|word| self.backing.set_word(further + word, 0))
    }

    /// Notes which calls are still open, by address of the ring and row of its table. They are not counted as left.
    pub(crate) fn note_open(&mut self, open: &[(u64, u64)]) {
        for call in open {
            *self.open.entry(*call).or_default() += 1;
        }
    }

    /// Returns how many hooks have panicked ([`Calls::panics`]).
    pub(super) fn panics(&self) -> Result<u64> {
        self.backing
            .word(self.calls + offset_of!(Calls, panics) as u64)
    }

    /// Returns how many pieces of memory could not be copied ([`Calls::uncopied`]).
    pub(super) fn uncopied(&self) -> Result<u64> {
        self.backing
            .word(self.calls + offset_of!(Calls, uncopied) as u64)
    }

    /// Returns what was lost in this session so far. What the agent counts in its own memory went with a process that is gone; what it
    /// counts in rings of the pool is there.
    pub fn losses(&self) -> Result<Losses> {
        let known = |now: Result<u64>, before: u64| match now {
            Err(error) if error.is_left() => Ok(0),
            now => now.map(|now| now.wrapping_sub(before)),
        };
        let mut losses = Losses {
            without_ring: self
                .without_ring
                .wrapping_sub(self.lost_before.without_ring),
            panics: known(self.panics(), self.lost_before.panics)?,
            uncopied: known(self.uncopied(), self.lost_before.uncopied)?,
            lines: self.lines_lost,
            uncounted: self.rows_lost,
            ..Losses::default()
        };
        for at in 0..self.known.len() {
            let ring = &self.known[at];
            if !ring.there {
                continue;
            }
            let lost = self.written(at)?.1.wrapping_sub(ring.lost_before);
            losses.records = losses
                .records
                .saturating_add(lost)
                .saturating_add(ring.abandoned);
            if self
                .backing
                .half(ring.address + offset_of!(Ring, session) as u64)?
                != self.session
            {
                continue;
            }
            losses.uncounted = losses.uncounted.saturating_add(u64::from(
                self.backing
                    .half(ring.address + offset_of!(Ring, uncounted) as u64)?,
            ));
        }
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a row has no more room, a duration counts as the nearest that it has.
    #[test]
    fn the_nearest_bucket_is_one_beside() {
        let buckets = [(3, 1), (9, 1)];
        let of = |bucket: u8| {
            let at = buckets.binary_search_by_key(&bucket, |one| one.0);
            nearest(&buckets, at.expect_err("a new one"), bucket)
        };
        assert_eq!([0, 4, 8, 200].map(of), [0, 0, 1, 1].map(Some));
        assert_eq!(nearest(&[], 0, 5), None);
    }

    /// Rows of one function and line are added up; where they take too many bytes, calls of others are added up together, and a row that is
    /// there still has all its calls.
    #[test]
    fn rows_are_bounded_and_what_has_none_is_counted_with_the_others() {
        let returned = |returned: u64, took| {
            let mut buckets = [0; calls::BUCKETS];
            buckets[calls::bucket(took)] = returned as u32;
            calls::Count {
                key: 1,
                begun: returned,
                returned,
                moved: 0,
                total: returned * took,
                longest: took,
                shortest: took,
                errors: 0,
                bytes: 0,
                buckets,
            }
        };
        let mut rows = Rows::default();
        let each = size_of::<(Key, Counted)>() + size_of::<(u8, u64)>();
        let most = MOST_COUNTED_BYTES / each;
        for hook in 0..most as u32 {
            rows.add(hook, None, &returned(1, 9), 0);
        }
        assert!(rows.others.is_none());
        // The same bucket takes no room.
        rows.add(0, None, &returned(2, 9), 1);
        let first = &rows.rows[&(0, None)];
        assert_eq!((first.returned, first.left, first.longest), (3, 1, 9));
        assert_eq!(first.buckets, [(calls::bucket(9) as u8, 3)]);
        // Full to the last byte: another bucket of a row that is there, two other functions, another line.
        rows.bytes = MOST_COUNTED_BYTES;
        rows.add(0, None, &returned(5, 900), 0);
        rows.add(u32::MAX, None, &returned(4, 5), 2);
        rows.add(0, Some(3), &returned(6, 5), 0);
        let first = &rows.rows[&(0, None)];
        assert_eq!((first.returned, first.longest), (8, 900));
        assert_eq!((first.shortest, first.total), (9, 3 * 9 + 5 * 900));
        assert_eq!(first.buckets, [(calls::bucket(9) as u8, 8)]);
        let others = rows.others.as_ref().expect("there are some");
        assert_eq!((others.returned, others.left), (10, 2));
        assert_eq!((others.shortest, others.longest), (5, 5));
        assert_eq!(others.buckets, [(calls::bucket(5) as u8, 10)]);
        assert_eq!((rows.lost, rows.rows.len()), (0, most));
        assert!(rows.bytes <= MOST_COUNTED_BYTES);
    }
}
