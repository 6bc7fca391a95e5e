//! Hooks functions by their name in the script's language, and learns when new ones are defined. Used by `own_hooks`.
//!
//! A VM learns the names of a library's functions when the library is initialised, which is after the loader has called
//! `r_brk` for it. So the function that initialises it is hooked too ([`vm::Description::definer`]); before it returns
//! it waits until the command has looked at the names ([`crate::scripts::ScriptReaders::definers`]).

use crate::scripted::{self, Outcome, Pattern};
use crate::tracing::Tracing;
use crate::wanted::{Refused, Wanted};
use process::error::Result;
use std::collections::HashSet;

impl Tracing {
    /// Finds C functions by their name in the script's language.
    pub fn named(&self, pattern: &Pattern) -> Outcome {
        self.scripts.named(&self.target, pattern)
    }

    /// Returns names of C functions that resemble `pattern`, for the message that none has that name.
    pub fn near(&self, pattern: &Pattern) -> Vec<String> {
        scripted::near(&self.target.memory, &self.scripts.script, pattern)
    }

    /// Hooks those of `wanted` that are not hooked yet. Returns those that were refused.
    pub fn add(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let refused = self.add_here(wanted);
        self.patcher.forget_code();
        refused
    }

    /// Like [`add`](Self::add), but keeps the decoded code for the next hooks.
    pub(crate) fn add_here(&mut self, mut wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let table = &self.patcher.table;
        let hooked: HashSet<u64> = table.told().map(|function| function.address).collect();
        wanted.retain(|wanted| {
            let address = wanted.function.address;
            let mut names = wanted.names.iter();
            // The list of callers has changed if a library was loaded that calls a function which is hooked already.
            let called_by_others =
                !wanted.callers.is_empty() && !self.patcher.programs.contains_key(&wanted.callers);
            !hooked.contains(&address)
                || called_by_others
                || names.any(|(identity, _)| !table.has_number(*identity, address))
        });
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.patcher.set(&self.target, wanted)
    }

    /// From now on, functions that define names wait until [`follow`](Tracing::follow) has been called.
    pub fn expect_definitions(&mut self) -> Result<()> {
        if self.scripts.defined.is_none() {
            let places = self.target.functions.modules().iter();
            let known = places.map(|place| place.module.bias).collect();
            self.scripts.defined = Some(known);
            self.set_own()?;
        }
        Ok(())
    }
}
