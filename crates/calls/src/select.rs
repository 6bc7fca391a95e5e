//! Selects by the filters which functions are hooked, and whether and how a reported call is shown. Used by
//! `live::guest`, `live::guest::early`, `live::guest::plan` and others.
//!
//! ltrace stops at two kinds of places: at a function's entry (`-x`), and where a module calls others (`-e` by the calling
//! module, `-l` by the called one). Lancet hooks only entries; the return address shows which module called, and a module calls
//! those functions for which it has a slot in its PLT or GOT.

use crate::event::{CallEdge, Entered, Made, Shown};
use crate::options::Options;
use crate::preset::Preset;
use hooks::OTHERS;
use hooks::probes::{self, Probe};
use process::functions::{Function, Functions, ModuleSymbols, SYSTEM};
use prototypes::filter::{Filter, Where, any_matches};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::slice;
use strsim::levenshtein;

/// The filters of a run.
pub struct Selection {
    x: Vec<Filter>,
    /// The filters of `x` that name symbols.
    c: Vec<Filter>,
    /// How many of `x` the user has given; the others are a preset's.
    named: usize,
    e: Vec<Filter>,
    l: Vec<Filter>,
    /// Whether all system calls are wanted, unless some of `x` name the library `SYS`.
    system_calls: bool,
}

/// The place of system calls for filters.
const SYSTEM_CALLS: Where<'static> = Where {
    path: SYSTEM,
    soname: SYSTEM,
    is_main: false,
};

/// Whether a filter names system calls, and not anything with such a name.
fn is_of_system_calls(filter: &Filter) -> bool {
    let any = Where {
        path: "/",
        soname: "/",
        is_main: false,
    };
    filter.may_match(SYSTEM_CALLS) && !filter.may_match(any)
}

/// The name under which system calls without a name are shown (`conf/syscalls.conf`).
const UNKNOWN: &str = "unknown";

fn located(place: &ModuleSymbols) -> Where<'_> {
    Where {
        path: place.module.path.to_str().unwrap_or(""),
        soname: &place.name,
        is_main: place.module.main,
    }
}

fn matches(filters: &[Filter], symbol: &str, place: &ModuleSymbols) -> bool {
    any_matches(filters, symbol, located(place))
}

/// The functions by which a module begins and ends, which no code of the user calls; the last two are IFUNCs that pick nothing
/// (glibc `sysdeps/x86/cacheinfo.c`).
const LINKERS: [&str; 6] = [
    "__libc_start_main",
    "__cxa_finalize",
    "__gmon_start__",
    "_dl_relocate_static_pie",
    "__x86_cpu_features",
    "__x86_cacheinfo",
];

/// Whether a module calls a function by this name through a slot of its own.
fn calls(from: &ModuleSymbols, name: &str) -> bool {
    (from.symbols.imports(name) || from.symbols.calls_own_pick(name)) && !LINKERS.contains(&name)
}

/// Functions that the compiler and the C library's start files put into every program and library (gcc `crtstuff.c`, glibc
/// `crti.S`, `start.S`). A pattern does not match them; their whole name does.
const COMPILERS: [&str; 11] = [
    "_init",
    "_fini",
    "_start",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "__do_global_ctors_aux",
    "__libc_csu_init",
    "__libc_csu_fini",
    "_dl_relocate_static_pie",
];

impl Selection {
    /// Selects by the filters of `-x`, `--preset`, `-e` and `-l`; no system calls.
    pub fn new(x: Vec<Filter>, presets: Vec<Filter>, e: Vec<Filter>, l: Vec<Filter>) -> Self {
        let named = x.len();
        let x = [x, presets].concat();
        Selection {
            c: x.iter()
                .filter(|filter| filter.scripted().is_none())
                .cloned()
                .collect(),
            x,
            named,
            e,
            l,
            system_calls: false,
        }
    }

    /// Selects by the options.
    pub fn of(args: &Options) -> Self {
        let presets = args.presets.iter().flat_map(Preset::filters).collect();
        Selection::new(args.x.clone(), presets, args.callers(), args.l.clone())
            .with_system_calls(args.system_calls)
    }

    /// Selects system calls too, if requested (`-S`).
    pub fn with_system_calls(self, system_calls: bool) -> Self {
        Selection {
            system_calls,
            ..self
        }
    }

