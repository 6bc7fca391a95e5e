//! Python.
//!
//! Up to 3.10 each frame has a call of `_PyEval_EvalFrameDefault` of its own. Since 3.11 calls from Python to Python stay
//! in one, and a record of the VM's in its native frame says where a run ends (`vm::python`, `frames`).

use std::ops::Range;

use process::snapshot::{Copies, Thread};
use vm::Memory;
use vm::python::{Facts, Frame, Python};

use super::{Coroutine, Home, LONGEST, Parked, Script, Scripts, text};
use crate::live::loaded::Modules;
use crate::live::pages::Pages;

/// Every Python has it, and nothing else does.
const MARK: &str = "_PyRuntime";
/// The function that runs frames (`Python/ceval.c`).
const RUNNER: &str = "_PyEval_EvalFrameDefault";

struct Vm {
    facts: Facts,
    runner: Vec<Range<u64>>,
}

/// Finds it.
pub(super) fn find(modules: &Modules, memory: &dyn Memory) -> Option<Box<dyn Scripts>> {
    let loaded = modules
        .iter()
        .find(|loaded| loaded.exported(memory, MARK).is_some())?;
    let facts = Facts::find(&Pages::new(memory), &|name| loaded.exported(memory, name)).ok()?;
    let runner = loaded.exported(memory, RUNNER);
    let runner = runner.map_or_else(Vec::new, |start| loaded.extent(memory, start));
    Some(Box::new(Vm { facts, runner }))
}

/// The `PyThreadState` this native stack belongs to. The thread itself says; who does not, is looked for.
fn state<M: Memory>(python: &Python<'_, M>, thread: &Thread) -> Option<u64> {
    let area = thread.place.thread_area;
    match python.thread_state(area) {
        Ok(Some(state)) => Some(state),
        _ => python.find_thread(area).ok()?,
    }
}

impl Scripts for Vm {
    fn language(&self) -> String {
        format!("Python {}", self.facts.version())
    }

    fn wanted(&self, memory: &dyn Memory, thread: &Thread, _copied: &Copies) -> Vec<Range<u64>> {
        let pages = Pages::new(memory);
        let walk = || {
            let python = Python::new(&pages, self.facts).ok()?;
            Some(python.frames(state(&python, thread)?).count())
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
        let python = Python::new(&pages, self.facts).ok()?;
        let frames = python.frames(state(&python, thread)?);
        Some(
            frames
                .map_while(Result::ok)
                .map(|frame| script(&python, frame))
                .collect(),
        )
    }

    fn coroutines(&self, memory: &dyn Memory) -> (Vec<Coroutine>, bool) {
        let pages = Pages::new(memory);
        let mut found = Vec::new();
        let mut search = || {
            let python = Python::new(&pages, self.facts)?;
            let Some(class) = python.greenlet_class()? else {
                return Ok(());
            };
            python.each_greenlet(&mut |greenlet| {
                found.push(Coroutine {
                    kind: "greenlet",
                    object: greenlet.address,
                    detail: class,
                });
                Ok(())
            })?;
            Ok::<(), vm::python::Error>(())
        };
        let whole = search().is_ok();
        (found, whole)
    }

    fn parked(&self, memory: &dyn Memory, one: &Coroutine) -> Option<Parked> {
        let python = Python::new(&memory, self.facts).ok()?;
        let greenlet = python.greenlet(one.detail, one.object).ok()??;
        // One that runs, has not begun or has ended has no frame.
        if greenlet.frame == 0 {
            return None;
        }
        python.greenlet_frames(&greenlet).for_each(drop);
        Some(Parked {
            place: None,
            stack: greenlet.stack.0..greenlet.stack.1,
            copied: Some(greenlet.saved),
        })
    }

    fn coroutine(&self, memory: &dyn Memory, one: &Coroutine) -> Vec<Script> {
        let pages = Pages::new(memory);
        let frames = || {
            let python = Python::new(&pages, self.facts).ok()?;
            let greenlet = python.greenlet(one.detail, one.object).ok()??;
            let frames = python.greenlet_frames(&greenlet).map_while(Result::ok);
            Some(frames.map(|frame| script(&python, frame)).collect())
        };
        frames().unwrap_or_default()
    }

    fn runner(&self) -> &[Range<u64>] {
        &self.runner
    }
}

fn script<M: Memory>(python: &Python<'_, M>, frame: Frame) -> Script {
    let code = frame.place.code;
    Script {
        path: text(|out| python.write_text(python.file(code)?, LONGEST, out)),
        line: python.line(frame.place).ok().flatten().unwrap_or(0),
        name: text(|out| python.write_text(python.function_name(code)?, LONGEST, out)),
        home: match frame {
            Frame { entry: false, .. } => Home::Run,
            Frame { native: 0, .. } => Home::End,
            Frame { native, .. } => Home::Around(native),
        },
    }
}
