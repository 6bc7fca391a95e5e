//! Settings changed, listed and set back. The process runs meanwhile; it stands still only while the page of the journal is mapped.
//!
//! The journal comes first and says what is to be set and what was there. Whether a setting is in force is not in it: the setting itself says so. So whatever
//! instant a lancet is killed at, the next one lists and undoes what it has done.

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::journal::{self, Kind, Set};
use crate::remedies::{SettingsWay, Way, named};
use crate::setting::{Setting, SettingsPlan};
use crate::unfinished;
use std::time::Duration;

/// How it stands with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is what the remedy has set.
    InForce,
    /// It is what it was before.
    Undone,
    /// It is something else, or what was set is closed.
    Changed,
}

impl Stands {
    /// What it is called in lists.
    pub fn name(self) -> &'static str {
        match self {
            Stands::InForce => "in force",
            Stands::Undone => "undone",
            Stands::Changed => "changed",
        }
    }
}

/// Sets all of a plan, or nothing; the settings with their numbers, and how long the process stood still.
///
/// # Errors
/// What could not be set. What had been set before it is set back.
pub fn apply_settings(guest: &Guest, plan: &SettingsPlan) -> Result<(Vec<Setting>, Duration)> {
    let size = journal::size(plan.settings.len());
    let (set, stood) = guest.stopped(|_, remote| {
        unfinished::remove(guest, remote, &guest.maps()?)?;
        let first = Set::next_id(&Set::all(&guest.memory, &guest.maps()?));
        let numbered = plan.settings.iter().zip(first..);
        let set = Set {
            base: remote.map(0, size, libc::PROT_READ, 0)?,
            size,
            key: 0,
            kind: Kind::Settings,
            whole: true,
            records: Vec::new(),
            mapped: Vec::new(),
            settings: numbered
                .map(|(setting, id)| Setting {
                    id,
                    ..setting.clone()
                })
                .collect(),
        };
        let written = set.begin(&guest.memory);
        let written = written.and_then(|()| set.finish(&guest.memory));
        if written.is_err() {
            let _ = remote.unmap(set.base, size);
        }
        written.map(|()| set)
    })?;
    for (number, setting) in set.settings.iter().enumerate() {
        let done = way_of(setting).map_or(Ok(()), |way| (way.write)(guest, setting, setting.new));
        if done.is_ok() && stands(guest, setting) == Stands::InForce {
            continue;
        }
        for earlier in &set.settings[..=number] {
            // What cannot be set back now is in the list.
            let _ = set_back(guest, earlier);
        }
        done?;
        return Err(Error::Undo {
            id: setting.id,
            reason: "what was set could not be read back".into(),
        });
    }
    Ok((set.settings, stood))
}

/// All settings that were ever changed in a process, by their numbers.
///
/// # Errors
/// It cannot be read.
pub fn list_settings(guest: &Guest) -> Result<Vec<(Setting, Stands)>> {
    let sets = Set::all(&guest.memory, &guest.maps()?);
    let settings = sets.into_iter().flat_map(|set| set.settings);
    let mut all: Vec<_> = settings
        .map(|setting| {
            let stands = stands(guest, &setting);
            (setting, stands)
        })
        .collect();
    // Of several that say the same of one target, the last one has set it.
    all.sort_by_key(|(setting, _)| setting.id);
    Ok(all)
}

fn stands(guest: &Guest, setting: &Setting) -> Stands {
    let now = way_of(setting).and_then(|way| (way.read)(guest, setting));
    match now {
        Some(now) if now == setting.new => Stands::InForce,
        Some(now) if now == setting.old => Stands::Undone,
        _ => Stands::Changed,
    }
}

fn way_of(setting: &Setting) -> Option<&'static SettingsWay> {
    match &named(&setting.remedy)?.way {
        Way::Settings(way) => Some(way),
        _ => None,
    }
}

/// Sets a setting back if it is still what it was changed to. Whether it was.
pub(crate) fn set_back(guest: &Guest, setting: &Setting) -> Result<bool> {
    let Some(way) = way_of(setting).filter(|_| stands(guest, setting) == Stands::InForce) else {
        return Ok(false);
    };
    (way.write)(guest, setting, setting.old)?;
    Ok(stands(guest, setting) == Stands::Undone)
}
