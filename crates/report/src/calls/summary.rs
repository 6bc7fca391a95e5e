//! `-c`: counts calls by function and script line, and has a format write the rows when nothing comes any more.

use super::format::{Counted, Format};
use calls::Event;
use calls::consumer::{Consumer, End};
use calls::summary::Rows;
use std::io::{self, Write};

/// Collects rows and writes them when nothing comes any more.
pub struct Summary {
    rows: Rows,
    format: &'static Format,
    out: Box<dyn Write>,
}

impl Summary {
    /// Adds events to `rows` and writes them at the end.
    pub fn new(rows: Rows, format: &'static Format, out: Box<dyn Write>) -> Self {
        Summary { rows, format, out }
    }
}

impl Consumer for Summary {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.rows.take(event);
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        self.rows.finish(&end);
        let counted = Counted {
            rows: &self.rows.sorted(),
            unit: self.rows.unit(),
            end: &end,
        };
        (self.format.counts)(&mut self.out, &counted)?;
        self.out.flush()
    }
}
