//! What no object holds: the interpreters' own dicts, and what threads hold in the frames that they run. Heap
//! snapshots begin there (`languages::python::snapshot`). Used by `languages::python::snapshot`.

use super::layout::Own;
use super::variables::Held;
use super::{Error, Point, Python};
use crate::Memory;

/// Frames of one thread that are walked.
const MOST_FRAMES: usize = 1 << 16;
/// From `sysdict` to `builtins` in `PyInterpreterState`.
const BUILTINS: u64 = 8;

/// What keeps a root alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An interpreter, as the dict of its modules (`sys.modules`).
    Modules,
    /// The dict of the module `sys`.
    System,
    /// The dict of the module `builtins`.
    Builtins,
    /// The collector, as the list of what it could not free (`gc.garbage`).
    Uncollectable,
    /// A frame that a thread runs; to 3.10 also the frame object itself, which tells the collector the same.
    Frame {
        /// The kernel's number of the thread, or where it is not known (to 3.10) 0.
        thread: u64,
        /// Where the frame stands.
        point: Point,
        /// What the frame holds it as; `None` = it is the frame object.
        held: Option<Held>,
    },
}

/// An object that no object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Address of the object.
    pub target: u64,
    /// What keeps the object alive.
    pub place: Place,
    /// Whether this reference counts in its reference count, and no object tells the collector of it.
    pub counted: bool,
}

impl<M: Memory> Python<'_, M> {
    /// Returns the dict of an interpreter's modules (`sys.modules`); 0 if it has none yet.
    pub fn modules_of(&self, interpreter: u64) -> Result<u64, Error> {
        let at = interpreter.wrapping_add(self.layout.interpreter.modules);
        Ok(self.memory.u64(at)?)
    }

    /// Calls `each` with each root, until it returns false. Nothing of the process may run meanwhile.
    pub fn each_root(&self, each: &mut dyn FnMut(Root) -> bool) -> Result<(), Error> {
        let mut goes_on = true;
        for interpreter in self.interpreters() {
            let interpreter = interpreter?;
            let layout = &self.layout.interpreter;
            for (at, place) in [
                (layout.modules, Place::Modules),
                (layout.system, Place::System),
                (layout.system + BUILTINS, Place::Builtins),
            ] {
                let target = self.memory.u64(interpreter.wrapping_add(at))?;
                if target != 0 {
                    goes_on &= each(Root {
                        target,
                        place,
                        counted: true,
                    });
                }
            }
        }
        for interpreter in self.interpreters() {
            // Where the collector's fields are not found there is no such root.
            if let Ok(Some(target)) = self.uncollectable(interpreter?) {
                goes_on &= each(Root {
                    target,
                    place: Place::Uncollectable,
                    counted: true,
                });
            }
        }
        for thread in self.all_threads() {
            let thread = thread?;
            for frame in self.frames(thread.address).take(MOST_FRAMES) {
                if !goes_on {
                    return Ok(());
                }
                let frame = frame?;
                let place = |held| Place::Frame {
                    thread: thread.native_id.unwrap_or(0),
                    point: frame.point,
                    held,
                };
                let is_object = self.layout.frame.own == Own::Object;
                if is_object {
                    goes_on &= each(Root {
                        target: frame.address,
                        place: place(None),
                        counted: false,
                    });
                }
                let (of_generator, says) = self.is_told_by_generator(frame.address)?;
                self.frame_holds(frame.address, frame.point.code, &mut |holding| {
                    let told = is_object || of_generator && (says || holding.held == Held::Own);
                    goes_on &= each(Root {
                        target: holding.target,
                        place: place(Some(holding.held)),
                        counted: holding.counted && !told,
                    });
                })?;
            }
        }
        Ok(())
    }
}
