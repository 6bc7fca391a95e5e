//! `lancet heap --live`: a snapshot on the screen, to be walked through. Used by `run`.
//!
//! ```text
//!  snapshot ──► Analysis, Answers ──► View ──► State ──► draw
//!     ▲                                          │ keys
//!     └── the process is copied again ◄── n ─────┘
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`page`] | a list of numbers: its rows, their order, which one is chosen |
//! | [`view`] | what the snapshot says: which pages there are, and what is behind a row |
//! | [`rows`] | what a row says |
//! | [`state`] | which page is shown, and what the keys do |
//! | [`screen`] | the screen, painted |

mod page;
mod rows;
mod screen;
mod state;
mod view;

use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::Duration;

use anyhow::bail;
use heap::answers::Answers;
use heap::answers::diff::Diff;
use heap::{Analysis, Snapshot};
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::Event;
use report::heap::owner;

use crate::ui::interrupt;
use crate::ui::screen::{IDLE, Screen, next_event};
use crate::ui::terminal::{self, Stream};
use state::{Action, State};
use view::View;

/// Refuses what is no terminal.
///
/// # Errors
/// Keys or the screen are elsewhere.
pub fn require_terminal() -> anyhow::Result<()> {
    if !Stream::Stdout.is_terminal() || !io::stdin().is_terminal() {
        bail!(
            "--live is for a terminal, and standard input or output is none: leave --live away, or take --format html"
        );
    }
    Ok(())
}

/// Shows a snapshot until the user leaves; returns the last one. `again` makes a new one, if that is possible; what it says
/// is said on the terminal as it was before.
pub fn run(
    first: Snapshot,
    contents: bool,
    mut again: Option<&mut dyn FnMut() -> anyhow::Result<Snapshot>>,
) -> anyhow::Result<Rc<Snapshot>> {
    interrupt::catch();
    let mut mark: Option<Rc<Snapshot>> = None;
    let mut snapshot = Rc::new(first);
    let mut is_mark = false;
    let mut failed = None;
    loop {
        let shown = Shown {
            snapshot: &snapshot,
            mark: mark.as_deref(),
            contents,
            can_renew: again.is_some(),
        };
        let (action, marked) = show(&shown, failed.take())?;
        let (Action::Again, Some(again)) = (action, again.as_mut()) else {
            return Ok(snapshot);
        };
        is_mark |= marked;
        match again() {
            Ok(new) => {
                let before = std::mem::replace(&mut snapshot, Rc::new(new));
                if std::mem::take(&mut is_mark) || mark.is_none() {
                    mark = Some(before);
                }
            }
            // The process may have ended; the snapshot that is there can be looked at all the same.
            Err(error) => failed = Some(format!("no new snapshot: {error:#}")),
        }
    }
}

/// What is shown until the user wants another snapshot.
struct Shown<'a> {
    snapshot: &'a Snapshot,
    /// The snapshot with which it is compared.
    mark: Option<&'a Snapshot>,
    /// Whether contents of objects are shown.
    contents: bool,
    /// Whether another snapshot can be made.
    can_renew: bool,
}

/// Shows one snapshot, and what is new in it; returns what the user wants then, and whether new is what comes after it.
/// `message` stands in the place of the keys until one is pressed.
fn show(shown: &Shown<'_>, message: Option<String>) -> anyhow::Result<(Action, bool)> {
    let analysis = Analysis::of(shown.snapshot);
    let answers = Answers::of(&analysis, owner);
    let view = View {
        answers: &answers,
        diff: shown
            .mark
            .map(|mark| Diff::of(&Analysis::of(mark), &analysis)),
        contents: shown.contents,
    };
    let mut state = State::new(view, terminal::color(), shown.can_renew);
    state.message = message;
    let mut screen = Screen::open()?;
    let action = watch(&mut screen, &mut state, next_event)?;
    Ok((action, state.is_mark()))
}

/// The loop itself, until a key asks for something else. `events` waits at most so long for the next event.
fn watch<B>(
    terminal: &mut Terminal<B>,
    state: &mut State,
    mut events: impl FnMut(Duration) -> io::Result<Option<Event>>,
) -> anyhow::Result<Action>
where
    B: Backend,
    B::Error: Send + Sync + 'static,
{
    while !interrupt::asked() {
        terminal.draw(|frame| screen::draw(frame, state))?;
        if let Some(Event::Key(key)) = events(IDLE)? {
            match state.press(key) {
                Action::Stay => {}
                action => return Ok(action),
            }
        }
    }
    Ok(Action::Quit)
}

#[cfg(test)]
mod tests;
