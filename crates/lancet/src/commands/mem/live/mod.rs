//! The live screen: the rows of `lancet mem`, looked at again each second, or later where looks take long. Used by
//! `run`.
//!
//! ```text
//!  next() ──► State::update ──► rows ──► draw          once a second
//!  keys   ──► State::press  ──► rows ──► draw          at once
//! ```
//!
//! All knowledge is in [`State`]; [`draw`] only paints it, so that a test can hold a screen
//! against its expected text. Growth is counted from the first look, or from the last `m`: what
//! changes from second to second is mostly what the program makes and soon drops.

mod screen;
mod state;

use std::io;
use std::time::{Duration, Instant};

use births::analysis::{Census, View};
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::Event;

use crate::ui::interrupt;
use crate::ui::screen::{IDLE, Screen, next_event};

pub use screen::draw;
pub use state::{Action, State};

/// Shows the screen until the user quits or `next` has no more: a look at every guest, and how long to wait for the
/// one after it, or `None` when there is nothing left to look at. While the user pauses, `next` is
/// not called, and the guests are left in peace. The last look is handed back, for a report that
/// stays when the screen is gone.
pub fn run(
    view: View,
    next: impl FnMut() -> anyhow::Result<Option<(Vec<Census>, Duration)>>,
) -> anyhow::Result<Vec<Census>> {
    let mut screen = Screen::open()?;
    watch(&mut screen, view, next_event, next)
}

/// The loop itself. `events` waits at most so long for the next event.
fn watch<B>(
    terminal: &mut Terminal<B>,
    view: View,
    mut events: impl FnMut(Duration) -> io::Result<Option<Event>>,
    mut next: impl FnMut() -> anyhow::Result<Option<(Vec<Census>, Duration)>>,
) -> anyhow::Result<Vec<Census>>
where
    B: Backend,
    B::Error: Send + Sync + 'static,
{
    let mut state = State::new(view, crate::ui::terminal::color());
    let mut due = Instant::now();
    loop {
        if !state.paused() && Instant::now() >= due {
            match next()? {
                Some((censuses, wait)) => {
                    state.update(censuses);
                    // From the end of the look: one that takes long must not be followed by the next.
                    due = Instant::now() + wait;
                }
                None => break,
            }
        }
        // While looks are made, `next` sees the signal.
        if state.paused() && interrupt::asked() {
            break;
        }
        terminal.draw(|frame| draw(frame, &state))?;
        let wait = if state.paused() {
            IDLE
        } else {
            due.saturating_duration_since(Instant::now())
        };
        if let Some(Event::Key(key)) = events(wait)?
            && state.press(key) == Action::Quit
        {
            break;
        }
    }
    Ok(state.into_censuses())
}

#[cfg(test)]
mod tests;
