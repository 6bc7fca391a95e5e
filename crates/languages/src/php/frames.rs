//! Reads script frames of PHP. Used by `php`.
//!
//! `execute_ex` runs functions and files; C code that calls PHP code begins another run (`vm::php::frames`). PHP has
//! frames for functions of C too; in a stripped program nothing else names them.

use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

use process::snapshot::{Copies, Thread};
use vm::php::{Error, Facts, Fiber, Frame, Kind, Php};
use vm::{Language, Memory};

use crate::frames::{
    Chain, Coroutine, Cut, FoundScripts, LONGEST, Module, NotRead, Parked, Placement, Script,
    Scripts, Sources, facts_or_return, pages_of, text,
};
use process::pages::Pages;

/// A symbol that every PHP exports, and nothing else.
const MARK: &str = Language::Php.description().mark;
/// The function that runs code (`Zend/zend_vm_execute.h`).
const RUNNER: &str = "execute_ex";

/// The name of the first stack while a fiber runs.
const MAIN: &str = "main stack";

struct Vm {
    facts: Facts,
    /// Whether frames of a thread could not be read.
    cut: Cut,
    runner: Vec<Range<u64>>,
    /// The fibers that were found last, with their class.
    fibers: RefCell<Vec<(u64, u64)>>,
}

/// Returns the reader if the process runs PHP.
pub fn find(modules: &[&dyn Module], memory: &dyn Memory, _sources: &dyn Sources) -> FoundScripts {
    let loaded = modules
        .iter()
        .find(|loaded| loaded.exported(memory, MARK).is_some())?;
    let facts = facts_or_return!(
        Facts::find(&memory, &|name| loaded.exported(memory, name)),
        Error
    );
    let runner = loaded.exported(memory, RUNNER);
    let runner = runner.map_or_else(Vec::new, |start| loaded.extent(memory, start));
    Some(Ok(Box::new(Vm {
        facts,
        cut: Cut::default(),
        runner,
        fibers: RefCell::default(),
    })))
}

/// Returns the frames of the fiber that runs now, if one does, and whether these are all; the frames of what resumed it are on another stack.
fn walk<M: Memory>(php: &Php<'_, M>, data: u64, cut: &Cut) -> (Vec<Frame>, bool) {
    let is_other = |frame: &Frame| frame.kind == Kind::FiberBottom;
    let frames = php.frames(data);
    cut.until_error(frames.take_while(|frame| !frame.as_ref().is_ok_and(is_other)))
}

impl Vm {
    /// Returns a reader for the first thread; PHP's globals are those of that one thread.
    fn reader<'a, 'm>(&self, pages: &'a Pages<'m>, thread: &Thread) -> Option<Php<'a, Pages<'m>>> {
        Php::new(pages, self.facts).ok().filter(|_| thread.main)
    }

    /// Returns the context of a parked fiber, or of the main stack, with its frames as [`walk`] does; `None` if it is not parked.
    fn whereabouts<M: Memory>(
        &self,
        php: &Php<'_, M>,
        one: &Coroutine,
        cut: &Cut,
    ) -> Option<(u64, (Vec<Frame>, bool))> {
        let read = |object: u64, class: u64| php.fiber(object, class).ok().flatten();
        if let Some(fiber) = read(one.object, one.detail).filter(|fiber| fiber.data != 0) {
            return Some((fiber.context, walk(php, fiber.data, cut)));
        }
        if one.kind != MAIN {
            return None;
        }
        let known = self.fibers.borrow();
        let fibers: Vec<Fiber> = known
            .iter()
            .filter_map(|&(object, class)| read(object, class))
            .collect();
        // Follows the callers from the running fiber up to the context that belongs to no fiber.
        let mut context = fibers.iter().find(|fiber| fiber.data == 0)?.caller;
        for _ in 0..fibers.len() {
            match fibers.iter().find(|fiber| fiber.context == context) {
                Some(fiber) => context = fiber.caller,
                None => break,
            }
        }
        let (frames, is_whole) = cut.until_error(php.frames(php.current().ok()?));
        if !is_whole {
            // Which of them are those of the main stack is known from its end alone.
            return Some((context, (Vec::new(), false)));
        }
        let mut outermost = frames.rsplit(|frame| frame.kind == Kind::FiberBottom);
        Some((context, (outermost.next()?.to_vec(), true)))
    }
}

