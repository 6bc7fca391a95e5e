//! Which prototype a function has: from `-F`, from the user's files, from those that we bring along.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Context;
use prototypes::{Library, Prototype, Search};

/// Prototypes, found when they are first asked for.
pub struct Signatures {
    search: RefCell<Search>,
    known: RefCell<HashMap<(String, String), Option<Prototype>>>,
    unknown: Prototype,
    /// There are files of `-F`.
    named: bool,
}

/// How a function is called in a text that is its own.
const ANYONE: &str = "f";

/// Words shown of a function that nobody described; ltrace shows four.
const UNKNOWN_WORDS: usize = 4;

impl Signatures {
    /// Reads the files. One that was named must be right; of the others, what is right is used.
    pub fn read(named: &[PathBuf]) -> anyhow::Result<Self> {
        for path in named {
            std::fs::metadata(path)
                .with_context(|| format!("cannot read prototypes from {}", path.display()))?;
        }
        let environment = |name: &str| std::env::var(name).ok();
        let mut search = Search::new(named, &environment).context("cannot read prototypes")?;
        if let Some(error) = search
            .errors()
            .into_iter()
            .find(|error| !error.problem.is_warning())
        {
            anyhow::bail!("{error}");
        }
        Ok(Signatures {
            search: RefCell::new(search),
            known: RefCell::default(),
            unknown: Prototype::unknown(UNKNOWN_WORDS),
            named: !named.is_empty(),
        })
    }

    /// The prototype of a function in a module, if somebody described it.
    pub fn of(&self, module: &str, name: &str) -> Option<Prototype> {
        let key = (module.to_owned(), name.to_owned());
        self.known
            .borrow_mut()
            .entry(key)
            .or_insert_with(|| self.search.borrow_mut().prototype(module, name))
            .clone()
    }

    /// The prototype of a function, if somebody described it, as a text that needs no other.
    pub fn text(&self, module: &str, name: &str) -> Option<String> {
        // Names of other languages are none in the grammar.
        let prototype = self.of(module, name)?;
        Some(Library::of(ANYONE, prototype).to_string())
    }

    /// Takes over the prototype that a function had when it was recorded, unless `-F` describes it.
    pub fn learn(&self, module: &str, name: &str, text: &str) {
        if self.named && self.of(module, name).is_some() {
            return;
        }
        let (library, _) = Library::parse(name, text, &mut |_| None);
        if let Some(prototype) = library.prototype(ANYONE) {
            let key = (module.to_owned(), name.to_owned());
            self.known.borrow_mut().insert(key, Some(prototype.clone()));
        }
    }

    /// What is shown of a function that nobody described.
    pub fn unknown(&self) -> &Prototype {
        &self.unknown
    }
}
