//! Lines of cells made into aligned text. Used by `heap::allocated`, `mem::table`, `mem::table::vm_memory` and others.

use std::io;

use crate::Style;
use crate::text::shortened;

/// What a line is, which decides its colour.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tone {
    Plain,
    Head,
    Dim,
    Warning,
    Worst,
}

/// One line: numbers, then a name.
pub(crate) struct Line {
    pub cells: Vec<String>,
    pub name: String,
    pub tone: Tone,
    /// Lines below it, under the name.
    callers: Vec<String>,
}

impl Line {
    /// Returns the line of a row of the report.
    pub fn row(cells: Vec<String>, name: String, tone: Tone, callers: Vec<String>) -> Self {
        Self {
            cells,
            name,
            tone,
            callers,
        }
    }

    /// Returns the line of the heading, the remainder or the total.
    pub fn words(cells: Vec<String>, words: impl Into<String>, tone: Tone) -> Self {
        Self {
            cells,
            name: words.into(),
            tone,
            callers: Vec::new(),
        }
    }
}

/// Writes the lines, the cells of each column as wide as its widest.
pub(crate) fn aligned(out: &mut dyn io::Write, lines: &[Line], style: &Style) -> io::Result<()> {
    let columns = lines.first().map_or(0, |line| line.cells.len());
    let widest = |at: usize| {
        lines
            .iter()
            .map(|line| line.cells[at].chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).filter_map(widest).collect();
    let indent: usize = widths.iter().map(|width| width + 2).sum();
    // A name shorter than this says nothing; then the line may wrap.
    let room = style
        .width
        .map(|width| width.saturating_sub(indent).max(24));
    for line in lines {
        let mut text = String::new();
        for (cell, width) in line.cells.iter().zip(&widths) {
            text.push_str(&format!("{cell:>width$}  "));
        }
        // Never cut: it is what the row is about. A line that is too long wraps.
        text.push_str(&line.name);
        written(out, &text, line.tone, style)?;
        for caller in &line.callers {
            let caller = match room {
                Some(room) => shortened(caller, room.saturating_sub(CALL.len())),
                None => caller.into(),
            };
            let text = format!("{:indent$}{CALL}{caller}", "");
            written(out, &text, Tone::Dim, style)?;
        }
    }
    Ok(())
}

/// The text before the name of a caller.
const CALL: &str = "  from ";

/// Writes one line, between a colour's escape codes where colour is wanted.
pub(crate) fn written(
    out: &mut dyn io::Write,
    text: &str,
    tone: Tone,
    style: &Style,
) -> io::Result<()> {
    let code = match tone {
        Tone::Plain => None,
        Tone::Head => Some("1"),
        Tone::Dim => Some("2"),
        Tone::Warning => Some("33"),
        Tone::Worst => Some("1;31"),
    };
    match code {
        Some(code) => writeln!(out, "{}", style.painted(text, code)),
        None => writeln!(out, "{text}"),
    }
}
