//! What the children of the processes run that are watched, as far as it can be seen by looking: one that begins programs all the time has one
//! of them nearly always. Used by `messages` and `run`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use process::guest::{children, command_words};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Programs that are told apart.
const MOST: usize = 64;
/// Programs that are told.
const TOLD: usize = 2;

/// How often each program was seen.
#[derive(Default)]
pub struct Ran {
    seen: BTreeMap<String, u32>,
    last: Option<Instant>,
}

impl Ran {
    /// Looks at the children, if that is due.
    pub fn look(&mut self, pids: &[i32]) {
        let now = Instant::now();
        if self
            .last
            .is_some_and(|last| now.duration_since(last) < LOOK)
        {
            return;
        }
        self.last = Some(now);
        for pid in pids {
            let own = command_words(*pid);
            for child in children(*pid).into_iter().take(MOST) {
                // One that has only been forked has its parent's words.
                let words = command_words(child);
                if words == own {
                    continue;
                }
                if let Some(name) = words.into_iter().next()
                    && (self.seen.len() < MOST || self.seen.contains_key(&name))
                {
                    *self.seen.entry(name).or_default() += 1;
                }
            }
        }
    }

    /// The programs that were seen most often.
    pub fn names(&self) -> Vec<String> {
        let mut all: Vec<(&String, &u32)> = self.seen.iter().collect();
        all.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let most = all.into_iter().take(TOLD);
        most.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_children_are_seen() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let mut ran = Ran::default();
        ran.look(&[std::process::id() as i32]);
        // Other tests have children, too.
        assert!(ran.seen.contains_key("sleep"), "{:?}", ran.seen);
        ran.look(&[std::process::id() as i32]);
        assert_eq!(ran.seen["sleep"], 1, "the second look is not due");
        assert!(ran.names().len() <= TOLD);
        let _ = (child.kill(), child.wait());
    }
}
