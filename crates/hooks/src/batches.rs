//! Many hooks are set and lifted in several short stops, between which the process runs. Used by `patcher`.
//!
//! A hook takes some microseconds of a stop: its record and its stub are written, and the kernel copies each page of code that is
//! changed. For a pattern of tens of thousands of functions that would add up to a third of a second in one stop, and on a busy machine
//! to many. So a stop ends when [`Bound::most`] is near. How many hooks the next one tries follows from what the last one took
//! ([`Pace`]); what it does not reach comes next ([`Patcher::write`] writes no further patch then).
//!
//! Hooks that need several stops are silent ([`Hook::want`](wire::calls::Hook::want) is 0) until the last of them is in: nobody reads the rings meanwhile, and
//! all of them are to report from the same time on. A silent hook lets its call fall through. If lancet is killed between two stops, the
//! next attach finds the hooks in the list of areas, as after one stop.
//!
//! Hooks around `syscall` instructions come in pairs, and what an instruction has one of would be told wrongly; those are set in one stop.

use crate::bound::{Bound, FIRST};
use crate::patcher::Patcher;
use crate::set::{Edit, MadeOf, Step};
use crate::standstill::Writes;
use crate::target::Target;
use crate::wanted::{Refused, Role};
use inject::records::Record;
use process::error::{Error, Result};
use std::collections::HashSet;
use std::time::Duration;
use wire::calls::Hook;

/// The bounds of what later stops try.
const FEWEST: usize = 64;
const MOST: usize = 1 << 14;
/// How many hooks a stop tries.
struct Pace {
    bound: Bound,
    count: usize,
}

impl Pace {
    fn of(bound: Bound) -> Self {
        Pace {
            bound,
            count: FIRST,
        }
    }

    /// Notes that `count` hooks took `took` of a stop.
    fn took(&mut self, count: usize, took: Duration) {
        let share = self.bound.aim().as_secs_f64() / took.as_secs_f64().max(1e-6);
        let next = count as f64 * share.clamp(0.25, 2.0);
        self.count = (next as usize).clamp(FEWEST, MOST);
    }
}

impl Patcher {
    /// Sets hooks that are planned, in as many stops as that takes.
    pub(crate) fn set_steps(
        &mut self,
        target: &Target,
        steps: Vec<Step>,
        refused: &mut Vec<Refused>,
    ) -> Result<()> {
        let built = self.build(target, &steps)?;
        process::limits::check_room()?;
        let mut left: Vec<(Step, MadeOf)> = steps.into_iter().zip(built).collect();
        left.sort_by_key(|(step, _)| step.place());
        self.write_before(target, &left)?;
        let bound = target.bound();
        let parts = left.iter().all(|(step, _)| step.role() == Role::Function);
        let bound = bound.filter(|_| parts);
        self.silent = bound.is_some() && left.len() > FIRST;
        let set = self.set_batches(target, left, (bound, refused));
        self.silent = false;
        self.stubs_are_there = false;
        // Also where a later stop failed: those that are set are in the table, and are lifted with the others.
        let wants = std::mem::take(&mut self.silenced);
        let told = target.forced(|memory| self.table.want_again(memory, &wants));
        set.and(told)
    }

    /// Writes the stubs of new hooks, and their records as those of hooks that are out, while the process runs: no code leads there yet.
    /// If lancet is killed before all of them are set, the next attach uses the rest again, as it does those that were lifted; otherwise
    /// their room would be lost with each kill.
    fn write_before(&mut self, target: &Target, all: &[(Step, MadeOf)]) -> Result<()> {
        let (mut stubs, mut records) = (Writes::default(), Writes::default());
        for (_, built) in all {
            let MadeOf::New(built) = built else {
                continue;
            };
            let out = Hook {
                want: 0,
                set: 0,
                ..built.known.hook
            };
            stubs.add(out.stub, built.bytes.clone());
            records.add(built.known.at, out.to_bytes());
        }
        let written = stubs.write(&target.memory);
        let written = written.and_then(|()| records.write(&target.memory));
        match written.and_then(|()| self.areas.write(&target.memory)) {
            // Only a tracer may write there: each stop writes what is its own.
            Err(Error::WriteProtected(_)) => Ok(()),
            Err(error) => {
                self.abandon(target);
                Err(error)
            }
            Ok(()) => {
                // The room is in use now, whatever becomes of the hooks.
                self.areas.keep();
                self.stubs_are_there = true;
                Ok(())
            }
        }
    }

    fn set_batches(
        &mut self,
        target: &Target,
        mut left: Vec<(Step, MadeOf)>,
        (bound, refused): (Option<Bound>, &mut Vec<Refused>),
    ) -> Result<()> {
        let mut pace = bound.map(Pace::of);
        loop {
            let most = pace.as_ref().map_or(usize::MAX, |pace| pace.count);
            let rest = left.split_off(most.min(left.len()));
            let batch = std::mem::replace(&mut left, rest);
            let (unwritten, why_not, worked) = match self.set_batch(target, &batch, bound) {
                Ok(done) => done,
                Err(error) => {
                    self.abandon(target);
                    return Err(error);
                }
            };
            refused.extend(why_not);
            if let Some(pace) = &mut pace {
                pace.took(batch.len() - unwritten.len(), worked);
            }
            if !unwritten.is_empty() {
                let again = batch.into_iter();
                let again = again.filter(|(step, _)| unwritten.contains(&step.place()));
                left.splice(0..0, again);
            }
            if left.is_empty() {
                return Ok(());
            }
            if let Some(bound) = bound {
                bound.pause();
            }
            process::fault::point("between batches");
        }
    }

    /// Sets hooks in one stop. Returns the places of those that were left for the next one, what was refused, and how long the work took.
    fn set_batch(
        &mut self,
        target: &Target,
        batch: &[(Step, MadeOf)],
        bound: Option<Bound>,
    ) -> Result<(HashSet<u64>, Vec<Refused>, Duration)> {
        target.stopped(|stop, remote| {
            let deadline = bound.unwrap_or(Bound::NONE).deadline(stop);
            let mut edit = Edit {
                target,
                stop,
                remote,
                writes: Writes::default(),
                layers: target.layers()?,
                deadline: bound.is_some().then_some(deadline),
            };
            // A stop may be repeated, and refuses the same again.
            let mut refused = Vec::new();
            let unwritten = self.write(&mut edit, batch, &mut refused)?;
            Ok((unwritten, refused, deadline.worked(stop)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_next_stop_tries_what_the_last_one_allows() {
        let mut pace = Pace::of(Bound::of(10 * MS, 1));
        pace.took(512, 5 * MS);
        assert_eq!(pace.count, 512);
        pace.took(512, MS);
        assert_eq!(pace.count, 1024);
        pace.took(1024, 1000 * MS);
        assert_eq!(pace.count, 256);
        pace.took(64, 1000 * MS);
        assert_eq!(pace.count, FEWEST);
    }
}
