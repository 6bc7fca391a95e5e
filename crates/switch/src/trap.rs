//! [`TrapHandler`]: a signal handler ends the coroutine that it has interrupted.

use core::marker::PhantomData;
use core::ops::Range;

use crate::arch::{self, ALIGN, Base, Mark};
use crate::entry;

/// Makes a coroutine return from the handler of a signal that its own instruction caused (`SIGSEGV`, `SIGFPE`, `SIGILL`):
/// see [`Coroutine::trap_handler`](crate::Coroutine::trap_handler).
///
/// It has no lifetime, so that it can be kept where a signal handler finds it.
pub struct TrapHandler<R> {
    base: *mut Base,
    range: Range<usize>,
    types: PhantomData<fn() -> R>,
}

impl<R> Clone for TrapHandler<R> {
    fn clone(&self) -> Self {
        TrapHandler {
            base: self.base,
            range: self.range.clone(),
            types: PhantomData,
        }
    }
}

/// The registers with which the interrupted thread must go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrapRegisters {
    /// The address of the next instruction.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The frame pointer.
    pub rbp: u64,
}

impl<R> TrapHandler<R> {
    /// Called by [`Coroutine::trap_handler`](crate::Coroutine::trap_handler).
    pub(crate) fn new(base: *mut Base, range: Range<usize>) -> Self {
        TrapHandler {
            base,
            range,
            types: PhantomData,
        }
    }

    /// Returns whether a stack pointer is that of the coroutine. After an overflow it may be below the stack, by as much as
    /// the frame is large that has overflowed: a stack of a [pool](crate::pool) counts its guard, other stacks do not.
    pub fn is_on_stack(&self, stack_pointer: usize) -> bool {
        // A push at the stack's end faults before the stack pointer has moved.
        if (self.range.start..=self.range.end).contains(&stack_pointer) {
            return true;
        }
        #[cfg(feature = "pool")]
        if let Some(slot) = crate::pool::find(stack_pointer) {
            return slot.limit == self.range.start;
        }
        false
    }

    /// Prepares that the coroutine leaves all that it does, runs `body` on its stack and ends with what that returns. The
    /// signal handler must put the registers into the context that it got (`uc_mcontext`) and return.
    ///
    /// Nothing is unwound: no destructor of the frames that are left runs. A panic of `body` goes on in the resumer.
    ///
    /// # Safety
    ///
    /// - The coroutine has not been dropped, it runs on this thread, and the interrupted stack pointer is
    ///   [on its stack](TrapHandler::is_on_stack). The handler runs on another stack (`SA_ONSTACK`).
    /// - The interrupted instruction is one of the coroutine's own code, which nobody outside depends on: no lock is held,
    ///   nothing half written that is read later, no destructor is owed to anybody (a
    ///   [scope](std::thread::scope) of threads, a pinned value), and no panic is on its way. It is what `longjmp` over
    ///   these frames would ask for.
    /// - The registers are put in force, and this is called once.
    pub unsafe fn return_with<F>(&self, body: F) -> TrapRegisters
    where
        F: FnOnce() -> R + 'static,
        R: 'static,
    {
        // SAFETY: the caller promises a live coroutine whose frames nobody needs any more, so its stack is free up to the
        // mark (and, without an allocator, the base below it).
        unsafe {
            let on_stack = if cfg!(feature = "std") {
                0
            } else {
                size_of::<Base>()
            };
            let high = (*self.base).top - size_of::<Mark>() - on_stack;
            let at = (high - size_of::<F>()) & !(align_of::<F>().max(ALIGN) - 1);
            crate::annotate::emptied(self.base);
            let closure = core::ptr::with_exposed_provenance_mut::<F>(at);
            closure.write(body);
            (*self.base).data = closure.cast();
            let (rip, rsp, rbp) = arch::prepare_again(self.base, at, entry::last::<R, F>);
            TrapRegisters {
                rip: rip as u64,
                rsp: rsp as u64,
                rbp: rbp as u64,
            }
        }
    }
}
