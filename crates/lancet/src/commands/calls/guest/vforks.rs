//! Children of vfork: until they run another program or end, they run in their parent's memory and speak in its lane.

use crate::commands::calls::told::At;
use std::collections::{HashMap, HashSet};

/// See the module's text.
pub struct Vforks {
    /// By lane, the last child that was made there: as the guest numbers it, and as we do.
    made: HashMap<u32, (u32, i32)>,
    /// Lanes in which it speaks.
    speaking: HashSet<u32>,
    /// What a child runs next is followed.
    follow: bool,
}

impl Vforks {
    /// There is none yet.
    pub fn new(follow: bool) -> Self {
        Vforks {
            made: HashMap::new(),
            speaking: HashSet::new(),
            follow,
        }
    }

    /// A child was made. One that has memory of its own never speaks here.
    pub fn forked(&mut self, lane: u32, child: u32, here: i32) {
        self.made.insert(lane, (child, here));
    }

    /// Who speaks; and the child that has spoken up to now in this lane and will not any more, if nobody else tells of
    /// its end.
    pub fn speaks(&mut self, at: At) -> (At, Option<i32>) {
        let Some((child, here)) = self.made.get(&at.lane).copied() else {
            return (at, None);
        };
        if at.tid == child {
            self.speaking.insert(at.lane);
            return (At { pid: here, ..at }, None);
        }
        if !self.speaking.remove(&at.lane) {
            return (at, None);
        }
        self.made.remove(&at.lane);
        let runs = || std::fs::read_link(format!("/proc/{here}/exe")).is_ok();
        (at, (!self.follow || !runs()).then_some(here))
    }
}
