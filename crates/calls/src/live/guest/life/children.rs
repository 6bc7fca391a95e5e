//! The children of a traced process: reported by notices, waited for until they can be opened, opened. Used by `life`,
//! `watched` and `unadopted`.

use super::Guest;
use crate::debug::{self, say};
use crate::event::Event;
use crate::message::Message;
use crate::options::Options;
use inject::lifecycle::{Stage, Turn, Watched};
use std::time::Duration;

/// Time after which a child that is not ready is given up.
const CHILDHOOD: Duration = Duration::from_secs(10);

impl Guest {
    /// Whether its notices have reported this child.
    pub fn has_met(&self, child: i32) -> bool {
        self.life.met.contains(&child)
    }

    /// Whether a process has a copy of its memory, hooks included.
    pub fn is_copied_in(&self, child: i32) -> bool {
        self.tracing.is_copied_in(child).unwrap_or(false)
    }

    /// Opens children that are ready.
    pub(super) fn poll_children<P: Watched<Event = Event> + From<Guest>>(
        &mut self,
        args: &Options,
        turn: &mut Turn<P>,
    ) -> bool {
        let mut any = false;
        for (child, since) in std::mem::take(&mut self.life.children) {
            let ready = self.tracing.is_apart(child);
            if matches!(ready, Ok(false)) && since.elapsed() < CHILDHOOD {
                self.life.children.push((child, since));
                continue;
            }
            any = true;
            // Reads the lines that parent and child share.
            self.drain(&mut |event| turn.tell(event));
            match ready {
                Ok(true) | Err(_) => {
                    if let Some(guest) = self.adopt(child, args) {
                        let pid = self.pid();
                        say(
                            args,
                            debug::PROCESS,
                            format_args!("process {child}, a child of {pid}, is opened"),
                        );
                        turn.child(child, Stage::Open(guest.into()));
                    }
                }
                Ok(false) => {
                    let (pid, parent) = (child, self.pid());
                    self.messages
                        .say(Message::ChildWithoutRings { pid, parent });
                }
            }
        }
        any
    }

    fn adopt(&mut self, pid: i32, args: &Options) -> Option<Guest> {
        let adopted = self.tracing.adopt(pid);
        match adopted {
            Ok(tracing) => {
                if tracing.was_late().unwrap_or(false) {
                    let parent = self.pid();
                    self.messages.say(Message::ChildOpenedLate { pid, parent });
                }
                let mut child = Guest::new(tracing, args);
                child.clock = self.clock;
                child.names = self.names.clone();
                Some(child)
            }
            Err(error) => {
                // A child that has ended meanwhile waited in vain, and its memory that says so is gone.
                let parent = self.pid();
                self.messages
                    .say(Message::ChildNotFollowed { pid, parent, error });
                None
            }
        }
    }
}
