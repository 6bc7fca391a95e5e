//! From the filters to the functions that are hooked, and back: whether a call that was told is to be shown, and as
//! what.
//!
//! ltrace stops at two kinds of places: at a function's entry (`-x`), and where a module calls others (`-e` by the
//! module that calls, `-l` by the one that is called). We hook entries only; who called is seen from the return address,
//! and a module calls those functions for which it has a slot in its PLT or GOT.

use super::told::{Entered, Made, Shown};
use process::functions::{Function, Functions, Place};
use process::symbols::Kind;
use prototypes::{Filter, Where, filter::any_matches};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use strsim::levenshtein;

/// Calls by function and return address.
type Known = HashMap<(u64, u64), Option<Arc<Shown>>>;

/// What the command line asks for.
pub struct Selection {
    x: Vec<Filter>,
    /// So many of `x` were given by name; the others are a preset's.
    named: usize,
    e: Vec<Filter>,
    l: Vec<Filter>,
    /// As long as no library comes or goes.
    known: RefCell<Known>,
    /// All names of a function.
    names: RefCell<HashMap<u64, Arc<[String]>>>,
}

fn matches(filters: &[Filter], symbol: &str, place: &Place) -> bool {
    let place = Where {
        path: place.module.path.to_str().unwrap_or(""),
        soname: &place.name,
        is_main: place.module.main,
    };
    any_matches(filters, symbol, place)
}

/// Those with which a module begins and ends, called by nobody's code.
const LINKERS: [&str; 4] = [
    "__libc_start_main",
    "__cxa_finalize",
    "__gmon_start__",
    "_dl_relocate_static_pie",
];

/// Whether a module calls a function by this name through a slot of its own.
fn calls(from: &Place, name: &str) -> bool {
    from.symbols.imports(name) && !LINKERS.contains(&name)
}

impl Selection {
    /// By `-x`, `--preset`, `-e` and `-l`.
    pub fn new(x: Vec<Filter>, presets: Vec<Filter>, e: Vec<Filter>, l: Vec<Filter>) -> Self {
        let named = x.len();
        Selection {
            x: [x, presets].concat(),
            named,
            e,
            l,
            known: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Whether it matters which module calls.
    pub fn asks_callers(&self) -> bool {
        !(self.e.is_empty() && self.l.is_empty())
    }

    /// The functions to hook.
    pub fn functions(&self, functions: &Functions) -> Vec<Function> {
        self.known.borrow_mut().clear();
        self.names.borrow_mut().clear();
        let mut found = functions.find(true, |name, place| matches(&self.x, name, place));
        if !self.e.is_empty() || !self.l.is_empty() {
            // Called from one module, a function may lie in any; which calls count is seen at the call.
            let callers = functions.modules();
            let made = functions.find(false, |name, place| {
                matches(&self.l, name, place)
                    || callers
                        .iter()
                        .any(|from| calls(from, name) && matches(&self.e, name, from))
            });
            found.extend(made);
            found.sort_by_key(|function| function.address);
            found.dedup_by_key(|function| function.address);
        }
        found
    }

    /// As what a call of `function` that returns to `caller` is to be shown, if at all.
    pub fn shows(
        &self,
        functions: &Functions,
        function: &Function,
        caller: u64,
    ) -> Option<Arc<Shown>> {
        let key = (function.address, caller);
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        let shown = self.find(functions, function, caller).map(Arc::new);
        self.known.borrow_mut().insert(key, shown.clone());
        shown
    }

    fn find(&self, functions: &Functions, function: &Function, caller: u64) -> Option<Shown> {
        let Some(callee) = functions.module_of(function.address) else {
            return Some(Shown::default());
        };
        let names = self.names(function, callee);
        let entered = names.iter().find(|name| matches(&self.x, name, callee));
        let made = functions.module_of(caller).and_then(|from| {
            let outside = from.module.bias != callee.module.bias;
            let wanted = |name: &&String| {
                let slot = calls(from, name);
                slot && matches(&self.e, name, from)
                    || (slot || outside) && matches(&self.l, name, callee)
            };
            // The name it is called by, if that can be told.
            let by_slot = |name: &&String| calls(from, name) && wanted(name);
            let name = names.iter().find(by_slot);
            let name = name.or_else(|| names.iter().find(wanted))?;
            Some(Made {
                by: from.name.clone(),
                name: name.clone(),
            })
        });
        let entered = entered.map(|name| Entered {
            name: name.clone(),
            of: (!callee.module.main).then(|| callee.name.clone()),
        });
        (made.is_some() || entered.is_some()).then_some(Shown { made, entered })
    }

    /// All names of a function; first the one that it is hooked by.
    fn names(&self, function: &Function, of: &Place) -> Arc<[String]> {
        if let Some(known) = self.names.borrow().get(&function.address) {
            return known.clone();
        }
        let mut names = vec![function.name.clone()];
        for named in of.symbols.every() {
            let symbol = named.symbol;
            if symbol.address == function.address
                && matches!(symbol.kind, Kind::Function | Kind::Indirect)
                && !names.iter().any(|known| *known == named.name)
            {
                names.push(named.name.into_owned());
            }
        }
        let names: Arc<[String]> = names.into();
        self.names
            .borrow_mut()
            .insert(function.address, names.clone());
        names
    }

    /// Names that were asked for by `-x` and that no module has, each with names like it.
    pub fn unknown(&self, functions: &Functions, found: &[Function]) -> Vec<(String, Vec<String>)> {
        let wanted = self.x[..self.named]
            .iter()
            .chain(&self.e)
            .flat_map(Filter::names);
        let missing: Vec<&str> = wanted
            .filter(|name| !found.iter().any(|function| function.name == **name))
            // It may be another name of a function that is hooked.
            .filter(|name| functions.find(true, |known, _| known == *name).is_empty())
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let all = functions.find(false, |_, _| true);
        missing
            .into_iter()
            .map(|name| (name.to_owned(), like(name, &all)))
            .collect()
    }
}

/// At most so many names that are like one.
const MOST_LIKE: usize = 5;

/// Names that differ by little: one holds the other, or few letters are others.
fn like(name: &str, all: &[Function]) -> Vec<String> {
    let mut near: Vec<(usize, &str)> = all
        .iter()
        .map(|function| function.name.as_str())
        .filter_map(|known| {
            let distance = levenshtein(name, known);
            let holds = name.len() > 3 && known.contains(name);
            (holds || distance * 3 <= name.len().max(3) + 1).then_some((distance, known))
        })
        .collect();
    near.sort_unstable();
    near.dedup_by_key(|(_, name)| *name);
    near.truncate(MOST_LIKE);
    near.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::levenshtein as distance;

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("mysql_real_query", "mysql_real_query"), 0);
        assert_eq!(distance("mysql_query", "mysql_real_query"), 5);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
