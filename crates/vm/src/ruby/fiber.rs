//! Fibers: `rb_fiber_t` (`cont.c`), and where a parked one goes on. Used by `languages::ruby::resident` and
//! `languages::ruby::frames`.
//!
//! ```text
//!   rb_fiber_t: │ … │ saved_ec │ … │ prev │ … │ context: stack_pointer, argument │ stack: base, current, size, available │
//!                                                    │
//!   its machine stack:   … ◀ frames │ return address │ rbp │ rbx │ r12 … r15 │
//!                                                                            ▲ stack_pointer
//! ```
//!
//! `coroutine_transfer` (`coroutine/amd64/Context.S`) puts the registers there. No header tells where `saved_ec` and
//! `context` lie, so both are looked for: an execution context names its fiber (`fiber_ptr`, right before
//! `thread_ptr`), in which it lies itself; and of a stack's four words the second is the first and the last together,
//! because it grows down (`fiber_pool_stack_alloca`).
//!
//! A fiber that has not begun, or has ended, has no VM stack.

use core::ops::Range;

use super::object::Type;
use super::{Error, Ruby, Slot};
use crate::{Fault, Memory, Parked};

/// `fiber_ptr`, from `thread_ptr` in `rb_execution_context_t` (`vm_core.h`).
const FIBER_BEFORE_THREAD: u64 = 8;

/// `saved_ec` lies before this offset.
const FURTHEST_EC: u64 = 256;
/// `context` lies before this distance from `saved_ec`; another fiber may lie behind this one.
const FURTHEST_CONTEXT: u64 = 640;
/// Bytes of the largest `rb_thread_t`.
const THREAD: u64 = 2048;

/// The size of `struct coroutine_context`: `argument`, which is the fiber, came with 3.0.
const WITH_ARGUMENT: u64 = 16;
const WITHOUT: u64 = 8;
/// `base`, `current`, `size` and `available` in `struct fiber_pool_stack`.
const BASE: u64 = 0;
const CURRENT: u64 = 8;
const SIZE: u64 = 16;
const AVAILABLE: u64 = 24;
const SIZES: Range<u64> = 1 << 14..1 << 30;
const PAGE: u64 = 4096;

/// From `stack_pointer` to where rbp and the return address were put.
const SAVED_RBP: u64 = 40;
const RETURN: u64 = 48;

/// A fiber of a Ruby process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fiber {
    /// Address of its `rb_fiber_t`.
    pub address: u64,
    /// Address of its execution context.
    pub ec: u64,
    /// Address of the `rb_thread_t` that it belongs to.
    pub thread: u64,
}

/// What a search for fibers knows ([`Ruby::fiber_search`]).
#[derive(Clone, Copy, Debug)]
pub struct FiberSearch {
    vm: u64,
    /// Offset of the execution context in an `rb_fiber_t`.
    ec: u64,
    /// The `rb_data_type_t` of fibers, once one is known; else 0.
    kind: u64,
}

/// Offsets that are the same in every fiber of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Offset of `context.stack_pointer` in `rb_fiber_t`.
    pointer: u64,
    /// Offset in `rb_fiber_t` of the bounds of its machine stack, `stack`.
    stack: u64,
}

