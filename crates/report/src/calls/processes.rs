//! The processes that a table of calls is of, for programs: a record for each, before the rows. Used by `format`,
//! `stacks`, `summary` and others.

use answer::process::Process;
use calls::event::{Event, EventKind, Opened};
use std::io::{self, Write};

use super::json::process;
use crate::forms::stacks;

/// So many are told one by one: a program that is followed may make any number of children.
const MOST: usize = 1000;

/// The processes that were opened, in their order.
#[derive(Debug, Default)]
pub struct Processes {
    known: Vec<(i32, Opened)>,
    /// Those that are not in `known`.
    more: u64,
}

impl Processes {
    /// Notes a process where the event says that one was opened.
    pub(crate) fn note(&mut self, event: &Event) {
        let EventKind::Opened(opened) = &event.kind else {
            return;
        };
        match self.known.len() < MOST {
            true => self.known.push((event.at.process, opened.clone())),
            false => self.more += 1,
        }
    }

    /// What they are, in short, for a line of text: the first one, and how many more there are.
    pub(crate) fn text(&self) -> Option<String> {
        let (pid, opened) = self.known.first()?;
        let first = format!("{} (PID {pid})", opened.command.join(" "));
        Some(match self.known.len() as u64 - 1 + self.more {
            0 => first,
            more => format!("{first} and {more} more"),
        })
    }

    /// The process, where there is one.
    pub(super) fn only(&self) -> Option<stacks::Process<'_>> {
        let known = self.known.iter();
        stacks::Process::only(&mut known.map(|(pid, opened)| ((*pid).into(), &*opened.command)))
    }

    /// Writes a record for each.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (pid, opened) in &self.known {
            crate::json::line(out, &process(*pid, opened))?;
        }
        match self.more {
            0 => Ok(()),
            more => {
                let others = Process {
                    pid: None,
                    ..Process::new(0, vec![format!("{more} more processes")])
                };
                crate::json::line(out, &answer::calls::Record::Process(others))
            }
        }
    }
}
