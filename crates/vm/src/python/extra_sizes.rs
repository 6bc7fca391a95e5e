//! What objects of a few classes made in C have allocated beside themselves, as their `__sizeof__` says it, read and not called.
//! Used by `hidden_references` and `kind`.
//!
//! | class | what is beside it | source, alike in CPython 3.9 to 3.15 |
//! |---|---|---|
//! | `collections.deque` | blocks of 64 elements and two links | `deque_sizeof` (to 3.10 `deque___sizeof___impl`), `Modules/_collectionsmodule.c` |
//! | `array.array` | `allocated` items | `array_array___sizeof___impl`, `Modules/arraymodule.c` |
//! | `collections.OrderedDict` | a node an entry, and their table | `odict_sizeof`, `Objects/odictobject.c` |
//! | `numpy.ndarray` | a length and a stride a dimension; its elements, if they are its own | `PyArrayObject_fields`, `numpy/core/include/numpy/ndarraytypes.h` (1.24), `numpy/_core/include/numpy/ndarraytypes.h` (2.2) |
//! | `xml.etree.ElementTree.Element` | its attributes' block, and the table of its children | `element_sizeof`, `Modules/_elementtree.c` |
//! | `_io.StringIO` | room for characters of four bytes; no `__sizeof__` says it | `stringio`, `Modules/_io/stringio.c` |
//! | objects of `ctypes` | their block, if it is their own; no `__sizeof__` says it | `CDataObject`, `Modules/_ctypes/ctypes.h` |
//! | `mmap.mmap` | its mapping, of which what is in memory counts: [`Python::mapping_of`] | `mmap_object`, `Modules/mmapmodule.c` |
//!
//! What such objects refer to and do not tell the collector is in [`hidden_references`](super::hidden_references).

use super::class::{BASE, LONGEST_NAME, MOST_BASES};
use super::dict::USED;
use super::kind::Kind;
use super::object::OB_SIZE;
use super::{Error, Python};
use crate::Memory;
use core::ops::Range;

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
/// `extra` in `ElementObject`; `allocated`, `children`, `_children` in `ElementObjectExtra`, and its size.
const EXTRA: u64 = 40;
const EXTRA_ALLOCATED: u64 = 16;
const EXTRA_CHILDREN: u64 = 24;
const EXTRA_FIRST: u64 = 32;
const EXTRA_SIZE: u64 = 64;
/// `buf_size` in `stringio`, in characters of four bytes.
const ROOM: u64 = 40;
const CHARACTER: u64 = 4;
/// `b_ptr`, `b_needsfree`, `b_size` in `CDataObject`: the block is the object's own, and may lie within it.
const BLOCK_AT: u64 = 16;
const BLOCK_OWNED: u64 = 24;
const BLOCK_SIZE: u64 = 40;
/// `data`, `size` in `mmap_object`.
const MAPPED: u64 = 16;
const MAPPED_SIZE: u64 = 24;
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
    /// Attributes and children, as `xml.etree.ElementTree.Element` has them.
    Children,
    /// A `bytes` that it fills, as `io.BytesIO` has it: an object of its own.
    Bytes,
    /// Characters, as `io.StringIO` has them.
    Characters,
    /// A block in the layout of C, as objects of `ctypes` have it.
    Block,
    /// A mapping, as `mmap.mmap` has it.
    Mapping,
}

impl Beside {
    /// Whether such objects refer to something that their class does not tell the collector.
    pub fn refers(self) -> bool {
        matches!(self, Beside::Elements | Beside::Bytes | Beside::Characters)
    }
}

