//! Functions that are asked for by their name in the script's language (`-x 'ruby:Mysql2::Client#query'`): found,
//! waited for or refused; and how their calls are shown.

use super::select::like;
use process::functions::Function;
use process::hooks::Tracing;
use process::scripted::{Calling, Collector, Outcome, Pattern, Scripted};
use prototypes::capture::{Op, Source};
use prototypes::{Filter, Kind, Lens, Parameter, Prototype, Type, Word};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};
use vm::{python, ruby};

/// Names that were not there are looked for again so often, besides whenever a library is loaded or initialised.
const AGAIN: Duration = Duration::from_millis(250);

/// What is asked for, and what was found of it.
#[derive(Clone)]
pub struct Names {
    wishes: Vec<Wish>,
    found: Vec<Scripted>,
    looked: Instant,
}

#[derive(Clone)]
struct Wish {
    pattern: Pattern,
    state: State,
    /// A preset's, which has names of every language: what is not there is no news.
    of_preset: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not looked for yet.
    New,
    /// It may come, or more may come.
    Waiting,
    /// Found, and there is but one.
    Found,
    /// There is no C function.
    Refused,
}

impl Names {
    /// Those among the filters.
    pub fn of(filters: &[Filter], of_presets: &[Filter]) -> Self {
        let wishes = |filters: &[Filter], of_preset: bool| -> Vec<Wish> {
            let patterns = filters
                .iter()
                .filter_map(|filter| filter.scripted()?.parse().ok());
            let wishes = patterns.map(|pattern| Wish {
                pattern,
                state: State::New,
                of_preset,
            });
            wishes.collect()
        };
        Names {
            wishes: [wishes(filters, false), wishes(of_presets, true)].concat(),
            found: Vec::new(),
            looked: Instant::now(),
        }
    }

    /// How many were found.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// Whether some may still come.
    pub fn are_awaited(&self) -> bool {
        self.wishes.iter().any(|wish| wish.state == State::Waiting)
    }

    /// Whether it is time to look for one that may be defined at any moment.
    pub fn are_due(&self) -> bool {
        let awaited = |wish: &Wish| wish.state == State::Waiting && !wish.pattern.is_glob();
        self.looked.elapsed() >= AGAIN && self.wishes.iter().any(awaited)
    }

    /// Whether some were refused.
    pub fn were_refused(&self) -> bool {
        let refused = |wish: &Wish| wish.state == State::Refused && !wish.of_preset;
        self.wishes.iter().any(refused)
    }

    /// Looks for what is not found yet, and says on standard error what is not there or can never be, once. Whether more is
    /// found than was.
    pub fn look(&mut self, tracing: &Tracing) -> bool {
        let (pid, before) = (tracing.pid(), self.found.len());
        for wish in &mut self.wishes {
            if matches!(wish.state, State::Found | State::Refused) {
                continue;
            }
            let (pattern, quiet) = (&wish.pattern, wish.of_preset);
            let new = wish.state == State::New && !quiet;
            wish.state = match tracing.named(pattern) {
                Outcome::Found(found) => {
                    if found.is_empty() && new {
                        eprintln!(
                            "lancet: process {pid} has no {pattern} yet; what a library brings of it is hooked then"
                        );
                    }
                    self.found.extend(found);
                    match pattern.is_glob() {
                        true => State::Waiting,
                        false => State::Found,
                    }
                }
                Outcome::NotYet(why) => {
                    if new {
                        let like = near(tracing, pattern, "like it");
                        eprintln!(
                            "lancet: process {pid} has no {pattern} yet: {why}{like}; it is hooked when it is defined"
                        );
                    }
                    State::Waiting
                }
                Outcome::Never(_) if quiet => State::Refused,
                Outcome::Never(why) => {
                    let like = near(tracing, pattern, "written in C and like it");
                    eprintln!("lancet: not hooked: {pattern}: {why}{like}");
                    State::Refused
                }
            };
        }
        self.looked = Instant::now();
        let mut seen = HashSet::new();
        self.found.retain(|one| {
            let there = tracing.functions().module_of(one.function.address);
            there.is_some() && seen.insert((one.function.address, one.identity))
        });
        self.found.len() > before
    }

    /// What was found, by address: functions that have their code in common, each with what tells it from the others.
    pub fn by_address(&self) -> BTreeMap<u64, Vec<&Scripted>> {
        let mut all: BTreeMap<u64, Vec<&Scripted>> = BTreeMap::new();
        for one in &self.found {
            all.entry(one.function.address).or_default().push(one);
        }
        all
    }
}

