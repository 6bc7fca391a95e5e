//! Applies a plan in one stop of the process. Used by the crates `lancet` and `report`.

use crate::code::{Jumps, bytes_at, exchange, is_in_force};
use crate::error::{Error, Result};
use crate::finder::{self, Asked};
use crate::guest::Guest;
use crate::inside::{Inside, inside};
use crate::island::{patch, stub};
use crate::journal::{Record, Set};
use crate::load::make;
use crate::plan::Plan;
use crate::search::Search;
use crate::unfinished;
use inject::allowed;
use inject::heartbeat::ticks;
use inject::remote_call::RemoteThread;
use process::clock;
use process::maps::Maps;
use process::stop::Stop;
use std::time::Duration;

/// What [`apply`] has done.
#[derive(Debug)]
pub struct Applied {
    /// The patches, in the order of the plan.
    pub records: Vec<Record>,
    /// Whether the files had been loaded by an earlier patch, and are used again with their variables as they are.
    pub again: bool,
    /// How long the process stood still.
    pub stood: Duration,
}

/// Checks whether the plan could be applied now, without writing anything. Returns the threads that are inside of the
/// functions, by the functions' numbers in the plan, and for how long the process was stopped.
///
/// # Errors
/// The process is no longer as the plan found it.
pub fn check(guest: &Guest, plan: &Plan) -> Result<(Vec<Inside>, Duration)> {
    guest.stopped(|stop, remote| {
        let maps = guest.maps()?;
        look(guest, plan, stop, remote, &maps)
    })
}

/// Fails if the process is no longer as the plan found it. Returns the threads that are inside of the functions.
fn look(
    guest: &Guest,
    plan: &Plan,
    stop: &Stop,
    remote: &RemoteThread,
    maps: &Maps,
) -> Result<Vec<Inside>> {
    for one in &plan.functions {
        one.check(guest, maps)?;
    }
    if let Some(condition) = plan.condition {
        condition(guest, stop, remote)?;
    }
    let mut ranges: Vec<_> = plan.functions.iter().map(|one| one.range()).collect();
    if let Some(Asked::Planned(one)) = &plan.finder {
        one.check(guest, maps)?;
        ranges.push(one.range());
    }
    inside(stop, remote, &guest.memory, maps, &ranges)
}

/// Applies the plan.
///
/// # Errors
/// Nothing has changed. After [`Error::Inside`] a later attempt may succeed.
pub fn apply(guest: &Guest, plan: &Plan) -> Result<Applied> {
    let until = plan.limits.lasts.map(|lasts| ticks(lasts) + clock::now());
    let search = Search::before_stop(guest)?;
    let ((records, again), stood) = guest.stopped(|stop, remote| {
        let maps = guest.maps()?;
        plan.refuse_inside(&look(guest, plan, stop, remote, &maps)?)?;
        let sets = search.sets(&guest.memory, &maps);
        unfinished::remove(guest, remote, &maps, &sets)?;
        if until.is_some() && !allowed::reads_counter(remote, &guest.memory)? {
            return Err(Error::NoClock { pid: guest.pid() });
        }
        let finder = finder::present(&sets);
        let first = Set::next_id(&sets);
        let mut of_patches = sets.into_iter().filter(Set::is_of_patches);
        let again = of_patches.find(|set| fits(guest, plan, set));
        let (set, again) = match again {
            Some(set) => (renewed(guest, set, until)?, true),
            None => (make(guest, plan, remote, first, until)?, false),
        };
        if let Some(asked) = &plan.finder {
            let files = finder::entries(&set, &plan.objects);
            finder::tell(guest, asked, remote, finder.as_ref(), &files)?;
        }
        write_jumps(guest, &set.records)?;
        Ok((set.records, again))
    })?;
    Ok(Applied {
        records,
        again,
        stood,
    })
}

/// Whether a set that is not in force was made for the same plan, and is still intact.
fn fits(guest: &Guest, plan: &Plan, set: &Set) -> bool {
    let same = set.whole && set.key == plan.key && set.records.len() == plan.functions.len();
    same && set
        .records
        .iter()
        .zip(&plan.functions)
        .all(|(record, one)| {
            let until = (record.until_at != 0).then_some(record.until);
            let expected = stub(one, record.island, record.replacement, until);
            let Ok((expected, jump)) =
                expected.and_then(|stub| Ok((stub, patch(one, record.island)?)))
            else {
                return false;
            };
            let mut there = vec![0; expected.bytes.len()];
            let read = guest.memory.read_bytes(record.island, &mut there);
            read.is_ok()
                && there == expected.bytes
                && jump == (record.place, record.old, record.new)
                && record.original == expected.original
                && !is_in_force(guest, record)
        })
}

/// Prepares a set that is used again, with another end time. The word in the island is written first: it is read only once
/// the jump is there.
fn renewed(guest: &Guest, mut set: Set, until: Option<u64>) -> Result<Set> {
    let Some(until) = until else {
        return Ok(set);
    };
    for record in &mut set.records {
        record.until = until;
        guest.memory.write(record.until_at, &until.to_le_bytes())?;
    }
    set.finish(&guest.memory)?;
    Ok(set)
}

/// Writes the jump at each function and reads it back. If one cannot be written, those before it are removed again.
fn write_jumps(guest: &Guest, records: &[Record]) -> Result<()> {
    let write = |at, bytes: &[u8; 5]| {
        process::fault::point("patching");
        Ok(guest.memory.write(at, bytes)?)
    };
    exchange(records, Jumps::In, write, |at| bytes_at(guest, at)).map_err(|(number, error)| {
        error.unwrap_or_else(|| Error::Function {
            function: records[number].function.clone(),
            reason: "what was written into its code could not be read back".into(),
        })
    })
}
