//! Where calls come from: guests that are open.

use super::guest::Guest;
use super::signatures::Signatures;
use super::sink::Sink;
use crate::cli::CallsArgs;
use process::functions::Function;
use process::lanes::{Counted, Line};
use std::sync::Arc;

/// What a source has after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It had something; there may be more at once.
    More,
    /// Nothing now.
    Idle,
    /// Nothing any more.
    Over,
}

/// What was counted of a function and a line, where nanoseconds for a cycle are `period`.
#[derive(Debug)]
pub struct Count {
    /// The function.
    pub function: Arc<Function>,
    /// The line.
    pub line: Option<Arc<Line>>,
    /// How often, how long.
    pub counted: Counted,
    /// Nanoseconds of a cycle.
    pub period: f64,
}

/// Tells calls and returns in the order of time.
pub trait Source {
    /// Hands on what there is.
    fn read(&mut self, sink: &mut dyn Sink) -> anyhow::Result<Flow>;

    /// Ends it; what was told before can still be read. Whether it could be ended as it should.
    fn leave(&mut self) -> bool;

    /// What was counted instead of told.
    fn counted(&mut self) -> Vec<Count>;

    /// Says on standard error what got lost; whether anything did.
    fn say_losses(&mut self) -> bool;
}

/// Guests that are open.
pub struct Live<'a> {
    signatures: &'a Signatures,
    guests: Vec<Guest>,
    /// Some could not be opened.
    refused: bool,
}

impl<'a> Live<'a> {
    /// Opens and hooks the processes.
    pub fn open(args: &CallsArgs, signatures: &'a Signatures) -> anyhow::Result<Self> {
        let mut guests = Vec::new();
        let mut refused = false;
        for pid in &args.pids {
            match Guest::open(*pid, args, signatures) {
                Ok(guest) => guests.push(guest),
                Err(error) if args.pids.len() == 1 => return Err(error),
                Err(error) => {
                    eprintln!("lancet: {error:#}");
                    refused = true;
                }
            }
        }
        if guests.is_empty() {
            anyhow::bail!("none of the processes could be opened");
        }
        Ok(Live {
            signatures,
            guests,
            refused,
        })
    }
}

impl Source for Live<'_> {
    fn read(&mut self, sink: &mut dyn Sink) -> anyhow::Result<Flow> {
        let alive: Vec<bool> = self.guests.iter().map(Guest::is_alive).collect();
        for guest in self.guests.iter_mut().filter(|guest| guest.is_alive()) {
            if let Err(error) = guest.follow(self.signatures) {
                eprintln!("lancet: {error}");
            }
        }
        let mut any = false;
        for guest in &mut self.guests {
            any |= guest.read(sink)?;
        }
        Ok(match any {
            _ if !alive.contains(&true) => Flow::Over,
            true => Flow::More,
            false => Flow::Idle,
        })
    }

    fn leave(&mut self) -> bool {
        let mut left = true;
        for guest in self.guests.iter_mut().filter(|guest| guest.is_alive()) {
            if let Err(error) = guest.leave() {
                eprintln!("lancet: {error}");
                left = false;
            }
        }
        left
    }

    fn counted(&mut self) -> Vec<Count> {
        let mut all = Vec::new();
        for guest in &mut self.guests {
            match guest.counted() {
                Ok(counts) => all.extend(counts),
                Err(error) => eprintln!(
                    "lancet: what process {} had counted is lost: {error}",
                    guest.pid()
                ),
            }
        }
        all
    }

    fn say_losses(&mut self) -> bool {
        let mut lost = self.refused;
        for guest in &mut self.guests {
            lost |= guest.was_refused() | say_losses(guest);
        }
        lost
    }
}

fn say_losses(guest: &mut Guest) -> bool {
    let Ok(losses) = guest.losses() else {
        return false;
    };
    if losses.sum() == 0 {
        return false;
    }
    eprintln!(
        "lancet: process {}: lost: {} records that found no room in time, {} calls of threads without a lane, {} counts",
        guest.pid(),
        losses.records,
        losses.unlaned,
        losses.uncounted
    );
    true
}
