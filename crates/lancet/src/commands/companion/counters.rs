//! What one thread of the program calls between two marks that it sets: how often, for how long, how many bytes. Used
//! by `watches`.
//!
//! ```text
//!   thread A   mark 7 ── read ── mysql_send_query … mysql_read_query_result ── mark 8      between 7 and 8: 1 read, 1 query
//!   thread B        read ── read ── mark 9 …                                              of B, not of A
//! ```
//!
//! `lancet calls` tells each call when it has ended, those of one thread in their order. A mark is a call too: of `getenv`, with a name that
//! nobody else asks for, so the thread sets it for a fraction of a microsecond and without an answer. What lies between two of them is added up only when
//! somebody asks, out of the last calls, which are kept.

mod call;
mod functions;
mod prototypes;
mod record;
mod rows;
mod sums;
mod texts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::process::ChildStdout;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use call::{Call, Made, What};
pub use functions::GROUPS;
use functions::of_group;
use record::{Is, Record, SETS_MARK};
pub use rows::Details;
pub use sums::Sum;
use texts::Texts;

/// How many of the last calls are kept, of all threads: 20 MiB.
const MOST_KEPT: usize = 1 << 18;
/// How long a mark may take from the program to here. `lancet calls` looks at its rings every few milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// So long after a loss it was heard of, in nanoseconds.
const HEARD: u64 = 2_000_000_000;
/// How often what is to be done meanwhile is done while a mark is waited for.
const LOOK: Duration = Duration::from_millis(50);
/// How many sentences about what is not hooked are kept.
const MOST_SENTENCES: usize = 16;
/// Bytes of the longest line that is parsed: a call that is counted has no longer one, because strings are cut.
const LONGEST: usize = 1 << 16;

/// Characters of a string: a longer statement is told apart from others by its beginning.
const STRINGS: &str = "1000";

/// The words of `lancet calls` for these groups of functions; `None` if one is none.
pub fn words(groups: &[String]) -> Option<Vec<String>> {
    let mut words = vec![
        "-s".to_owned(),
        STRINGS.to_owned(),
        "-x".to_owned(),
        SETS_MARK.to_owned(),
    ];
    if let Some(path) = prototypes::path() {
        words.extend(["-F".to_owned(), path]);
    }
    for group in groups {
        for function in of_group(group)? {
            words.extend(["-x".to_owned(), function.name.to_owned()]);
        }
    }
    Some(words)
}

/// What is known of calls that are not told.
pub enum Lacking {
    /// Functions that are not hooked, as a sentence.
    Hooks(String),
    /// How many calls were lost until now.
    Calls(u64),
}

/// The last calls of a program.
#[derive(Clone, Default)]
pub struct Counters(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Default)]
struct Kept {
    calls: VecDeque<Call>,
    texts: Texts,
    /// What is not hooked, a sentence each.
    lacks: Vec<String>,
    /// How many calls were lost until now, of all threads.
    lost: u64,
    /// How many times `lancet calls` was heard: calls, and how many were lost.
    heard: u64,
    /// The highest number of a mark that is not kept any more.
    forgotten: Option<u64>,
    /// `lancet calls` has ended: no more calls come.
    over: bool,
}

/// What a thread has called in some stretches of its time.
#[derive(Debug)]
pub struct Between {
    /// Its calls, added up by group.
    pub sums: Vec<Sum>,
    /// What they were about, by line.
    pub details: Details,
    /// What may be missing in them, a sentence each.
    pub lost: Vec<String>,
}

/// Why calls cannot be added up.
#[derive(Debug, PartialEq, Eq)]
pub enum Lacks {
    /// The last mark has not come, and nothing else: calls are not told any more.
    Calls,
    /// The last mark has not come in time, and other calls have: it was dropped.
    End,
    /// A mark is not kept any more.
    Beginning,
}

impl Counters {
    /// Of a program, with no call yet.
    pub fn of(pid: i32) -> Self {
        let kept = Kept {
            texts: Texts::of(pid),
            ..Kept::default()
        };
        Counters(Arc::new((Mutex::new(kept), Condvar::new())))
    }

