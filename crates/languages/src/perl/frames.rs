//! Reads script frames of Perl. Used by `perl`.
//!
//! `Perl_runops_standard` is the loop that runs operations; C code that calls Perl code begins another loop
//! (`vm::perl::frames`). Up to such a call, subs, evals and files run in the same loop.

use std::ops::Range;

use process::snapshot::{Copies, Thread};
use vm::perl::{Error, Facts, Frame, Interpreter, Kind, Perl};
use vm::{Language, Memory};

use crate::frames::{
    Chain, Cut, FoundScripts, LONGEST, Module, NotRead, Placement, Script, Scripts, Sources,
    facts_or_return, pages_of, text,
};
use process::pages::Pages;

/// The function that runs operations (`run.c`); it also shows that a module is Perl.
const RUNNER: &str = Language::Perl.description().mark;

struct Vm {
    facts: Facts,
    /// Whether frames of a thread could not be read.
    cut: Cut,
    runner: Vec<Range<u64>>,
}

/// Returns the reader if the process runs Perl.
pub fn find(modules: &[&dyn Module], memory: &dyn Memory, _sources: &dyn Sources) -> FoundScripts {
    let (loaded, runner) = modules
        .iter()
        .find_map(|loaded| Some((loaded, loaded.exported(memory, RUNNER)?)))?;
    // libc exports where a thread keeps its thread-specific data, for debuggers.
    let libc = || {
        modules
            .iter()
            .find(|loaded| loaded.name().starts_with("libc.so"))
    };
    let symbol = |name: &str| {
        let of_libc = || libc()?.exported(memory, name);
        loaded.exported(memory, name).or_else(of_libc)
    };
    let facts = facts_or_return!(Facts::find(&memory, &symbol), Error);
    let runner = loaded.extent(memory, runner);
    Some(Ok(Box::new(Vm {
        facts,
        cut: Cut::default(),
        runner,
    })))
}

impl Vm {
    /// Returns the interpreter that runs on this native stack. One without threads runs on the first thread only.
    fn interpreter<M: Memory>(&self, perl: &Perl<'_, M>, thread: &Thread) -> Option<Interpreter> {
        if self.facts.has_threads() || thread.main {
            perl.interpreter(thread.context.thread_area).ok()?
        } else {
            None
        }
    }

    /// Returns the frames of a thread up to the first that cannot be read, and whether these are all.
    fn walk<M: Memory>(
        &self,
        perl: &Perl<'_, M>,
        thread: &Thread,
        cut: &Cut,
    ) -> Option<(Vec<Frame>, bool)> {
        let interpreter = self.interpreter(perl, thread)?;
        let frames = perl.frames(&interpreter).ok()?;
        let (mut frames, is_whole) = cut.until_error(frames);
        // A thread runs a sub, within an `eval` made by C code. The program, of which its interpreter is a copy, runs
        // on the first thread.
        let is_its_own = |frame: &Frame| frame.kind != Kind::Main && frame.enters;
        while is_whole && !thread.main && !frames.last().is_none_or(is_its_own) {
            frames.pop();
        }
        Some((frames, is_whole))
    }
}

impl Scripts for Vm {
    fn language(&self) -> String {
        format!("Perl {}", self.facts.version())
    }

    fn take_lost(&self) -> Vec<NotRead> {
        let lost = self.cut.take(&self.language());
        lost.into_iter().collect()
    }

    fn wanted(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Vec<Range<u64>> {
        pages_of(memory, |pages| {
            self.walk(&Perl::new(pages, self.facts).ok()?, thread, &Cut::default())
        })
    }

    fn frames(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Option<Chain> {
        let pages = Pages::new(memory);
        let perl = Perl::new(&pages, self.facts).ok()?;
        let (frames, is_whole) = self.walk(&perl, thread, &self.cut)?;
        let scripts = frames.into_iter().map(|frame| script(&perl, frame));
        Some(Chain {
            scripts: scripts.collect(),
            is_whole,
        })
    }

    fn runner(&self) -> &[Range<u64>] {
        &self.runner
    }
}

fn script<M: Memory>(perl: &Perl<'_, M>, frame: Frame) -> Script {
    let position = frame.point.map(|point| perl.position(point));
    let (path, line) = match position {
        Some(Ok((file, line))) => (text(|out| perl.write_text(file, LONGEST, out)), line),
        _ => ("?".to_owned(), 0),
    };
    Script {
        launcher: false,
        path,
        line,
        name: match frame.kind {
            Kind::Sub { code } | Kind::Format { code } => {
                text(|out| perl.write_code_name(code, out))
            }
            // The name that Perl's `caller` returns.
            Kind::Eval | Kind::EvalText { .. } | Kind::File { .. } => "(eval)".to_owned(),
            Kind::Main => "(main)".to_owned(),
            Kind::Try => "(try)".to_owned(),
            Kind::SortBlock => "(sort)".to_owned(),
            Kind::RegexBlock => "(regex)".to_owned(),
            Kind::Defer => "(defer)".to_owned(),
        },
        qualified: None,
        placement: if frame.enters {
            Placement::EndsRun
        } else {
            Placement::SameRun
        },
    }
}
