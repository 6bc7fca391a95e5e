//! Which prototype a function has: from `-F`, from ltrace's own files, from those that we bring along.

use anyhow::Context;
use prototypes::{Library, Prototype};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Prototypes in the order in which they are asked.
pub struct Signatures {
    libraries: Vec<Arc<Library>>,
    unknown: Prototype,
}

/// Words shown of a function that nobody described; ltrace shows four.
const UNKNOWN_WORDS: usize = 4;

impl Signatures {
    /// Reads the files. A file that was named must be right; of ltrace's own, what is right is used.
    pub fn read(named: &[PathBuf]) -> anyhow::Result<Self> {
        let mut libraries = Vec::new();
        for path in named {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read prototypes from {}", path.display()))?;
            let (library, errors) = parse(path, &text);
            if let Some(error) = errors.iter().find(|error| !error.problem.is_warning()) {
                anyhow::bail!("{error}");
            }
            libraries.push(Arc::new(library));
        }
        let home = std::env::var_os("HOME")
            .map(PathBuf::from)
            .unwrap_or_default();
        let mut own = vec![home.join(".ltrace.conf"), PathBuf::from("/etc/ltrace.conf")];
        if let Ok(folder) = std::fs::read_dir("/usr/share/ltrace") {
            own.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
        }
        own.sort();
        for path in own {
            if let Ok(text) = std::fs::read_to_string(&path) {
                libraries.push(Arc::new(parse(&path, &text).0));
            }
        }
        Ok(Signatures {
            libraries,
            unknown: Prototype::unknown(UNKNOWN_WORDS),
        })
    }

    /// The prototype of a function.
    pub fn of(&self, name: &str) -> Option<&Prototype> {
        self.libraries
            .iter()
            .find_map(|library| library.prototype(name))
    }

    /// What is shown of a function that nobody described.
    pub fn unknown(&self) -> &Prototype {
        &self.unknown
    }
}

fn parse(path: &Path, text: &str) -> (Library, Vec<prototypes::Error>) {
    Library::parse(&path.display().to_string(), text, &mut |name| {
        let beside = path.with_file_name(format!("{name}.conf"));
        let text = std::fs::read_to_string(&beside).ok()?;
        Some(Arc::new(parse(&beside, &text).0))
    })
}
