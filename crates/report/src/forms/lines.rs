//! The output that records are written to where a form makes something else of them: it takes lines, and hands on records.
//! Used by `csv`, `markdown` and `parquet`.

use std::io::{self, Write};

use super::record::{Record, Role};

/// What shows records one after the other.
pub(super) trait Show {
    /// Takes a record, and writes what can be written by now.
    fn record(&mut self, record: Record, out: &mut dyn Write) -> io::Result<()>;

    /// Takes a line that is no record.
    fn message(&mut self, line: &[u8], out: &mut dyn Write) -> io::Result<()> {
        out.write_all(line)
    }

    /// Nothing comes for a while: writes what waits only for what comes behind it.
    fn rest(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Writes the rest. The answer `is_whole` where the record of the losses was the last one; else it was cut off.
    fn end(&mut self, is_whole: bool, out: &mut dyn Write) -> io::Result<()>;
}

/// Takes records as lines of JSON. What shows them is ended with the record of the losses, or when this is dropped without one.
pub(super) struct Lines<S: Show> {
    show: S,
    /// The beginning of a line.
    begun: Vec<u8>,
    is_over: bool,
    out: Box<dyn Write>,
}

impl<S: Show + 'static> Lines<S> {
    /// Shows records in `out`.
    pub fn over(show: S, out: Box<dyn Write>) -> Box<dyn Write> {
        Box::new(Lines {
            show,
            begun: Vec::new(),
            is_over: false,
            out,
        })
    }

    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        // What is no record is a message in front of them (a file with prototypes that cannot be read), and stays as it is.
        let Some(record) = Record::of(line) else {
            return self.show.message(line, &mut self.out);
        };
        let is_last = record.role() == Role::Losses;
        self.show.record(record, &mut self.out)?;
        if is_last {
            self.is_over = true;
            self.show.end(true, &mut self.out)?;
        }
        Ok(())
    }
}

impl<S: Show + 'static> Write for Lines<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end + 1);
            self.begun.extend_from_slice(line);
            let line = std::mem::take(&mut self.begun);
            self.line(&line)?;
            rest = behind;
        }
        self.begun.extend_from_slice(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.show.rest(&mut self.out)?;
        self.out.flush()
    }
}

impl<S: Show> Drop for Lines<S> {
    fn drop(&mut self) {
        if !self.is_over {
            // Whoever writes an answer has failed, and says so: this is what there was until then.
            let _ = self.show.end(false, &mut self.out);
            let _ = self.out.flush();
        }
    }
}
