//! All objects that can be part of a cycle, which are those that the garbage collector lists. Used by `sizes` and
//! `automatic`.
//!
//! ```text
//!   gc.generations: head ─▶ PyGC_Head │ object ─▶ PyGC_Head │ object ─▶ … ─▶ head
//! ```
//!
//! The lists change while the process runs; a walk that loses its way ends with an error.

use super::object::{Builtin, HEAP_TYPE};
use super::{Error, Python};
use crate::Memory;

/// `sizeof(struct gc_generation)`: `generations` is an array.
pub(super) const GENERATION: u64 = 24;
/// `enabled`, behind `trash_delete_later` and `trash_delete_nesting` (3.9).
const ENABLED: u64 = 12;
/// The instruction `ret`.
const RETURN: u8 = 0xc3;
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
            if self
                .memory
                .u32(permanent.wrapping_add(self.layout.collector.collecting))?
                != 0
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the list `gc.garbage` of an interpreter: what a collection could not free, or was told to keep (`gc.DEBUG_SAVEALL`).
    pub fn uncollectable(&self, interpreter: u64) -> Result<Option<u64>, Error> {
        let [.., permanent] = self.generations(interpreter)?;
        let list = self
            .memory
            .u64(permanent.wrapping_add(self.layout.collector.garbage))?;
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

    /// Returns whether the program has switched the collector on; `None` if that is not known. Reference counts free what is in no cycle all
    /// the same.
    pub fn is_collector_on(&self) -> Result<Option<bool>, Error> {
        let Some(at) = self.facts.enabled() else {
            return Ok(None);
        };
        let enabled = self.memory.u32(self.main_interpreter()?.wrapping_add(at))?;
        Ok(match enabled {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })
    }

    /// Finds [`Facts::enabled`](super::Facts::enabled): the VM's own function at `is_enabled` loads it (`return gcstate->enabled`), and it must lie
    /// between the beginning of the collector's state and its lists. To 3.9, which does not export that function, it is where the headers say.
    pub(super) fn find_enabled(&self, is_enabled: Option<u64>) -> u64 {
        let gc = self.layout.interpreter.gc;
        let Some(at) = is_enabled else {
            return gc + ENABLED;
        };
        let mut code = [0; 64];
        match self.memory.read(at, &mut code) {
            Ok(()) => loaded(&code, gc..gc + self.layout.collector.generations[0]).unwrap_or(0),
            Err(_) => 0,
        }
    }

    /// Returns the collector's lists: the first object of each leads back to its head.
    pub(super) fn generations(&self, interpreter: u64) -> Result<[u64; 4], Error> {
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
        let lists = self.layout.collector;
        for generations in lists.generations.iter().copied() {
            for permanent in lists.permanent.iter().copied() {
                if heads(gc, [generations, permanent]).into_iter().all(is_list) {
                    return Ok(generations | permanent << 32);
                }
            }
        }
        Ok(0)
    }
}

/// Returns the displacement of the last instruction of a short function that loads 32 bits into `%eax` from a register and a displacement
/// of 8 or 32 bits (`8b /r`, with a register other than `%rsp`, which would need one byte more) and lies within `range`.
fn loaded(code: &[u8], range: core::ops::Range<u64>) -> Option<u64> {
    let end = code.iter().position(|byte| *byte == RETURN)?;
    let code = &code[..end];
    let mut loads = (0..end).rev().filter_map(|at| match code[at..] {
        [0x8b, modrm, a, b, c, d, ..] if modrm & 0xf8 == 0x80 && modrm & 7 != 4 => {
            Some(u64::from(u32::from_le_bytes([a, b, c, d])))
        }
        // A negative one lies in no range.
        [0x8b, modrm, a, ..] if modrm & 0xf8 == 0x40 && modrm & 7 != 4 => Some(u64::from(a)),
        _ => None,
    });
    loads.find(|at| range.contains(at) && at.is_multiple_of(4))
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

#[cfg(test)]
mod tests {
    use super::loaded;

    /// `PyGC_IsEnabled` of Debian's 3.11, of 3.12, and one that asks for the thread state by a call.
    #[test]
    fn the_word_is_found_in_the_function_that_loads_it() {
        let static_build = [
            0x48, 0x8b, 0x05, 0xb5, 0x04, 0x57, 0x00, 0x48, 0x8b, 0x40, 0x10, 0x8b, 0x80, 0x94,
            0x02, 0x00, 0x00, 0xc3,
        ];
        assert_eq!(loaded(&static_build, 648..672), Some(0x294));
        assert_eq!(loaded(&static_build, 700..724), None);
        let shared = [
            0x50, 0xe8, 0x00, 0x00, 0x00, 0x00, 0x48, 0x8b, 0x40, 0x10, 0x8b, 0x80, 0x94, 0x02,
            0x00, 0x00, 0x5a, 0xc3,
        ];
        assert_eq!(loaded(&shared, 648..672), Some(0x294));
        // Of 3.12.1, whose state of the collector lies within the first 128 bytes of its interpreter.
        let near = [0x48, 0x8b, 0x40, 0x10, 0x8b, 0x40, 0x7c, 0xc3];
        assert_eq!(loaded(&near, 112..136), Some(124));
        assert_eq!(loaded(&near, 128..152), None);
        assert_eq!(loaded(&[0x90; 64], 0..24), None);
    }
}
