//! The statistics of an allocator that replaces malloc. Its function is called in a copy of the process, so that the process itself is not
//! changed (`agent::snapshot::allocator`); the copy is ended afterwards.

use crate::Opened;
use enter::copy::Copy;
use enter::copy::confined::{Outcome, run};
use process::error::{Error, Result};
use std::time::Duration;
use wire::snapshot::allocator::{Asked, QUESTIONS, UNKNOWN};
use wire::snapshot::{self, Stage};

/// Time limit. An answer takes a millisecond, unless the allocator waits for a lock held by a thread that does not exist in the copy.
const PATIENCE: Duration = Duration::from_secs(3);

/// The answers of an allocator, and for how long the process was stopped for them.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// By the number of the question ([`wire::snapshot::allocator`]); `None` = the allocator does not know.
    pub values: [Option<u64>; QUESTIONS],
    /// How long the VM of the process stood still for the copy.
    pub pause: Duration,
}

impl Opened {
    /// Calls the allocator's function at this address in a copy of the process, then leaves the process.
    ///
    /// # Errors
    /// The process cannot be copied, or the copy ended, hung or could not be confined.
    pub fn ask_allocator(mut self, asked: Asked, function: u64) -> Result<Answers> {
        let answered = self.answered(asked, function);
        // The agent reaps the copy, which has ended by now.
        let left = self.guest.leave();
        let answers = answered?;
        left?;
        Ok(answers)
    }

    fn answered(&mut self, asked: Asked, function: u64) -> Result<Answers> {
        let pid = self.guest.pid();
        let copied = self.guest.copy()?;
        let copy = Copy::open(pid, copied)?;
        copy.tell_asked(asked, function)?;
        let outcome = run(&copy, snapshot::Opened::ToAsk, Stage::Answered, PATIENCE)?;
        let reason = match outcome {
            Outcome::Done => {
                let answers = copy.answers();
                copy.end()?;
                return Ok(Answers {
                    values: answers?.map(|value| (value != UNKNOWN).then_some(value)),
                    pause: copied.pause,
                });
            }
            Outcome::Refused => "a copy of it cannot be confined (seccomp)".to_owned(),
            Outcome::Ended(how) => format!("a copy of it that did so {how}"),
            Outcome::Late => format!(
                "a copy of it had no answer within {} s: another thread had a lock of the allocator's when it was copied",
                PATIENCE.as_secs()
            ),
        };
        copy.end()?;
        Err(Error::NotAsked { pid, reason })
    }
}
