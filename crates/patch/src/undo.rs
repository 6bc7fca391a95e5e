//! Removes patches, and lists them. Used by the crates `report` and `lancet`.
//!
//! The journal is the guest's memory and may contain anything. So bytes are written only where exactly the jump of the record stands in
//! private code, five of them; a guest with a forged journal damages only its own code, which it can do anyway.

use crate::code::{Jumps, bytes_at, exchange, is_code, is_in_force};
use crate::error::{Error, Result};
use crate::finder;
use crate::guest::Guest;
use crate::inside::{Inside, inside};
use crate::journal::{Kind, Record, Set};
use crate::search::Search;
use crate::setting::Setting;
use crate::settings::{Stands, list_settings, set_back};
use crate::unfinished;
use process::clock;
use process::maps::Maps;
use std::time::Duration;

/// Which patches are to be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are in force.
    All,
    /// Those with these numbers.
    These(Vec<u64>),
}

/// How it stands with a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The new function runs; with a time limit, for this long.
    InForce(Option<Duration>),
    /// Its time is over: the function runs as it was. Its jump is still in the code.
    Over,
    /// The function is as it was.
    Undone,
    /// The function's bytes were changed by something else since, or its library was unloaded.
    Covered,
}

impl State {
    /// What it is called in lists; how long it still lasts is not in it.
    pub fn name(self) -> &'static str {
        match self {
            State::InForce(_) => "in force",
            State::Over => "over",
            State::Undone => "undone",
            State::Covered => "changed",
        }
    }
}

/// A patch in the list.
#[derive(Debug)]
pub struct Listed {
    /// What the journal says of it; the process may have written that itself.
    pub record: Record,
    /// Whether the patch is in force, or why it is not.
    pub state: State,
}

/// A patch that was undone.
#[derive(Debug)]
pub struct Undone {
    /// What the journal said of it.
    pub record: Record,
    /// The threads that run in the new code, or return there; `range` says nothing.
    pub inside: Vec<Inside>,
}

/// The result of an undo.
#[derive(Debug)]
pub struct Took {
    /// The patches whose bytes were put back.
    pub undone: Vec<Undone>,
    /// The settings that are as they were before.
    pub settings: Vec<Setting>,
    /// How long the process stood still.
    pub stood: Duration,
    /// Why the jump by which unwinders learn of the new code stays although no patch is in force, in words; `None` where it does not.
    pub finder_stays: Option<String>,
}

/// All patches of a process that were ever in force in it, by their numbers. It is not stopped for that.
///
/// # Errors
/// It cannot be read.
pub fn list(guest: &Guest) -> Result<Vec<Listed>> {
    let sets = Set::of_patches(&guest.memory, &guest.maps()?);
    let records = sets.into_iter().flat_map(|set| set.records);
    let mut all: Vec<Listed> = records
        .map(|record| Listed {
            state: state(guest, &record),
            record,
        })
        .collect();
    // A patch that another one covers was undone before that was applied.
    let is_here = |one: &Listed| matches!(one.state, State::InForce(_) | State::Over);
    let here: Vec<u64> = all
        .iter()
        .filter(|one| is_here(one))
        .map(|one| one.record.place)
        .collect();
    for one in &mut all {
        if one.state == State::Covered && here.contains(&one.record.place) {
            one.state = State::Undone;
        }
    }
    all.sort_by_key(|listed| listed.record.id);
    Ok(all)
}

fn state(guest: &Guest, record: &Record) -> State {
    match bytes_at(guest, record.place) {
        Some(bytes) if bytes == record.new => match record.until_at {
            0 => State::InForce(None),
            _ => match record.until.saturating_sub(clock::now()) {
                0 => State::Over,
                left => State::InForce(Some(in_time(left))),
            },
        },
        Some(bytes) if bytes == record.old => State::Undone,
        _ => State::Covered,
    }
}

/// Cycles of the time-stamp counter as a duration.
fn in_time(cycles: u64) -> Duration {
    let a_second = inject::heartbeat::ticks(Duration::from_secs(1)).max(1);
    Duration::from_secs_f64(cycles as f64 / a_second as f64)
}

/// Restores the bytes of patches, all in one stop, and reports the threads still in the new code, which stays mapped. Restores settings.
///
/// # Errors
/// No function has changed then, unless it is a setting of several that could not be set back.
pub fn undo(guest: &Guest, which: &Which) -> Result<Took> {
    let (rest, settings, failed) = undo_settings(guest, which)?;
    let nothing = Took {
        undone: Vec::new(),
        settings: Vec::new(),
        stood: Duration::ZERO,
        finder_stays: None,
    };
    let took = match rest {
        Some(which) => undo_functions(guest, &which)?,
        None => nothing,
    };
    match failed {
        Some(error) => Err(error),
        None => Ok(Took { settings, ..took }),
    }
}

