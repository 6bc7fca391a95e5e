//! Finds databases that a process is connected to although none of the functions that a preset names for them is hooked:
//! drivers written in the script's language call no function that could be hooked, and their statements would be missing
//! without a message. Used by `guest`.

use super::open_descriptors;
use crate::options::Options;
use process::functions::Function;
use std::time::{Duration, Instant};
use vm::Memory;

/// Time between two looks at the connections of a process: the first, and the longest. Each is twice as long as the one
/// before.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// The peers of presets that were not found yet.
pub struct Peers {
    /// The end of a peer's address, and the prefix of the names of functions that talk to it.
    wanted: Vec<(String, String)>,
    next: Instant,
    pause: Duration,
}

impl Peers {
    /// For the presets in the options.
    pub fn of(args: &Options) -> Self {
        let peers = args.presets.iter().flat_map(|preset| &preset.peers);
        Peers {
            wanted: peers.cloned().collect(),
            next: Instant::now(),
            pause: FIRST,
        }
    }

    /// Checks, when it is time, whether the process is connected to a peer for which none of these functions is hooked.
    /// Returns such peers, each kind once.
    pub fn look(
        &mut self,
        pid: i32,
        memory: &dyn Memory,
        functions: impl FnOnce() -> Vec<Function>,
    ) -> Option<String> {
        if self.wanted.is_empty() || Instant::now() < self.next {
            return None;
        }
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
        let functions = functions();
        let speaks = |begin: &str| functions.iter().any(|one| one.name.starts_with(begin));
        let silent: Vec<_> = self
            .wanted
            .iter()
            .filter(|(_, begin)| !speaks(begin))
            .collect();
        if silent.is_empty() {
            return None;
        }
        let held = open_descriptors::after(pid, memory).unwrap_or_default();
        let (peer, begin) = held.into_values().find_map(|what| {
            let is_to =
                |(end, _): &&&(String, String)| what.starts_with("tcp to ") && what.ends_with(end);
            let begin = silent.iter().find(is_to)?.1.clone();
            Some((what, begin))
        })?;
        self.wanted.retain(|(_, known)| *known != begin);
        Some(peer)
    }
}
