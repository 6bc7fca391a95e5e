//! Remedies: repairs of known faults that need no file of the user's. Each is one file, whose text says what it mends, what it risks, how it was
//! measured and when it refuses, and a line in [`REMEDIES`].

mod ucontext;

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::plan::{Limits, Plan};
use inject::remote_call::RemoteThread;
use process::stop::Stop;

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
}

/// What a plan asks of the stopped process, beyond what is asked for every function.
pub(crate) type Condition = fn(&Guest, &Stop, &RemoteThread) -> Result<()>;

/// All of them.
pub const REMEDIES: &[Remedy] = &[ucontext::REMEDY];

/// A remedy that was asked for: `NAME[=ARGUMENTS]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its place in the list.
    number: usize,
    /// What stands behind the name.
    arguments: String,
}

impl Asked {
    /// The remedy.
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
pub fn plan_remedy(guest: &Guest, asked: &Asked, limits: Limits) -> Result<Plan> {
    match &asked.remedy().way {
        Way::Functions(plan) => plan(guest, &asked.arguments, limits),
    }
}

/// The refusal of a remedy.
fn refused(remedy: &'static str, reason: impl Into<String>) -> Error {
    Error::Remedy {
        remedy,
        reason: reason.into(),
    }
}
