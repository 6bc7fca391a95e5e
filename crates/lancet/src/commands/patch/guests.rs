//! What the parts of the command share: errors in words, and the time for which patches stay.

use std::thread::sleep;
use std::time::{Duration, Instant};

use patch::{Error, Guest};

use crate::ui::advice::explain;
use crate::ui::interrupt;

/// Between two looks whether the time is over.
const LOOK: Duration = Duration::from_millis(50);

/// The error as one line, with the next step.
pub(super) fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}

/// Waits until the time is over, somebody asks lancet to end, or all processes have ended; those that have not.
pub(super) fn outlasts<'g>(guests: impl Iterator<Item = &'g Guest>, lasts: Duration) -> Vec<i32> {
    let until = Instant::now() + lasts;
    let mut alive: Vec<&Guest> = guests.collect();
    while !alive.is_empty() && Instant::now() < until && !interrupt::asked() {
        alive.retain(|guest| {
            let is_alive = guest.is_alive();
            if !is_alive {
                tell!("process {} has ended", guest.pid());
            }
            is_alive
        });
        sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    alive.iter().map(|guest| guest.pid()).collect()
}