impl Scripts for Vm {
    fn language(&self) -> String {
        format!("PHP {}", self.facts.version())
    }

    fn take_lost(&self) -> Vec<NotRead> {
        let lost = self.cut.take(&self.language());
        lost.into_iter().collect()
    }

    fn wanted(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Vec<Range<u64>> {
        pages_of(memory, |pages| {
            let php = self.reader(pages, thread)?;
            Some(walk(&php, php.current().ok()?, &Cut::default()))
        })
    }

    fn frames(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Option<Chain> {
        let pages = Pages::new(memory);
        let php = self.reader(&pages, thread)?;
        let (frames, is_whole) = walk(&php, php.current().ok()?, &self.cut);
        (!frames.is_empty() || !is_whole).then(|| chain(&php, &frames, is_whole))
    }

    fn coroutines(&self, memory: &dyn Memory) -> (Vec<Coroutine>, bool) {
        let pages = Pages::new(memory);
        let Ok(php) = Php::new(&pages, self.facts) else {
            return (Vec::new(), false);
        };
        let mut found = Vec::new();
        let whole = php.each_fiber(&mut |fiber| {
            found.push(Coroutine {
                kind: "Fiber",
                object: fiber.object,
                detail: fiber.class,
            });
            ControlFlow::Continue(())
        });
        if !found.is_empty() {
            found.push(Coroutine {
                kind: MAIN,
                object: 0,
                detail: 0,
            });
        }
        let objects = found.iter().map(|one| (one.object, one.detail));
        *self.fibers.borrow_mut() = objects.collect();
        (found, whole.is_ok())
    }

    fn parked(&self, memory: &dyn Memory, one: &Coroutine) -> Option<Parked> {
        let php = Php::new(&memory, self.facts).ok()?;
        let (context, _) = self.whereabouts(&php, one, &Cut::default())?;
        let parked = php.parked(context).ok()?;
        Some(parked.into())
    }

    fn coroutine(&self, memory: &dyn Memory, one: &Coroutine) -> Chain {
        let read = || {
            let php = Php::new(&memory, self.facts).ok()?;
            let (_, (frames, is_whole)) = self.whereabouts(&php, one, &self.cut)?;
            Some(chain(&php, &frames, is_whole))
        };
        read().unwrap_or_default()
    }

    fn runner(&self) -> &[Range<u64>] {
        &self.runner
    }

    fn host(&self) -> Option<Range<u64>> {
        self.runner.first().cloned()
    }
}

fn chain<M: Memory>(php: &Php<'_, M>, frames: &[Frame], is_whole: bool) -> Chain {
    let waits = |at: usize| frames.get(at).is_some_and(|frame| frame.waits);
    let mut enters = false;
    let script = |(at, frame): (usize, &Frame)| {
        // A generator that waits for another one is in the run of that one.
        enters = frame.enters || frame.waits && enters;
        let placement = match frame.kind {
            Kind::Internal => handler(php, frame),
            _ if enters && !waits(at + 1) => Placement::EndsRun,
            _ => Placement::SameRun,
        };
        let (path, line) = match frame.point {
            Some(point) => (
                text(|out| php.write_text(php.file(point)?, LONGEST, out)),
                php.line(point).unwrap_or(0),
            ),
            None => (String::new(), 0),
        };
        let name = match frame.kind {
            Kind::Include => "include".to_owned(),
            Kind::Eval => "eval".to_owned(),
            _ => text(|out| php.write_function_name(frame.function, out)),
        };
        Script {
            launcher: false,
            path,
            line,
            name,
            qualified: None,
            placement,
        }
    };
    Chain {
        scripts: frames.iter().enumerate().map(script).collect(),
        is_whole,
    }
}

/// Returns the native function of a C function. A function called without a frame is not found by that address.
fn handler<M: Memory>(php: &Php<'_, M>, frame: &Frame) -> Placement {
    match php.handler(frame.function) {
        Ok(start) if frame.data != 0 => Placement::NativeFunction(start),
        _ => Placement::SameRun,
    }
}