impl<M: Memory> Ruby<'_, M> {
    /// Calls `each` with the fibers there are, running ones included, some of them more than once. Every object of the
    /// process is looked at, but those in pages of which `is_done` says, by their first slots, that they were looked at already.
    ///
    /// # Errors
    /// A page in the list cannot be read, because it is made or given back at this moment. What it has is missing, and nothing else.
    pub fn each_fiber(
        &self,
        vm: u64,
        is_done: &mut dyn FnMut(u64) -> bool,
        each: &mut dyn FnMut(Fiber),
    ) -> Result<(), Error> {
        let mut search = self.fiber_search(vm)?;
        let mut unread = Ok(());
        for page in self.pages()? {
            match page {
                Ok(page) if is_done(page.start) => {}
                Ok(page) => {
                    for slot in self.slots(page).map_while(Result::ok) {
                        self.fibers_at(&mut search, &slot, each);
                    }
                }
                Err(error) => unread = Err(error),
            }
        }
        unread
    }

    /// Begins a search for fibers, for a walk over all objects that asks [`Self::fibers_at`] about each of them.
    pub fn fiber_search(&self, vm: u64) -> Result<FiberSearch, Error> {
        Ok(FiberSearch {
            vm,
            ec: self.ec_in_fiber(vm)?,
            kind: 0,
        })
    }

    /// Calls `each` with the fiber that the object in this slot is, or with those of the thread that it is.
    #[inline]
    pub fn fibers_at(&self, search: &mut FiberSearch, slot: &Slot, each: &mut dyn FnMut(Fiber)) {
        if Type::of(slot.flags) != Type::Data {
            return;
        }
        let FiberSearch { vm, ec, kind } = *search;
        let (Ok(of), Ok(data)) = (self.type_word(slot.address), self.structure(slot.address))
        else {
            return;
        };
        if (kind == 0 || of == kind)
            && let Some(fiber) = self.fiber_at(vm, data, ec)
        {
            search.kind = of;
            each(fiber);
        } else if let Some(running) = self.ec_if_thread(vm, data) {
            self.fibers_of_thread(vm, data, running, ec, each);
        }
    }

    /// Finds the fiber that a thread runs, and its first one (`root_fiber`), for which there need be no object.
    fn fibers_of_thread(
        &self,
        vm: u64,
        thread: u64,
        running: u64,
        ec: u64,
        each: &mut dyn FnMut(Fiber),
    ) {
        let words = (0..THREAD)
            .step_by(8)
            .map_while(|at| self.memory.u64(thread.wrapping_add(at)).ok());
        for word in words {
            if let Some(fiber) = self
                .fiber_at(vm, word, ec)
                .filter(|fiber| fiber.thread == thread)
            {
                each(fiber);
            }
        }
        if let Some(fiber) = self.fiber_at(vm, running.wrapping_sub(ec), ec) {
            each(fiber);
        }
    }

    /// Returns the offset of `saved_ec` in an `rb_fiber_t`.
    fn ec_in_fiber(&self, vm: u64) -> Result<u64, Error> {
        let ec = self.main_ec(vm)?;
        let fiber = self.memory.u64(ec.wrapping_add(self.fiber_in_ec()))?;
        match ec.wrapping_sub(fiber) {
            at @ 8..=FURTHEST_EC => Ok(at),
            _ => Err(Error::garbled("fiber of the main thread", fiber)),
        }
    }

    fn fiber_in_ec(&self) -> u64 {
        self.layout.ec_thread - FIBER_BEFORE_THREAD
    }

    /// Returns the fiber at an address that may be an `rb_fiber_t`, if its context points back to it and to a thread of
    /// this VM.
    fn fiber_at(&self, vm: u64, address: u64, ec: u64) -> Option<Fiber> {
        if address == 0 || !address.is_multiple_of(8) {
            return None;
        }
        let ec = address.wrapping_add(ec);
        let word = |at: u64| self.memory.u64(at).ok();
        if word(ec.wrapping_add(self.fiber_in_ec()))? != address {
            return None;
        }
        let thread = word(ec.wrapping_add(self.layout.ec_thread))?;
        let of_this_vm = word(thread.wrapping_add(self.layout.thread_vm))? == vm;
        of_this_vm.then_some(Fiber {
            address,
            ec,
            thread,
        })
    }

    /// Returns the fiber at `address` with the execution context `ec`, if it is still one.
    pub fn fiber(&self, vm: u64, address: u64, ec: u64) -> Option<Fiber> {
        match ec.wrapping_sub(address) {
            at @ 8..=FURTHEST_EC => self.fiber_at(vm, address, at),
            _ => None,
        }
    }

    /// Returns the execution context of what may be an `rb_fiber_t` of this VM.
    pub(super) fn ec_if_fiber(&self, vm: u64, address: u64) -> Option<u64> {
        let ec = self.ec_in_fiber(vm).ok()?;
        self.fiber_at(vm, address, ec).map(|fiber| fiber.ec)
    }

    /// Returns whether its thread runs it now.
    pub fn is_running(&self, fiber: &Fiber) -> Result<bool, Fault> {
        Ok(self.running_ec(fiber.thread)? == fiber.ec)
    }

    /// Finds the offset of `context` in every fiber, by one that has a stack of its own; `None` if this one has none.
    pub fn context_of(&self, fiber: &Fiber) -> Option<Context> {
        let begin = fiber.ec.wrapping_sub(fiber.address).min(FURTHEST_EC);
        let points = (begin..begin + FURTHEST_CONTEXT).step_by(8);
        let mut contexts = points.map(|pointer| {
            let argument = self.memory.u64(fiber.address.wrapping_add(pointer + 8));
            let size = if argument == Ok(fiber.address) {
                WITH_ARGUMENT
            } else {
                WITHOUT
            };
            Context {
                pointer,
                stack: pointer + size,
            }
        });
        contexts.find(|context| matches!(self.fiber_stack(fiber, *context), Ok(Some(_))))
    }

    /// Returns the machine stack that the four words of `stack` describe, if they are sound and `stack_pointer` leads
    /// into it.
    fn fiber_stack(&self, fiber: &Fiber, context: Context) -> Result<Option<Range<u64>>, Fault> {
        let at = |offset: u64| self.memory.u64(fiber.address.wrapping_add(offset));
        let word = |offset: u64| at(context.stack + offset);
        let (base, size) = (word(BASE)?, word(SIZE)?);
        let in_pages = base.is_multiple_of(PAGE) && size.is_multiple_of(PAGE);
        if base == 0 || !in_pages || !SIZES.contains(&size) {
            return Ok(None);
        }
        let (current, available) = (word(CURRENT)?, word(AVAILABLE)?);
        let sound = available <= size && base.checked_add(available) == Some(current);
        let stack = base..current;
        Ok((sound && stack.contains(&at(context.pointer)?)).then_some(stack))
    }

    /// Returns the registers with which a parked fiber goes on; `context` is the result of
    /// [`context_of`](Ruby::context_of) for any fiber. `None` if it runs, has not begun, or has ended.
    pub fn parked(&self, fiber: &Fiber, context: Context) -> Result<Option<Parked>, Fault> {
        if self.is_running(fiber)?
            || self.current_cfp(fiber.ec)? == 0
            || self.frame_memory(fiber.ec)?[1].is_empty()
        {
            return Ok(None);
        }
        let saved = self
            .memory
            .u64(fiber.address.wrapping_add(context.pointer))?;
        if saved == 0 {
            return Ok(None);
        }
        let stack = self.fiber_stack(fiber, context)?;
        let word = |at: u64| self.memory.u64(saved.wrapping_add(at));
        Ok(Some(Parked {
            ip: word(RETURN)?,
            sp: saved.wrapping_add(RETURN + 8),
            bp: word(SAVED_RBP)?,
            stack: stack.unwrap_or(0..0),
        }))
    }
}
