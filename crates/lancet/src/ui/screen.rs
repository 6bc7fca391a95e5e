//! The whole screen of a terminal, which the live views of the commands take over and give back. Used by
//! `commands::heap::browse::screen`, `commands::mem::live::screen`, `commands::heap::browse` and others.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Cell;

/// How long a key is waited for at a time where nothing else is due: so late a signal is seen that has come just before.
pub const IDLE: Duration = Duration::from_secs(1);

/// The screen, from when it was opened until this is dropped.
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// Standard output is none, or it cannot be switched.
    pub fn open() -> anyhow::Result<Self> {
        // ratatui sets a panic hook, too, which gives the terminal back before a message is printed.
        let terminal = ratatui::try_init().context("cannot take over the terminal")?;
        Ok(Screen(terminal))
    }
}

impl Deref for Screen {
    type Target = DefaultTerminal;

    fn deref(&self) -> &DefaultTerminal {
        &self.0
    }
}

impl DerefMut for Screen {
    fn deref_mut(&mut self) -> &mut DefaultTerminal {
        &mut self.0
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Waits at most so long for a key or a change of the window's size; `None` also when a signal has come.
///
/// # Errors
/// The terminal is gone.
pub fn next_event(wait: Duration) -> io::Result<Option<Event>> {
    await_input(wait)?;
    // Also what the window's change of size has left.
    if event::poll(Duration::ZERO)? {
        event::read().map(Some)
    } else {
        Ok(None)
    }
}

/// Waits for input, or a signal, for at most so long. An error if the terminal is gone (its window was closed, the
/// connection was cut): crossterm reads the end of such a terminal again and again, and would never come back.
fn await_input(wait: Duration) -> io::Result<()> {
    let stdin = io::stdin();
    let mut terminal = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match poll(
        &mut terminal,
        PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX),
    ) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    match terminal[0].revents() {
        Some(events) if events.intersects(gone) => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the terminal is gone",
        )),
        _ => Ok(()),
    }
}

/// Breaks a sentence at spaces into lines of a width, as far as its words allow it.
pub fn wrapped(text: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(Line::from).collect()
}

/// How many columns of figures there is room for beside the longest name of a row: figures give way to it, the last ones
/// first, down to the `least`.
pub fn fitting(widths: &[u16], least: usize, longest: usize, width: u16) -> usize {
    let taken = |columns: usize| -> usize {
        let widths = widths.iter().take(columns);
        widths.map(|width| usize::from(*width) + 1).sum()
    };
    let mut all = (least..=widths.len()).rev();
    let found = all.find(|columns| taken(*columns) + longest <= usize::from(width));
    found.unwrap_or(least)
}

/// Returns a figure of a table as a cell, at its right edge.
pub fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// A colour, where colours are welcome.
pub fn painted(has_color: bool, color: Color) -> Style {
    if has_color {
        Style::new().fg(color)
    } else {
        Style::new()
    }
}

/// The style of headings, and of what is chosen.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// The style of what matters less than the rest.
pub fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
