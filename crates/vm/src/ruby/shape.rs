//! Instance variables placed by shape: since Ruby 3.2 those of objects and classes; 3.2, and only it, keeps the names of classes so.
//! Used by `class` and `references`.
//!
//! A shape (`rb_shape_t`, `shape.h` of v3_2_3) is a node of one tree in the VM; each step from the
//! root adds one instance variable. The upper half of a class's flags is the number of its shape;
//! going up from there to the step that added the wanted variable gives the index of its value.
//! Since 4.0 some bits of that number are flags, one of which says that an `st_table` has the variables.
//! Where what lies is in [`Shapes`].

use super::layout::Shapes;
use super::{Error, Ruby, StTable};
use crate::Memory;

/// `SHAPE_FLAG_SHIFT`, where the number of a shape begins in flags; `INVALID_SHAPE_ID`, the number of no shape.
const FLAGS_SHIFT: u32 = 32;
const NO_SHAPE: u32 = u32::MAX;

/// `edge_name` in `rb_shape_t`.
const NAME: u64 = 8;
/// `SHAPE_ROOT`: of the first shape, which has no parent (`INVALID_SHAPE_ID`).
const ROOT: u8 = 0;
/// `shape_list` and `root_shape`, the first fields of `rb_shape_tree_t` (`shape.h` of v3_3_0, v3_4_1): the root is the first of the list.
const TREE_LIST: u64 = 0;
const TREE_ROOT: u64 = 8;
/// The type of a shape that adds an instance variable, `SHAPE_IVAR`.
const ADDS_VARIABLE: u8 = 1;

/// Instance variables of one class, at most (a larger `next_iv_index` makes it too complex).
const DEEPEST: u32 = 1 << 16;

impl<M: Memory> Ruby<'_, M> {
    /// Whether shapes say where values of instance variables are, and no symbol has led to the list of them.
    pub fn wants_shapes(&self) -> bool {
        self.has_shapes() && self.facts.shapes() == 0
    }

    /// Bytes of a shape; 0 where there are none.
    pub fn shape_size(&self) -> u64 {
        self.layout.shapes.as_ref().map_or(0, |shapes| shapes.size)
    }

    /// Offset in `rb_classext_t` of the object that has a class's variables, where there is one.
    pub(super) fn class_fields(&self) -> Option<u64> {
        self.layout.shapes.as_ref()?.class_fields
    }

    /// Returns the list of shapes, if this is the VM's tree of shapes (`rb_shape_tree_t`, since 3.3 behind the static `rb_shape_tree_ptr`).
    pub fn shapes_of_tree(&self, tree: u64) -> Option<u64> {
        let shapes = self.layout.shapes.as_ref()?;
        let word = |at: u64| self.memory.u64(at).ok();
        let list = word(tree.wrapping_add(TREE_LIST))?;
        if list == 0 || list % 8 != 0 || word(tree.wrapping_add(TREE_ROOT))? != list {
            return None;
        }
        let is_root = |shape: u64| {
            self.memory.u8(shape.wrapping_add(shapes.kind)) == Ok(ROOT)
                && self.memory.u32(shape.wrapping_add(shapes.parent)) == Ok(NO_SHAPE)
                && self.memory.u64(shape.wrapping_add(NAME)) == Ok(0)
        };
        // There is a root for each size of slots, and all are in the list before any other.
        let second = list.wrapping_add(shapes.size);
        (is_root(list) && is_root(second)).then_some(list)
    }

    /// Returns the first variable that is `wanted` by its ID and value, for a class with `flags` whose values begin at
    /// `values`.
    pub(super) fn shaped(
        &self,
        flags: u64,
        values: u64,
        mut wanted: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<(u64, u64)>, Error> {
        let Some(shapes) = &self.layout.shapes else {
            return Ok(None);
        };
        let mut number = (flags >> FLAGS_SHIFT) as u32;
        if number != NO_SHAPE && number & shapes.table != 0 {
            return self.in_table(values, wanted);
        }
        for _ in 0..DEEPEST {
            if number == NO_SHAPE || self.facts.shapes() == 0 {
                return Ok(None);
            }
            let shape = self.shape(shapes, number);
            if self.memory.u8(shape.wrapping_add(shapes.kind))? == ADDS_VARIABLE {
                let id = self.memory.u64(shape.wrapping_add(NAME))?;
                let index = self.memory.u32(shape.wrapping_add(shapes.next_index))?;
                let index = u64::from(index & shapes.next_mask);
                let value = self
                    .memory
                    .u64(values.wrapping_add(index.wrapping_sub(1).wrapping_mul(8)))?;
                if wanted(id, value) {
                    return Ok(Some((id, value)));
                }
            }
            number = self.memory.u32(shape.wrapping_add(shapes.parent))?;
        }
        Err(Error::garbled("shape", self.facts.shapes()))
    }

    fn shape(&self, shapes: &Shapes, number: u32) -> u64 {
        let at = u64::from(number & shapes.index) * shapes.size;
        self.facts.shapes().wrapping_add(at)
    }

    /// Returns the first variable in an `st_table` of ID → value that is `wanted`.
    pub(super) fn in_table(
        &self,
        table: u64,
        mut wanted: impl FnMut(u64, u64) -> bool,
    ) -> Result<Option<(u64, u64)>, Error> {
        for entry in StTable::new(self.memory, table)? {
            let (id, value) = entry?;
            if wanted(id, value) {
                return Ok(Some((id, value)));
            }
        }
        Ok(None)
    }
}
