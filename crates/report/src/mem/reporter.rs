//! The reports of one run: of all processes together and of each, at the first look and at those that follow.

use std::io::{self, Write};

use births::analysis::{Census, Growth, Report, merge};

use super::format::{Look, Options};

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