/// ` (like it: …)`, if something is.
fn near(tracing: &Tracing, pattern: &Pattern, how: &str) -> String {
    let mut names = tracing.near(pattern);
    names.retain(|name| *name != pattern.name);
    let (path, last) = split(&pattern.name);
    // Of the same class, the rest of the name counts.
    let beside = names.iter().filter_map(|name| name.strip_prefix(path));
    let mut found = like(last, beside.filter(|rest| split(rest).0.is_empty()));
    for name in &mut found {
        name.insert_str(0, path);
    }
    if found.is_empty() {
        found = like(&pattern.name, names.iter().map(String::as_str));
    }
    match found.is_empty() {
        true => String::new(),
        false => format!(" ({how}: {})", found.join(", ")),
    }
}

/// A name's class or module with the sign behind it, and the rest.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.rfind(['#', '.', ':']).map_or(0, |at| at + 1))
}

/// Several functions with one code, each with its identity; none where the code is of one function alone.
pub fn identities(names: &[&Scripted]) -> Vec<(u64, Function)> {
    let told = names.iter().filter(|one| one.identity != 0);
    told.map(|one| (one.identity, one.function.clone()))
        .collect()
}

/// What is copied at the return of a function where the prototype does not say it.
pub fn at_return(calling: Calling) -> Option<Vec<u64>> {
    let Calling::Collector(Collector::Ruby { count }) = calling else {
        return None;
    };
    let describe = Op::Describe {
        what: Word::RubyCollections.what(),
        items: 0,
        text: count,
    };
    Some(vec![Op::Value(Source::Rax).encode(), describe.encode()])
}

/// Whether the VM calls it in a convention of its own, or as any C function is called.
pub fn is_called_by_vm(calling: Calling) -> bool {
    !matches!(calling, Calling::Collector(_))
}

/// How a VM's calls of a function are shown.
pub fn prototype(calling: Calling) -> Prototype {
    let word = Type::vm;
    let hidden = || Type::address().through(Lens::Hide);
    let (returns, parameters) = match calling {
        Calling::Ruby { convention, itself } => {
            let receiver = if itself {
                hidden()
            } else {
                word(Word::RubySelf)
            };
            let parameters = match convention {
                ruby::Convention::Fixed(count) => {
                    let values = (0..count).map(|_| word(Word::RubyValue));
                    std::iter::once(receiver).chain(values).collect()
                }
                ruby::Convention::Arguments if itself => vec![word(Word::RubyFunction)],
                ruby::Convention::Arguments => vec![word(Word::RubyMethod)],
                ruby::Convention::Array => vec![receiver, word(Word::RubySplat)],
            };
            (word(Word::RubyValue), parameters)
        }
        Calling::Python(convention) => {
            use python::Convention as C;
            let arguments = match convention {
                C::None | C::Slot => None,
                C::One => Some(Word::PythonObject),
                C::Tuple => Some(Word::PythonTuple),
                C::TupleKeywords => Some(Word::PythonKeywords),
                C::Fast => Some(Word::PythonFast),
                C::FastKeywords => Some(Word::PythonFastKeywords),
                C::Method => Some(Word::PythonMethod),
            };
            let returns = match convention {
                // What a slot returns its place in the type says: an object, a number, nothing.
                C::Slot => Type::new(Kind::Long).through(Lens::Guess),
                _ => word(Word::PythonObject),
            };
            let receiver = word(Word::PythonSelf);
            let parameters = std::iter::once(receiver).chain(arguments.map(word));
            (returns, parameters.collect())
        }
        Calling::Perl => (word(Word::PerlResult), vec![word(Word::PerlArguments)]),
        Calling::Php => (word(Word::PhpResult), vec![word(Word::PhpArguments)]),
        Calling::Collector(Collector::Ruby { .. }) => (
            word(Word::RubyCollections),
            vec![hidden(), word(Word::RubyReason)],
        ),
        Calling::Collector(Collector::Python) => {
            (Type::new(Kind::Long), vec![hidden(), Type::new(Kind::Int)])
        }
        Calling::Collector(Collector::Php) => (Type::new(Kind::Int), Vec::new()),
    };
    let parameters = parameters
        .into_iter()
        .map(|ty| Parameter { ty, format: false });
    Prototype {
        returns,
        parameters: parameters.collect(),
        late_from: None,
    }
}
