//! What a session knows of the guest's VM, and the names that its language has for C functions. Used by `open` and
//! `tracing`.

use crate::scripted::{self, Outcome, Pattern};
use crate::state::Script;
use crate::target::Target;
use crate::wanted::Wanted;
use std::collections::HashSet;
use vm::Definer;
use wire::calls::want;

/// What one session knows of the VM in its guest, and which names of the script it still waits for.
#[derive(Clone, Debug)]
pub(crate) struct ScriptReaders {
    /// The VM of the guest, or why none is known.
    pub script: Script,
    /// Why the agent cannot tell script lines, if so.
    pub no_lines: Option<String>,
    /// The program has just been started, and its VM has not begun to run the script.
    pub awaits_script: bool,
    /// Load biases of the libraries that were loaded when new names were first waited for; their initialisers have
    /// run. `None` = nothing waits for new names.
    pub defined: Option<HashSet<u64>>,
}

impl ScriptReaders {
    pub fn new(script: Script, no_lines: Option<String>) -> Self {
        ScriptReaders {
            script,
            no_lines,
            awaits_script: false,
            defined: None,
        }
    }

    /// C functions by their name in the script's language.
    pub fn named(&self, target: &Target, pattern: &Pattern) -> Outcome {
        match &self.script {
            Script::None(_) if self.awaits_script => {
                Outcome::NotYet("its VM has not begun with the script".into())
            }
            script => scripted::find(&target.memory, script, &target.functions, pattern),
        }
    }

    /// Returns the functions that define names. They are hooked, and wait before they return until the command has
    /// looked at the new names.
    pub fn definers(&self, target: &Target) -> Vec<Wanted> {
        let Some(defined) = &self.defined else {
            return Vec::new();
        };
        let by_prefix = |prefix: &'static str| {
            target.functions.find(false, move |name, place| {
                name.starts_with(prefix) && !defined.contains(&place.module.bias)
            })
        };
        let by_name = |wanted: &'static str| target.functions.find(false, |name, _| name == wanted);
        let functions = match &self.script {
            Script::None(_) => Vec::new(),
            Script::Vm(vm) => match vm.language.description().definer {
                Definer::Prefix(prefix) => by_prefix(prefix),
                Definer::Function(name) => by_name(name),
            },
        };
        let definers = functions.into_iter();
        definers
            .map(|function| Wanted::own(function, want::DEFINES))
            .collect()
    }
}
