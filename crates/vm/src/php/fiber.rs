//! Fibers: `zend_fiber` (`zend_fibers.h`), since PHP 8.1, and where parked ones go on.
//!
//! They are found in the store of all objects (`zend_objects_store`, `zend_objects_API.h`). The frames of a suspended
//! fiber begin at its own `execute_data` and end at its bottom. One that has resumed another is parked too, and so is the
//! main stack then; their frames follow outward of that other's bottom.
//!
//! ```text
//!   zend_fiber ── caller ──▶ context of who resumed it ── caller ──▶ … ──▶ main context, of which there is no object
//!
//!   context: │ handle │ kind │ … │ stack ──▶ pointer, size │ status │
//!               │
//!   C stack:    ▼
//!   │ mxcsr, x87 │ r12 … r15 │ rbx │ rbp │ return address │ frames ▶        (`jump_fcontext`, `Zend/asm`)
//! ```

use core::ops::{ControlFlow, Range};

use super::{Error, Php};
use crate::{Fault, Memory};

/// `object_buckets` and `top` in `zend_objects_store`.
const BUCKETS: u64 = 0;
const STORE_TOP: u64 = 8;

/// `OBJ_BUCKET_INVALID`: the place is free.
const FREE: u64 = 1;

/// `ce` in `zend_object`.
pub(super) const CLASS: u64 = 16;

/// `ZEND_FIBER_STATUS_RUNNING`, also of one that has resumed another, and `_SUSPENDED`.
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

/// Where `jump_fcontext` puts rbp and the return address (`Zend/asm/jump_x86_64_sysv_elf_gas.S`).
const SAVED_RBP: u64 = 48;
const RETURN: u64 = 56;

/// No more objects are looked at.
const MOST_OBJECTS: u32 = 1 << 24;

/// A fiber that has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fiber {
    /// The object, a `zend_fiber`.
    pub object: u64,
    /// Its number, as `var_dump` shows it.
    pub handle: u32,
    /// Its innermost `zend_execute_data`, for [`Php::frames`]; 0 if it is not suspended but runs, or has resumed another
    /// that does.
    pub data: u64,
    /// Its `zend_fiber_context`.
    pub context: u64,
    /// That of who resumed it; 0 if it is suspended.
    pub caller: u64,
}

/// Where a parked context goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The instruction, rsp and rbp when it does.
    pub ip: u64,
    /// See there.
    pub sp: u64,
    /// See there.
    pub bp: u64,
    /// Its C stack; empty for the main one.
    pub stack: Range<u64>,
}

impl<M: Memory> Php<'_, M> {
    /// Calls `each` for every fiber that has begun and not ended.
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
            {
                continue;
            }
            let word = |member: u64| self.memory.u64(object.wrapping_add(member));
            let caller = layout.status + CALLER_BEHIND_STATUS;
            let (data, caller) = match self.memory.u32(object.wrapping_add(layout.status))? {
                RUNNING => (0, word(caller)?),
                SUSPENDED => (word(layout.execute_data)?, 0),
                _ => continue,
            };
            let fiber = Fiber {
                object,
                handle,
                data,
                context: object.wrapping_add(CONTEXT),
                caller,
            };
            if each(fiber).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Where a `zend_fiber_context` that does not run goes on.
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
        let word = |at: u64| self.memory.u64(saved.wrapping_add(at));
        Ok(Parked {
            ip: word(RETURN)?,
            sp: saved.wrapping_add(RETURN + 8),
            bp: word(SAVED_RBP)?,
            stack,
        })
    }
}
