//! Functions that are hooked by the name of a script's language, and the moments when new ones are defined.
//!
//! A library's functions get their names in the VM when the library is initialised, which is after the loader has told
//! of it. So what initialises it is hooked too, and waits at its end until the command has looked at the names:
//!
//! | VM | what defines |
//! |---|---|
//! | Ruby | `Init_…` of the library (`dln_load`) |
//! | Perl | `boot_…` of the library (`DynaLoader`, `XSLoader`) |
//! | Python | `PyModule_ExecDef`, which the import system calls for each module of C when its name is in `sys.modules` |
//! | PHP | `zend_startup_module_ex`, with which `dl` ends |

use super::own::own;
use super::{CALL_THROUGH, Known, Refused, Tracing, Wanted};
use crate::borrow::Borrowed;
use crate::error::Result;
use crate::functions::Function;
use crate::hooks::set::LANDING;
use crate::hooks::standstill::Writes;
use crate::hooks::state::Script;
use crate::hooks::text::Texts;
use crate::scripted::{self, Outcome, Pattern};
use std::collections::HashSet;
use wire::calls::{Name, area, want};

/// Names that were hooked, and where libraries lie whose names are defined.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Numbers by address and identity; a function keeps its number.
    numbers: std::collections::HashMap<(u64, u64), u64>,
    /// Libraries that were there when definitions were first expected, by their bias.
    defined: Option<HashSet<u64>>,
}

impl Tracing {
    /// Looks for C functions by their name in the script's language.
    pub fn named(&self, pattern: &Pattern) -> Outcome {
        match &self.script {
            Script::None(_) if self.awaits_script => {
                Outcome::NotYet("its VM has not begun with the script".into())
            }
            script => scripted::find(&self.memory, script, &self.functions, pattern),
        }
    }

    /// Names of C functions in the neighbourhood of one.
    pub fn near(&self, pattern: &Pattern) -> Vec<String> {
        scripted::near(&self.memory, &self.script, pattern)
    }

    /// Hooks those of `wanted` that are not hooked yet; what was refused.
    pub fn add(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let refused = self.add_here(wanted);
        self.texts = Texts::default();
        refused
    }

    /// The same, where more is to be set at once.
    pub(super) fn add_here(&mut self, mut wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let hooked: HashSet<u64> = self.told().map(|function| function.address).collect();
        let numbers = &self.defined_names.numbers;
        wanted.retain(|wanted| {
            let address = wanted.function.address;
            let mut names = wanted.names.iter();
            // One that is hooked may be called by a library that came.
            let called_by_others =
                !wanted.callers.is_empty() && !self.programs.contains_key(&wanted.callers);
            !hooked.contains(&address)
                || called_by_others
                || names.any(|(identity, _)| !numbers.contains_key(&(address, *identity)))
        });
        match wanted.is_empty() {
            true => Ok(Vec::new()),
            false => self.set_here(wanted),
        }
    }

    /// The numbers by which the calls of a hooked function are told.
    pub(super) fn numbers(&self, known: &Known) -> Vec<u64> {
        if known.hook.names[1] == 0 {
            return vec![known.hook.number];
        }
        let places = [known.hook.place, known.hook.place.wrapping_sub(LANDING)];
        let numbers = self.defined_names.numbers.iter();
        let here = numbers.filter(|((address, _), _)| places.contains(address));
        here.map(|(_, number)| *number).collect()
    }

    /// From now on, what defines names waits until it has been looked at ([`follow`](Tracing::follow)).
    pub fn expect_definitions(&mut self) -> Result<()> {
        if self.defined_names.defined.is_none() {
            let places = self.functions.modules().iter();
            let known = places.map(|place| place.module.bias).collect();
            self.defined_names.defined = Some(known);
            self.set_own()?;
        }
        Ok(())
    }

    /// What defines names.
    pub(super) fn definers(&self) -> Vec<Wanted> {
        let Some(defined) = &self.defined_names.defined else {
            return Vec::new();
        };
        let by_prefix = |prefix: &'static str| {
            self.functions.find(false, move |name, place| {
                name.starts_with(prefix) && !defined.contains(&place.module.bias)
            })
        };
        let by_name = |wanted: &'static str| self.functions.find(false, |name, _| name == wanted);
        let functions = match &self.script {
            Script::None(_) => Vec::new(),
            Script::Ruby(..) => by_prefix("Init_"),
            Script::Perl(_) => by_prefix("boot_"),
            Script::Python(_) => by_name("PyModule_ExecDef"),
            Script::Php(_) => by_name("zend_startup_module_ex"),
        };
        let definers = functions.into_iter();
        definers
            .map(|function| own(function, CALL_THROUGH, want::DEFINES))
            .collect()
    }

    /// Makes the table of a hook's names, if it has several, and notes its functions by their numbers.
    pub(super) fn name(
        &mut self,
        borrowed: &mut Borrowed,
        writes: &mut Writes,
        wanted: &Wanted,
        known: &mut Known,
    ) -> Result<()> {
        if wanted.names.is_empty() {
            known.hook.names = [0; 2];
            if wanted.want & !want::OWN != 0 {
                let number = known.hook.number as u32;
                self.names.insert(number, wanted.function.clone());
            }
            return Ok(());
        }
        let mut table = Vec::new();
        for (identity, function) in &wanted.names {
            let next = &mut self.next_number;
            let numbers = &mut self.defined_names.numbers;
            let number = *numbers
                .entry((function.address, *identity))
                .or_insert_with(|| {
                    *next += 1;
                    *next - 1
                });
            self.names.insert(number as u32, function.clone());
            table.extend([*identity, number]);
        }
        let count = wanted.names.len() as u64;
        let size = count * size_of::<Name>() as u64;
        let at = self.areas.room(borrowed, area::PROGRAMS, size, None)?;
        let bytes = table.iter().flat_map(|word: &u64| word.to_le_bytes());
        writes.add(at, bytes.collect());
        known.hook.names = [at, count];
        Ok(())
    }

    /// Forgets the names of a function that is not hooked after all; it, if it was one of them.
    pub(super) fn unname(&mut self, address: u64) -> Option<Function> {
        let found = self.names.values().find(|known| known.address == address);
        let found = found.cloned();
        self.names.retain(|_, known| known.address != address);
        let numbers = &mut self.defined_names.numbers;
        numbers.retain(|(of, _), _| *of != address);
        found
    }
}
