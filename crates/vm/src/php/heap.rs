//! The heap of a request: strings, arrays, objects and references, found by who refers to them. Used by
//! `languages::php::snapshot::walk`.
//!
//! Only objects are in a list (`EG(objects_store)`). All else is found from variables: those of the program and of functions, static ones,
//! constants, frames that run. What compiled code holds itself (literals that are interned, arrays that cannot change) is not counted by
//! references and is no part of it, nor is what the cache of compiled code shares between processes.
//!
//! ```text
//!   zval: │ value │ type, flags │ …     what is counted begins with: │ refcount │ type, flags │ …
//! ```
//!
//! Offsets without a place in the layout are the same in all versions: `zend_types.h`, `zend.h`, `zend_compile.h`.

mod collections;
mod objects;
mod roots;
mod values;

pub use objects::Owner;
pub use roots::{Place, Root};
pub use values::{Key, Reference, Sort, Thing};

use super::{Error, Layout, Php, STACK};
use crate::Memory;

/// A class of the VM's own whose objects hold values beside their properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// `Closure`: its objects hold a function, its `$this` and what it has captured.
    Closure,
    /// `Generator`: its objects hold the frame that is suspended.
    Generator,
}

/// What walking the heap takes beyond what is known of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// `CG(map_ptr_base)`, from which the offsets of map pointers count.
    map: u64,
    /// The classes whose objects the VM itself keeps values in; 0 where there is none.
    closure: u64,
    generator: u64,
    /// `SplObjectStorage` and `MultipleIterator`, whose objects begin with the same structure.
    storages: [u64; 2],
    fixed_array: u64,
}

impl<M: Memory> Php<'_, M> {
    /// Returns what walking the heap takes. `symbol` returns the address of a symbol that php or libphp exports.
    pub fn places(&self, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Places, Error> {
        let heap = self.heap_layout();
        let globals = symbol("compiler_globals").ok_or(Error::Symbol("compiler_globals"))?;
        let class = |name| match self.class(name) {
            Err(Error::NoClass) => Ok(0),
            class => class,
        };
        Ok(Places {
            map: self.memory.u64(globals.wrapping_add(heap.map_base))?,
            closure: class("closure")?,
            generator: class("generator")?,
            storages: [class("splobjectstorage")?, class("multipleiterator")?],
            fixed_array: class("splfixedarray")?,
        })
    }

    /// Returns which of the known classes one is.
    pub fn special_class(&self, places: &Places, class: u64) -> Option<Known> {
        match class {
            0 => None,
            class if class == places.closure => Some(Known::Closure),
            class if class == places.generator => Some(Known::Generator),
            _ => None,
        }
    }

    /// Returns whether a request is served: between two, what leads to the heap still stands there, and the heap is gone.
    pub fn is_in_request(&self) -> Result<bool, Error> {
        let active = self
            .facts
            .executor()
            .wrapping_add(self.heap_layout().active);
        Ok(self.memory.u8(active)? != 0)
    }

    /// Returns the block of memory in which the newest frames lie.
    pub fn frame_stack(&self) -> Result<u64, Error> {
        Ok(self.global(STACK)?)
    }

    fn heap_layout(&self) -> &'static super::layout::Heap {
        let layout: &'static Layout = self.layout;
        &layout.heap
    }
}
