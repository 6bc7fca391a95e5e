//! The roots of a Perl, which no SV holds: variables of packages, the program, running subs, and the interpreter's own
//! variables.

use super::walk::{Walk, sigil};
use foldhash::HashSet;
use heap::{RootKind, RootName};
use std::ops::ControlFlow;
use vm::Memory;
use vm::perl::heap::{Places, Reference, Slot};
use vm::perl::{Interpreter, Kind};

/// Limit of the named roots.
const MOST: usize = 1 << 22;
/// Levels of packages within packages that are followed, at most.
const DEEPEST: usize = 64;
/// Limit of the frames of one interpreter.
const MOST_FRAMES: usize = 1 << 16;

/// A package whose names are still to be read.
struct Package {
    stash: u64,
    /// Name of the package with the enclosing ones, ending in `::`; empty for `main`.
    name: String,
    depth: usize,
}

impl Walk<'_> {
    /// Adds the roots of every interpreter. Counted references among them are marked as found.
    pub fn roots(&mut self) {
        for (interpreter, places) in &self.heap.interpreters {
            // References that cannot be read remain counted, and are shown as held by the VM.
            let _ = self.packages(interpreter);
            self.vm_root(places.shared_keys, "keys of all hashes", true);
            self.vm_root(places.main_code, "main program", true);
            self.frames(interpreter);
            self.variables(places);
        }
    }

    /// Adds a root of the VM itself; `counts` = the SV counts this reference.
    fn vm_root(&mut self, at: u64, name: &str, counts: bool) {
        if self.living(at).is_some() {
            let name = self.builder.text(name.as_bytes());
            self.builder.root(at, RootName::named(RootKind::Vm, name));
            if counts {
                self.held.found(at);
            }
        }
    }

    fn packages(&mut self, interpreter: &Interpreter) -> Result<(), vm::perl::Error> {
        let main = self.perl.main_package(interpreter)?;
        self.vm_root(main, "packages", true);
        let mut met = HashSet::default();
        met.insert(main);
        let mut open = vec![Package {
            stash: main,
            name: String::new(),
            depth: 0,
        }];
        let (mut left, mut is_full) = (MOST, false);
        while let Some(package) = open.pop() {
            let mut globs = Vec::new();
            let most = left as u64 * 4;
            // What cannot be read is left out.
            let _ = self
                .perl
                .each_glob(package.stash, most, &mut |name, glob, hash| {
                    if globs.len() == left {
                        // The number of the remaining ones is not determined.
                        is_full = true;
                        return ControlFlow::Break(());
                    }
                    globs.push((name, glob, hash));
                    ControlFlow::Continue(())
                });
            left = left.saturating_sub(globs.len());
            for (name, glob, hash) in globs {
                let mut full = package.name.clone();
                if self.perl.write_text(name, 256, &mut full).is_err() {
                    continue;
                }
                if full.ends_with("::") {
                    if hash != 0 && package.depth < DEEPEST && met.insert(hash) {
                        open.push(Package {
                            stash: hash,
                            name: full,
                            depth: package.depth + 1,
                        });
                    }
                } else {
                    self.variables_of(glob, &full, package.depth == 0);
                }
            }
        }
        self.builder.lose_roots(is_full.into());
        Ok(())
    }

    /// Adds the variables of one name. Their references are counted for the glob, so none is marked as found here.
    fn variables_of(&mut self, glob: u64, name: &str, is_main: bool) {
        let Some(sv) = self.living(glob) else {
            return;
        };
        let mut found = Vec::new();
        let _ = self.perl.references(&sv, 0, &mut |target, reference| {
            if let Reference::Slot(slot @ (Slot::Scalar | Slot::Array | Slot::Hash)) = reference {
                found.push((target, slot));
            }
        });
        for (target, slot) in found {
            let target = self
                .plain_reference(target)
                .map_or(target, |(_, referent)| referent);
            if self.living(target).is_none() {
                continue;
            }
            let package = if is_main { "main::" } else { "" };
            let sigil = String::from_utf8_lossy(sigil(slot));
            let text = self
                .builder
                .text(format!("{sigil}{package}{name}").as_bytes());
            self.builder
                .root(target, RootName::named(RootKind::Global, text));
        }
    }

    /// Adds the running subs. Their references are counted for the callers.
    fn frames(&mut self, interpreter: &Interpreter) {
        let perl = self.perl;
        let Ok(frames) = perl.callers(interpreter) else {
            return;
        };
        for frame in frames.map_while(Result::ok).take(MOST_FRAMES) {
            let Kind::Sub { code } = frame.kind else {
                continue;
            };
            let mut text = "frame of ".to_owned();
            if self.living(code).is_none() || perl.write_code_name(code, &mut text).is_err() {
                continue;
            }
            let text = self.builder.text(text.as_bytes());
            self.builder
                .root(code, RootName::named(RootKind::Frame, text));
        }
    }

    /// Adds what the interpreter's own variables lead to. Not all of these references are counted, so other holders are shown
    /// in addition.
    fn variables(&mut self, places: &Places) {
        let range = places.variables.clone();
        for at in range.step_by(8) {
            if let Ok(word) = self.perl.memory().u64(at) {
                self.vm_root(word, "interpreter", false);
            }
        }
    }
}
