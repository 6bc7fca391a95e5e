//! What a remedy is: its name, its words, and how it is planned. Used by `nodelay`, `nofile`, `trim` and others.

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::plan::{Limits, Plan};
use crate::setting::{Setting, SettingsPlan};

/// A remedy in the list.
#[derive(Debug)]
pub struct Remedy {
    /// The name by which users ask for it.
    pub name: &'static str,
    /// Its arguments, as they are written behind the name.
    pub arguments: &'static str,
    /// What it mends, in one line.
    pub mends: &'static str,
    /// What it risks and when it refuses, in one line.
    pub risks: &'static str,
    /// What it does with a process.
    pub(crate) way: Way,
}

/// How a remedy works.
#[derive(Debug)]
pub(crate) enum Way {
    /// Functions replaced by such that lancet brings along.
    Functions(fn(&Guest, &str, Limits) -> Result<Plan>),
    /// Settings changed from outside.
    Settings(SettingsWay),
}

/// How settings are planned, looked at and set.
#[derive(Debug)]
pub(crate) struct SettingsWay {
    /// What is to be set, by the arguments.
    pub plan: fn(&Guest, &str) -> Result<SettingsPlan>,
    /// What a setting is now; `None` = it is not there any more.
    pub read: fn(&Guest, &Setting) -> Option<[u64; 2]>,
    /// Gives a setting these values.
    pub write: fn(&Guest, &Setting, [u64; 2]) -> Result<()>,
    /// The values that an undo gives to a setting which is `now` so, and was so according to the journal. The journal is the
    /// process's memory, while it may be root who undoes: what only root may do must not be done on its word.
    pub back: fn(now: [u64; 2], journal: [u64; 2]) -> [u64; 2],
}

/// The refusal of a remedy.
pub(super) fn refused(remedy: &'static str, reason: impl Into<String>) -> Error {
    Error::Remedy {
        remedy,
        reason: reason.into(),
    }
}
