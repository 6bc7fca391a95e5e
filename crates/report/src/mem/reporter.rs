//! The reports of one run: of all processes together and of each, at the first look and at those that follow; and what a format of
//! them is. `lancet mem` makes a [`Reporter`] of its flags; the other files of this folder are its formats.

use std::io::{self, Write};

use births::analysis::{Census, Growth, Report, View, merge};

use crate::Style;
use crate::Writes;
use crate::forms::stacks::StackForm;

/// Writes what grew between two looks.
type WriteGrowth = fn(&mut dyn Write, &Census, &Growth, &Options) -> io::Result<()>;

/// One way to write the answer, and how it treats several guests and several reports.
#[derive(Debug)]
pub struct Format {
    /// What the answer writes in it.
    pub writes: Writes,
    /// Rows are cut to what a person reads, unless the user says how many.
    pub for_people: bool,
    /// More guests than this are not written one by one; merged they are in any case.
    pub(super) most_guests: usize,
    /// An empty line stands between two reports.
    pub(super) blank_lines: bool,
    pub(super) holders: fn(&mut dyn Write, &Look<'_>, &Options) -> io::Result<()>,
    /// Losses are said in the report; where they are not, they have to be said elsewhere.
    pub says_losses: bool,
    /// `None` where the format cannot say what changed: then who holds is written in its place.
    pub(super) growth: Option<WriteGrowth>,
}

impl crate::FormatEntry for Format {
    fn writes(&self) -> Writes {
        self.writes
    }
}

/// One look at one guest, and what is to be shown of it.
pub struct Look<'a> {
    pub(super) census: &'a Census,
    pub(super) report: &'a Report,
}

/// What is to be written of each look, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format, which is one of [`super::FORMATS`].
    pub format: &'static Format,
    /// What shows stacks, where the format gives them.
    pub stacks: &'static StackForm,
    /// What makes a row, and which rows there are.
    pub view: View,
    /// The figure at the end of a folded line.
    pub weight: Weight,
    /// How a table may look.
    pub style: Style,
    /// The number of living objects in one row (with `growing`: of its increase) above which a report exceeds.
    pub limit: Option<u64>,
    /// From the second look on, what changed since the one before is written.
    pub growing: bool,
}

/// Which number is the weight of a stack, where a form has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// The number of living objects.
    #[default]
    Live,
    /// The number of objects made while we watched.
    Born,
    /// The bytes of the living objects.
    Bytes,
}

/// Writes the reports of one run, one after the other.
pub struct Reporter {
    out: Box<dyn Write>,
    options: Options,
    /// The last look, where growth is wanted.
    previous: Vec<Census>,
    written: usize,
}

impl Reporter {
    /// Makes the reporter; nothing is written yet.
    pub fn new(out: Box<dyn Write>, options: Options) -> Self {
        Self {
            out,
            options,
            previous: Vec::new(),
            written: 0,
        }
    }

    /// Takes a look as the one from which the first growth is counted, and writes nothing.
    pub fn start(&mut self, censuses: Vec<Census>) {
        self.previous = censuses;
    }

    /// Writes the report of a look at every guest and flushes it. Returns whether the limit was exceeded.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn report(&mut self, censuses: Vec<Census>) -> io::Result<bool> {
        let format = self.options.format;
        if self.written > 0 && format.blank_lines {
            writeln!(self.out)?;
        }
        self.written += 1;
        let mut exceeded = false;
        if let Some((older, newer)) = self.merged(&censuses) {
            exceeded |= self.one(older.as_ref(), &newer)?;
        }
        let each = censuses.len() <= format.most_guests;
        if !each && format.for_people {
            writeln!(
                self.out,
                "\n{} processes are more than anybody reads one by one: --format json has each",
                censuses.len()
            )?;
        }
        for (at, census) in censuses.iter().enumerate().filter(|_| each) {
            if format.for_people && (at > 0 || censuses.len() > 1) {
                writeln!(self.out)?;
            }
            let older = self
                .previous
                .iter()
                .find(|older| older.is_of_same(census))
                .cloned();
            exceeded |= self.one(older.as_ref(), census)?;
        }
        self.out.flush()?;
        if self.options.growing {
            self.previous = censuses;
        }
        Ok(exceeded)
    }

    /// Ends the output: after the last report, with what was lost in the run.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(&mut self, losses: impl Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if self.options.format.writes.is_records() {
            losses(&mut self.out)?;
        }
        self.out.flush()
    }

    /// Adds up all guests, now and before. Growth is over the guests that were there both times: a worker that came or
    /// went did not grow or shrink.
    fn merged(&self, censuses: &[Census]) -> Option<(Option<Census>, Census)> {
        if censuses.len() < 2 {
            return None;
        }
        let common = |these: &[Census], those: &[Census]| -> Vec<Census> {
            let there = |census: &&Census| those.iter().any(|other| other.is_of_same(census));
            these.iter().filter(there).cloned().collect()
        };
        let stayed = common(censuses, &self.previous);
        match stayed.len() {
            0 => merge(censuses).map(|all| (None, all)),
            // The sum of one is shown as the one itself.
            1 => None,
            _ => merge(&stayed).map(|newer| (merge(&common(&self.previous, censuses)), newer)),
        }
    }

    fn one(&mut self, older: Option<&Census>, newer: &Census) -> io::Result<bool> {
        let options = &self.options;
        let out = &mut *self.out;
        let report = Report::new(newer, &options.view);
        // Looks that cannot be compared are none of the same watch: growth is told from the next one on.
        let growth = older.and_then(|older| Growth::new(older, newer, &options.view).ok());
        match (options.format.growth, &growth) {
            (Some(write), Some(growth)) => write(out, newer, growth, options)?,
            _ => {
                let look = Look {
                    census: newer,
                    report: &report,
                };
                (options.format.holders)(out, &look, options)?;
            }
        }
        let largest = match growth {
            Some(growth) => u64::try_from(growth.largest).unwrap_or(0),
            // The limit is of growth then, and of a first look there is none.
            None if options.growing => 0,
            None => report.largest,
        };
        Ok(options.limit.is_some_and(|limit| largest > limit))
    }
}
