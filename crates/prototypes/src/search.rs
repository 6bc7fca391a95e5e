//! Where prototypes are looked for: the user's files, our bundle, what ltrace left on the machine.
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
//! An `import` is looked for in the same folders. System calls (library `SYS`) are described by `syscalls.conf` there and by our
//! bundle, and by nothing else: functions of libraries have the same names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bundle::Bundle;
use crate::error::Error;
use crate::library::Library;
use crate::types::{Prototype, Type};

/// What stands for the kernel in the place of a library.
const SYSTEM: &str = "SYS";
const SYSTEM_CALLS: &str = "syscalls";

/// Finds prototypes, reading each file once.
#[derive(Debug, Default)]
pub struct Search {
    folders: Vec<PathBuf>,
    /// For every library: before the bundle, and after it.
    before: Vec<Arc<Library>>,
    after: Vec<Arc<Library>>,
    /// Files by name; `None` while one is being read, too, so that an import cannot go round.
    read: BTreeMap<String, Option<Arc<Library>>>,
    errors: Vec<Error>,
}

impl Search {
    /// Looks in these files and folders (`-F`), and in the places that the environment names.
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
        let system = search.optional(Path::new("/etc/ltrace.conf"));
        search.after.extend(system);
        Ok(search)
    }

    /// The prototype of a function in a library.
    pub fn prototype(&mut self, soname: &str, function: &str) -> Option<Prototype> {
        if soname == SYSTEM {
            let own = self.named(SYSTEM_CALLS);
            let bundle = Bundle::for_soname(soname).map(Bundle::library);
            let mut places = own.iter().chain(&bundle);
            return places
                .find_map(|library| library.prototype(function))
                .cloned();
        }
        let own = self.library(soname);
        let bundle = Bundle::for_soname(soname).map(Bundle::library);
        let places = own
            .iter()
            .chain(&self.before)
            .chain(&bundle)
            .chain(&self.after);
        { places }
            .find_map(|library| library.prototype(function))
            .cloned()
    }

    /// A type that the user's files name, for what debug information says of a library.
    pub fn ty(&mut self, soname: &str, name: &str) -> Option<Type> {
        let own = self.library(soname);
        let mut places = own.iter().chain(&self.before);
        places.find_map(|library| library.defined(name))
    }

    /// What was wrong with the files read so far.
    pub fn errors(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.errors)
    }

    /// The file for a library, with periods snipped until one is found.
    fn library(&mut self, soname: &str) -> Option<Arc<Library>> {
        let mut name = soname;
        loop {
            if let Some(library) = self.named(name) {
                return Some(library);
            }
            match name.rsplit_once('.') {
                // X.so is all that may be left.
                Some((rest, last)) if last != "so" => name = rest,
                _ => return None,
            }
        }
    }

    /// `NAME.conf` in the folders.
    fn named(&mut self, name: &str) -> Option<Arc<Library>> {
        if let Some(known) = self.read.get(name) {
            return known.clone();
        }
        // A name is no path.
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

/// A file's text. Such files are old; some are in Latin-1.
fn read(path: &Path) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
