//! PHP.
//!
//! `execute_ex` runs functions and files; C code that calls PHP code begins another (`vm::php::frames`). Functions of C
//! are frames of PHP too. In a stripped program nothing else names them.

use std::ops::Range;

use process::snapshot::{Copies, Thread};
use vm::Memory;
use vm::php::{Facts, Frame, Kind, Php};

use super::{Home, LONGEST, Script, Scripts, text};
use crate::live::loaded::Modules;
use crate::live::pages::Pages;

/// Every PHP has it, and nothing else does.
const MARK: &str = "module_registry";
/// The function that runs code (`Zend/zend_vm_execute.h`).
const RUNNER: &str = "execute_ex";

struct Vm {
    facts: Facts,
    runner: Vec<Range<u64>>,
}

/// Finds it.
pub(super) fn find(modules: &Modules, memory: &dyn Memory) -> Option<Box<dyn Scripts>> {
    let loaded = modules
        .iter()
        .find(|loaded| loaded.exported(memory, MARK).is_some())?;
    let facts = Facts::find(&memory, &|name| loaded.exported(memory, name)).ok()?;
    let runner = loaded.exported(memory, RUNNER);
    let runner = runner.map_or_else(Vec::new, |start| loaded.extent(memory, start));
    Some(Box::new(Vm { facts, runner }))
}

/// The frames of the fiber that runs now, if one does; what resumed it stands on another stack.
fn walk<M: Memory>(php: &Php<'_, M>, data: u64) -> Vec<Frame> {
    php.frames(data)
        .map_while(Result::ok)
        .take_while(|frame| frame.kind != Kind::FiberBottom)
        .collect()
}

impl Vm {
    /// Its globals are those of one thread, which is the first one.
    fn reader<'a, 'm>(&self, pages: &'a Pages<'m>, thread: &Thread) -> Option<Php<'a, Pages<'m>>> {
        Php::new(pages, self.facts).ok().filter(|_| thread.main)
    }
}

impl Scripts for Vm {
    fn language(&self) -> String {
        format!("PHP {}", self.facts.version())
    }

    fn wanted(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Vec<Range<u64>> {
        let pages = Pages::new(memory);
        let walk = || {
            let php = self.reader(&pages, thread)?;
            Some(walk(&php, php.current().ok()?))
        };
        walk().map(|_| pages.read_so_far()).unwrap_or_default()
    }

    fn frames(
        &self,
        memory: &dyn Memory,
        thread: &Thread,
        _copied: &Copies,
    ) -> Option<Vec<Script>> {
        let pages = Pages::new(memory);
        let php = self.reader(&pages, thread)?;
        let frames = walk(&php, php.current().ok()?);
        (!frames.is_empty()).then(|| scripts(&php, &frames))
    }

    fn runner(&self) -> &[Range<u64>] {
        &self.runner
    }
}

fn scripts<M: Memory>(php: &Php<'_, M>, frames: &[Frame]) -> Vec<Script> {
    let waits = |at: usize| frames.get(at).is_some_and(|frame| frame.waits);
    let mut enters = false;
    let script = |(at, frame): (usize, &Frame)| {
        // Generators that wait for another are in the run of that one.
        enters = frame.enters || frame.waits && enters;
        let home = match frame.kind {
            Kind::Internal => handler(php, frame),
            _ if enters && !waits(at + 1) => Home::End,
            _ => Home::Run,
        };
        let (path, line) = match frame.place {
            Some(place) => (
                text(|out| php.write_text(php.file(place)?, LONGEST, out)),
                php.line(place).unwrap_or(0),
            ),
            None => (String::new(), 0),
        };
        let name = match frame.kind {
            Kind::Include => "include".to_owned(),
            Kind::Eval => "eval".to_owned(),
            _ => text(|out| php.write_function_name(frame.function, out)),
        };
        Script {
            path,
            line,
            name,
            home,
        }
    };
    frames.iter().enumerate().map(script).collect()
}

/// The native function of one of C. One that is called without a frame is not called as that function.
fn handler<M: Memory>(php: &Php<'_, M>, frame: &Frame) -> Home {
    match php.handler(frame.function) {
        Ok(start) if frame.data != 0 => Home::Function(start),
        _ => Home::Run,
    }
}