/// What is left to undo besides settings, the settings that were restored, and the last error.
type SetBack = (Option<Which>, Vec<Setting>, Option<Error>);

/// Sets back the settings among these.
fn undo_settings(guest: &Guest, which: &Which) -> Result<SetBack> {
    let all = list_settings(guest)?;
    let (mut undone, mut failed) = (Vec::new(), None);
    let Which::These(ids) = which else {
        for (setting, _) in all.into_iter().rev() {
            match set_back(guest, &setting) {
                Ok(true) => undone.push(setting),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
        return Ok((Some(Which::All), undone, failed));
    };
    let mut rest = ids.clone();
    for (setting, stands) in all {
        let id = setting.id;
        if !ids.contains(&id) {
            continue;
        }
        rest.retain(|one| *one != id);
        let reason = match stands {
            Stands::InForce if set_back(guest, &setting)? => {
                undone.push(setting);
                continue;
            }
            Stands::Undone => "it is not in force: the setting is as it was",
            _ => "it is closed, or something else has changed it since",
        };
        return Err(Error::Undo {
            id,
            reason: reason.into(),
        });
    }
    let rest = (!rest.is_empty()).then_some(Which::These(rest));
    Ok((rest, undone, failed))
}

fn undo_functions(guest: &Guest, which: &Which) -> Result<Took> {
    let search = Search::before_stop(guest)?;
    let (undone, stood) = guest.stopped(|stop, remote| {
        let maps = guest.maps()?;
        let mut sets = search.sets(&guest.memory, &maps);
        unfinished::remove(guest, remote, &maps, &sets)?;
        sets.retain(Set::is_of_patches);
        let which = with_rest_of_remedies(guest, which, &sets);
        let records = sets.into_iter().flat_map(|set| set.records);
        let chosen = chosen(guest, &maps, &which, records.collect())?;
        take_out(guest, &chosen)?;
        let mut undone = Vec::new();
        for record in chosen {
            let mut found = inside(stop, remote, &guest.memory, &maps, &record.new_code())?;
            found.sort_by_key(|one| (one.tid, !one.runs));
            found.dedup_by_key(|one| one.tid);
            undone.push(Undone {
                record,
                inside: found,
            });
        }
        Ok(undone)
    })?;
    Ok(Took {
        undone,
        settings: Vec::new(),
        stood,
        // The undo has succeeded even if this fails; the next undo tries it again.
        finder_stays: finder::leave(guest).unwrap_or_else(|error| {
            Some(format!(
                "whether anything leads into the new code could not be asked ({error})"
            ))
        }),
    })
}

/// Writes the functions' own bytes over the jumps, all or none: half of a remedy is wrong.
fn take_out(guest: &Guest, chosen: &[Record]) -> Result<()> {
    let write = |at, bytes: &[u8; 5]| Ok(guest.memory.write(at, bytes)?);
    exchange(chosen, Jumps::Out, write, |at| bytes_at(guest, at)).map_err(|(number, error)| {
        error.unwrap_or_else(|| Error::Undo {
            id: chosen[number].id,
            reason: "what was written could not be read back".into(),
        })
    })
}

/// What is meant, and of a remedy all that is still in force: half of one is wrong.
fn with_rest_of_remedies(guest: &Guest, which: &Which, sets: &[Set]) -> Which {
    let Which::These(ids) = which else {
        return Which::All;
    };
    let mut all = ids.clone();
    for set in sets.iter().filter(|set| set.kind == Kind::Together) {
        if !set.records.iter().any(|record| ids.contains(&record.id)) {
            continue;
        }
        let rest = set
            .records
            .iter()
            .filter(|record| !ids.contains(&record.id));
        all.extend(
            rest.filter(|record| is_in_force(guest, record))
                .map(|record| record.id),
        );
    }
    Which::These(all)
}

/// The patches that are meant and whose jumps are in the code.
fn chosen(guest: &Guest, maps: &Maps, which: &Which, mut all: Vec<Record>) -> Result<Vec<Record>> {
    let Which::These(ids) = which else {
        all.retain(|record| is_in_force(guest, record) && is_code(maps, record.place));
        all.sort_by_key(|record| record.id);
        all.dedup_by_key(|record| record.place);
        return Ok(all);
    };
    let mut chosen = Vec::new();
    for id in ids {
        let (pid, id) = (guest.pid(), *id);
        let record = all.iter().find(|record| record.id == id);
        let record = record.ok_or(Error::NoSuch { pid, id })?;
        let reason = match state(guest, record) {
            State::Undone => "it is not in force: the function is as it was",
            _ if !is_code(maps, record.place) => "its journal is damaged",
            State::Covered => {
                "its function was changed by something else since (lancet calls, another tool): end that first"
            }
            _ => {
                chosen.push(record.clone());
                continue;
            }
        };
        return Err(Error::Undo {
            id,
            reason: reason.into(),
        });
    }
    Ok(chosen)
}