impl<M: Memory> Python<'_, M> {
    /// Returns what lies beside the objects of a class, by its name or that of a class above it.
    pub(super) fn beside(&self, class: u64) -> Result<Beside, Error> {
        let mut class = class;
        for _ in 0..MOST_BASES {
            let found = match self.raw_name(class, &mut [0; LONGEST_NAME])? {
                b"collections.deque" => Beside::Blocks,
                b"array.array" => Beside::Items,
                b"collections.OrderedDict" => Beside::Nodes,
                b"numpy.ndarray" => Beside::Elements,
                b"xml.etree.ElementTree.Element" => Beside::Children,
                b"_io.BytesIO" => Beside::Bytes,
                b"_io.StringIO" => Beside::Characters,
                b"_ctypes._CData" => Beside::Block,
                b"mmap.mmap" => Beside::Mapping,
                _ => Beside::Nothing,
            };
            class = self.memory.u64(class.wrapping_add(BASE))?;
            if found != Beside::Nothing || class == 0 {
                return Ok(found);
            }
        }
        Ok(Beside::Nothing)
    }

    /// Returns the bytes that an object has beside itself, but for a mapping.
    pub fn bytes_beside(&self, object: u64, kind: &Kind) -> Result<u64, Error> {
        let word = |at: u64| self.memory.u64(object.wrapping_add(at));
        let bytes = match kind.beside {
            Beside::Nothing | Beside::Bytes | Beside::Mapping => 0,
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
            Beside::Children => self.children(word(EXTRA)?)?,
            Beside::Characters => word(ROOM)?.saturating_mul(CHARACTER),
            Beside::Block => {
                let within = word(BLOCK_AT)?.wrapping_sub(object) < kind.basic;
                let owned = self.memory.u32(object.wrapping_add(BLOCK_OWNED))? != 0;
                if owned && !within {
                    word(BLOCK_SIZE)?
                } else {
                    0
                }
            }
        };
        Ok(bytes.min(LARGEST))
    }

    /// Returns the addresses of an object's mapping; `None` if it has none, or has closed it.
    pub fn mapping_of(&self, object: u64, kind: &Kind) -> Result<Option<Range<u64>>, Error> {
        if kind.beside != Beside::Mapping {
            return Ok(None);
        }
        let start = self.memory.u64(object.wrapping_add(MAPPED))?;
        let size = self.memory.u64(object.wrapping_add(MAPPED_SIZE))?;
        let end = start.checked_add(size.min(LARGEST));
        Ok(end.filter(|_| start != 0).map(|end| start..end))
    }

    /// The block with an element's attributes and children; the first four lie within it.
    fn children(&self, extra: u64) -> Result<u64, Error> {
        if extra == 0 {
            return Ok(0);
        }
        let word = |at: u64| self.memory.u64(extra.wrapping_add(at));
        let table = if word(EXTRA_CHILDREN)? == extra.wrapping_add(EXTRA_FIRST) {
            0
        } else {
            word(EXTRA_ALLOCATED)?.saturating_mul(8)
        };
        Ok(EXTRA_SIZE.saturating_add(table))
    }

    /// Lengths and strides of an array, and its elements if it has allocated them: they lie without gaps, so the longest step
    /// times its length is all. An array without dimensions has one element, which is not counted.
    fn elements(&self, array: u64) -> Result<u64, Error> {
        let beside = self.dimensions(array)? * DIMENSION;
        Ok(beside.saturating_add(self.own_elements(array)?))
    }

    fn dimensions(&self, array: u64) -> Result<u64, Error> {
        let count = self.memory.u32(array.wrapping_add(DIMENSION_COUNT))?;
        Ok(u64::from(count.min(MOST_DIMENSIONS)))
    }

    /// The bytes of the elements that an array has allocated.
    pub(super) fn own_elements(&self, array: u64) -> Result<u64, Error> {
        let word = |at: u64| self.memory.u64(array.wrapping_add(at));
        if self.memory.u32(array.wrapping_add(FLAGS))? & OWNS_DATA == 0 {
            return Ok(0);
        }
        let count = self.dimensions(array)?;
        let (lengths, strides) = (word(DIMENSIONS)?, word(STRIDES)?);
        let mut most = 0;
        for number in 0..count {
            let length = self.memory.u64(lengths.wrapping_add(number * 8))?;
            let stride = self.memory.u64(strides.wrapping_add(number * 8))? as i64;
            if length == 0 {
                return Ok(0);
            }
            most = most.max(length.saturating_mul(stride.unsigned_abs()));
        }
        Ok(most)
    }
}