    /// Whether calls of this system call are shown.
    pub fn has_system_call(&self, name: &str) -> bool {
        let named: Vec<&Filter> = self.x.iter().filter(|of| is_of_system_calls(of)).collect();
        if named.is_empty() {
            self.system_calls
        } else {
            named.iter().any(|of| of.matches(name, SYSTEM_CALLS))
        }
    }

    /// The system calls to hook.
    pub fn system_calls(&self) -> Vec<Function> {
        let named =
            prototypes::bundle::system_calls().map(|(number, name)| (u64::from(number), name));
        self.shown_of(named.chain([(OTHERS, UNKNOWN)]))
    }

    /// Returns the system calls of 32-bit programs that are shown; `added` is added to their numbers.
    pub fn system_calls_of_32_bits(&self, added: u64) -> Vec<Function> {
        let named = prototypes::bundle::system_calls_of_32_bits();
        self.shown_of(named.map(|(number, name)| (added + u64::from(number), name)))
    }

    /// Returns one of all these system calls by its number, if it is shown.
    pub fn system_call(&self, number: u64, added: u64) -> Option<Function> {
        let of = |number: u64| u32::try_from(number).ok();
        let name = match number {
            OTHERS => Some(UNKNOWN),
            number if number < added => prototypes::bundle::system_call(of(number)?),
            number => prototypes::bundle::system_call_of_32_bits(of(number - added)?),
        };
        let shown = self.shown_of(name.map(|name| (number, name)).into_iter());
        shown.into_iter().next()
    }

