//! Children of the processes that the user has named (`--children`): which are to be opened, and which could not be. Used by `attached` and
//! `native::attached`.

use crate::watching::Notice;
use process::error::Error;
use process::guest;
use process::refusals::{Program, Refusals};
use std::collections::HashSet;
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
        if !self.roots.contains(&root) {
            self.roots.push(root);
        }
    }

    /// Returns those that are to be opened now, each with its parent, parents first. What is to be said of others goes into `notices`.
    pub fn due(
        &mut self,
        notices: &mut Vec<Notice>,
        is_open: impl Fn(i32) -> bool,
    ) -> Vec<(i32, i32)> {
        let now = Instant::now();
        let below = self.roots.iter().flat_map(|root| guest::descendants(*root));
        let mut below = each_once(below);
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

/// Each child once, as it was found first: one may be below several processes that were named.
fn each_once(below: impl Iterator<Item = (i32, i32)>) -> Vec<(i32, i32)> {
    let mut known = HashSet::new();
    below.filter(|(_, pid)| known.insert(*pid)).collect()
}

/// Whether a process could not be opened because it has ended.
pub fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSuchProcess(_) | Error::Gone(_) | Error::Zombie(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Of two processes that were named one is below the other: what is below both is opened once.
    #[test]
    fn what_is_below_two_is_due_once() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 1000 & wait"])
            .spawn()
            .expect("a shell");
        let (own, shell) = (std::process::id() as i32, child.id() as i32);
        let mut children = Children::default();
        for root in [own, shell, shell] {
            children.below(root);
        }
        let due = |children: &mut Children, is_open: &dyn Fn(i32) -> bool| {
            let due = children.due(&mut Vec::new(), is_open);
            due.into_iter()
                .filter(|(parent, pid)| *parent == shell || *pid == shell)
                .collect::<Vec<_>>()
        };
        let mut found = due(&mut children, &|_| false);
        while found.len() < 2 {
            found = due(&mut children, &|_| false);
        }
        let sleeper = guest::descendants(shell)[0].1;
        let open = due(&mut children, &|pid| pid == shell);
        let _ = Command::new("kill").arg(sleeper.to_string()).status();
        let _ = child.wait();
        assert_eq!(found, [(own, shell), (shell, sleeper)]);
        assert_eq!(open, [(shell, sleeper)]);
        assert_eq!(
            each_once([(1, 5), (2, 6), (5, 6), (1, 5)].into_iter()),
            [(1, 5), (2, 6)]
        );
    }
}
