//! From the filters to the functions that are hooked, and back: whether a call that was told is to be shown.

use super::told::Module;
use crate::cli::CallsArgs;
use process::functions::{Function, Functions, Place};
use prototypes::{Filter, Where, filter::any_matches};
use std::collections::HashSet;
use strsim::levenshtein;

/// What the command line asks for.
pub struct Selection {
    x: Vec<Filter>,
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
    /// By `-x`, `-e` and `-l`.
    pub fn new(x: Vec<Filter>, e: Vec<Filter>, l: Vec<Filter>) -> Self {
        Selection { x, e, l }
    }

    /// What is shown of a recording: all of it, unless something is asked for.
    pub fn recorded(args: &CallsArgs) -> Self {
        let mut x = args.x.clone();
        if x.is_empty() && args.e.is_empty() && args.l.is_empty() {
            x.push(Filter::parse("*").expect("it is right"));
        }
        Selection::new(x, args.e.clone(), args.l.clone())
    }

    /// Names that were asked for by `-x` and `-e` and are not among these.
    pub fn missing<'s>(&'s self, known: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
        let known: HashSet<&str> = known.collect();
        let wanted = self.x.iter().chain(&self.e).flat_map(Filter::names);
        wanted
            .filter(|name| *name != "*" && !known.contains(name))
            .collect()
    }

    /// The functions to hook.
    pub fn functions(&self, functions: &Functions) -> Vec<Function> {
        let mut found = functions.find(true, |name, place| matches(&self.x, name, place));
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

    /// Whether a call of a function in `callee` by code in `from` is to be shown.
    pub fn shows(&self, name: &str, callee: &Module, from: Option<&Module>) -> bool {
        if any_matches(&self.x, name, callee.place()) {
            return true;
        }
        let Some(from) = from else {
            return false;
        };
        from.bias != callee.bias
            && (any_matches(&self.e, name, from.place())
                || any_matches(&self.l, name, callee.place()))
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
