//! Children of the processes that the user has named (`--children`): which are to be opened, and which could not be. Used by `attached` and
//! `native::attached`.

use crate::watching::Notice;
use process::error::Error;
use process::guest;
use process::refusals::{Program, Refusals};
use std::time::Instant;

/// The processes that were named, and those below them that could not be opened.
#[derive(Default)]
pub struct Children {
    roots: Vec<i32>,
    refused: Refusals<Error>,
}

impl Children {
    /// Children of this process are to be found too.
    pub fn below(&mut self, root: i32) {
        self.roots.push(root);
    }

    /// Returns those that are to be opened now, each with its parent, parents first. What is to be said of others goes into `notices`.
    pub fn due(
        &mut self,
        notices: &mut Vec<Notice>,
        is_open: impl Fn(i32) -> bool,
    ) -> Vec<(i32, i32)> {
        let now = Instant::now();
        let below = self.roots.iter().flat_map(|root| guest::descendants(*root));
        let mut below: Vec<_> = below.collect();
        let there: Vec<i32> = below.iter().map(|(_, pid)| *pid).collect();
        let unopened = self.refused.look(&there, now, Program::of);
        notices.extend(unopened.into_iter().map(Notice::Lost));
        below.retain(|(_, pid)| !is_open(*pid) && self.refused.is_due(*pid, now));
        below
    }

    /// A child is open, or is gone.
    pub fn settled(&mut self, pid: i32) {
        self.refused.forget(pid);
    }

    /// A child that was tried at `since` could not be opened, which ran this program before; `None` = that is no loss. Returns what is to be
    /// said, if it is not tried again.
    pub fn refuse(
        &mut self,
        (pid, program): (i32, Option<Program>),
        error: Option<Error>,
        since: Instant,
    ) -> Option<Notice> {
        let given_up = self.refused.refuse(pid, error, since, program);
        given_up.map(Notice::Lost)
    }

    /// What was not said yet, because a report is about to be made without these children.
    pub fn untold(&mut self) -> impl Iterator<Item = Notice> {
        self.refused.untold().into_iter().map(Notice::Lost)
    }
}

/// Whether a process could not be opened because it has ended.
pub fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSuchProcess(_) | Error::Gone(_) | Error::Zombie(_)
    )
}
