//! What the other end of a stream is, and what may be sent there.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};

use export::table::Style;
use ratatui::crossterm;

/// One of our own two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: the answers.
    Stdout,
    /// Standard error: talk, and the answers when a started program owns standard output.
    Stderr,
}

impl Stream {
    /// Whether a person looks at it.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }

    /// How a table for this stream may look.
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

/// Whether colours may be used on a terminal: the user did not refuse them (no-color.org: set and
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
