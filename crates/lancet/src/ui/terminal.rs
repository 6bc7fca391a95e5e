//! Whether an output stream is a terminal, and which colour and width are welcome there. Used by
//! `commands::heap::browse`, `progress`, `commands::calls::args` and others.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm;
use report::Style;
use report::text::printable;

use super::patient::Patient;

/// A line without its end stands on standard error, which is a terminal: it is taken away before anything else is written.
pub static LINE_OPEN: AtomicBool = AtomicBool::new(false);

/// Goes to the beginning of the line and clears it (ECMA-48, EL).
pub const CLEAR: &str = "\r\x1b[K";

/// A line waits at most so long for a standard error that says that it is full. While hooks stand in a guest we have no
/// longer time.
const MOST_WAIT: Duration = Duration::from_millis(200);

/// The last line has waited so long in vain: the next one is not waited for.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Writes `lancet: ` and a text as one line to standard error. Use it by the macro `tell!`.
///
/// Where standard error is full or closed the text is lost and the command goes on, because its hooks must be taken out
/// all the same. Messages hold names and paths of guests, so control characters are escaped.
pub fn tell(text: fmt::Arguments) {
    let text = text.to_string();
    let clear = if LINE_OPEN.swap(false, Ordering::Relaxed) {
        CLEAR
    } else {
        ""
    };
    let line = format!("{clear}lancet: {}\n", printable(&text));
    let wait = match IS_FULL.load(Ordering::Relaxed) {
        true => Duration::ZERO,
        false => MOST_WAIT,
    };
    let written = Patient::at_most(io::stderr(), wait).write_all(line.as_bytes());
    let is_full = written.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    IS_FULL.store(is_full, Ordering::Relaxed);
}

/// One of our own two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, for the answers.
    Stdout,
    /// Standard error, for messages, and for the answers when a started program owns standard output.
    Stderr,
}

impl Stream {
    /// What a message calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        }
    }

    /// Returns where an answer goes that has no file: the standard output of a program that is started is its own.
    pub fn beside(program: &[OsString]) -> Self {
        match program.is_empty() {
            true => Self::Stdout,
            false => Self::Stderr,
        }
    }

    /// A file of its own for what is written there. The standard library's streams take it for success when the stream is closed, and
    /// hold a lock while a write waits.
    ///
    /// # Errors
    /// The stream is closed, or is open for reading only.
    pub fn open(self) -> io::Result<File> {
        let file = match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned(),
            Self::Stderr => io::stderr().as_fd().try_clone_to_owned(),
        }?;
        if !super::closed::is_writable(&file) {
            return Err(io::Error::other("it is closed, or open for reading only"));
        }
        Ok(file.into())
    }

    /// Returns whether it is a terminal.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }

    /// Returns how a text for this stream may look.
    pub fn style(self) -> Style {
        if !self.is_terminal() {
            return Style::default();
        }
        Style {
            color: color(),
            width: width(),
        }
    }
}

/// Returns whether colours may be used on a terminal: the user did not refuse them (no-color.org: set and
/// not empty) and the terminal knows them.
pub fn color() -> bool {
    color_is_welcome(env::var_os("NO_COLOR"), env::var_os("TERM"))
}

fn color_is_welcome(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_none_or(|term| term != "dumb")
}

fn width() -> Option<usize> {
    let (columns, _) = crossterm::terminal::size().ok()?;
    // A terminal that does not know its size says 0.
    (columns > 0).then_some(columns.into())
}

#[cfg(test)]
mod tests {
    use super::color_is_welcome;

    #[test]
    fn color() {
        let set = |text: &str| Some(text.into());
        assert!(color_is_welcome(None, set("xterm")));
        assert!(color_is_welcome(set(""), None));
        assert!(!color_is_welcome(set("1"), set("xterm")));
        assert!(!color_is_welcome(None, set("dumb")));
    }
}
