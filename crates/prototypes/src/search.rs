//! The search for prototypes: the user's files, the bundle, the files of an installed ltrace. Used by
//! `calls::signatures`.
//!
//! For a library that is mapped with a SONAME, in this order:
//!
//! 1. `SONAME.conf` in the folders given with `-F`, then in `$XDG_CONFIG_HOME/ltrace` (or `~/.config/ltrace`),
//!    `~/.ltrace`, each `$XDG_CONFIG_DIRS/ltrace` and `/usr/share/ltrace`; if there is none, one period after another
//!    is snipped: `libc.so.6.conf`, `libc.so.conf`;
//! 2. the files given with `-F`, and `~/.ltrace.conf`;
//! 3. our [`Bundle`];
//! 4. `/etc/ltrace.conf`. ltrace has it before; its file is from before 2.34 and knows less than our bundle.
//!
//! An `import` is looked for in the same folders. System calls (library `SYS`) are described by `syscalls.conf` there
//! and by our bundle, and by nothing else: functions of libraries have the same names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bundle::Bundle;
use crate::error::Error;
use crate::library::Library;
use crate::types::{Prototype, Type};

/// The name that stands for the kernel in the place of a library.
const SYSTEM: &str = "SYS";
const SYSTEM_CALLS: &str = "syscalls";

/// Finds prototypes, and reads each file once.
#[derive(Debug, Default)]
pub struct Search {
    folders: Vec<PathBuf>,
    /// Files for every library, which go before the bundle.
    before: Vec<Arc<Library>>,
    /// `/etc/ltrace.conf`, once it was needed: most runs of `syscalls` and many of `calls` find all that they ask for before it.
    system: Option<Option<Arc<Library>>>,
    /// Files by name; `None` also while one is being read, so that an import cannot lead back to it.
    read: BTreeMap<String, Option<Arc<Library>>>,
    errors: Vec<Error>,
}

impl Search {
    /// Searches these files and folders (`-F`), and those that the environment names.
    ///
    /// A file of `given` that cannot be read is an error; the others may be missing.
    pub fn new(
        given: &[PathBuf],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> std::io::Result<Self> {
        let mut search = Self::default();
        let (folders, files): (Vec<_>, Vec<_>) =
            given.iter().cloned().partition(|path| path.is_dir());
        search.folders = folders;
        let home = environment("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        let set = |name| environment(name).filter(|value| !value.is_empty());
        let configured = set("XDG_CONFIG_HOME").map(PathBuf::from);
        search.folders.extend(
            configured
                .or_else(|| Some(home.as_ref()?.join(".config")))
                .map(|of| of.join("ltrace")),
        );
        search
            .folders
            .extend(home.as_ref().map(|home| home.join(".ltrace")));
        let shared = set("XDG_CONFIG_DIRS").unwrap_or_default();
        search.folders.extend(
            shared
                .split(':')
                .filter(|of| !of.is_empty())
                .map(|of| Path::new(of).join("ltrace")),
        );
        search.folders.push("/usr/share/ltrace".into());
        for path in files {
            let text = read(&path)?;
            let library = search.parse(&path, &text);
            search.before.push(library);
        }
        if let Some(own) = home.map(|home| home.join(".ltrace.conf")) {
            let library = search.optional(&own);
            search.before.extend(library);
        }
        Ok(search)
    }

    /// Reads `/etc/ltrace.conf`, if it was not read yet.
    pub fn read_system(&mut self) {
        self.system();
    }

    fn system(&mut self) -> Option<Arc<Library>> {
        if self.system.is_none() {
            let read = self.optional(Path::new("/etc/ltrace.conf"));
            self.system = Some(read);
        }
        self.system.clone().flatten()
    }

    /// Returns the prototype of a function in a library.
    pub fn prototype(&mut self, soname: &str, function: &str) -> Option<Prototype> {
        if soname == SYSTEM {
            let own = self.named(SYSTEM_CALLS);
            let found = own.and_then(|library| library.prototype(function).cloned());
            return found.or_else(|| Bundle::prototype(soname, function));
        }
        let own = self.library(soname);
        let mut places = own.iter().chain(&self.before);
        let found = places.find_map(|library| library.prototype(function).cloned());
        found
            .or_else(|| Bundle::prototype(soname, function))
            .or_else(|| self.system()?.prototype(function).cloned())
    }

    /// Returns a type that the user's files name, for use with debug information of a library.
    pub fn ty(&mut self, soname: &str, name: &str) -> Option<Type> {
        let own = self.library(soname);
        let mut places = own.iter().chain(&self.before);
        places.find_map(|library| library.defined(name))
    }

    /// Returns what was wrong with the files read so far, and forgets it.
    pub fn errors(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.errors)
    }

    /// Returns the file for a library, with periods cut off until one is found.
    fn library(&mut self, soname: &str) -> Option<Arc<Library>> {
        let mut name = soname;
        loop {
            if let Some(library) = self.named(name) {
                return Some(library);
            }
            match name.rsplit_once('.') {
                // X.so is the shortest name that is tried.
                Some((rest, last)) if last != "so" => name = rest,
                _ => return None,
            }
        }
    }

    /// Returns `NAME.conf` of the first folder that has it.
    fn named(&mut self, name: &str) -> Option<Arc<Library>> {
        if let Some(known) = self.read.get(name) {
            return known.clone();
        }
        // A name must not be a path.
        if name.is_empty() || name.contains('/') {
            return None;
        }
        self.read.insert(name.to_owned(), None);
        let file = format!("{name}.conf");
        let library = self
            .folders
            .clone()
            .iter()
            .find_map(|folder| self.optional(&folder.join(&file)));
        self.read.insert(name.to_owned(), library.clone());
        library
    }

    fn optional(&mut self, path: &Path) -> Option<Arc<Library>> {
        let text = read(path).ok()?;
        Some(self.parse(path, &text))
    }

    fn parse(&mut self, path: &Path, text: &str) -> Arc<Library> {
        let file = path.display().to_string();
        let (library, errors) = Library::parse(&file, text, &mut |name| self.named(name));
        self.errors.extend(errors);
        Arc::new(library)
    }
}

/// Reads a file's text. Such files are old, and some are in Latin-1.
fn read(path: &Path) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
