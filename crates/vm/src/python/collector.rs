//! All objects that can be part of a cycle, which are those that the garbage collector lists.
//!
//! ```text
//!   gc.generations: head ─▶ PyGC_Head │ object ─▶ PyGC_Head │ object ─▶ … ─▶ head
//! ```
//!
//! The lists change while the process runs; a walk that loses its way ends with an error.

use super::object::{Builtin, HEAP_TYPE};
use super::{Error, Python};
use crate::Memory;

/// `generations` in `struct _gc_runtime_state` (`pycore_gc.h`; 3.14: `pycore_interp_structs.h`): three lists,
/// each begins with a `PyGC_Head`. In Debian's 3.13.5 `offsetof` says 20, in 3.13.0 24, though both say the same
/// of all that is around it: so it is looked at which of the two holds lists.
const GENERATIONS: [u64; 2] = [24, 20];
const GENERATION: u64 = 24;
/// `permanent_generation`: what `gc.freeze` has put aside; to 3.13, and in 3.14.
const PERMANENT: [u64; 2] = [104, 96];
/// `collecting`, behind `permanent_generation` (24 bytes) and `generation_stats` (three of 24 bytes).
const COLLECTING: u64 = 96;
/// `garbage`, behind `collecting`: the list `gc.garbage`.
const GARBAGE: u64 = COLLECTING + 8;
/// `Py_TPFLAGS_HAVE_GC`, and `tp_is_gc` in `PyTypeObject` (`object.h`, `cpython/object.h`).
pub(super) const HAVE_GC: u64 = 1 << 14;
const IS_GC: u64 = 328;
/// `sizeof(PyGC_Head)`: an object known to the collector lies behind one. Its lowest bits are flags.
pub(super) const GC_HEAD: u64 = 16;
const GC_FLAGS: u64 = 3;

/// Objects of one process; a longer list is taken for garbage.
const MOST_OBJECTS: u64 = 1 << 32;

impl<M: Memory> Python<'_, M> {
    /// Calls `each` with each object that the garbage collector knows, and its class.
    pub fn each_object(
        &self,
        each: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for interpreter in self.interpreters() {
            for head in self.generations(interpreter?)? {
                let mut left = MOST_OBJECTS;
                let mut at = self.memory.u64(head)? & !GC_FLAGS;
                let (mut mark, mut steps) = (0, 0_u64);
                while at != head {
                    if at == mark || left == 0 {
                        return Err(Error::garbled("end of the collector's list", head));
                    }
                    left -= 1;
                    steps += 1;
                    if steps.is_power_of_two() {
                        mark = at;
                    }
                    let object = at.wrapping_add(GC_HEAD);
                    each(object, self.type_of(object)?)?;
                    at = self.memory.u64(at)? & !GC_FLAGS;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the collector is at work. Meanwhile its lists are taken apart, and what it has found is in lists of its own;
    /// finalizers run then.
    pub fn is_collecting(&self) -> Result<bool, Error> {
        for interpreter in self.interpreters() {
            let [.., permanent] = self.generations(interpreter?)?;
            if self.memory.u32(permanent.wrapping_add(COLLECTING))? != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the list `gc.garbage` of an interpreter: what a collection could not free, or was told to keep (`gc.DEBUG_SAVEALL`).
    pub fn uncollectable(&self, interpreter: u64) -> Result<Option<u64>, Error> {
        let [.., permanent] = self.generations(interpreter)?;
        let list = self.memory.u64(permanent.wrapping_add(GARBAGE))?;
        if list == 0 {
            return Ok(None);
        }
        let is_list = self.flags(self.type_of(list)?)? & Builtin::List.flag() != 0;
        Ok(is_list.then_some(list))
    }

    /// Returns whether an object of a class lies behind a `PyGC_Head`, so that the collector may know it and asks its class
    /// what it refers to (`PyObject_IS_GC`). Of classes those made in Python or by `PyType_FromSpec` alone do (`type_is_gc`, `typeobject.c`);
    /// another class with a `tp_is_gc`, which only it could answer, is taken for one whose objects do not. CPython has none.
    pub fn is_collected(&self, object: u64, class: u64) -> Result<bool, Error> {
        let flags = self.flags(class)?;
        if flags & HAVE_GC == 0 {
            return Ok(false);
        }
        if self.memory.u64(class.wrapping_add(IS_GC))? == 0 {
            return Ok(true);
        }
        Ok(flags & Builtin::Type.flag() != 0 && self.flags(object)? & HEAP_TYPE != 0)
    }

    /// Returns whether an object that lies behind a `PyGC_Head` is in one of the collector's lists (`_PyObject_GC_IS_TRACKED`).
    pub fn is_tracked(&self, object: u64) -> Result<bool, Error> {
        Ok(self.memory.u64(object.wrapping_sub(GC_HEAD))? != 0)
    }

    /// Returns the collector's lists: the first object of each leads back to its head.
    fn generations(&self, interpreter: u64) -> Result<[u64; 4], Error> {
        let gc = interpreter.wrapping_add(self.layout.interpreter.gc);
        match self.facts.lists() {
            Some(at) => Ok(heads(gc, at)),
            None => Err(Error::garbled("collector's lists", gc)),
        }
    }

    /// Finds [`Facts::lists`](super::Facts::lists) in the main interpreter: the two offsets at which there are lists, in one word; 0 if there are
    /// none. Words that are no addresses are followed for it, so it is done from outside.
    pub(super) fn find_lists(&self) -> Result<u64, Error> {
        let gc = self
            .main_interpreter()?
            .wrapping_add(self.layout.interpreter.gc);
        let is_list = |head: u64| {
            self.memory
                .u64(head)
                .and_then(|first| self.memory.u64((first & !GC_FLAGS).wrapping_add(8)))
                .is_ok_and(|previous| previous & !GC_FLAGS == head & !GC_FLAGS)
        };
        for generations in GENERATIONS {
            for permanent in PERMANENT {
                if heads(gc, [generations, permanent]).into_iter().all(is_list) {
                    return Ok(generations | permanent << 32);
                }
            }
        }
        Ok(0)
    }
}

/// Where the collector's lists begin: three generations, and what is put aside.
fn heads(gc: u64, [generations, permanent]: [u64; 2]) -> [u64; 4] {
    let young = gc.wrapping_add(generations);
    [
        young,
        young.wrapping_add(GENERATION),
        young.wrapping_add(2 * GENERATION),
        gc.wrapping_add(permanent),
    ]
}
