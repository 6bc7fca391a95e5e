//! Changes settings, lists them and restores them. The process is stopped only while the page of the journal is mapped.
//! Used by `undo`, and by the crates `lancet` and `report`.
//!
//! The journal is written first, with the new and the old values. Whether a setting is in force is not in it: that is read from the setting
//! itself. So the next lancet can list and undo the changes, whenever a lancet was killed.

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::journal::{self, Kind, Set};
use crate::remedies::{SettingsWay, Way, named};
use crate::search::Search;
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

/// Sets all of a plan that is still there, or nothing. Returns the settings that were changed, with their numbers, and how long the process stood
/// still. A setting that is gone by then, such as a connection that was closed, is passed over.
///
/// # Errors
/// What could not be set; what had been set before it is set back. Or nothing of the plan is there any more.
pub fn apply_settings(guest: &Guest, plan: &SettingsPlan) -> Result<(Vec<Setting>, Duration)> {
    let size = journal::size(plan.settings.len());
    let search = Search::before_stop(guest)?;
    let (set, stood) = guest.stopped(|_, remote| {
        let maps = guest.maps()?;
        let sets = search.sets(&guest.memory, &maps);
        unfinished::remove(guest, remote, &maps, &sets)?;
        let first = Set::next_id(&sets);
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
    let changed = set_each(
        set.settings,
        |setting, values| match way_of(setting) {
            Some(way) => (way.write)(guest, setting, values),
            None => Ok(()),
        },
        |setting| read(guest, setting),
    )?;
    Ok((changed, stood))
}

/// Gives each setting its new values by `write`, and asks `read` what it is then; `None` says that it is gone.
fn set_each(
    settings: Vec<Setting>,
    write: impl Fn(&Setting, [u64; 2]) -> Result<()>,
    read: impl Fn(&Setting) -> Option<[u64; 2]>,
) -> Result<Vec<Setting>> {
    let mut changed: Vec<Setting> = Vec::new();
    let mut failed = None;
    for setting in settings {
        let done = write(&setting, setting.new);
        let now = read(&setting);
        if now == Some(setting.new) {
            changed.push(setting);
            continue;
        }
        if done.is_ok() && now.is_none() {
            continue;
        }
        let unread = || Error::Setting {
            what: setting.what.clone(),
            reason: "what was set could not be read back".into(),
        };
        failed = Some(done.err().unwrap_or_else(unread));
        break;
    }
    let error = match failed {
        Some(error) => error,
        None if !changed.is_empty() => return Ok(changed),
        None => Error::Setting {
            what: "what the remedy had found".into(),
            reason: "nothing of it is there any more".into(),
        },
    };
    for earlier in &changed {
        // The list shows a setting that cannot be restored now.
        let _ = write(earlier, earlier.old);
    }
    Err(error)
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
    // Of several journal entries for one target, the last one has set it.
    all.sort_by_key(|(setting, _)| setting.id);
    Ok(all)
}

fn stands(guest: &Guest, setting: &Setting) -> Stands {
    match read(guest, setting) {
        Some(now) if now == setting.new => Stands::InForce,
        Some(now) if now == setting.old => Stands::Undone,
        _ => Stands::Changed,
    }
}

/// What a setting is now; `None` = it is not there any more.
fn read(guest: &Guest, setting: &Setting) -> Option<[u64; 2]> {
    (way_of(setting)?.read)(guest, setting)
}

fn way_of(setting: &Setting) -> Option<&'static SettingsWay> {
    match &named(&setting.remedy)?.way {
        Way::Settings(way) => Some(way),
        _ => None,
    }
}

/// Sets a setting back if it is still what it was changed to. Whether it was.
pub(crate) fn set_back(guest: &Guest, setting: &Setting) -> Result<bool> {
    let Some((way, now)) = way_of(setting).zip(read(guest, setting)) else {
        return Ok(false);
    };
    if now != setting.new {
        return Ok(false);
    }
    (way.write)(guest, setting, (way.back)(now, setting.old))?;
    Ok(stands(guest, setting) == Stands::Undone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::process::{Child, Command};

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Whoever has CAP_SYS_RESOURCE could raise it; without that the kernel refuses, which shows here that it was tried.
    #[test]
    fn a_forged_journal_raises_no_limit() {
        let sleeper = Sleeper(
            Command::new("sh")
                .args(["-c", "ulimit -n 64; exec sleep 60"])
                .spawn()
                .expect("a shell"),
        );
        let pid = i32::try_from(sleeper.0.id()).expect("a process id");
        let limits = || std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("limits");
        while !std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name == "sleep\n")
        {
            std::thread::yield_now();
        }
        let guest = Guest::open(pid).expect("a process");
        let of_files = Setting {
            id: 1,
            target: u64::from(libc::RLIMIT_NOFILE),
            remedy: "nofile".into(),
            ..Setting::default()
        };
        let now = read(&guest, &of_files).expect("its limits");
        let before = limits();
        let forged = Setting {
            old: [1000, 1000],
            new: now,
            ..of_files
        };
        assert!(!set_back(&guest, &forged).expect("nothing that the kernel refuses is tried"));
        assert_eq!(limits(), before);
        let honest = Setting {
            old: [now[0] - 1, now[1]],
            ..forged
        };
        assert!(set_back(&guest, &honest).expect("its limit"));
        assert_eq!(read(&guest, &honest), Some(honest.old));
    }

    fn three() -> Vec<Setting> {
        let one = |id| Setting {
            id,
            new: [1, 0],
            what: format!("socket {id}"),
            ..Setting::default()
        };
        (1..=3).map(one).collect()
    }

    /// Sockets by their numbers; `None` is one that was closed.
    fn set(sockets: [Option<u64>; 3], is_deaf: bool) -> (Result<Vec<u64>>, [Option<u64>; 3]) {
        let all = RefCell::new(sockets);
        let at = |setting: &Setting| setting.id as usize - 1;
        let done = set_each(
            three(),
            |setting, [value, _]| {
                let mut all = all.borrow_mut();
                if !is_deaf || setting.id < 3 {
                    all[at(setting)] = all[at(setting)].map(|_| value);
                }
                Ok(())
            },
            |setting| Some([all.borrow()[at(setting)]?, 0]),
        );
        let ids = done.map(|all| all.iter().map(|one| one.id).collect());
        (ids, all.into_inner())
    }

    #[test]
    fn what_is_closed_meanwhile_is_passed_over() {
        let (ids, sockets) = set([Some(0), None, Some(0)], false);
        assert_eq!(ids.expect("two are set"), [1, 3]);
        assert_eq!(sockets, [Some(1), None, Some(1)]);
        let (none, _) = set([None; 3], false);
        assert!(matches!(none, Err(Error::Setting { .. })), "{none:?}");
    }

    #[test]
    fn one_that_cannot_be_set_sets_the_others_back() {
        let (ids, sockets) = set([Some(0), None, Some(0)], true);
        let said = ids.expect_err("the third is not set").to_string();
        assert_eq!(
            said,
            "socket 3 cannot be set: what was set could not be read back"
        );
        assert_eq!(sockets, [Some(0), None, Some(0)]);
    }
}
