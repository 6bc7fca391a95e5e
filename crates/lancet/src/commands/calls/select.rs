//! From the filters to the functions that are hooked, and back: whether a call that was told is to be shown.

use process::functions::{Function, Functions, Place};
use prototypes::{Filter, Where, filter::any_matches};
use strsim::levenshtein;

/// What the command line asks for.
pub struct Selection {
    x: Vec<Filter>,
    /// The same as `x`, but nobody asked for each of them by name.
    presets: Vec<Filter>,
    e: Vec<Filter>,
    l: Vec<Filter>,
}

fn place_of(place: &Place) -> (&str, &str, bool) {
    (
        place.module.path.to_str().unwrap_or(""),
        &place.name,
        place.module.main,
    )
}

fn matches(filters: &[Filter], symbol: &str, place: &Place) -> bool {
    let (path, soname, is_main) = place_of(place);
    let place = Where {
        path,
        soname,
        is_main,
    };
    any_matches(filters, symbol, place)
}

impl Selection {
    /// By `-x`, `--preset`, `-e` and `-l`.
    pub fn new(x: Vec<Filter>, presets: Vec<Filter>, e: Vec<Filter>, l: Vec<Filter>) -> Self {
        Selection { x, presets, e, l }
    }

    /// Whether it is asked for wherever it is called from.
    fn at_entry(&self, name: &str, place: &Place) -> bool {
        matches(&self.x, name, place) || matches(&self.presets, name, place)
    }

    /// The functions to hook.
    pub fn functions(&self, functions: &Functions) -> Vec<Function> {
        let mut found = functions.find(true, |name, place| self.at_entry(name, place));
        if !self.e.is_empty() || !self.l.is_empty() {
            // Called from one module, a function may lie in any; which calls count is seen at the call.
            let callers = functions.modules();
            let exported = functions.find(false, |name, place| {
                matches(&self.l, name, place)
                    || callers.iter().any(|caller| matches(&self.e, name, caller))
            });
            found.extend(exported);
            found.sort_by_key(|function| function.address);
            found.dedup_by_key(|function| function.address);
        }
        found
    }

    /// Whether a call of `function` that returns to `caller` is to be shown.
    pub fn shows(&self, functions: &Functions, function: &Function, caller: u64) -> bool {
        let name = &function.name;
        let Some(callee) = functions.module_of(function.address) else {
            return true;
        };
        if self.at_entry(name, callee) {
            return true;
        }
        let Some(from) = functions.module_of(caller) else {
            return false;
        };
        let outside = from.module.bias != callee.module.bias;
        outside && (matches(&self.e, name, from) || matches(&self.l, name, callee))
    }

    /// Names that were asked for by `-x` and that no module has, each with names like it.
    pub fn unknown(&self, functions: &Functions, found: &[Function]) -> Vec<(String, Vec<String>)> {
        let wanted = self.x.iter().chain(&self.e).flat_map(Filter::names);
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
