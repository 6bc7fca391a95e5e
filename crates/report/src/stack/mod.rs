//! The answers of `lancet stack`.
//!
//! | module | what it writes | in which formats |
//! |---|---|---|
//! | [`ranking`] | the biggest frames of files | table, JSON |
//! | [`listing`] | the stacks of a process or a core file | text, JSON |
//! | [`gc`] | what the stacks cost each garbage collection | text, JSON |
//! | [`folded`] | many looks, folded | collapsed, speedscope, SVG |

pub mod folded;
pub mod gc;
pub mod listing;
mod names;
pub mod ranking;

use frames::live::loaded::Modules;
use frames::live::open::Look;

/// One look at one process, with what is needed to name what was seen.
#[allow(missing_docs)] // The names say the rest.
pub struct Subject<'a> {
    pub pid: i32,
    pub command: &'a str,
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
