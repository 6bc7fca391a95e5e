//! The live screen: the functions in which threads ran in the last seconds, and what they waited for. Used by `run`.
//!
//! ```text
//!  each look ──► State::add
//!  each second, each key ──► State::renew, State::press ──► draw
//! ```
//!
//! All knowledge is in [`State`]; [`draw`] only paints it. While the user pauses, nobody looks at the processes.

mod screen;
mod state;

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use frames::live::open::{Live, Look};
use frames::profile::Profile;
use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::Event;
use report::profile::asleep;

use crate::sampling::Viewer;
use crate::ui::interrupt;
use crate::ui::screen::{IDLE, Screen, next_event};

use screen::draw;
use state::{Action, State};

pub use state::View;

/// How often the screen is painted while nobody touches a key.
const SECOND: Duration = Duration::from_secs(1);

/// What waits for keys waits no shorter than so long: the kernel counts that in milliseconds.
const SHORTEST: Duration = Duration::from_millis(1);

/// The looks, on a screen that is taken over at the first rest: what cannot be opened is said before.
pub struct OnScreen {
    screen: Option<Screen>,
    state: State,
}

impl OnScreen {
    /// Of these processes, in words.
    pub fn new(who: String, view: View) -> Self {
        OnScreen {
            screen: None,
            state: State::new(who, view),
        }
    }

    /// Gives the terminal back, and returns all that was seen.
    pub fn into_profile(self) -> Profile {
        drop(self.screen);
        self.state.into_profile()
    }
}

impl Viewer for OnScreen {
    fn has_screen(&self) -> bool {
        true
    }

    fn seen(&mut self, pid: i32, live: &Live, look: &Look) {
        let waits = |number| asleep(pid, &look.stacks, number);
        self.state.now.add_look(pid, live, look, &waits);
    }

    fn rest(
        &mut self,
        due: Instant,
        is_over: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Duration>> {
        let screen = match &mut self.screen {
            Some(screen) => screen,
            None => self.screen.insert(Screen::open()?),
        };
        rest(screen, &mut self.state, due, is_over, next_event)
    }
}

/// Rests until the next looks are due; see [`Viewer::rest`]. `events` waits at most so long for the next event.
fn rest<B>(
    terminal: &mut Terminal<B>,
    state: &mut State,
    mut due: Instant,
    is_over: &dyn Fn() -> bool,
    mut events: impl FnMut(Duration) -> io::Result<Option<Event>>,
) -> anyhow::Result<Option<Duration>>
where
    B: Backend,
    B::Error: Send + Sync + 'static,
{
    state.now.rounds += 1;
    let mut rested = Duration::ZERO;
    loop {
        let began = Instant::now();
        if state.is_old(SECOND) {
            state.renew();
            terminal.draw(|frame| draw(frame, state))?;
        }
        // The time of a pause is not the processes'.
        let is_over = || {
            if state.paused() {
                interrupt::asked()
            } else {
                is_over()
            }
        };
        let left = due.saturating_duration_since(Instant::now());
        if is_over() || !state.paused() && left.is_zero() {
            return Ok(Some(rested));
        }
        let was_paused = state.paused();
        let wait = if was_paused { IDLE } else { left };
        let event = if wait < SHORTEST {
            sleep(wait);
            None
        } else {
            events(wait)?
        };
        match event {
            Some(Event::Key(key)) => {
                if state.press(key) == Action::Quit {
                    return Ok(None);
                }
                terminal.draw(|frame| draw(frame, state))?;
            }
            Some(Event::Resize(..)) => {
                terminal.draw(|frame| draw(frame, state))?;
            }
            _ => {}
        }
        if was_paused {
            rested += began.elapsed();
            due += began.elapsed();
        }
    }
}

#[cfg(test)]
mod tests;
