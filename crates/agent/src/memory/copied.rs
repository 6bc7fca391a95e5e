//! Reads the guest's memory where an argument, a result or a field of one leads: any number, which may point to nothing,
//! or to memory that another thread gives back at this moment. Used by `calls::room`, `calls::captures`,
//! `calls::languages` and others.
//!
//! It is therefore not followed but copied by the kernel (`process_vm_readv` of the running thread, `mm/process_vm_access.c`),
//! which answers EFAULT where there is nothing to read, whatever other threads do meanwhile. The process is named by the
//! running thread and not by its first one, which has no memory any more when it has ended before the others. Only the thread's own stack,
//! from the frame of the call upward, is read by plain loads: the thread itself needs it in order to return.
//!
//! A copy costs a system call of about a microsecond, however few its bytes are. So a short piece is copied together with
//! the [`LINE`] that it lies in, and what is read next is mostly there already.

use super::follow::own_stack;
use super::sys;
use crate::calls::session::calls;
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use vm::{Fault, Memory};
use wire::PAGE;
use wire::calls::Ring;

/// Bytes that are copied at once for a short piece, aligned: a line lies in one page.
const LINE: usize = 256;
/// Number of lines that are remembered.
const LINES: usize = 2;
/// No line has this address: it is not aligned.
const NONE: u64 = 1;

const _: () = assert!(PAGE.is_multiple_of(LINE));

/// The guest's memory as one visit of a hook reads it.
pub struct Copied {
    /// The part of the running thread's stack that is read by plain loads: begin and end.
    own: [u64; 2],
    /// The kernel's id of the running thread, asked for once; 0 = not asked yet.
    tid: Cell<u32>,
    /// Addresses of the lines that were copied.
    known: [Cell<u64>; LINES],
    lines: UnsafeCell<[MaybeUninit<[u8; LINE]>; LINES]>,
    /// The line that is copied over next.
    next: Cell<usize>,
}

impl Copied {
    /// All memory is copied.
    pub const fn new() -> Self {
        Copied {
            own: [0; 2],
            tid: Cell::new(0),
            known: [const { Cell::new(NONE) }; LINES],
            lines: UnsafeCell::new([const { MaybeUninit::uninit() }; LINES]),
            next: Cell::new(0),
        }
    }

    /// The memory as a call sees it whose arguments on the stack begin at `stack`: the running thread's stack from the call's
    /// return address on need not be copied. `ring`: the thread's ring, if it is known; it says where its stack ends, and
    /// without it only the page of the return address counts as the stack.
    #[inline]
    pub fn above(stack: u64, ring: Option<&Ring>) -> Self {
        let from = stack.wrapping_sub(8);
        let page = (from & !(PAGE as u64 - 1)).wrapping_add(PAGE as u64);
        let end = ring.and_then(|ring| end_of_stack(ring, from));
        Copied {
            own: [from, end.unwrap_or(page).max(page)],
            ..Copied::new()
        }
    }

    /// The memory as the running function sees it, whose caller's frames lie above. `ring` as for [`Copied::above`].
    #[inline]
    pub fn from_here(ring: &Ring) -> Self {
        let here = 0u8;
        let from = (&raw const here).addr() as u64;
        // On a work stack of the routine, whose address is not in these bounds, the thread's own stack is elsewhere.
        Copied {
            own: end_of_stack(ring, from).map_or([0; 2], |end| [from, end]),
            ..Copied::new()
        }
    }

    /// Whether a piece lies in the thread's own stack.
    #[inline]
    fn is_own(&self, at: u64, length: usize) -> bool {
        let [from, end] = self.own;
        at >= from && at < end && length as u64 <= end - at
    }

    /// Has the kernel copy a piece of any length; whether it copied all of it.
    fn copy(&self, at: u64, into: *mut u8, length: usize) -> bool {
        if self.tid.get() == 0 {
            self.tid.set(sys::thread_id());
        }
        // Who takes the right away waits until nobody copies any more, so it is asked for after this is counted.
        calls().copying.fetch_add(1, Ordering::SeqCst);
        let copied = match may_copy() {
            // SAFETY: callers pass a buffer of that length.
            true => unsafe { sys::copy(self.tid.get(), at, into, length) },
            false => Err(0),
        };
        calls().copying.fetch_sub(1, Ordering::SeqCst);
        match copied {
            Ok(bytes) => bytes == length,
            Err(sys::EFAULT) => false,
            Err(_) => {
                refused();
                false
            }
        }
    }

    /// Returns the index of a line that is remembered, after it was copied if it was not yet.
    #[inline]
    fn line(&self, at: u64) -> Option<usize> {
        let is_it = |known: &Cell<u64>| known.get() == at;
        if let Some(index) = self.known.iter().position(is_it) {
            return Some(index);
        }
        let index = self.next.get() % LINES;
        self.known[index].set(NONE);
        let line = self.lines.get().cast::<u8>().wrapping_add(index * LINE);
        if !self.copy(at, line, LINE) {
            return None;
        }
        self.known[index].set(at);
        self.next.set(index + 1);
        Some(index)
    }
}

/// Whether the filters of all threads allow the system call.
#[inline]
pub fn may_copy() -> bool {
    calls().copies.load(Ordering::SeqCst) != 0
}

/// Counts a piece that could not be copied although it may be there.
#[cold]
fn refused() {
    calls().uncopied.fetch_add(1, Ordering::Relaxed);
}

/// Returns where the running thread's own stack ends, if `from` lies in it.
#[inline]
fn end_of_stack(ring: &Ring, from: u64) -> Option<u64> {
    let low = ring.low.load(Ordering::Relaxed);
    let span = ring.span.load(Ordering::Relaxed);
    (from.wrapping_sub(low) < span).then(|| low + span)
}

impl Memory for Copied {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let length = into.len();
        if self.is_own(at, length) {
            let from = own_stack::<u8>(at);
            // SAFETY: the piece lies in the thread's own stack, at or above the return address of a call that is under way.
            unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), length) };
            return Ok(());
        }
        let line = at & !(LINE as u64 - 1);
        let within = (at - line) as usize;
        if within + length > LINE {
            let all = self.copy(at, into.as_mut_ptr(), length);
            return if all { Ok(()) } else { Err(Fault { at }) };
        }
        let index = self.line(line).ok_or(Fault { at })?;
        // SAFETY: `line` has filled this line, nothing is copied over it meanwhile, and the piece ends within it.
        unsafe {
            let from = self.lines.get().cast::<u8>().add(index * LINE + within);
            core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
