//! Which processes' events are wanted, and the names of these processes. Used by `lancet::commands::tune::events`.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::{Event, What};

/// The processes whose events are wanted: all, or some with their descendants.
#[derive(Debug)]
pub struct Followed {
    everyone: bool,
    /// Empty where all processes are followed.
    pids: HashSet<i32>,
    /// Names are kept, because that of a process that has ended cannot be read any more.
    names: HashMap<i32, String>,
}

impl Followed {
    /// Follows these processes and their descendants; everyone, if none is given.
    pub fn new(pids: &[i32]) -> Self {
        let mut followed: HashSet<i32> = pids.iter().copied().collect();
        if !followed.is_empty() {
            add_descendants(&mut followed);
        }
        Self {
            everyone: followed.is_empty(),
            pids: followed,
            names: HashMap::new(),
        }
    }

    /// Returns whether all that were followed have ended.
    pub fn is_done(&self) -> bool {
        !self.everyone && self.pids.is_empty()
    }

    /// Takes note of an event; every event must be given, in order. Returns the name of the process, or `None` if the
    /// event is of a thread or of a process that is not followed.
    pub fn admit(&mut self, event: &Event) -> Option<String> {
        // Threads come and go with every request of some servers; this is about processes.
        if event.thread != event.pid {
            return None;
        }
        let known = self.everyone || self.pids.contains(&event.pid);
        // A child that ended before the children were listed is recognised by its parent.
        let of_known = match event.what {
            What::Fork { parent } | What::Exit { parent, .. } => self.pids.contains(&parent),
            What::Exec | What::Name { .. } => false,
        };
        if !known && !of_known {
            return None;
        }
        match &event.what {
            What::Fork { parent } => {
                // It has its parent's name until it execs, so nothing of it needs to exist any more.
                let name = self.name(*parent);
                self.names.insert(event.pid, name);
                if !self.everyone {
                    self.pids.insert(event.pid);
                }
            }
            What::Exec => {
                self.names.remove(&event.pid);
            }
            What::Name { name } => {
                self.names.insert(event.pid, name.clone());
            }
            What::Exit { .. } => {}
        }
        let name = self.name(event.pid);
        if matches!(event.what, What::Exit { .. }) {
            self.names.remove(&event.pid);
            self.pids.remove(&event.pid);
        }
        Some(name)
    }

    fn name(&mut self, pid: i32) -> String {
        let read = || {
            let text = text_of(pid, "comm");
            text.map_or("?".to_owned(), |text| text.trim().to_owned())
        };
        self.names.entry(pid).or_insert_with(read).clone()
    }
}

/// A file of a process that may hold its name, whose bytes need not be UTF-8.
fn text_of(pid: i32, file: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds the children that exist already, their children, and so on.
fn add_descendants(of: &mut HashSet<i32>) {
    let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = text_of(pid, "stat")?;
            let parent = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((pid, parent))
        })
        .collect();
    loop {
        let before = of.len();
        let children = parents
            .iter()
            .filter(|(_, parent)| of.contains(parent))
            .map(|(pid, _)| *pid);
        let children: Vec<i32> = children.collect();
        of.extend(children);
        if of.len() == before {
            return;
        }
    }
}
