//! Where calls come from: guests that are open (and `replay`: a file).

use super::guest::Guest;
use super::signatures::Signatures;
use super::sink::Sink;
use crate::cli::CallsArgs;
use process::functions::Function;
use process::lanes::{Counted, Line, Losses};
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

    /// Ends it; what was told before can still be read. Whether all of it could be opened, and ended as it should.
    fn leave(&mut self) -> bool;

    /// What was counted instead of told.
    fn counted(&mut self) -> Vec<Count>;

    /// What got lost in each process.
    fn losses(&mut self) -> Vec<(i32, Losses)>;
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
            true => Flow::More,
            false if !alive.contains(&true) => Flow::Over,
            false => Flow::Idle,
        })
    }

    fn leave(&mut self) -> bool {
        let mut left = !self.refused;
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

    fn losses(&mut self) -> Vec<(i32, Losses)> {
        let guests = self.guests.iter_mut();
        guests
            .filter_map(|guest| Some((guest.pid(), guest.losses().ok()?)))
            .collect()
    }
}
