//! C functions by the names that a script's language has for them: `Mysql2::Client#query` of Ruby,
//! `_mysql.connection.query` of Python, `DBI::db::do` of Perl, `PDO::query` of PHP.
//!
//! ```text
//!   name ─► the VM's own tables, read from outside (crate `vm`) ─► address of the C function ─► a hook like any other
//! ```
//!
//! The guest runs while its tables are read. So each is read until two readings in a row agree; and what comes out is no
//! more than an address, which is used only if it lies in a library's code.
//!
//! A `*` in a name stands for any characters, unless there is a function of that very name (`Integer#*`). It finds what a
//! module or class has itself, not what it inherits.

mod collection;
mod glob;
mod pages;
mod perl;
mod php;
mod python;
mod ruby;

use crate::functions::{Function, Functions};
use crate::hooks::Script;
use crate::memory::GuestMemory;
use pages::Pages;
use std::fmt;
use std::str::FromStr;

/// A language with functions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Ruby.
    Ruby,
    /// Python.
    Python,
    /// Perl.
    Perl,
    /// PHP.
    Php,
}

impl Language {
    /// Each with the word before the colon.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Ruby, "ruby"),
        (Self::Python, "python"),
        (Self::Perl, "perl"),
        (Self::Php, "php"),
    ];
}

impl fmt::Display for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ruby => "Ruby",
            Self::Python => "Python",
            Self::Perl => "Perl",
            Self::Php => "PHP",
        })
    }
}

/// `ruby:Mysql2::Client#*`; `gc`, whatever the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Before the colon; none of the garbage collection.
    pub language: Option<Language>,
    /// Behind it.
    pub name: String,
}

/// The name of the garbage collection.
const COLLECTION: &str = "gc";

impl Pattern {
    /// Whether it may name several, and more that come later.
    pub fn is_glob(&self) -> bool {
        self.name.contains('*')
    }
}

/// It is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPattern {
    /// There is no language before a colon.
    #[error("it begins with none of ruby:, python:, perl:, php:")]
    Language,
    /// Nothing follows.
    #[error(
        "nothing follows the colon: ruby:Class#method, ruby:Module.method, python:module.Class.function, perl:Package::sub, php:function, php:Class::method"
    )]
    Empty,
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
        let known = Language::ALL.into_iter().find(|(_, word)| *word == before);
        let (language, _) = known.ok_or(NoPattern::Language)?;
        match name {
            "" => Err(NoPattern::Empty),
            name => Ok(Pattern {
                language: Some(language),
                name: name.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Language::ALL.into_iter();
        if let Some((_, word)) = words.find(|(of, _)| Some(*of) == self.language) {
            write!(out, "{word}:")?;
        }
        out.write_str(&self.name)
    }
}

/// How a VM calls a C function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calling {
    /// With a receiver; `itself` = the method is the receiver's own, which its name says.
    Ruby {
        /// Where the arguments are.
        convention: vm::ruby::Convention,
        /// `Module.method`.
        itself: bool,
    },
    /// With `self`.
    Python(vm::python::Convention),
    /// With all on Perl's stack.
    Perl,
    /// With a `zend_execute_data`.
    Php,
    /// It is the VM's own, and collects its garbage.
    Collector(Collector),
}

/// How garbage is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Given the object space, which `count` bytes further on counts collections, and a reason.
    Ruby {
        /// See above.
        count: u32,
    },
    /// Given a thread's state and a generation; returns how many objects were collected or could not be.
    Python,
    /// Given nothing; returns how many were freed.
    Php,
}

/// A C function with its name in a script's language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// The function; its name is the language's.
    pub function: Function,
    /// What tells it from others with the same code; 0 = nothing need.
    pub identity: u64,
    /// How it is called.
    pub calling: Calling,
}

/// What has been found of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Functions; of a pattern with `*` there may be none yet.
    Found(Vec<Scripted>),
    /// It does not exist, but may be defined later.
    NotYet(String),
    /// No C function is behind it, and why.
    Never(String),
}

/// A function as a VM's tables have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: String,
    address: u64,
    identity: u64,
    calling: Calling,
}

/// What a VM's tables say of a name.
enum Look {
    Found(Vec<Named>),
    NotYet(String),
    Never(String),
}

/// Readings until two agree.
const TRIES: usize = 8;

/// Looks for a name.
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
    let pages = &Pages::of(memory);
    let name = pattern.name.as_str();
    let look = match (pattern.language, script) {
        (_, Script::None(reason)) => Look::Never(reason.clone()),
        (None, script) => collection::look(memory, script, functions),
        (Some(Language::Ruby), Script::Ruby(facts, _)) => ruby::look(pages, *facts, name),
        (Some(Language::Python), Script::Python(facts)) => python::look(pages, *facts, name),
        (Some(Language::Perl), Script::Perl(facts)) => perl::look(pages, *facts, name),
        (Some(Language::Php), Script::Php(facts)) => php::look(pages, *facts, name),
        (Some(language), _) => Look::Never(format!("the process does not run {language}")),
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

/// Names of C functions in the neighbourhood of a name, to look for the one that was meant.
pub fn near(memory: &GuestMemory, script: &Script, pattern: &Pattern) -> Vec<String> {
    let pages = &Pages::of(memory);
    let name = pattern.name.as_str();
    match (pattern.language, script) {
        (Some(Language::Ruby), Script::Ruby(facts, _)) => ruby::near(pages, *facts, name),
        (Some(Language::Python), Script::Python(facts)) => python::near(pages, *facts, name),
        (Some(Language::Perl), Script::Perl(facts)) => perl::near(pages, *facts, name),
        (Some(Language::Php), Script::Php(facts)) => php::near(pages, *facts, name),
        _ => Vec::new(),
    }
}

/// Those that lie in a library's code, each once.
fn placed(mut named: Vec<Named>, functions: &Functions, memory: &GuestMemory) -> Vec<Scripted> {
    // Of several names the shortest, which the others are made from.
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
