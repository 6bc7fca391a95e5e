//! How far long work has come, as one line of the terminal that is written over and over. Used by `watching::run`.

use super::terminal::{CLEAR, LINE_OPEN, Stream};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Work that is over sooner than that is not told of, and between one line and the next.
const LONG: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(200);

/// Shows progress on standard error, if that is a terminal; dropped, it takes its line away.
pub struct Progress {
    what: String,
    began: Instant,
    /// When the next line is due, since then.
    due: Duration,
    is_wanted: bool,
}

impl Progress {
    /// Of this work, if it is to be shown at all.
    pub fn new(what: String, is_wanted: bool) -> Self {
        Progress {
            what,
            began: Instant::now(),
            due: LONG,
            is_wanted: is_wanted && Stream::Stderr.is_terminal(),
        }
    }

    /// So much is done, from 0 to 1.
    pub fn show(&mut self, done: f64) {
        if !self.is_wanted {
            return;
        }
        if let Some(line) = self.line(self.began.elapsed(), done) {
            LINE_OPEN.store(true, Ordering::Relaxed);
            // A terminal that takes nothing is no reason to stop.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// What is shown after so long, if something is due.
    fn line(&mut self, took: Duration, done: f64) -> Option<String> {
        if took < self.due {
            return None;
        }
        self.due = took + OFTEN;
        let mut line = format!("{CLEAR}lancet: {}: {:.0} %", self.what, done * 100.0);
        // What little was done says nothing of the rest.
        if done > 0.02 {
            let left = took.as_secs_f64() * (1.0 - done) / done;
            line += &format!(", about {left:.0} s left");
        }
        Some(line)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if LINE_OPEN.swap(false, Ordering::Relaxed) {
            let _ = io::stderr().write_all(CLEAR.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_work_is_told_of_and_not_too_often() {
        let mut progress = Progress::new("q.lancet".into(), true);
        let mut line = |millis, done| progress.line(Duration::from_millis(millis), done);
        assert_eq!(line(900, 0.5), None);
        assert_eq!(
            line(1000, 0.01).as_deref(),
            Some("\r\x1b[Klancet: q.lancet: 1 %")
        );
        assert_eq!(line(1100, 0.1), None);
        let later = line(3000, 0.25);
        assert_eq!(
            later.as_deref(),
            Some("\r\x1b[Klancet: q.lancet: 25 %, about 9 s left")
        );
    }
}
