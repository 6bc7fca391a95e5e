//! Heap snapshots from core files: gcore's, or the kernel's. Used by `lancet::commands::heap::run` and
//! `lancet::commands::heap::args`.
//!
//! `frames` reads the memory of a core: its segments, and for pages that it lacks the mapped files. The VM is found by the symbols of those
//! files. No code of the process can run, so references that only its own functions report are missing; the snapshot says so.

use crate::affordable;
use crate::expected::module_of;
use frames::live::core::Core;
use frames::live::loaded::Modules;
use heap::{About, Budget, Builder, Snapshot};
use languages::snapshot::{Heap, heap_source};
use languages::{ALL, Entry};
use process::modules::open_regular;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use vm::Language;

/// Bytes below the stack pointer that belong to the frame (psABI §3.2.2).
const RED_ZONE: u64 = 128;

/// Why the heap of a core file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no core file, or one that is damaged.
    #[error(transparent)]
    Core(#[from] frames::Error),
    /// It holds no heap that can be read.
    #[error("{core}: {reason}", core = .core.display())]
    Heap {
        /// Path of the core file, as the caller gave it.
        core: PathBuf,
        /// What could not be found or read, in words for the user.
        reason: String,
    },
}

/// The options of reading a core file.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The program, if it is not at the path that it had.
    pub executable: Option<&'a Path>,
    /// Contents of strings are kept.
    pub contents: bool,
    /// Reading is given up after this time.
    pub patience: Duration,
}

/// Returns whether a file is a core file.
pub fn is_core(path: &Path) -> bool {
    Core::is_one(path)
}

/// Makes a snapshot of the process that a core file is of: a Ruby, 2.7 to 4.0, a Python, 3.9 to 3.15, a Perl, 5.32 to 5.44, or a PHP, 7.4
/// or 8.1 to 8.6.
///
/// # Errors
/// The file is cut short, or holds no heap, or one that cannot be read.
pub fn of_core(path: &Path, options: Options) -> Result<Snapshot, Error> {
    let failed = |reason: String| Error::Heap {
        core: path.to_owned(),
        reason,
    };
    let mut core = Core::open(path)?;
    if core.cut() > 0 {
        return Err(failed(format!(
            "it is cut short by {} bytes, and a heap of which a part is missing says nothing of who holds what: write it whole (ulimit -c unlimited, \
             room on the disk)",
            core.cut()
        )));
    }
    if let Some(executable) = options.executable {
        core.set_executable(path, executable)?;
    }
    let modules = core.modules();
    let until = Instant::now() + options.patience;
    let found = HeapSource {
        core: &core,
        modules: &modules,
        about: about(path, &core, options.contents),
        until,
    };
    let read = ALL.iter().find_map(|entry| found.read(entry));
    read.unwrap_or_else(|| Err(found.nothing())).map_err(failed)
}

fn about(path: &Path, core: &Core, contents: bool) -> About {
    let written = std::fs::metadata(path).and_then(|file| file.modified());
    let since = written
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    About {
        pid: core.pid(),
        taken_at: since.map_or(0, |since| since.as_nanos() as u64),
        // The kernel writes the words as one text.
        command_line: vec![core.command().to_owned()],
        contents,
        ..About::default()
    }
}

/// A core file that is read.
struct HeapSource<'a> {
    core: &'a Core,
    modules: &'a Modules,
    about: About,
    until: Instant,
}

impl HeapSource<'_> {
    fn builder(&self, language: Language, version: String) -> Builder {
        let about = About {
            language: language.description().prefix.to_owned(),
            version,
            ..self.about.clone()
        };
        let budget = Budget::of_memory(self.core.size()).affording(affordable(None));
        Builder::within(about, budget)
    }

    /// The snapshot of a language's heap; `None` if its VM is not there.
    fn read(&self, entry: &Entry) -> Option<Result<Snapshot, String>> {
        let module = module_of(self.modules, self.core, entry.language)?;
        let symbol = |name: &str| module.exported(self.core, name);
        let read = |heap: Box<dyn Heap>| {
            let threads = self.core.threads().iter();
            let areas: Vec<u64> = threads.map(|thread| thread.context.thread_area).collect();
            let found = heap_source::HeapSource {
                memory: self.core,
                symbol: &symbol,
                threads: &areas,
                data: &module.data(self.core),
                stacks: &self.stacks(),
                bytes: self.core.size(),
                until: self.until,
            };
            let builder = self.builder(entry.language, heap.vm_version());
            heap.of_core(&found, builder)
        };
        Some(entry.heap.heap(self.core, &symbol).and_then(read))
    }

    /// The used parts of the threads' stacks, with the threads' numbers.
    fn stacks(&self) -> Vec<(u32, Range<u64>)> {
        let stacks = self.core.threads().iter().map(|thread| {
            let used = thread.context.sp.saturating_sub(RED_ZONE);
            let start = used.max(thread.mapping.start);
            (thread.tid.unsigned_abs(), start..thread.mapping.end)
        });
        stacks.collect()
    }

    /// The error that no VM was found, with what was found instead.
    fn nothing(&self) -> String {
        let paths = self.modules.iter().map(|module| &module.path);
        let gone: Vec<_> = paths.filter(|path| open_regular(path).is_err()).collect();
        match gone.first() {
            None => format!("the process ran neither {}", Language::none()),
            Some(first) => format!(
                "no VM was found in it, and {} of the files that were mapped cannot be opened, first {}: put them back, or name the \
                 program with --exe",
                gone.len(),
                first.display()
            ),
        }
    }
}
