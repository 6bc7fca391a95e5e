//! A traced process's children: told of, waited for until they can be opened, opened.

use super::{Guest, Step};
use crate::cli::CallsArgs;
use crate::commands::calls::told::Told;
use crate::ui::advice::explain;
use std::time::Duration;

/// A child that is not ready by then never will be.
const CHILDHOOD: Duration = Duration::from_secs(10);

impl Guest {
    /// Whether it has told of this child.
    pub fn has_met(&self, child: i32) -> bool {
        self.life.met.contains(&child)
    }

    /// Whether a process has a copy of its memory, hooks and all.
    pub fn is_copied_in(&self, child: i32) -> bool {
        self.tracing.is_copied_in(child).unwrap_or(false)
    }

    /// Opens children that are ready for it.
    pub(super) fn tend_children(
        &mut self,
        args: &CallsArgs,
        tell: &mut dyn FnMut(Told),
        steps: &mut Vec<Step>,
    ) -> bool {
        let mut any = false;
        for (child, since) in std::mem::take(&mut self.life.children) {
            let ready = self.tracing.is_apart(child);
            if matches!(ready, Ok(false)) && since.elapsed() < CHILDHOOD {
                self.life.children.push((child, since));
                continue;
            }
            any = true;
            // Lines that both know.
            self.drain(tell);
            match ready {
                Ok(true) | Err(_) => steps.extend(self.adopt(child, args).map(Step::Child)),
                Ok(false) => {
                    eprintln!(
                        "lancet: process {child}, a child of {}, is not followed: it has no memory for lanes of its own",
                        self.pid()
                    );
                    self.life.missed = true;
                }
            }
        }
        any
    }

    fn adopt(&mut self, pid: i32, args: &CallsArgs) -> Option<Box<Guest>> {
        let adopted = self.tracing.adopt(pid);
        match adopted {
            Ok(tracing) => {
                if tracing.was_late().unwrap_or(false) {
                    eprintln!(
                        "lancet: process {pid}, a child of {}, was opened too late for its first calls",
                        self.pid()
                    );
                    self.life.missed = true;
                }
                let mut child = Guest::new(tracing, args);
                child.clock = self.clock;
                child.names = self.names.clone();
                Some(Box::new(child))
            }
            Err(error) => {
                // A child that has ended meanwhile waited in vain, and has said so in its memory, which is gone.
                eprintln!(
                    "lancet: process {pid}, a child of {}, is not followed: {:#}",
                    self.pid(),
                    explain(error)
                );
                self.life.missed = true;
                None
            }
        }
    }
}
