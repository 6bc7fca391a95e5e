//! Children of vfork: until they run another program or end, they run in their parent's memory and speak in its ring.

use crate::event::At;
use std::collections::{HashMap, HashSet};

/// What changes when another process than before speaks in a ring.
pub enum Turn {
    /// A child speaks for the first time.
    Begins,
    /// This child will not speak any more, and nobody else tells of its end.
    Over(i32),
}

/// The children of `vfork` that may speak in the rings of one guest. It must be shown every record in the order of its ring, or calls of a child
/// are told as its parent's.
pub struct Vforks {
    /// By ring, the last child that was made there: what it is called in its ring, and its id, 0 if it was not found.
    made: HashMap<u32, (u32, i32)>,
    /// Rings in which that child has spoken, and its parent not since.
    speaking: HashSet<u32>,
    /// Whether programs that children run are followed: their end is told then by whoever follows them.
    follow: bool,
}

impl Vforks {
    /// Returns a value that knows of no child.
    pub fn new(follow: bool) -> Self {
        Vforks {
            made: HashMap::new(),
            speaking: HashSet::new(),
            follow,
        }
    }

    /// Whether no child was made of late: then nobody but its thread speaks in a ring.
    pub fn is_none(&self) -> bool {
        self.made.is_empty()
    }

    /// Notes that a child was made, with its id as the guest numbers it and `here` in lancet's PID namespace. A child that has memory of its own
    /// never speaks in this ring.
    pub fn forked(&mut self, ring: u32, child: u32, here: i32) {
        self.made.insert(ring, (child, here));
    }

    /// Whether a child speaks in this ring, or has spoken there until now.
    pub fn concerns(&self, ring: u32, tid: u32) -> bool {
        let Some((child, _)) = self.made.get(&ring) else {
            return false;
        };
        *child == tid || self.speaking.contains(&ring)
    }

    /// Returns `at` with the process that speaks, and what has changed if that is another than before.
    pub fn speaks(&mut self, at: At) -> (At, Option<Turn>) {
        let Some((child, here)) = self.made.get(&at.ring).copied() else {
            return (at, None);
        };
        if at.tid == child {
            let begins = self.speaking.insert(at.ring);
            return (
                At {
                    process: here,
                    ..at
                },
                begins.then_some(Turn::Begins),
            );
        }
        if !self.speaking.remove(&at.ring) {
            return (at, None);
        }
        self.made.remove(&at.ring);
        let runs = || std::fs::read_link(format!("/proc/{here}/exe")).is_ok();
        (at, (!self.follow || !runs()).then_some(Turn::Over(here)))
    }
}
