//! Which programs run scripts: what a program's own file says of that before its libraries are loaded. Used by
//! `calls::live::stepped::hooked_later` and `calls::live::leads`.
//!
//! A program with a VM in it exports the symbol that marks the VM (`mark` of [`vm::Language::description`]). One that has its VM in a library
//! is linked to it, and the library's name begins with the language's: `libruby-3.1.so.3.1`, `libpython3.11.so.1.0`. A program that loads
//! a VM later, as a plugin, is not recognised.

use crate::descriptors::with_reserve;
use crate::elf::dynamic::{Dynamic, FileImage};
use crate::elf::table::Table;
use crate::elf::{Bytes, Headers};
use crate::proc_file;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use vm::Language;

/// So many programs are remembered.
const MOST: usize = 4096;

/// A file: its device, its number there, its size and when it was written.
type Identity = (u64, u64, u64, i64, i64);

/// Tells programs that run scripts from others. Each file is read once.
#[derive(Debug, Default)]
pub struct Interpreters(HashMap<Identity, bool>);

impl Interpreters {
    /// Returns whether the program of a process runs scripts of a known language; false if its file cannot be read.
    pub fn runs(&mut self, pid: i32) -> bool {
        let file = with_reserve(|| File::open(proc_file::path(pid, "exe")));
        let Ok((file, data)) = file.and_then(|file| file.metadata().map(|data| (file, data)))
        else {
            return false;
        };
        let (seconds, rest) = (data.mtime(), data.mtime_nsec());
        let identity = (data.dev(), data.ino(), data.size(), seconds, rest);
        if let Some(known) = self.0.get(&identity) {
            return *known;
        }
        let runs = has_vm(&file);
        if self.0.len() < MOST {
            self.0.insert(identity, runs);
        }
        runs
    }
}

/// Returns whether a program has a VM in it or is linked to one.
fn has_vm(bytes: &impl Bytes) -> bool {
    let Ok(headers) = Headers::read(bytes) else {
        return false;
    };
    let image = FileImage {
        bytes,
        headers: &headers,
    };
    let dynamic = Dynamic::read(&image, &headers).ok().flatten();
    let Some(dynamic) = dynamic.filter(|dynamic| dynamic.needed().next().is_some()) else {
        // It is static, and exports nothing.
        let table = Table::full(bytes, &headers);
        return table.is_some_and(|table| marked(|mark| table.find(mark).is_some()));
    };
    let linked = dynamic.needed().any(|name| {
        let name = name.strip_prefix(b"lib").unwrap_or_default();
        let mut all = Language::ALL.iter();
        all.any(|language| name.starts_with(language.description().prefix.as_bytes()))
    });
    linked || marked(|mark| dynamic.find(mark).is_some())
}

fn marked(has: impl Fn(&[u8]) -> bool) -> bool {
    let mut all = Language::ALL.iter();
    all.any(|language| has(language.description().mark.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Whether a program that waits for its standard input runs scripts.
    fn runs(words: &[&str]) -> Option<bool> {
        let (program, arguments) = words.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut all = Interpreters::default();
        let pid = child.id() as i32;
        let once = all.runs(pid);
        assert_eq!(all.runs(pid), once, "it is known by now");
        drop(child.stdin.take());
        child.wait().expect("it ends");
        Some(once)
    }

    #[test]
    fn programs_that_run_scripts_are_told_from_others() {
        assert_eq!(runs(&["cat"]), Some(false));
        assert_eq!(runs(&["sh", "-c", "read line"]), Some(false));
        let mut names = Vec::new();
        for language in Language::ALL {
            let name = language.description().prefix;
            // One that is found by its name may be a script that chooses a version.
            names.extend([format!("/usr/bin/{name}"), format!("/usr/bin/{name}3")]);
        }
        let found = names.iter().filter_map(|name| Some((name, runs(&[name])?)));
        for (name, is_one) in found {
            assert!(is_one, "{name}");
        }
    }
}
