//! Fibers: `zend_fiber` (`zend_fibers.h`), since PHP 8.1, and where parked ones go on. Used by `heap::roots`,
//! `heap::objects` and others here, and by crate `languages`.
//!
//! They are found in the store of all objects (`zend_objects_store`, `zend_objects_API.h`). The frames of a suspended
//! fiber begin at its own `execute_data` and end at its bottom; one that has resumed another is suspended too. While a
//! fiber runs the main stack is parked, whose frames follow outward of all bottoms.
//!
//! ```text
//!   zend_fiber ── caller ──▶ context of who resumed it ── caller ──▶ … ──▶ main context, of which there is no object
//!
//!   context: │ handle │ kind │ … │ stack ──▶ pointer, size │ status │
//!               │
//!   C stack:    ▼
//!   │ mxcsr, x87 │ … │ r12 … r15 │ rbx │ rbp │ return address │ frames ▶        (`jump_fcontext`, `Zend/asm`)
//! ```

use core::ops::ControlFlow;

use super::{Error, Php};
use crate::{Fault, Memory, Parked};

/// `object_buckets` and `top` in `zend_objects_store`.
pub(super) const BUCKETS: u64 = 0;
pub(super) const STORE_TOP: u64 = 8;

/// `OBJ_BUCKET_INVALID`: set in the entry of an object that was freed.
pub(super) const FREE: u64 = 1;

/// Offset of `ce`, the class, in `zend_object`.
pub(super) const CLASS: u64 = 16;

/// `ZEND_FIBER_STATUS_RUNNING` and `_SUSPENDED`, values of the context's `status`.
const RUNNING: u32 = 1;
const SUSPENDED: u32 = 2;

/// `context` in `zend_fiber`; `handle` in it. Its `stack` is right before its `status`, and 64 behind that, after
/// `reserved`, begin the other members of the fiber: `caller`. The same in all versions.
const CONTEXT: u64 = 64;
const HANDLE: u64 = 0;
const STACK_BEFORE_STATUS: u64 = 8;
const CALLER_BEHIND_STATUS: u64 = 64;

/// `pointer` and `size` in `zend_fiber_stack` (`zend_fibers.c`).
const STACK_POINTER: u64 = 0;
const STACK_SIZE: u64 = 8;

/// Of the registers that `jump_fcontext` saves rbp is the last (`Zend/asm/jump_x86_64_sysv_elf_gas.S`).
const WORD: u64 = 8;

/// Objects that are looked at, at most.
const MOST_OBJECTS: u32 = 1 << 24;

/// A fiber that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fiber {
    /// Address of the object, a `zend_fiber`.
    pub object: u64,
    /// Address of its class.
    pub class: u64,
    /// Its innermost `zend_execute_data`, for [`Php::frames`]; 0 if it runs.
    pub data: u64,
    /// Address of its `zend_fiber_context`.
    pub context: u64,
    /// Address of the context that resumed it; 0 if it has suspended itself.
    pub caller: u64,
}

impl<M: Memory> Php<'_, M> {
    /// Calls `each` for every fiber that has begun and not ended.
    pub fn each_fiber(&self, each: &mut dyn FnMut(Fiber) -> ControlFlow<()>) -> Result<(), Error> {
        if self.layout.fiber.is_none() {
            return Ok(());
        }
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
        // The first entry is never used.
        for handle in 1..top {
            let object = self
                .memory
                .u64(buckets.wrapping_add(u64::from(handle) * 8))?;
            if object == 0 || object & FREE != 0 {
                continue;
            }
            let Some(fiber) = self.fiber(object, class)? else {
                continue;
            };
            if each(fiber).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the fiber at `object`, if that is one that has begun and not ended; `class` is the class of fibers.
    pub fn fiber(&self, object: u64, class: u64) -> Result<Option<Fiber>, Fault> {
        let word = |member: u64| self.memory.u64(object.wrapping_add(member));
        let Some(layout) = self.layout.fiber.filter(|_| word(CLASS) == Ok(class)) else {
            return Ok(None);
        };
        let caller = layout.status + CALLER_BEHIND_STATUS;
        let data = match self.memory.u32(object.wrapping_add(layout.status))? {
            RUNNING => 0,
            SUSPENDED => word(layout.execute_data)?,
            _ => return Ok(None),
        };
        Ok(Some(Fiber {
            object,
            class,
            data,
            context: object.wrapping_add(CONTEXT),
            caller: word(caller)?,
        }))
    }

    /// Returns the registers with which a `zend_fiber_context` that does not run goes on.
    pub fn parked(&self, context: u64) -> Result<Parked, Fault> {
        let status = self.layout.fiber.map_or(0, |fiber| fiber.status - CONTEXT);
        let saved = self.memory.u64(context.wrapping_add(HANDLE))?;
        let stack = status.saturating_sub(STACK_BEFORE_STATUS);
        let stack = match self.memory.u64(context.wrapping_add(stack))? {
            0 => 0..0,
            stack => {
                let word = |member: u64| self.memory.u64(stack.wrapping_add(member));
                let pointer = word(STACK_POINTER)?;
                pointer..pointer.wrapping_add(word(STACK_SIZE)?)
            }
        };
        let at = saved.wrapping_add(self.facts.saved());
        Ok(Parked {
            ip: self.memory.u64(at)?,
            sp: at.wrapping_add(WORD),
            bp: self.memory.u64(at.wrapping_sub(WORD))?,
            stack,
        })
    }
}
