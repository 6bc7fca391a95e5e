//! What the processes that are open have reported since it was last asked for. Used by `attached`.

use crate::session::{Event, Session};
use crate::watching::Notice;
use inject::lifecycle::{Observer, Over};
use process::error::Error;

#[derive(Default)]
pub(super) struct Notices {
    pub(super) notices: Vec<Notice>,
    /// The last counts of processes that can no longer be asked.
    pub(super) last: Vec<Event>,
}

impl Observer<Session> for Notices {
    fn event(&mut self, event: Event) {
        if matches!(event, Event::Final { .. }) {
            self.last.push(event);
        }
    }

    fn begins(&mut self, _: i32) {}

    fn unwatched(&mut self, _: i32, error: Error) {
        self.notices.push(Notice::Lost(error));
    }

    fn over(&mut self, session: Session, why: Over) {
        let pid = session.pid();
        match session.farewell() {
            _ if why != Over::Ended => {}
            // It was counted before its first Ractor, and that count says so.
            _ if self.has_last_of(pid) => {}
            Ok(Some(why)) if session.is_alive() => {
                self.notices.push(Notice::Lost(Error::Left { pid, why }))
            }
            Err(error) if session.is_alive() && !error.is_left() => {
                self.notices.push(Notice::Lost(error))
            }
            _ if session.is_alive() => self.notices.push(Notice::Lost(Error::Replaced(pid))),
            _ => self.notices.push(Notice::Ended(pid)),
        }
    }

    fn ended(&mut self, _: i32, _: Option<i32>) {}
}

impl Notices {
    fn has_last_of(&self, pid: i32) -> bool {
        let mut last = self.last.iter();
        last.any(|event| matches!(event, Event::Final { pid: of, .. } if *of == pid))
    }
}
