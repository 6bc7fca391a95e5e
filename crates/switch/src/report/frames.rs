//! The frames of a stack that overflowed: how many, the one at fault, the largest.
//!
//! `_Unwind_Backtrace` walks from the signal handler through the signal frame to the fault and on.
//! In its callback the "CFA" is where the frame above ended, so the difference between two
//! callbacks is the size of a frame, return address included.

use core::ffi::{c_int, c_void};

use crate::pool::{self, Slot};

#[repr(C)]
struct Context {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut Context, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetCFA(context: *mut Context) -> usize;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
}

/// `_URC_NO_REASON` (Itanium C++ ABI, 1.1): the walk goes on.
const GO_ON: c_int = 0;
/// `_URC_NORMAL_STOP` (Itanium C++ ABI, 1.1): the walk ends here.
const STOP: c_int = 4;

/// A frame of the stack that overflowed.
#[derive(Clone, Copy, Default)]
pub struct Frame {
    /// An address in its function.
    pub ip: usize,
    /// The frame's size in bytes, return address included.
    pub size: usize,
    /// Number of frames between this one and the fault.
    pub depth: usize,
}

/// What a walk found.
#[derive(Default)]
pub struct Frames {
    /// The function at fault.
    pub at_fault: Option<Frame>,
    /// The largest frame, that one included; the innermost of equals.
    pub largest: Frame,
    /// Number of frames, from the fault to the end of the stack or of the walk.
    pub count: usize,
}

/// A search for the stack of the function at fault.
struct Owner {
    fault_ip: usize,
    /// Where the frame at fault starts, once it was reached.
    start: Option<usize>,
    found: Option<(Slot, usize, usize)>,
}

/// Returns the stack on which the frame at fault ends, with the addresses between which that frame lies; `None` if it ends on none
/// of ours, or cannot be unwound. The stack pointer does not tell: a frame that is larger than the guard, in code without stack
/// probes, has moved it past the guard onto another stack or below all of them.
pub fn owner(fault_ip: usize) -> Option<(Slot, usize, usize)> {
    let mut owner = Owner {
        fault_ip,
        start: None,
        found: None,
    };
    // SAFETY: the callback gets exactly this pointer back, while `owner` stands still.
    unsafe { _Unwind_Backtrace(seek, (&raw mut owner).cast()) };
    owner.found
}

extern "C" fn seek(context: *mut Context, argument: *mut c_void) -> c_int {
    // SAFETY: `owner` passed a pointer to its Owner; the unwinder's context is valid in the callback.
    let (owner, ip, cfa) = unsafe {
        (
            &mut *argument.cast::<Owner>(),
            _Unwind_GetIP(context),
            _Unwind_GetCFA(context),
        )
    };
    match owner.start {
        None if ip == owner.fault_ip => owner.start = Some(cfa),
        None => {}
        Some(start) => {
            // The CFA is one past the frame: of the outermost one it is the stack's top.
            let slot = pool::find(cfa.wrapping_sub(1));
            owner.found = slot
                .filter(|slot| cfa > slot.limit && cfa > start)
                .map(|slot| (slot, start, cfa));
            return STOP;
        }
    }
    GO_ON
}

struct Walk {
    slot: Slot,
    fault_ip: usize,
    /// The frame whose size the next callback tells: its ip and where it starts.
    open: Option<(usize, usize)>,
    frames: Frames,
}

/// Walks from the calling handler to the fault at `fault_ip` and on to the end of the stack `slot`.
/// Frames that the fault is not in, or that start above the stack, are not counted: if the function
/// at fault has no frame on this stack, `at_fault` is `None`.
pub fn walk(fault_ip: usize, slot: Slot) -> Frames {
    let mut walk = Walk {
        slot,
        fault_ip,
        open: None,
        frames: Frames::default(),
    };
    // SAFETY: the callback gets exactly this pointer back, while `walk` stands still.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    walk.frames
}

extern "C" fn step(context: *mut Context, argument: *mut c_void) -> c_int {
    // SAFETY: `walk` passed a pointer to its Walk; the unwinder's context is valid in the callback.
    let (walk, ip, cfa) = unsafe {
        (
            &mut *argument.cast::<Walk>(),
            _Unwind_GetIP(context),
            _Unwind_GetCFA(context),
        )
    };
    match walk.open {
        None if ip != walk.fault_ip => return GO_ON,
        None => {}
        Some((open_ip, start)) => {
            // The frame's end must be on this stack (its top included) and above its start.
            if cfa <= start || !(walk.slot.limit..=walk.slot.top).contains(&cfa) {
                return STOP;
            }
            let frame = Frame {
                ip: open_ip,
                size: cfa - start,
                depth: walk.frames.count,
            };
            walk.frames.at_fault.get_or_insert(frame);
            if frame.size > walk.frames.largest.size {
                walk.frames.largest = frame;
            }
            walk.frames.count += 1;
        }
    }
    walk.open = Some((ip, cfa));
    GO_ON
}
