//! A program of which the blocks of its allocator are counted. Used by `started`.

use std::time::Duration;

use births::analysis::Census;
use births::native::attached::Attached;
use births::watching::{Notice, Watching};
use process::Error;

use super::super::MemArgs;
use super::program::{Heard, Started};
use crate::losses::Losses;
use crate::ui::advice::explain;

/// The program.
pub struct Blocks {
    attached: Attached,
    /// Something of it was reported.
    counted: bool,
    /// Why it could not be counted was said.
    lost: bool,
    /// It has ended, and could not be looked at then.
    unseen: bool,
}

impl Blocks {
    /// Starts the program.
    pub fn start(args: &MemArgs) -> anyhow::Result<Self> {
        let mut attached = Attached::new(args.native()?);
        attached.start(&args.program).map_err(explain)?;
        Ok(Blocks {
            attached,
            counted: false,
            lost: false,
            unseen: false,
        })
    }

    /// Notes and says what was reported since.
    fn hear(&mut self, losses: &mut Losses) {
        for notice in self.attached.notices() {
            match notice {
                Notice::Lost(error) => {
                    losses.process(error);
                    self.lost = true;
                }
                Notice::Said(pid, why) => losses.talk(format!("process {pid}: {why}")),
                Notice::Ended(_) => self.unseen = true,
                Notice::Opened { .. } => {}
            }
        }
    }
}

impl Started for Blocks {
    fn wait(&self, most: Duration) {
        self.attached.wait(most);
    }

    fn poll(&mut self, heard: &mut Heard) -> (bool, Option<i32>) {
        self.attached.poll(false);
        self.hear(&mut heard.losses);
        (false, self.attached.code())
    }

    fn census(&mut self, losses: &mut Losses) -> Vec<Census> {
        let found = self.attached.census(false);
        self.hear(losses);
        self.counted |= !found.is_empty();
        found.iter().for_each(|census| losses.of_census(census));
        found
    }

    fn leave(&mut self) -> Vec<Error> {
        self.attached.leave()
    }

    fn code(&mut self) -> Option<i32> {
        self.attached.code()
    }

    fn why_nothing(&self) -> Option<String> {
        let is_unknown = self.unseen || !self.counted && !self.lost;
        is_unknown.then(|| "what the program held at its end is not known".into())
    }
}
