//! Finds C functions by the names that a script's language has for them: `Mysql2::Client#query` of Ruby,
//! `_mysql.connection.query` of Python, `DBI::db::do` of Perl, `PDO::query` of PHP. Used by `named` and `scripts`, and
//! by `calls::live::names`.
//!
//! ```text
//!   name ─► the VM's own tables, read from outside (crate `vm`) ─► address of the C function ─► a hook like any other
//! ```
//!
//! The guest runs while its tables are read, so each is read until two readings in a row agree. The result is only an
//! address, which is used only if it lies in a library's code.
//!
//! A `*` in a name matches any characters, unless there is a function of exactly that name (`Integer#*`). It finds what
//! a module or class defines itself, not what it inherits.

use crate::Script;
pub use languages::functions::{Calling, Shown};
use languages::functions::{Look, Named, Names};
use process::functions::{Function, Functions};
use process::memory::GuestMemory;
use process::pages::Pages;
use std::fmt;
use std::str::FromStr;
use vm::{Description, Language};

/// The functions of the language that a guest runs.
fn names_of(script: &Script) -> Result<Box<dyn Names>, String> {
    match script {
        Script::None(reason) => Err(reason.clone()),
        Script::Vm(vm) if let Some(why) = &vm.frames_alone => Err(why.clone()),
        Script::Vm(vm) => {
            let language = vm.language;
            let entry = languages::of(language).ok_or_else(|| {
                format!("functions of {language} cannot be looked for by their names")
            })?;
            Ok((entry.functions)(&vm.found.facts))
        }
    }
}

/// A name, or a pattern of names: `ruby:Mysql2::Client#*`, or `gc` for the garbage collection of whatever language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The language that is named before the colon; `None` for `gc`.
    pub language: Option<Language>,
    /// What stands behind the colon, which is never empty; or `gc`.
    pub name: String,
}

/// The name of the garbage collection.
const COLLECTION: &str = "gc";

impl Pattern {
    /// Whether it may match several functions, and later ones too.
    pub fn is_glob(&self) -> bool {
        self.name.contains('*')
    }
}

/// Why a text is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPattern {
    /// There is no language before a colon.
    #[error("it begins with none of {}", each(|language| format!("{}:", language.prefix)))]
    Language,
    /// Nothing follows the colon.
    #[error("nothing follows the colon: {}", each(|language| language.examples.into()))]
    Empty,
}

/// Joins what `say` returns for each language.
fn each(say: impl Fn(&Description) -> String) -> String {
    let all = Language::ALL.iter();
    let said: Vec<String> = all.map(|language| say(language.description())).collect();
    said.join(", ")
}

impl FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        if text == COLLECTION {
            return Ok(Pattern {
                language: None,
                name: text.to_owned(),
            });
        }
        let (before, name) = text.split_once(':').ok_or(NoPattern::Language)?;
        let language = Language::of_prefix(before).ok_or(NoPattern::Language)?;
        if name.is_empty() {
            return Err(NoPattern::Empty);
        }
        Ok(Pattern {
            language: Some(language),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(language) = self.language {
            write!(out, "{}:", language.description().prefix)?;
        }
        out.write_str(&self.name)
    }
}

/// A C function and its name in a script's language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// The function, under the name that the language has for it.
    pub function: Function,
    /// Distinguishes it from others with the same code; 0 = it shares its code with none.
    pub identity: u64,
    /// How it is called.
    pub calling: Calling,
}

/// The result of looking for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Functions; a pattern with `*` may match none yet.
    Found(Vec<Scripted>),
    /// It does not exist, but may be defined later.
    NotYet(String),
    /// There is no C function of this name; the text is the reason.
    Never(String),
}

/// How often a table is read until two readings agree.
const TRIES: usize = 8;

/// Looks for the functions of a name or pattern in the tables of the VM.
pub fn find(
    memory: &GuestMemory,
    script: &Script,
    functions: &Functions,
    pattern: &Pattern,
) -> Outcome {
    let mut last = None;
    for _ in 0..TRIES {
        let now = look(memory, script, functions, pattern);
        if last.as_ref() == Some(&now) {
            return now;
        }
        last = Some(now);
    }
    last.unwrap_or(Outcome::Found(Vec::new()))
}

fn look(
    memory: &GuestMemory,
    script: &Script,
    functions: &Functions,
    pattern: &Pattern,
) -> Outcome {
    let pages = &Pages::new(memory);
    let name = pattern.name.as_str();
    let look = match (names_of(script), pattern.language, script) {
        (Err(why), ..) => Look::Never(why),
        (Ok(names), None, _) => match names.collector(memory, functions) {
            Ok((address, calling)) => Look::Found(vec![Named {
                name: COLLECTION.into(),
                address,
                identity: 0,
                calling,
            }]),
            Err(why) => Look::Never(why),
        },
        (Ok(names), Some(language), Script::Vm(vm)) if language == vm.language => {
            names.look(pages, name)
        }
        (_, Some(language), _) => Look::Never(format!("the process does not run {language}")),
    };
    match look {
        Look::Found(named) => match placed(named, functions, memory) {
            found if found.is_empty() && !pattern.is_glob() => {
                Outcome::Never("its code lies in no library".into())
            }
            found => Outcome::Found(found),
        },
        Look::NotYet(why) => Outcome::NotYet(why),
        Look::Never(why) => Outcome::Never(why),
    }
}

/// Returns names of C functions that resemble a name, to suggest the one that was meant.
pub fn near(memory: &GuestMemory, script: &Script, pattern: &Pattern) -> Vec<String> {
    match (names_of(script), script) {
        (Ok(names), Script::Vm(vm)) if pattern.language == Some(vm.language) => {
            names.near(&Pages::new(memory), &pattern.name)
        }
        _ => Vec::new(),
    }
}

/// Returns those of the functions that lie in a library's code, each once.
fn placed(mut named: Vec<Named>, functions: &Functions, memory: &GuestMemory) -> Vec<Scripted> {
    // Of several names of one function the shortest is taken; the others are derived from it.
    named.sort_by(|a, b| {
        let key = |one: &Named| (one.address, one.identity, one.name.len());
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    named.dedup_by_key(|one| (one.address, one.identity));
    let placed = named.into_iter().filter_map(|one| {
        let place = functions.module_of(one.address)?;
        let code = place.module.code().any(|code| code.contains(&one.address));
        let range = place.module.function_at(one.address, memory);
        code.then(|| Scripted {
            function: Function {
                name: one.name,
                module: place.name.clone(),
                address: one.address,
                size: range.map_or(0, |range| range.end - one.address),
                picks: false,
            },
            identity: one.identity,
            calling: one.calling,
        })
    });
    placed.collect()
}
