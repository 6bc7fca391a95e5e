//! Which processes may be opened.

use std::time::Duration;

use anyhow::Context;
use process::guest;
use process::pidfd::PidFd;

/// The processes that may be opened.
pub enum Allowed {
    /// All that the kernel lets us open.
    Any,
    /// These, and those below them. A descriptor holds each of these, so that when it has ended another process with its number is not looked
    /// below. Which are below is looked up at each call.
    Below(Vec<(i32, PidFd)>),
}

impl Allowed {
    /// Those that the command line names; none: all.
    ///
    /// # Errors
    /// One of them does not exist.
    pub fn of(pids: &[i32]) -> anyhow::Result<Self> {
        if pids.is_empty() {
            return Ok(Allowed::Any);
        }
        let held = pids.iter().map(|pid| {
            let opened = PidFd::open(*pid);
            let held = opened.with_context(|| format!("process {pid} cannot be served"))?;
            Ok((*pid, held))
        });
        Ok(Allowed::Below(held.collect::<anyhow::Result<_>>()?))
    }

    /// Whether this process may be opened: why not.
    pub fn refuses(&self, pid: i32) -> Option<String> {
        let Allowed::Below(_) = self else {
            return None;
        };
        match self.list() {
            list if list.contains(&pid) => None,
            list if list.is_empty() => {
                Some("the processes that may be opened have all ended".into())
            }
            list => {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                Some(format!(
                    "process {pid} may not be opened here; these may: {}",
                    list.join(", ")
                ))
            }
        }
    }

    /// The processes that may be opened.
    pub fn list(&self) -> Vec<i32> {
        let Allowed::Below(held) = self else {
            // All but threads of the kernel are below the first process.
            let below = guest::descendants(1).into_iter().map(|(_, child)| child);
            return std::iter::once(1).chain(below).collect();
        };
        let living = held
            .iter()
            .filter(|(_, held)| !held.has_ended(Duration::ZERO));
        let all = living.flat_map(|(pid, _)| {
            let below = guest::descendants(*pid).into_iter().map(|(_, child)| child);
            std::iter::once(*pid).chain(below)
        });
        let mut all: Vec<i32> = all.collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
