//! Children of vfork: until they run another program or end, they run in their parent's memory and write to its ring.
//! Used by `guest` and `straight`.

use crate::event::At;
use std::collections::{HashMap, HashSet};

/// What changes when another process than before writes to a ring.
pub enum Turn {
    /// A child writes for the first time.
    Begins,
    /// This child will not write again, and its end is not reported elsewhere.
    Over(i32),
}

/// The children of `vfork` that may write to the rings of one guest. It must see every record in the order of its ring; otherwise calls of
/// a child are reported as its parent's.
pub struct Vforks {
    /// For each ring, the last child that was made there: its id in the ring, and its id here, 0 if it was not found.
    made: HashMap<u32, (u32, i32)>,
    /// Rings to which that child has written, and its parent not since.
    speaking: HashSet<u32>,
    /// Whether programs that children run are followed; then their end is reported there.
    follow: bool,
}

impl Vforks {
    /// Without any child.
    pub fn new(follow: bool) -> Self {
        Vforks {
            made: HashMap::new(),
            speaking: HashSet::new(),
            follow,
        }
    }

    /// Whether no child was made recently; then only its own thread writes to a ring.
    pub fn is_none(&self) -> bool {
        self.made.is_empty()
    }

    /// Notes that a child was made, with its id as the guest numbers it and `here` in lancet's PID namespace. A child that has memory of
    /// its own never writes to this ring.
    pub fn forked(&mut self, ring: u32, child: u32, here: i32) {
        self.made.insert(ring, (child, here));
    }

    /// Whether a child writes to this ring, or did until now.
    pub fn concerns(&self, ring: u32, tid: u32) -> bool {
        let Some((child, _)) = self.made.get(&ring) else {
            return false;
        };
        *child == tid || self.speaking.contains(&ring)
    }

    /// Returns `at` with the process that writes, and what has changed if that is another one than before.
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
        let runs = || std::fs::read_link(process::proc_file::path(here, "exe")).is_ok();
        (at, (!self.follow || !runs()).then_some(Turn::Over(here)))
    }
}
