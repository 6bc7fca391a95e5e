//! Resolves the imports of a file. Used by `plan` and `load`, and by `report::patch::lines`.
//!
//! A name that the file itself defines is used, even if the guest has a symbol of that name: a new function may have the name of the
//! one it replaces. Everything else is searched in the guest's modules, in the order of its loader. No library is loaded, so a name
//! that no module exports is refused.
//!
//! `lancet_original` is the function that the file replaces; if it replaces several, `lancet_original_NAME` is one of them.

use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::object::{Object, Symbol, Value};
use crate::request::Request;
use process::functions::ModuleSymbols;
use process::symbols::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name under which a file calls the function that it replaces.
pub(crate) const ORIGINAL: &str = "lancet_original";

/// Imports that show that code needs unwinding rules.
const HANDLERS: [&str; 6] = [
    "__gxx_personality_v0",
    "__gcc_personality_v0",
    "rust_eh_personality",
    "_Unwind_Resume",
    "__cxa_allocate_exception",
    "__cxa_throw",
];

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An address in the file's own memory.
    Own(u64),
    /// What the function at this address in the file's own memory picks (IFUNC).
    OwnPicked(u64),
    /// An address in the guest.
    There(u64),
    /// What the function at this address in the guest picks (IFUNC), which it has not told yet.
    Picked(u64),
    /// The function that the request with this number replaces, as it was.
    Original(usize),
    /// Nothing: the import may be missing, and is.
    Missing,
}

/// An import, for who reads a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The symbol, without a version.
    pub name: String,
    /// The module that it was found in; for `lancet_original` the function.
    pub from: String,
}

/// What the symbols of a file stand for, by their numbers; and its imports, by name.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub targets: BTreeMap<usize, Target>,
    pub imports: Vec<Import>,
}

/// Resolves all symbols that the slots of a file need; `requests` are all of them, with the numbers of those that are for this
/// file; `unwinds` says whether unwinders will know it.
pub(crate) fn resolve(
    guest: &Guest,
    object: &Object,
    requests: &[(usize, &Request)],
    unwinds: bool,
) -> Result<Resolved> {
    let modules = guest.in_search_order();
    let mut resolved = Resolved::default();
    for (_, value) in &object.slots {
        let Value::Symbol(number, _) = value else {
            continue;
        };
        if resolved.targets.contains_key(number) {
            continue;
        }
        let refused = |reason: String| Error::File {
            file: object.path.clone(),
            reason,
        };
        // Number 0 is the symbol that stands for none.
        let target = match object.symbols.get(number) {
            None if *number == 0 => Target::Missing,
            None => return Err(refused("its symbols are damaged".into())),
            Some(symbol) if !unwinds && HANDLERS.contains(&symbol.name.as_str()) => {
                return Err(refused(format!(
                    "it throws, catches or cleans up after exceptions ({}), and the unwinder of this process cannot be told of its code: compile it with -fno-exceptions",
                    symbol.name
                )));
            }
            Some(symbol) => {
                let found = find(guest, &modules, symbol, requests).map_err(refused)?;
                resolved.imports.extend(found.1.map(|from| Import {
                    name: symbol.name.clone(),
                    from,
                }));
                found.0
            }
        };
        resolved.targets.insert(*number, target);
    }
    resolved
        .imports
        .sort_by(|one, other| one.name.cmp(&other.name));
    Ok(resolved)
}

/// What a symbol stands for, and where an import comes from.
fn find(
    guest: &Guest,
    modules: &[Arc<ModuleSymbols>],
    symbol: &Symbol,
    requests: &[(usize, &Request)],
) -> std::result::Result<(Target, Option<String>), String> {
    if let Some(address) = symbol.address {
        let target = if symbol.picks {
            Target::OwnPicked(address)
        } else {
            Target::Own(address)
        };
        return Ok((target, None));
    }
    if let Some(rest) = symbol.name.strip_prefix(ORIGINAL) {
        let (number, request) = original(rest, requests)?;
        return Ok((Target::Original(number), Some(request.shown())));
    }
    let mut found = modules.iter().filter_map(|place| {
        let found = place.symbols.exported(&symbol.name)?;
        Some((place, found))
    });
    match found.next() {
        Some((place, found)) => {
            let target = match (found.kind, guest.functions.pick_of(found.address)) {
                (Kind::Indirect, None) => Target::Picked(found.address),
                (Kind::Indirect, Some(picked)) => Target::There(picked),
                _ => Target::There(found.address),
            };
            Ok((target, Some(place.name.to_string())))
        }
        None if symbol.weak => Ok((Target::Missing, None)),
        None => Err(format!(
            "it needs {}, which nothing that the process has loaded shows",
            symbol.name
        )),
    }
}

/// The request that `lancet_original` with this ending means.
fn original<'r>(
    rest: &str,
    requests: &[(usize, &'r Request)],
) -> std::result::Result<(usize, &'r Request), String> {
    match (rest.strip_prefix('_'), requests) {
        (None, [only]) if rest.is_empty() => Ok(*only),
        (None, _) => Err(format!(
            "it replaces {} functions, so {ORIGINAL} could be any of them: write {ORIGINAL}_{}",
            requests.len(),
            requests[0].1.function
        )),
        (Some(name), _) => {
            let mut named = requests.iter().filter(|(_, one)| one.function == name);
            let found = named.next().copied();
            found.ok_or_else(|| format!("it calls {ORIGINAL}_{name}, and replaces no {name}"))
        }
    }
}
