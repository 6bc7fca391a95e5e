//! Fibers that are parked: `zend_fiber` (`zend_fibers.h`), since PHP 8.1.
//!
//! They are found in the store of all objects (`zend_objects_store`, `zend_objects_API.h`). The frames of a parked
//! fiber begin at its own `execute_data` and end at its bottom.

use core::ops::ControlFlow;

use super::{Error, Php};
use crate::Memory;

/// `object_buckets` and `top` in `zend_objects_store`.
const BUCKETS: u64 = 0;
const STORE_TOP: u64 = 8;

/// `OBJ_BUCKET_INVALID`: the place is free.
const FREE: u64 = 1;

/// `ce` in `zend_object`.
pub(super) const CLASS: u64 = 16;

/// `ZEND_FIBER_STATUS_SUSPENDED`.
const SUSPENDED: u32 = 2;

/// No more objects are looked at.
const MOST_OBJECTS: u32 = 1 << 24;

/// A parked fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fiber {
    /// The object, a `zend_fiber`.
    pub object: u64,
    /// Its number, as `var_dump` shows it.
    pub handle: u32,
    /// Its innermost `zend_execute_data`; for [`Php::frames`].
    pub data: u64,
}

impl<M: Memory> Php<'_, M> {
    /// Calls `each` for every parked fiber.
    pub fn each_fiber(&self, each: &mut dyn FnMut(Fiber) -> ControlFlow<()>) -> Result<(), Error> {
        let Some(layout) = self.layout.fiber else {
            return Ok(());
        };
        let class = match self.class("fiber") {
            Err(Error::NoClass) => return Ok(()),
            class => class?,
        };
        let store = self.facts.executor().wrapping_add(self.layout.objects);
        let buckets = self.memory.u64(store.wrapping_add(BUCKETS))?;
        let top = self.memory.u32(store.wrapping_add(STORE_TOP))?;
        if top > MOST_OBJECTS {
            return Err(Error::garbled("store of objects", store));
        }
        // The first place is never used.
        for handle in 1..top {
            let object = self
                .memory
                .u64(buckets.wrapping_add(u64::from(handle) * 8))?;
            if object == 0
                || object & FREE != 0
                || self.memory.u64(object.wrapping_add(CLASS))? != class
                || self.memory.u32(object.wrapping_add(layout.status))? != SUSPENDED
            {
                continue;
            }
            let data = self.memory.u64(object.wrapping_add(layout.execute_data))?;
            let fiber = Fiber {
                object,
                handle,
                data,
            };
            if each(fiber).is_break() {
                break;
            }
        }
        Ok(())
    }
}
