//! Remedies: repairs of known faults that need no file of the user's. Each is one file, whose text says what it mends, what it risks, how it was
//! measured and when it refuses, and a line in [`REMEDIES`]. Used by `settings`, and by the crates `lancet` and
//! `report`.

mod nodelay;
mod nofile;
mod remedy;
mod trim;
mod ucontext;

use crate::error::Result;
use crate::guest::Guest;
use crate::plan::{Limits, Plan};
use crate::setting::SettingsPlan;
pub use remedy::Remedy;
use remedy::refused;
pub(crate) use remedy::{SettingsWay, Way};

/// What a remedy is about to do.
#[derive(Debug)]
pub enum Prepared {
    /// It replaces functions, as this plan says.
    Functions(Box<Plan>),
    /// It changes settings, as this plan says.
    Settings(SettingsPlan),
}

/// All remedies, in the order in which they are listed.
pub const REMEDIES: &[Remedy] = &[
    ucontext::REMEDY,
    nofile::REMEDY,
    nodelay::REMEDY,
    trim::REMEDY,
];

/// A remedy that was asked for: `NAME[=ARGUMENTS]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its place in the list.
    number: usize,
    /// What stands behind the name.
    arguments: String,
}

impl Asked {
    /// Returns the remedy that was asked for.
    pub fn remedy(&self) -> &'static Remedy {
        &REMEDIES[self.number]
    }
}

impl std::str::FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, arguments) = text.split_once('=').unwrap_or((text, ""));
        let number = REMEDIES.iter().position(|remedy| remedy.name == name);
        Ok(Asked {
            number: number.ok_or("there is no such remedy: lancet patch --remedies lists them")?,
            arguments: arguments.to_owned(),
        })
    }
}

/// Plans a remedy, or says why it cannot be.
///
/// # Errors
/// The remedy refuses the process or its arguments. Nothing has changed.
pub fn plan_remedy(guest: &Guest, asked: &Asked, limits: Limits) -> Result<Prepared> {
    let remedy = asked.remedy();
    match &remedy.way {
        Way::Functions(plan) => {
            let plan = plan(guest, &asked.arguments, limits)?;
            Ok(Prepared::Functions(Box::new(plan)))
        }
        Way::Settings(_) if limits.lasts.is_some() => Err(refused(
            remedy.name,
            "--for is for functions: nobody would set it back if lancet were killed",
        )),
        Way::Settings(way) => (way.plan)(guest, &asked.arguments).map(Prepared::Settings),
    }
}

/// The remedy of this name.
pub(crate) fn named(name: &str) -> Option<&'static Remedy> {
    REMEDIES.iter().find(|remedy| remedy.name == name)
}