    fn shown_of(&self, all: impl Iterator<Item = (u64, &'static str)>) -> Vec<Function> {
        all.filter(|(_, name)| self.has_system_call(name))
            .map(|(number, name)| Function {
                name: name.into(),
                module: SYSTEM.into(),
                address: number,
                ..Function::default()
            })
            .collect()
    }

    /// Whether it matters which module calls.
    pub fn asks_callers(&self) -> bool {
        !(self.e.is_empty() && self.l.is_empty())
    }

    /// Whether a filter has the whole name of the function.
    pub fn names(&self, name: &str) -> bool {
        let named = self.x[..self.named].iter().chain(&self.e);
        named.flat_map(Filter::names).any(|known| known == name)
    }

    /// Whether a library that is loaded later may bring requested functions.
    pub fn may_come(&self) -> bool {
        let mut filters = self.x.iter().chain(&self.e).chain(&self.l);
        filters.any(Filter::is_of_libraries)
    }

    /// The functions to hook.
    pub fn functions(&self, functions: &Functions) -> Vec<Function> {
        // `-e trace=!read` makes hundreds of filters of which none names a file's function; then the names need not be tried.
        let may = |place: &ModuleSymbols| {
            let mut filters = self.c.iter();
            filters.any(|filter| filter.may_match(located(place)))
        };
        let mut found = functions.find_in(may, true, |name, place| {
            matches(&self.c, name, place) && (!COMPILERS.contains(&name) || self.names(name))
        });
        if !self.e.is_empty() || !self.l.is_empty() {
            // A function called from one module may be in any module; the calls that count are selected at the call.
            let callers = functions.modules();
            let made = functions.find(false, |name, place| {
                matches(&self.l, name, place)
                    || callers
                        .iter()
                        .any(|from| calls(from, name) && matches(&self.e, name, from))
            });
            found.extend(made);
            // A module's slot for an IFUNC of its own has no name, and the IFUNC need not be exported.
            let hidden = |place: &ModuleSymbols| place.symbols.has_local_picks();
            found.extend(functions.find_in(hidden, true, |name, place| {
                place.symbols.calls_own_pick(name) && matches(&self.e, name, place)
            }));
            found.sort_by_key(|function| function.address);
            found.dedup_by_key(|function| function.address);
        }
        found
    }

    /// Returns the probes to hook. A pattern for functions such as `*` selects no probes.
    pub fn probes(&self, functions: &Functions) -> Vec<Probe> {
        const NO_PROBE: &str = "usdt!";
        let wanted = |name: &str, place: &ModuleSymbols| {
            self.x.iter().any(|filter| {
                let of = slice::from_ref(filter);
                !matches(of, NO_PROBE, place) && matches(of, name, place)
            })
        };
        let places = functions.modules().iter().filter(|place| {
            let place = located(place);
            self.x.iter().any(|filter| filter.may_match(place))
        });
        let probes = places.flat_map(|place| {
            let probes = probes::of(place).into_iter();
            probes.map(move |probe| (place, probe))
        });
        probes
            .filter(|(place, probe)| wanted(&probe.function.name, place))
            .map(|(_, probe)| probe)
            .collect()
    }

    /// Returns the code whose calls of these functions are reported, in the form of hooks; empty = any code. Calls that pass this
    /// are checked again.
    pub fn callers(&self, functions: &Functions, hooked: &[Function]) -> Vec<Vec<u64>> {
        if self.e.is_empty() || !self.l.is_empty() {
            return vec![Vec::new(); hooked.len()];
        }
        // Two IFUNCs may have picked the same function, and a function may have several names.
        let picks: HashSet<u64> = functions.picks().collect();
        let addresses: HashSet<u64> = hooked.iter().map(|function| function.address).collect();
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        for named in functions
            .modules()
            .iter()
            .flat_map(|place| place.symbols.exports())
        {
            if addresses.contains(&named.symbol.address) {
                let known = names.entry(named.symbol.address).or_default();
                known.push(named.name.into_owned());
            }
        }
        let of = |function: &Function| {
            let names = names.get(&function.address).map_or(&[][..], |names| names);
            let names = names.iter().chain([&function.name]);
            let callee = functions.module_of(function.address);
            let entered = callee
                .is_none_or(|callee| names.clone().any(|name| matches(&self.x, name, callee)));
            if entered || picks.contains(&function.address) {
                return Vec::new();
            }
            let asked = functions
                .modules()
                .iter()
                .filter(|from| names.clone().any(|name| matches(&self.e, name, from)));
            let ranges: Vec<_> = asked.flat_map(|from| from.module.code()).collect();
            let bounds = ranges.iter().flat_map(|range| [range.start, range.end]);
            [ranges.len() as u64].into_iter().chain(bounds).collect()
        };
        hooked.iter().map(of).collect()
    }

    /// Whether a module calls a function by this name through a slot of its own. Its slots for its own IFUNCs do not count for
    /// `-l`: libc calls its `strlen` all the time.
    pub fn has_slot(&self, from: &ModuleSymbols, name: &str) -> bool {
        if self.e.is_empty() {
            from.symbols.imports(name) && !LINKERS.contains(&name)
        } else {
            calls(from, name)
        }
    }

    /// Whether entries of a function of this name are requested.
    pub fn enters(&self, name: &str, place: &ModuleSymbols) -> bool {
        matches(&self.x, name, place)
    }

    /// Returns how calls over this edge are shown; `None` = they are not.
    pub fn shows(&self, edge: &CallEdge) -> Option<Shown> {
        let CallEdge {
            names,
            module: callee,
            ..
        } = edge;
        if edge.function.is_system_call() {
            let entered = Entered {
                name: edge.function.name.clone(),
                of: Some(SYSTEM.into()),
            };
            let shown = Shown {
                made: None,
                entered: Some(entered),
            };
            return self.has_system_call(&edge.function.name).then_some(shown);
        }
        let place = callee.place();
        let entered = names.iter().find(|name| any_matches(&self.x, name, place));
        let made = edge.from.as_ref().and_then(|from| {
            let outside = from.bias != callee.bias;
            let slot = |at: usize| at < 64 && edge.slots >> at & 1 != 0;
            let wanted = |(at, name): &(usize, &String)| {
                slot(*at) && any_matches(&self.e, name, from.place())
                    || (slot(*at) || outside) && any_matches(&self.l, name, place)
            };
            // The name by which the function is called, if it is known.
            let by_slot = |(at, name): &(usize, &String)| slot(*at) && wanted(&(*at, name));
            let found = names.iter().enumerate().find(by_slot);
            let (_, name) = found.or_else(|| names.iter().enumerate().find(wanted))?;
            Some(Made {
                by: from.name.clone(),
                name: name.clone(),
            })
        });
        let entered = entered.map(|name| Entered {
            name: name.clone(),
            of: (!callee.main).then(|| callee.name.clone()),
        });
        (made.is_some() || entered.is_some()).then_some(Shown { made, entered })
    }

    /// Selects what is shown of a recording: all of it, unless the user has filters.
    pub fn recorded(args: &Options) -> Self {
        let mut x = args.x.clone();
        let presets: Vec<Filter> = args.presets.iter().flat_map(Preset::filters).collect();
        let all = x.is_empty() && presets.is_empty() && args.e.is_empty() && args.l.is_empty();
        if all && !args.only {
            x.push(Filter::parse("*").expect("it is right"));
        }
        Selection::new(x, presets, args.e.clone(), args.l.clone())
            .with_system_calls(args.system_calls || all)
    }

    /// Returns the names in `-x` and `-e` that are not among these.
    pub fn missing<'s>(&'s self, known: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
        let known: HashSet<&str> = known.collect();
        let wanted = self.x[..self.named]
            .iter()
            .chain(&self.e)
            .flat_map(Filter::names);
        wanted
            .filter(|name| *name != "*" && !known.contains(name))
            .collect()
    }

