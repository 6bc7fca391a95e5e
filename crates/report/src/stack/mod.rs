//! The answers of `lancet stack`. Used by `profile::json`, and by `lancet::looks` and `lancet::commands::stack::live`.
//!
//! | module | what it writes | in which formats |
//! |---|---|---|
//! | [`ranking`] | the biggest frames of files | table, JSON |
//! | [`chains`] | the deepest chains of calls in files | table, JSON |
//! | [`difference`] | the frames that differ between two builds of a file | table, JSON |
//! | [`dump`] | what the threads of a process do, and where | text |
//! | [`now`] | what each thread is in now, a row each | table, JSON |
//! | [`listing`] | the same with every native frame and its bytes | text, JSON |
//! | [`gc`] | what the stacks cost each garbage collection | text, JSON |
//! | [`folded`] | many looks, folded | table, JSON, all forms of stacks |

pub mod chains;
mod conclusions;
pub mod difference;
pub mod dump;
pub mod folded;
pub mod gc;
pub mod listing;
mod names;
pub mod now;
pub mod ranking;
mod states;
mod waits;

use answer::process::{Language, Process};
use frames::live::loaded::Modules;
use frames::live::open::Look;
use frames::live::repeats::Stretch;
use frames::profile::saved;

use crate::figures::{grouped, plural};

/// What is said of a stack of which a frame of a script cannot be read.
const BROKEN: &str = "a frame of the script cannot be read; those outside of it are missing";

/// One look at one process, with what is needed to name what was seen.
#[allow(missing_docs)] // The names say the rest.
pub struct Subject<'a> {
    pub pid: i32,
    pub command: &'a [String],
    /// The files it has loaded.
    pub modules: &'a Modules,
    /// Its memory, from which hints on functions without a name are read.
    pub memory: &'a dyn vm::Memory,
    /// The languages that run in it, with their versions.
    pub languages: Vec<String>,
    /// It comes from a core file: the process is gone, and was not stopped for this look.
    pub from_core: bool,
    pub look: &'a Look,
}

impl Subject<'_> {
    /// The record that programs get before all else of it.
    fn process(&self) -> Process<'_> {
        let languages = self.languages.iter();
        let languages = languages.map(|language| Language::of(language)).collect();
        Process {
            languages: Some(languages),
            ..Process::new(self.pid, self.command)
        }
    }
}

/// The record of a process that was looked at again and again.
pub(crate) fn record_of(process: &saved::Process) -> Process<'_> {
    let languages = process.languages.iter();
    let languages = languages.map(|language| Language::of(language)).collect();
    Process {
        pid: (process.pid != 0).then_some(process.pid as i32),
        languages: Some(languages),
        ..Process::new(0, &*process.command)
    }
}

/// How often the rows of a stretch come again, in words; `None` if they do not.
fn again(stretch: &Stretch) -> Option<String> {
    let times = stretch.repeats();
    if times == 0 {
        return None;
    }
    let times = format!("{} {}", grouped(times), plural(times, "time", "times"));
    Some(match stretch.period() {
        1 => format!("the same, {times} more"),
        rows => format!("these {rows} rows, {times} more"),
    })
}
