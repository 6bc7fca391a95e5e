//! What objects of a few classes made in C have allocated beside themselves, as their `__sizeof__` says it, read and not called.
//!
//! | class | what is beside it | source, alike in CPython 3.9 to 3.15 |
//! |---|---|---|
//! | `collections.deque` | blocks of 64 elements and two links | `deque_sizeof` (to 3.10 `deque___sizeof___impl`), `Modules/_collectionsmodule.c` |
//! | `array.array` | `allocated` items | `array_array___sizeof___impl`, `Modules/arraymodule.c` |
//! | `collections.OrderedDict` | a node an entry, and their table | `odict_sizeof`, `Objects/odictobject.c` |
//! | `numpy.ndarray` | a length and a stride a dimension; its elements, if they are its own | `PyArrayObject_fields`, `numpy/core/include/numpy/ndarraytypes.h` (1.24), `numpy/_core/include/numpy/ndarraytypes.h` (2.2) |

use super::class::{BASE, LONGEST_NAME, MOST_BASES};
use super::dict::USED;
use super::object::OB_SIZE;
use super::{Error, Python};
use crate::Memory;

/// `leftindex` in `dequeobject`; `BLOCKLEN`, and `sizeof(block)`.
const LEFT_INDEX: u64 = 40;
const BLOCK_LENGTH: u64 = 64;
const BLOCK: u64 = (BLOCK_LENGTH + 2) * 8;
/// `allocated` and `ob_descr` in `arrayobject`; `itemsize` in `struct arraydescr`, behind a `char`.
const ALLOCATED: u64 = 32;
const DESCRIPTION: u64 = 40;
const ITEM_SIZE: u64 = 4;
/// `od_fast_nodes_size` in `PyODictObject`: behind a `PyDictObject` of 48 bytes, `od_first`, `od_last` and `od_fast_nodes`; `sizeof(_ODictNode)`.
const FAST_NODES_SIZE: u64 = 72;
const NODE: u64 = 32;
/// `nd`, `dimensions`, `strides`, `flags` in `PyArrayObject_fields`; `NPY_ARRAY_OWNDATA`.
const DIMENSION_COUNT: u64 = 24;
const DIMENSIONS: u64 = 32;
const STRIDES: u64 = 40;
const FLAGS: u64 = 64;
const OWNS_DATA: u32 = 4;
/// A length and a stride, which lie beside the array (`array_sizeof`, `multiarray/methods.c`).
const DIMENSION: u64 = 16;
/// `NPY_MAXDIMS` of numpy 2.
const MOST_DIMENSIONS: u32 = 64;
/// Bytes that no object has beside itself; a larger figure is cut to these.
const LARGEST: u64 = 1 << 46;

/// What lies beside the objects of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    /// Nothing that is known here.
    #[default]
    Nothing,
    /// Blocks of elements, as `collections.deque` has them.
    Blocks,
    /// An array of items of one size, as `array.array` has it.
    Items,
    /// A node for each entry and their table, as `collections.OrderedDict` has them.
    Nodes,
    /// Lengths, strides and perhaps elements, as `numpy.ndarray` has them.
    Elements,
}

impl<M: Memory> Python<'_, M> {
    /// Returns what lies beside the objects of a class, by its name or that of a class above it.
    pub fn beside(&self, class: u64) -> Result<Beside, Error> {
        let mut class = class;
        for _ in 0..MOST_BASES {
            let found = match self.raw_name(class, &mut [0; LONGEST_NAME])? {
                b"collections.deque" => Beside::Blocks,
                b"array.array" => Beside::Items,
                b"collections.OrderedDict" => Beside::Nodes,
                b"numpy.ndarray" => Beside::Elements,
                _ => Beside::Nothing,
            };
            class = self.memory.u64(class.wrapping_add(BASE))?;
            if found != Beside::Nothing || class == 0 {
                return Ok(found);
            }
        }
        Ok(Beside::Nothing)
    }

    /// Returns the bytes that an object has beside itself.
    pub fn bytes_beside(&self, object: u64, beside: Beside) -> Result<u64, Error> {
        let word = |at: u64| self.memory.u64(object.wrapping_add(at));
        let bytes = match beside {
            Beside::Nothing => 0,
            Beside::Blocks => {
                let elements = word(LEFT_INDEX)?.saturating_add(word(OB_SIZE)?);
                elements.div_ceil(BLOCK_LENGTH).saturating_mul(BLOCK)
            }
            Beside::Items => {
                let description = word(DESCRIPTION)?;
                let item = self.memory.u32(description.wrapping_add(ITEM_SIZE))?;
                word(ALLOCATED)?.saturating_mul(u64::from(item))
            }
            Beside::Nodes => {
                let table = word(FAST_NODES_SIZE)?.saturating_mul(8);
                table.saturating_add(word(USED)?.saturating_mul(NODE))
            }
            Beside::Elements => self.elements(object)?,
        };
        Ok(bytes.min(LARGEST))
    }

    /// Lengths and strides of an array, and its elements if it has allocated them: they lie without gaps, so the longest step
    /// times its length is all. An array without dimensions has one element, which is not counted.
    fn elements(&self, array: u64) -> Result<u64, Error> {
        let word = |at: u64| self.memory.u64(array.wrapping_add(at));
        let count = self.memory.u32(array.wrapping_add(DIMENSION_COUNT))?;
        let count = u64::from(count.min(MOST_DIMENSIONS));
        let beside = count * DIMENSION;
        if self.memory.u32(array.wrapping_add(FLAGS))? & OWNS_DATA == 0 {
            return Ok(beside);
        }
        let (lengths, strides) = (word(DIMENSIONS)?, word(STRIDES)?);
        let mut most = 0;
        for number in 0..count {
            let length = self.memory.u64(lengths.wrapping_add(number * 8))?;
            let stride = self.memory.u64(strides.wrapping_add(number * 8))? as i64;
            if length == 0 {
                return Ok(beside);
            }
            most = most.max(length.saturating_mul(stride.unsigned_abs()));
        }
        Ok(beside.saturating_add(most))
    }
}