    /// Returns the names in `-x` that no module has, each with similar names.
    pub fn unknown(&self, functions: &Functions, found: &[Function]) -> Vec<(String, Vec<String>)> {
        let wanted = self.x[..self.named]
            .iter()
            .filter(|filter| filter.scripted().is_none() && !is_of_system_calls(filter))
            .chain(&self.e)
            .flat_map(Filter::names);
        let missing: Vec<&str> = wanted
            .filter(|name| !found.iter().any(|function| function.name == **name))
            .collect();
        // It may be another name of a function that is hooked.
        let others = names_among(functions, &missing);
        let missing: Vec<&str> = missing
            .into_iter()
            .filter(|name| !others.contains(*name))
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let all = functions.find(false, |_, _| true);
        missing
            .into_iter()
            .map(|name| {
                let all = all.iter().map(|function| function.name.as_str());
                (name.to_owned(), like(name, all))
            })
            .collect()
    }
}

/// Returns those of these names that functions of any module have. All of them are looked for in one pass over the symbols, of which
/// large programs have hundreds of thousands.
fn names_among(functions: &Functions, names: &[&str]) -> HashSet<String> {
    let wanted: HashSet<&str> = names.iter().copied().collect();
    let found = RefCell::new(HashSet::new());
    if !wanted.is_empty() {
        functions.find(true, |known, _| {
            if wanted.contains(known) {
                found.borrow_mut().insert(known.to_owned());
            }
            false
        });
    }
    found.into_inner()
}

/// Limit of the similar names that are listed.
const MOST_LIKE: usize = 5;

/// Returns names that differ by little: one contains the other, or few letters differ.
pub fn like<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let letters = letters_of(name);
    let mut near: Vec<(usize, &str)> = all
        .filter_map(|known| {
            let holds = || name.len() > 3 && known.contains(name);
            let is_near = |distance: usize| distance * 3 <= name.len().max(3) + 1;
            // Most names differ by far, which their letters show sooner than the distance is computed.
            if !is_near(least_distance(&letters, known)) && !holds() {
                return None;
            }
            let distance = levenshtein(name, known);
            (is_near(distance) || holds()).then_some((distance, known))
        })
        .collect();
    near.sort_unstable();
    near.dedup_by_key(|(_, name)| *name);
    near.truncate(MOST_LIKE);
    near.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// How many of a name's letters are of each kind. Letters that share a kind make the distance that follows smaller, never greater.
type Letters = [i32; 32];

fn letters_of(name: &str) -> Letters {
    let mut letters = [0; 32];
    for letter in name.chars() {
        letters[letter as usize % 32] += 1;
    }
    letters
}

/// Returns a number that the distance of two names is not less than, `letters` being those of the first: each letter that only one of them
/// has takes a change, and one change takes one letter away from each at most.
fn least_distance(letters: &Letters, other: &str) -> usize {
    let other = letters_of(other);
    let differ = letters.iter().zip(other).map(|(one, other)| one - other);
    let (more, less) = differ.fold((0, 0), |(more, less), differ| {
        (more + differ.max(0), less - differ.min(0))
    });
    more.max(less) as usize
}

#[cfg(test)]
mod tests {
    use super::levenshtein as distance;
    use super::{least_distance, letters_of, like};

    #[test]
    fn letters_tell_of_names_that_are_far_and_keep_those_that_are_near() {
        let names = [
            "read",
            "readv",
            "pread",
            "mysql_query",
            "mysql_real_query",
            "größe",
            "grosse",
            "",
            "e",
        ];
        for one in names {
            for other in names {
                let least = least_distance(&letters_of(one), other);
                assert!(least <= distance(one, other), "{one} {other}");
            }
        }
        assert!(least_distance(&letters_of("mysql_query"), "PQexecParams") > 4);
        let near = like("mysql_query", names.into_iter());
        assert_eq!(near, ["mysql_query"]);
        assert_eq!(like("read", names.into_iter()), ["read", "pread", "readv"]);
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("mysql_real_query", "mysql_real_query"), 0);
        assert_eq!(distance("mysql_query", "mysql_real_query"), 5);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
