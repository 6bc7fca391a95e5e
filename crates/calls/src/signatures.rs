//! Finds the prototype of a function: from `-F`, from the user's files, from those that come with lancet, and from the
//! library's own debug information. Used by `filter`, `live::family` and others here, and by the crates `report` and
//! `lancet`.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::PathBuf;

use crate::Error;
use hooks::probes::Probe;
use process::functions::{Function, Functions, ModuleSymbols};
use prototypes::dwarf::{self, Signature};
use prototypes::types::Prototype;
use prototypes::{Detail, Library, Programs, Search};

/// Prototypes, which are searched for when they are first needed.
pub struct Signatures {
    search: RefCell<Search>,
    known: RefCell<HashMap<(String, String), Option<Prototype>>>,
    /// Prototypes from debug information, by module and symbol.
    compiled: RefCell<HashMap<(String, String), Signature>>,
    /// Modules whose debug information was read.
    read: RefCell<HashSet<PathBuf>>,
    unknown: Prototype,
    /// Whether to show what pointers to structs point to.
    follow: bool,
    /// Errors in the files.
    wrong: Vec<prototypes::Error>,
    /// Whether there are files of `-F`.
    named: bool,
}

/// The function's name in a text that describes only its prototype.
const ANYONE: &str = "f";

/// Number of words shown of a function without a prototype; ltrace shows four.
const UNKNOWN_WORDS: usize = 4;

/// Limit of the bytes of debug information that are read: more would take seconds, while a library's loader may be waiting.
const LARGEST: u64 = 64 << 20;

impl Signatures {
    /// Reads the files. One that was named must be valid; of the others the valid parts are used. `like_ltrace`: the valid
    /// parts of all are used, and if only debug information has a function, what pointers to structs point to is shown.
    pub fn read(named: &[PathBuf], like_ltrace: bool) -> Result<Self, Error> {
        for path in named {
            std::fs::metadata(path).map_err(|error| Error::Prototypes {
                path: path.clone(),
                error,
            })?;
        }
        let environment = |name: &str| std::env::var(name).ok();
        let mut search = Search::new(named, &environment).map_err(Error::Search)?;
        if like_ltrace {
            // It says what is wrong with this file before anything else.
            search.read_system();
        }
        let wrong = search.errors().into_iter();
        let wrong: Vec<prototypes::Error> =
            wrong.filter(|error| !error.problem.is_warning()).collect();
        if let (Some(error), false) = (wrong.first(), like_ltrace) {
            return Err(Error::Grammar(error.clone()));
        }
        Ok(Signatures {
            search: RefCell::new(search),
            known: RefCell::default(),
            compiled: RefCell::default(),
            read: RefCell::default(),
            unknown: Prototype::unknown(UNKNOWN_WORDS),
            follow: like_ltrace,
            wrong,
            named: !named.is_empty(),
        })
    }

    /// Returns the prototype of a function in a module, if there is one.
    pub fn of(&self, module: &str, name: &str) -> Option<Prototype> {
        let key = (module.to_owned(), name.to_owned());
        let described = self
            .known
            .borrow_mut()
            .entry(key.clone())
            .or_insert_with(|| self.search.borrow_mut().prototype(module, name))
            .clone();
        described.or_else(|| {
            let compiled = self.compiled.borrow();
            Some(compiled.get(&key)?.prototype.clone())
        })
    }

    /// Returns what is copied of the calls of a function. `environment`: also the environment of programs that are run.
    pub fn copies(
        function: &Function,
        prototype: &Prototype,
        detail: Detail,
        environment: bool,
    ) -> Programs {
        let mut copied = prototype.capture(detail);
        if function.is_system_call() {
            let more = syscalls::copies(&function.name, detail);
            copied.call.extend(more.call);
            copied.exit.extend(more.exit);
            if environment {
                let more = syscalls::copies_of_environment(&function.name, prototype, detail);
                copied.call.extend(more.call);
            }
        }
        copied
    }

