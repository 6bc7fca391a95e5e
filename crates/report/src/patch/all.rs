//! All patches of a process.

use patch::{Listed, ScriptPatch, Setting, Stands};

/// All patches of a process.
#[derive(Debug, Default)]
pub struct All {
    /// Of functions of the program and its libraries.
    pub functions: Vec<Listed>,
    /// Of settings.
    pub settings: Vec<(Setting, Stands)>,
    /// Of functions of the script.
    pub scripts: Vec<ScriptPatch>,
}