    /// Reads what `lancet calls` tells, to its end; not what code below the folder `hidden` calls.
    pub fn read(&self, from: ChildStdout, hidden: Option<&str>) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut part = from.by_ref().take(LONGEST as u64 + 1);
            match part.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                // Nothing is made of a longer one; what follows of it begins with no record.
                Ok(length) if length > LONGEST => {}
                Ok(_) => match Record::of(&line) {
                    Some(record) => self.keep_record(&record, hidden),
                    None => self.kept().heard += 1,
                },
            }
        }
        self.kept().over = true;
        self.0.1.notify_all();
    }

    /// Hears what is not hooked, or how many calls were lost until now.
    pub fn hear(&self, lacks: Lacking) {
        let mut kept = self.kept();
        match lacks {
            Lacking::Hooks(text) if kept.lacks.len() < MOST_SENTENCES => kept.lacks.push(text),
            Lacking::Hooks(_) => {}
            Lacking::Calls(lost) => {
                kept.lost = lost;
                kept.heard += 1;
            }
        }
    }

    /// Whether calls are still told, as far as is known.
    pub fn is_there(&self) -> bool {
        !self.kept().over
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_record(&self, record: &Record, hidden: Option<&str>) {
        let mut kept = self.kept();
        match call_of(record, hidden, &mut kept.texts) {
            Some(call) => self.keep(kept, call),
            None => kept.heard += 1,
        }
    }

    fn keep(&self, mut kept: MutexGuard<'_, Kept>, mut call: Call) {
        if let What::Mark { lost, .. } = &mut call.what {
            *lost = kept.lost;
        }
        if kept.calls.len() == MOST_KEPT
            && let Some(What::Mark { number, .. }) = kept.calls.pop_front().map(|it| it.what)
        {
            kept.forgotten = kept.forgotten.max(Some(number));
        }
        kept.calls.push_back(call);
        kept.heard += 1;
        if matches!(call.what, What::Mark { .. }) {
            self.0.1.notify_all();
        }
    }

    /// Adds up the calls in stretches of one thread's time, each between two marks. Waits for the last one, and does what is to be done meanwhile.
    pub fn between(
        &self,
        stretches: &[(u64, u64)],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Between, Lacks> {
        let deadline = Instant::now() + PATIENCE;
        let last = stretches.last().map(|(_, to)| *to);
        let is_end =
            |call: &Call| matches!(call.what, What::Mark { number, .. } if Some(number) == last);
        let mut kept = self.kept();
        let heard_before = kept.heard;
        loop {
            if stretches.is_empty() || kept.calls.iter().rev().any(is_end) {
                return kept.sum(stretches);
            }
            // Marks have their numbers in the order in which they are set: this one has been here.
            if last <= kept.forgotten {
                return Err(Lacks::Beginning);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if kept.over || left.is_zero() {
                let is_silent = kept.over || kept.heard == heard_before;
                return Err(if is_silent { Lacks::Calls } else { Lacks::End });
            }
            let (waited, timeout) = self
                .0
                .1
                .wait_timeout(kept, left.min(LOOK))
                .unwrap_or_else(PoisonError::into_inner);
            kept = waited;
            if timeout.timed_out() {
                drop(kept);
                meanwhile();
                kept = self.kept();
            }
        }
    }
}

impl Kept {
    fn sum(&self, stretches: &[(u64, u64)]) -> Result<Between, Lacks> {
        let places = self.places(stretches);
        let mut of_thread = Vec::new();
        let (mut lost_before, mut lost_after) = (None, self.lost);
        let (mut began, mut within) = (None, 0);
        for (from, to) in stretches {
            let begin = *places.get(from).ok_or(Lacks::Beginning)?;
            let end = *places.get(to).ok_or(Lacks::Beginning)?;
            let first = self.calls[begin];
            if begin > end || first.tid != self.calls[end].tid {
                return Err(Lacks::Beginning);
            }
            if let What::Mark { lost, .. } = first.what {
                lost_before.get_or_insert(lost);
            }
            lost_after = self.lost_until(end);
            began.get_or_insert(first.start);
            within += self.calls[end].start.saturating_sub(first.start);
            let calls = self.calls.range(begin..end);
            of_thread.extend(calls.filter(|call| call.tid == first.tid));
        }
        let lost_meanwhile = lost_after.saturating_sub(lost_before.unwrap_or(lost_after));
        let mut lost = self.lacks.clone();
        if lost_meanwhile != 0 {
            lost.push(format!(
                "{lost_meanwhile} calls of all threads were lost meanwhile, because they came faster than they could be read: some may be missing"
            ));
        }
        let counted = sums::counted(of_thread.into_iter());
        let began = began.unwrap_or_default();
        Ok(Between {
            sums: sums::of(&counted),
            details: Details::of(&counted, began, within, &self.texts),
            lost,
        })
    }

    /// How many calls were lost until a mark, as it is known from the first one of any thread that is so much later that what was lost was heard.
    fn lost_until(&self, mark: usize) -> u64 {
        let heard = self.calls[mark].start.saturating_add(HEARD);
        let mut later = self.calls.range(mark..);
        let known = later.find_map(|call| match call.what {
            What::Mark { lost, .. } if call.start >= heard => Some(lost),
            _ => None,
        });
        known.unwrap_or(self.lost)
    }

    /// Where the marks of these stretches are. The last calls are looked at first, so those of a short time are found soon.
    fn places(&self, stretches: &[(u64, u64)]) -> HashMap<u64, usize> {
        let mut wanted: HashSet<u64> = stretches
            .iter()
            .flat_map(|(from, to)| [*from, *to])
            .collect();
        let mut found = HashMap::new();
        for (place, call) in self.calls.iter().enumerate().rev() {
            if wanted.is_empty() {
                break;
            }
            if let What::Mark { number, .. } = call.what
                && wanted.remove(&number)
            {
                found.insert(number, place);
            }
        }
        found
    }
}

fn call_of(record: &Record, hidden: Option<&str>, texts: &mut Texts) -> Option<Call> {
    let end = record.end()?;
    let what = match record.is(hidden)? {
        Is::Mark(number) => What::Mark { number, lost: 0 },
        Is::Call(function) => {
            let (arguments, result) = (record.registers(), record.result());
            What::Of(Made {
                function,
                bytes: function.bytes(&arguments, result),
                subject: arguments.first().copied().unwrap_or_default(),
                result: result as i32,
                about: texts.about(function, record, end - record.time_ns),
                line: texts.line(record),
            })
        }
    };
    Some(Call {
        tid: record.tid,
        what,
        start: record.time_ns,
        end,
    })
}

#[cfg(test)]
mod tests;
