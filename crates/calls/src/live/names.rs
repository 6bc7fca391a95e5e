//! Functions that are requested by their name in the script's language (`-x 'ruby:Mysql2::Client#query'`): finds them,
//! waits for them or refuses them; and says how their calls are shown. Used by `guest::plan` and `guest`.

use crate::message::{Message, Messages};
use crate::select::like;
use hooks::Tracing;
use hooks::scripted::{Calling, Outcome, Pattern, Scripted, Shown};
use process::functions::Function;
use prototypes::capture::{Op, Source, What};
use prototypes::filter::Filter;
use prototypes::types::{Kind, Lens, Parameter, Prototype, Type};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

/// Time after which names that do not exist are looked up again, besides whenever a library is loaded or initialised.
const AGAIN: Duration = Duration::from_millis(250);

/// The requested names, and the results.
#[derive(Clone)]
pub struct Names {
    wishes: Vec<Wish>,
    found: Vec<Scripted>,
    looked: Instant,
    messages: Messages,
}

#[derive(Clone)]
struct Wish {
    pattern: Pattern,
    state: State,
    /// Whether it is a preset's, which has names of every language: a missing one is not reported.
    of_preset: bool,
}

impl Wish {
    /// Whether it is not reported if it is missing. The collector is of whatever language the process runs, and a preset asks for nothing else
    /// with it.
    fn is_quiet(&self) -> bool {
        self.of_preset && self.pattern.language.is_some()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It was not looked up yet.
    New,
    /// It, or more functions, may be defined later.
    Waiting,
    /// It was found, and there is only one.
    Found,
    /// There is no C function of this name.
    Refused,
}

impl Names {
    /// Takes those filters that are names of a script's language.
    pub fn of(filters: &[Filter], of_presets: &[Filter], messages: Messages) -> Self {
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
            messages,
        }
    }

    /// Returns how many were found.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// Whether some may still be defined.
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
        let refused = |wish: &Wish| wish.state == State::Refused && !wish.is_quiet();
        self.wishes.iter().any(refused)
    }

    /// Looks for what is not found yet, and reports once what does not exist or can never be hooked. Returns whether more
    /// was found than before.
    pub fn look(&mut self, tracing: &Tracing) -> bool {
        let (pid, before) = (tracing.pid(), self.found.len());
        for wish in &mut self.wishes {
            if matches!(wish.state, State::Found | State::Refused) {
                continue;
            }
            let (pattern, quiet) = (&wish.pattern, wish.is_quiet());
            let new = wish.state == State::New && !quiet;
            wish.state = match tracing.named(pattern) {
                Outcome::Found(found) => {
                    if found.is_empty() && new {
                        let pattern = pattern.to_string();
                        self.messages.say(Message::NothingFits { pid, pattern });
                    }
                    self.found.extend(found);
                    if pattern.is_glob() {
                        State::Waiting
                    } else {
                        State::Found
                    }
                }
                Outcome::NotYet(why) => {
                    if new {
                        let like = near(tracing, pattern, "like it");
                        let pattern = pattern.to_string();
                        self.messages.say(Message::NotDefined {
                            pid,
                            pattern,
                            why,
                            like,
                        });
                    }
                    State::Waiting
                }
                Outcome::Never(_) if quiet => State::Refused,
                Outcome::Never(why) => {
                    let like = near(tracing, pattern, "written in C and like it");
                    let pattern = pattern.to_string();
                    self.messages
                        .say(Message::NeverHooked { pattern, why, like });
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

    /// Returns what was found, by address: functions that share their code, each with what distinguishes it from the
    /// others.
    pub fn by_address(&self) -> BTreeMap<u64, Vec<&Scripted>> {
        let mut all: BTreeMap<u64, Vec<&Scripted>> = BTreeMap::new();
        for one in &self.found {
            all.entry(one.function.address).or_default().push(one);
        }
        all
    }
}

/// Returns ` (like it: …)`, if a similar name exists.
fn near(tracing: &Tracing, pattern: &Pattern, how: &str) -> String {
    let mut names = tracing.near(pattern);
    names.retain(|name| *name != pattern.name);
    let (path, last) = split(&pattern.name);
    // For names of the same class, the rest of the name counts.
    let beside = names.iter().filter_map(|name| name.strip_prefix(path));
    let mut found = like(last, beside.filter(|rest| split(rest).0.is_empty()));
    for name in &mut found {
        name.insert_str(0, path);
    }
    if found.is_empty() {
        found = like(&pattern.name, names.iter().map(String::as_str));
    }
    if found.is_empty() {
        String::new()
    } else {
        format!(" ({how}: {})", found.join(", "))
    }
}

/// Returns a name's class or module with the separator behind it, and the rest.
fn split(name: &str) -> (&str, &str) {
    name.split_at(name.rfind(['#', '.', ':']).map_or(0, |at| at + 1))
}

/// Returns the functions that share one code, each with its identity; empty if the code belongs to one function only.
pub fn identities(names: &[&Scripted]) -> Vec<(u64, Function)> {
    let told = names.iter().filter(|one| one.identity != 0);
    told.map(|one| (one.identity, one.function.clone()))
        .collect()
}

/// Returns what is copied at the return of a function if the prototype does not say it.
pub fn at_return(calling: &Calling) -> Option<Vec<u64>> {
    let Shown::Word(word) = calling.returns else {
        return None;
    };
    let describe = Op::Describe {
        what: What(word.number()),
        items: 0,
        text: calling.collections_at?,
    };
    Some(vec![Op::Value(Source::Rax).encode(), describe.encode()])
}

/// Whether the VM calls it by a convention of its own, and not as a C function.
pub fn is_called_by_vm(calling: &Calling) -> bool {
    !calling.is_collection
}

/// Returns how a VM's calls of a function are shown.
pub fn prototype(calling: &Calling) -> Prototype {
    let parameters = calling.parameters.iter();
    let parameters = parameters.map(|parameter| Parameter::new(type_of(*parameter)));
    Prototype {
        returns: type_of(calling.returns),
        parameters: parameters.collect(),
        late_from: None,
    }
}

fn type_of(shown: Shown) -> Type {
    match shown {
        Shown::Word(word) => Type::vm(word),
        Shown::Int => Type::new(Kind::Int),
        Shown::Long => Type::new(Kind::Long),
        Shown::Guess => Type::new(Kind::Long).through(Lens::Guess),
        Shown::Hidden => Type::address().through(Lens::Hide),
    }
}