    /// Returns the prototype of a probe: by its name with `_` for `:`, or else numbers of the sizes in its note.
    pub fn of_probe(&self, probe: &Probe) -> Prototype {
        let (module, name) = (&probe.function.module, &probe.function.name);
        let described = self.text(module, &name.replace(':', "_"));
        let sizes = probe.sizes.iter().map(|size| match size {
            -1 | 1 => "char",
            -2 => "short",
            2 => "ushort",
            -4 => "int",
            4 => "uint",
            -8 => "long",
            _ => "hex(ulong)",
        });
        let sizes: Vec<&str> = sizes.collect();
        let text = described.unwrap_or_else(|| format!("void {ANYONE}({});\n", sizes.join(", ")));
        self.learn(module, name, &text);
        self.of(module, name)
            .unwrap_or_else(|| self.unknown.clone())
    }

    /// Returns the bytes of arguments on the stack of a function with this prototype, if that is certain.
    pub fn stack_of(&self, module: &str, name: &str, prototype: &Prototype) -> Option<u32> {
        let key = (module.to_owned(), name.to_owned());
        let more = self
            .compiled
            .borrow()
            .get(&key)
            .is_some_and(|of| of.variadic);
        let sure = prototype.format().is_none() && !more;
        sure.then(|| prototype.locations().used.stack)
    }

    /// Reads the debug information of the modules of those functions that have no prototype yet.
    pub fn read_debug_info(&self, functions: &Functions, wanted: &[Function]) {
        for place in functions.modules() {
            if self.read.borrow().contains(&place.module.path) {
                continue;
            }
            let mut names = wanted
                .iter()
                .filter(|function| place.module.contains(function.address))
                .map(|function| function.name.as_str())
                .filter(|name| self.of(&place.name, name).is_none())
                .peekable();
            if names.peek().is_none() {
                continue;
            }
            self.read.borrow_mut().insert(place.module.path.clone());
            self.compile(place);
        }
    }

    fn compile(&self, place: &ModuleSymbols) {
        let named = |name: &str| self.search.borrow_mut().ty(&place.name, name);
        let options = dwarf::Options {
            follow_structs: self.follow,
            only_const_strings: true,
            named: Some(&named),
        };
        let own = place.symbols.file().and_then(|file| file.try_clone().ok());
        for file in [own, place.symbols.debug_file()].into_iter().flatten() {
            if file.metadata().map_or(0, |of| of.len()) > LARGEST {
                continue;
            }
            let mut bytes = Vec::new();
            if ReadFrom(&file, 0).read_to_end(&mut bytes).is_err() {
                continue;
            }
            // Damaged debug information must not keep the rest from working.
            let Ok(found) = dwarf::read(&bytes, options, &|_| true) else {
                continue;
            };
            let mut compiled = self.compiled.borrow_mut();
            for (name, signature) in found.functions {
                compiled
                    .entry((place.name.to_string(), name))
                    .or_insert(signature);
            }
        }
    }

    /// Notes the prototype of a function that no file describes.
    pub fn note(&self, module: &str, name: &str, prototype: &Prototype) {
        let key = (module.to_owned(), name.to_owned());
        let mut known = self.known.borrow_mut();
        known.entry(key).or_insert_with(|| Some(prototype.clone()));
    }

    /// Returns the prototype of a function, if there is one, as a text that needs no other one.
    pub fn text(&self, module: &str, name: &str) -> Option<String> {
        // Names of other languages are not valid in the grammar.
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

    /// Returns the errors in the files.
    pub fn wrong(&self) -> &[prototypes::Error] {
        &self.wrong
    }

    /// Returns what is shown of a function without a prototype.
    pub fn unknown(&self) -> &Prototype {
        &self.unknown
    }
}

/// Reads a file from its beginning, independent of other readers of the descriptor.
struct ReadFrom<'f>(&'f std::fs::File, u64);

impl Read for ReadFrom<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let count = self.0.read_at(into, self.1)?;
        self.1 += count as u64;
        Ok(count)
    }
}
